"""The list of deactivated Jobs: which Workloads, why, how often tried, the last error, in which order."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_manager.accounting.record_types import StepRecord
from queue_manager.accounting.step_reading import workload_records
from queue_manager.api.types import Workload
from queue_manager.lifecycle.pod_causes import worst_cause
from queue_manager.visibility.deactivated_jobs import (
    DeactivatedJob,
    action,
    deactivated_jobs,
    is_pod_of,
    last_warning,
    retries_left,
    warning_text,
)
from queue_manager.visibility.job_states import job_row
from queue_manager.visibility.node_fit import NodeFacts
from queue_manager.visibility.pod_failures import failures, newest_failure
from queue_manager.visibility.short_messages import plain
from queue_manager.visibility.wire_types import Pod
from tests.unit.visibility.build import Tree, at, cond, event, evictions, job, pod, wire, workload

LIMIT = "DeactivatedDueToRequeuingLimitExceeded"
GIVEN_UP = evictions(("PodsReadyTimeout", "WaitForStart", 2), ("Deactivated", "RequeuingLimitExceeded", 1))


def deactivated(reason: str, status: Tree | None = None, name: str = "j", **more: object) -> Workload:
    message = str(more.pop("message", "m"))
    found = [cond("Evicted", reason=reason, message=message, seconds=more.pop("since", 0))] if reason else []  # type: ignore[arg-type]
    return workload(name, active=False, conditions=found, status=status or {}, **more)


def test_only_workloads_deactivated_by_sluice_are_listed() -> None:
    workloads = [
        workload("runs"),
        deactivated(LIMIT, name="given-up"),
        deactivated("", name="never-admitted"),
        workload("over", active=False, conditions=[cond("Finished")]),
        workload("going", active=False, deleted=5),
    ]
    assert sorted(row.name for row in deactivated_jobs(workloads, [], at(0))) == ["given-up", "never-admitted"]


@pytest.mark.parametrize("cause", ["no such program: nosuch", "not executable: /x"])
def test_a_command_that_cannot_start_is_to_be_fixed_and_submitted_again(cause: str) -> None:
    assert action("pods not ready", "j", last_error=cause) == "fix its command, then submit it again (sluice cancel j)"
    assert action("by a user", "j", last_error=cause) == "sluice reactivate j"


@pytest.mark.parametrize(
    ("reason", "status", "why", "tries"),
    [
        (LIMIT, GIVEN_UP, "pods not ready", 3),
        (LIMIT, evictions(("PodsReadyTimeout", "WaitForRecovery", 2)), "pods lost", 2),
        (LIMIT, evictions(("PodsReadyTimeout", "Unschedulable", 2)), "no node", 2),
        (LIMIT, evictions(("PodsReadyTimeout", "SomethingNew", 2)), "SomethingNew", 2),
        (LIMIT, {}, "pods not ready", 0),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", {}, "run time", 0),
        ("DeactivatedDueToAdmissionCheck", {}, "failed check", 0),
        ("DeactivatedDueToSomethingNew", {}, "SomethingNew", 0),
        ("Deactivated", evictions(("Deactivated", "", 1)), "by a user", 0),
        ("PodsReadyTimeout", evictions(("PodsReadyTimeout", "WaitForStart", 1)), "by a user", 1),
        ("", {}, "by a user", 0),
    ],
)
def test_why_and_how_often_follow_from_the_eviction_and_the_counts(
    reason: str, status: Tree, why: str, tries: int
) -> None:
    (row,) = deactivated_jobs([deactivated(reason, status)], [], at(0))
    assert (row.why, row.budget_attempts) == (why, tries)
    assert row.action.endswith("sluice reactivate j")


def test_an_unschedulable_last_attempt_is_the_cause() -> None:
    message = "The workload is deactivated due to x; no node could take one of its pods: 0/1 nodes are available"
    its = workload(active=False, conditions=[cond("Evicted", reason=LIMIT, message=message)])
    (row,) = deactivated_jobs([its], [], at(0))
    assert row.why == "no node"


def test_the_command_names_a_namespace_other_than_the_default() -> None:
    (row,) = deactivated_jobs([deactivated("Deactivated", namespace="team")], [], at(0))
    assert row.action == "sluice reactivate team/j"


def test_rows_are_sorted_by_priority_then_by_waiting_time() -> None:
    workloads = [
        deactivated(LIMIT, name="new", since=50),
        deactivated(LIMIT, name="old", since=10),
        deactivated(LIMIT, name="urgent", since=55, priority=9),
    ]
    rows = deactivated_jobs(workloads, [], at(60))
    assert [(row.name, row.deactivated_seconds) for row in rows] == [("urgent", 5), ("old", 50), ("new", 10)]


@pytest.mark.parametrize(
    ("pod", "job", "is_its"),
    [
        ("j-abcde", "j", True),
        ("j-12-abcde", "j", True),
        ("j-abcde", "j-abcde", False),
        ("j-2-abcde", "j-2", True),
        ("j-long-abcde", "j", False),
        ("j-abc", "j", False),
        ("jj-abcde", "j", False),
    ],
)
def test_deleted_pods_are_recognized_by_their_names(pod: str, job: str, is_its: bool) -> None:
    assert is_pod_of(pod, job) is is_its


def test_the_last_error_is_the_newest_warning_about_a_pod_else_about_the_job() -> None:
    about_job = event("FailedCreate", "Job/j", 9, type="Warning", message="no quota")
    about_pods = [event("Failed", "Pod/j-aaaaa", s, type="Warning", message=f"bad {s}") for s in (1, 5, 3)]
    other = event("Failed", "Pod/k-aaaaa", 20, type="Warning", message="of another Job")
    newest_first = sorted([about_job, *about_pods, other], key=lambda e: e.sort_key, reverse=True)
    assert [warning_text(last_warning("j", events)) for events in (newest_first, [other, about_job], [other])] == [
        "bad 5",
        "no pod can be created: no quota",
        "",
    ]


def test_a_past_pending_reason_is_no_error() -> None:
    warning = event("WaitingForQuota", type="Warning", message="too full")
    (row,) = deactivated_jobs([deactivated(LIMIT)], [warning], at(0))
    assert row.last_error == ""


def test_normal_events_are_no_errors() -> None:
    (row,) = deactivated_jobs([deactivated(LIMIT)], [event("Pulled", "Pod/j-aaaaa", 1, message="image pulled")], at(0))
    assert row.last_error == ""


def exited(name: str, ended: float, **more: Any) -> Pod:
    return pod(name, "Failed", ended=ended, owner="j", **{"exit": 3, **more})


def crashed(
    *pods: Pod, reason: str = LIMIT, status: Tree | None = None, lines: str = "", **more: Any
) -> DeactivatedJob:
    its = deactivated(reason, status or GIVEN_UP, **more)
    found = {uid: replace(failure, error_line=lines) for uid, failure in failures([its], pods).items()}
    (row,) = deactivated_jobs([its], [], at(60), failures=found)
    return row


def test_a_job_whose_pods_fail_crashes_and_its_exit_code_and_log_are_the_last_error() -> None:
    row = crashed(exited("j-aaaaa", 10), exited("j-bbbbb", 20, exit=4), lines="ValueError: no such column")
    assert (row.why, row.exit_code, row.last_error) == ("crashes", 4, "exit 4: ValueError: no such column")
    assert row.action == "fix what sluice logs j --failed shows, then: sluice reactivate j"
    assert crashed(exited("j-aaaaa", 10, exit=5), exited("j-bbbbb", 20)).exit_code == 5, (
        "the highest, as in ps and show"
    )


def test_of_failures_in_one_second_the_same_pod_is_named_as_in_causes() -> None:
    pods = [exited("j-1-aaaaa", 10, exit=4), exited("j-3-aaaaa", 10, exit=5), exited("j-0-aaaaa", 9, exit=6)]
    newest, worst = newest_failure(pods), worst_cause(pods)
    assert newest is not None
    assert worst is not None
    assert newest.pod == worst.pod == "j-1-aaaaa"


def test_a_job_last_killed_for_its_memory_needs_more_whatever_a_warning_says() -> None:
    attempts = {"requeueHistory": {"attempts": [{"reason": LIMIT, "podCause": "OOMKilled"}]}}
    its = workload(active=False, conditions=[cond("Evicted", reason=LIMIT)], status=attempts)
    message = "Back-off restarting failed container main in pod j-aaaaa"
    restarting = event("BackOff", "Pod/j-aaaaa", 1, type="Warning", message=message)
    [row] = deactivated_jobs([its], [restarting], at(60))
    assert row.why == "out of memory"


def test_an_oom_killed_job_has_that_cause() -> None:
    row = crashed(exited("j-aaaaa", 10, exit=137, reason="OOMKilled"))
    assert (row.why, row.last_error) == ("out of memory", "OOMKilled")
    assert row.action == "raise its memory limit, then: sluice reactivate j"


@pytest.mark.parametrize(
    ("cause", "does"),
    [
        (
            'CreateContainerConfigError: configmap "gone" not found',
            'create what its containers refer to (configmap "gone" not found)',
        ),
        ("no pod can be created: exceeded quota: pods", "correct what the API server names"),
    ],
)
def test_what_the_cause_names_is_put_right_before_a_reactivation(cause: str, does: str) -> None:
    assert action("pods not ready", "j", last_error=cause) == f"{does}, then: sluice reactivate j"


def test_a_disrupted_pod_does_not_count_as_crashed() -> None:
    assert crashed(exited("j-aaaaa", 10, disrupted=True)).why == "pods not ready"


def test_only_failures_of_the_last_budget_count() -> None:
    tries = [
        {"start": wire(0), "end": wire(5), "reason": LIMIT},
        {"start": wire(20), "end": wire(25), "reason": "PodsReadyTimeout"},
        {"start": wire(30), "end": wire(35), "reason": LIMIT},
    ]
    status = {**GIVEN_UP, "requeueHistory": {"attempts": tries}}
    assert crashed(exited("j-aaaaa", 4), status=status).why == "pods not ready"
    assert crashed(exited("j-aaaaa", 20), status=status).why == "crashes"


def two_budgets() -> Tree:
    """Two attempts of 5 s each in two budgets."""
    ends = ("PodsReadyTimeout", LIMIT, "PodsReadyTimeout", LIMIT)
    tries = [
        {"start": wire(start), "end": wire(start + 5), "reason": reason}
        for start, reason in zip((0, 10, 40, 50), ends, strict=True)
    ]
    counts = evictions(("PodsReadyTimeout", "WaitForStart", 4), ("Deactivated", "RequeuingLimitExceeded", 2))
    return {**counts, "requeueHistory": {"attempts": tries}}


@pytest.mark.parametrize(
    ("failed_at", "succeeded", "annotation", "why"),
    [
        ((1, 11), 0, "", "pods not ready"),  # replaced at 31, in the second budget
        ((1, 11), 0, "30", "crashes"),  # at 71
        ((1, 11, 12, 13), 0, "", "crashes"),  # at 93
        ((1, 11, 12, 13), 1, "", "pods not ready"),  # at 23, if the success came before the last failure
        ((1, 41), 0, "", "crashes"),
    ],
)
def test_an_earlier_failure_whose_backoff_lasts_is_the_cause_of_no_pods(
    failed_at: tuple[int, ...], succeeded: int, annotation: str, why: str
) -> None:
    its = deactivated(LIMIT, two_budgets())
    annotations = {"sluice/backoff-seconds": annotation} if annotation else {}
    pods = [exited(f"j-aaaa{seconds}", seconds) for seconds in failed_at]
    jobs = [job(status={"succeeded": succeeded}, annotations=annotations)]
    (row,) = deactivated_jobs([its], [], at(60), failures=failures([its], pods, jobs))
    assert (row.why, row.budget_attempts) == (why, 2)
    assert bool(row.last_error) == (why == "crashes")


def test_a_timeout_before_the_retry_is_a_cause_besides_the_failure() -> None:
    """The failed pod exists, and its attempt is not the last one."""
    recorded = "exit 3: boom (no retry before the timeout)"
    tries = [
        {"start": wire(0), "end": wire(5), "reason": "PodsReadyTimeout", "podCause": "exit 3: boom"},
        {"start": wire(6), "end": wire(11), "reason": LIMIT, "podCause": recorded},
    ]
    row = crashed(exited("j-aaaaa", 4), status={**GIVEN_UP, "requeueHistory": {"attempts": tries}})
    assert (row.why, row.last_error) == ("late retry", "exit 3 (no retry before the timeout)")
    assert "raise waitForPodsReady.timeout above the wait before a retry" in row.action
    assert row.action.startswith("fix what sluice logs j --failed shows, or ")


@pytest.mark.parametrize(
    ("reason", "failed", "spec", "text"),
    [
        (
            LIMIT,
            3,
            {"backoffLimit": 5},
            "waitForPodsReady gave up after 2 of the Job's 5 retries",
        ),
        (
            LIMIT,
            1,
            {"backoffLimit": 5},
            "waitForPodsReady gave up after 0 of the Job's 5 retries",
        ),
        (LIMIT, 0, {"backoffLimit": 5}, ""),
        (LIMIT, 6, {"backoffLimit": 5}, ""),
        (LIMIT, 1, {"backoffLimit": 2**31 - 1, "backoffLimitPerIndex": 2}, ""),
        ("Deactivated", 1, {"backoffLimit": 5}, ""),
    ],
)
def test_retries_that_a_deactivation_leaves_are_counted(reason: str, failed: int, spec: Tree, text: str) -> None:
    assert retries_left(job(status={"failed": failed}, **spec), deactivated(reason)) == text


def test_a_deactivation_by_a_user_is_the_cause_whatever_its_pods_did() -> None:
    row = crashed(exited("j-aaaaa", 10), reason="Deactivated")
    assert (row.why, row.last_error, row.action) == ("by a user", "exit 3", "sluice reactivate j")


@pytest.mark.parametrize(
    ("annotation", "cause"),
    [
        ("3:anna@example", "by anna@example"),
        ("2:anna", "by a user"),
        ("anna", "by a user"),
        ("3:", "by a user"),
    ],
    ids=["this deactivation", "an earlier one", "no generation", "nobody"],
)
def test_a_deactivation_names_its_user_if_that_is_known_of_this_one(annotation: str, cause: str) -> None:
    its = deactivated("Deactivated", message="The workload is deactivated")
    meta = replace(its.metadata, generation=3, annotations={"sluice/deactivated-by": annotation})
    its = replace(its, metadata=meta)
    (row,) = deactivated_jobs([its], [], at(60))
    assert (row.why, row.cause, row.action) == ("by a user", cause, "sluice reactivate j")
    shown = job_row(job(), its, at(60))
    assert plain(shown.reason, shown.message) == cause
    [step] = [one for one in workload_records(None, its, at(60)) if isinstance(one, StepRecord)]
    assert step.message.removeprefix("The workload is deactivated") == (f" {cause}" if cause != "by a user" else "")


def test_a_crash_loop_is_the_cause_though_the_pod_is_deleted() -> None:
    message = "Back-off restarting failed container m in pod j-aaaaa_default(0-1)"
    (row,) = deactivated_jobs(
        [deactivated(LIMIT)], [event("BackOff", "Pod/j-aaaaa", 1, type="Warning", message=message)], at(0)
    )
    assert (row.why, row.last_error) == ("crashes", "Back-off restarting failed container m")
    assert row.action == "see why its containers end (sluice show j), then: sluice reactivate j"


def test_an_error_has_no_newline_at_its_end() -> None:
    pods = pod("j-aaaaa", "Failed", ended=10, owner="j", exit=3)
    (failure,) = failures([deactivated(LIMIT)], [pods]).values()
    assert replace(failure, message="boom\n").text == "exit 3: boom"
    assert (
        warning_text(event("Failed", "Pod/j-aaaaa", type="Warning", message="no such program\n")) == "no such program"
    )


def test_running_pods_that_are_not_ready_count_as_started() -> None:
    (row,) = deactivated_jobs([deactivated(LIMIT, GIVEN_UP)], [], at(0))
    assert row.action == "see why its pods are not ready (sluice show j), then: sluice reactivate j"


def test_the_advice_for_pods_without_a_node_names_what_may_not_fit() -> None:
    """Free capacity alone does not help a pod that is larger than each node, or whose nodeSelector none has."""
    assert action("no node", "j") == (
        "let its pods fit a node (capacity, labels, taints: kubectl describe nodes), then: sluice reactivate j"
    )


def test_a_deactivated_job_of_run_is_replaced_by_run() -> None:
    attempt = {"start": wire(0), "end": wire(30), "reason": LIMIT, "podCause": "0/1 nodes: Insufficient cpu"}
    its = deactivated(LIMIT, {"requeueHistory": {"attempts": [attempt]}})
    nodes = [NodeFacts("n", {}, {"cpu": "500m"})]
    again = {"run": "sluice run --replace --name j OPTIONS -- COMMAND", "": "sluice submit --replace -f FILE"}
    for creator, command in again.items():
        made = job(annotations={"sluice/created-by": creator})
        (row,) = deactivated_jobs([its], [], at(60), nodes=nodes, jobs=[made])
        assert f"request less ({command})" in row.action
