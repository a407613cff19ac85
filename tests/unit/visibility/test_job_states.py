"""Every state of a Job that people see, with its reason; the order of rows; the times."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from job_controller.model import Job
from job_controller.options import JobControllerOptions
from queue_manager.api import messages
from queue_manager.api.types import Workload
from queue_manager.cli import ps
from queue_manager.cli.ps import time
from queue_manager.cli.row_changes import aged
from queue_manager.visibility.job_causes import were_ready
from queue_manager.visibility.job_states import NOT_QUEUED, job_row, job_rows, job_state
from queue_manager.visibility.pod_attempts import pod_rows
from queue_manager.visibility.wire_types import Pod
from tests.unit.visibility.build import ADMISSION, admitted, at, cond, job, pod, wire, workload

COMPLETE = cond("Complete", reason="CompletionsReached", message="Reached", seconds=50)
FAILED = cond("Failed", reason="BackoffLimitExceeded", message="Too often", seconds=50)
EVICTED = cond("Evicted", reason="PodsReadyTimeout", message="Exceeded the timeout")
REQUEUE = {"requeueState": {"count": 2, "requeueAt": "2026-01-01T00:02:00Z"}}

BEHIND_OTHERS = ("PendingEvaluation", "waits for its turn in q")

CASES: list[tuple[str, str, Job, Workload | None, tuple[str, str]]] = [
    ("a deletion hides everything else", "Deleting", job(deleted=1, conditions=[COMPLETE]), None, ("", "")),
    (
        "a deletion says who cancelled it",
        "Deleting",
        job(deleted=1, annotations={"sluice/cancelled-by": "anna"}),
        None,
        ("", "Cancelled by anna"),
    ),
    ("complete", "Succeeded", job(conditions=[COMPLETE]), workload(), ("CompletionsReached", "Reached")),
    ("failed", "Failed", job(conditions=[FAILED]), workload(active=False), ("BackoffLimitExceeded", "Too often")),
    (
        "deactivated, whatever its pods still do",
        "Deactivated",
        job(suspend=False, status={"ready": 1}),
        workload(active=False, conditions=[cond("Evicted", reason="Deactivated", message="off")]),
        ("Deactivated", "off"),
    ),
    (
        "evicted, and its time has not come",
        "Backoff",
        job(),
        workload(conditions=[EVICTED], status=REQUEUE),
        ("PodsReadyTimeout", "Exceeded the timeout"),
    ),
    (
        "its time has come",
        "Pending",
        job(),
        workload(status={"requeueState": {"requeueAt": "2026-01-01T00:00:59Z"}}),
        BEHIND_OTHERS,
    ),
    (
        "reactivated a moment ago",
        "Pending",
        job(),
        workload(conditions=[cond("QuotaReserved", "False", "Deactivated", "The workload is deactivated")]),
        ("Reactivated", "The workload was reactivated"),
    ),
    (
        "evicted, and not stopped yet",
        "Evicted",
        job(suspend=False),
        workload(conditions=[EVICTED, *admitted()]),
        ("PodsReadyTimeout", "Exceeded the timeout"),
    ),
    (
        "evicted and suspended, while its quota is still held for the pods that end",
        "Evicted",
        job(),
        workload(conditions=[EVICTED, *admitted()], status={"admission": ADMISSION}),
        ("PodsReadyTimeout", "Exceeded the timeout"),
    ),
    ("a pod is ready", "Running", job(suspend=False, status={"ready": 1}), workload(), ("", "")),
    ("a pod has succeeded", "Running", job(suspend=False, status={"succeeded": 1}), workload(), ("", "")),
    (
        "no pod is ready yet",
        "Starting",
        job(suspend=False),
        workload(conditions=[*admitted(), cond("PodsReady", "False", "WaitForStart", "not yet")]),
        ("WaitForStart", "not yet"),
    ),
    (
        "all pods have failed, and the next one comes after a backoff",
        "Backoff",
        job(suspend=False, status={"failed": 1}),
        workload(conditions=admitted()),
        ("WaitForRecovery", "1 pod has failed so far, none is ready yet"),
    ),
    (
        "a pod has failed, and the next one starts",
        "Starting",
        job(suspend=False, status={"failed": 1, "active": 1}),
        workload(conditions=admitted()),
        ("WaitForRecovery", "1 pod has failed so far, none is ready yet"),
    ),
    (
        "a pod has failed and none was ever ready",
        "Backoff",
        job(suspend=False, status={"failed": 1}),
        workload(conditions=[*admitted(), cond("PodsReady", "False", "WaitForStart", "not yet")]),
        ("WaitForStart", "1 pod has failed so far, none is ready yet"),
    ),
    ("started without any queue", "Starting", job(queue="", suspend=False), None, ("", "")),
    (
        "quota, but admission checks are open",
        "Reserved",
        job(),
        workload(conditions=[cond("QuotaReserved"), cond("Admitted", "False", "UnsatisfiedAdmissionChecks", "open")]),
        ("UnsatisfiedAdmissionChecks", "open"),
    ),
    ("suspended without a queue", "Suspended", job(queue=""), None, ("", "")),
    ("not seen by its queue yet", "Pending", job(created=46), None, ("", "")),
    (
        "left alone by its queue",
        "Pending",
        job(created=45),
        None,
        (
            "NotQueued",
            "it has no Workload yet (sluice show says why)",
        ),
    ),
    (
        "without the Workload that it names",
        "Pending",
        job(created=60, annotations={"kueue.x-k8s.io/prebuilt-workload-name": "mine"}),
        None,
        ("NotQueued", "prebuilt Workload mine does not exist or belongs to another Job"),
    ),
    ("not synced yet, and not necessary", "Pending", job(), workload(), BEHIND_OTHERS),
    (
        "waits for quota",
        "Pending",
        job(),
        workload(conditions=[cond("QuotaReserved", "False", "WaitingForQuota", "too full")]),
        ("WaitingForQuota", "too full"),
    ),
    (
        "its Workload is finished though it never ran",
        "Refused",
        job(),
        workload(conditions=[*admitted(), cond("Finished", reason="FailedToStart", message="conflict")]),
        ("FailedToStart", "conflict"),
    ),
    (
        "deactivated by a user while it backed off",
        "Deactivated",
        job(),
        workload(active=False, conditions=[EVICTED]),
        ("Deactivated", "The workload is deactivated"),
    ),
    (
        "deactivated by a user a moment ago, not evicted yet",
        "Deactivated",
        job(),
        workload(active=False, conditions=[cond("QuotaReserved", "False", "WaitingForQuota", "too full")]),
        ("Deactivated", "The workload is deactivated"),
    ),
    (
        "deactivated by a user again, the eviction of the last time being over",
        "Deactivated",
        job(),
        workload(
            active=False,
            conditions=[
                cond("Evicted", "False", "DeactivatedDueToRequeuingLimitExceeded", "Previously: The workload ..."),
            ],
        ),
        ("Deactivated", "The workload is deactivated"),
    ),
    (
        "deactivated by a rule, not evicted yet",
        "Deactivated",
        job(),
        workload(
            active=False,
            conditions=[*admitted(), cond("DeactivationTarget", "True", "RequeuingLimitExceeded", "too many tries")],
        ),
        ("DeactivatedDueToRequeuingLimitExceeded", "The workload is deactivated due to too many tries"),
    ),
]


@pytest.mark.parametrize(
    ("state", "a_job", "its_workload", "why"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_the_state_and_its_reason_follow_from_the_objects(
    state: str, a_job: Job, its_workload: Workload | None, why: tuple[str, str]
) -> None:
    row = job_row(a_job, its_workload, at(60))
    assert (row.state, row.reason, row.message) == (state, *why)


# The life of one Job and its Workload: two starts, an eviction in between, the end. A moment is (seconds, both).
_REQUEUED = {"requeueState": {"requeueAt": "2026-01-01T00:00:40Z"}}
_RUNS = {"status": {"ready": 1, "startTime": "2026-01-01T00:00:20Z"}}
_LIFE: list[tuple[float, Job | None, Workload | None]] = [
    (0, None, None),
    (10, job(created=10), None),
    (11, job(created=10), workload()),
    (19, job(created=10), workload(conditions=admitted())),
    (20, job(created=10, suspend=False), workload(conditions=admitted())),
    (21, job(created=10, suspend=False, **_RUNS), workload(conditions=admitted())),
    (30, job(created=10, suspend=False, **_RUNS), workload(conditions=[EVICTED, *admitted()])),
    (31, job(created=10), workload(conditions=[EVICTED, *admitted()])),
    (32, job(created=10), workload(conditions=[EVICTED], status=_REQUEUED)),
    (40, job(created=10), workload(conditions=[EVICTED])),
    (49, job(created=10), workload(conditions=admitted())),
    (50, job(created=10, suspend=False), workload(conditions=admitted())),
    (51, job(created=10, suspend=False, **_RUNS), workload(conditions=admitted())),
    (60, job(created=10, suspend=False, conditions=[COMPLETE]), workload(conditions=admitted())),
    (61, job(created=10, suspend=False, conditions=[COMPLETE]), workload(conditions=[cond("Finished")])),
]


def test_what_changes_between_the_two_lists_shows_no_state_that_never_was() -> None:
    """Workloads at one time of a life, Jobs at any later one. Reserved may be shown a moment late or early."""
    for first, (seconds, _, its_workload) in enumerate(_LIFE):
        for last in range(first, len(_LIFE)):
            a_job = _LIFE[last][1]
            if a_job is None:
                continue
            row = job_row(a_job, its_workload, at(seconds))
            held = [(at(t), j, w) for t, j, w in _LIFE[first : last + 1] if j is not None]
            true = {job_state(j, w, t) for t, j, w in held} | {"Reserved"}
            assert row.state in true, (seconds, last)
            assert row.reason != NOT_QUEUED


def test_rows_are_sorted_by_namespace_then_by_state() -> None:
    jobs = [
        job("done", conditions=[COMPLETE]),
        job("waits"),
        job("waits-more-urgently"),
        job("runs", suspend=False, status={"ready": 1}),
        job("elsewhere", namespace="another", conditions=[COMPLETE]),
    ]
    rows = job_rows(jobs, [workload("waits"), workload("waits-more-urgently", priority=5)], at(0))
    assert [row.name for row in rows] == ["elsewhere", "runs", "waits-more-urgently", "waits", "done"]


def test_of_several_workloads_the_unfinished_one_gives_the_state() -> None:
    live = workload(workload="a", conditions=[cond("QuotaReserved", "False", "WaitingForQuota", "too full")])
    over = workload(workload="b", created=9, conditions=[cond("Finished", reason="OutOfSync")])
    assert job_rows([job()], [live, over], at(0))[0].reason == "WaitingForQuota"
    assert job_rows([job()], [over, live], at(0))[0].reason == "WaitingForQuota"


@pytest.mark.parametrize(
    ("status", "waited", "ran"),
    [
        ({}, 60, None),
        ({"startTime": "2026-01-01T00:00:10Z"}, 10, 50),
        ({"startTime": "2026-01-01T00:00:10Z", "completionTime": "2026-01-01T00:00:25Z"}, 10, 15),
        ({"startTime": "2026-01-01T00:00:10Z", "conditions": [FAILED]}, 10, 40),
        ({"conditions": [FAILED]}, 50, None),
    ],
    ids=["waits", "runs", "completed", "failed", "failed before it started"],
)
def test_waiting_ends_with_the_start_and_running_with_the_end(status: dict, waited: float, ran: float | None) -> None:
    conditions = status.pop("conditions", [])
    row = job_row(job(status=status, conditions=conditions), workload(), at(60))
    assert (row.waiting_seconds, row.running_seconds) == (waited, ran)


def test_a_job_without_queue_has_no_waiting_time() -> None:
    assert job_row(job(queue="", suspend=False), None, at(60)).waiting_seconds is None


def test_a_job_between_two_tries_says_when_its_next_pod_is_created() -> None:
    retried, its = job(suspend=False, backoffLimit=3, status={"failed": 1}), workload(conditions=admitted())
    failed = [pod("j-a", "Failed", exit=3, ended=50)]
    row = job_row(retried, its, at(55), pods=failed)
    assert (row.state, row.retry_at, row.cause) == ("Backoff", at(60), "exit 3")
    slow = JobControllerOptions(backoff_base=60.0)
    assert job_row(retried, its, at(55), pods=failed, options=slow).retry_at == at(110)
    assert job_row(retried, its, at(61), pods=failed).retry_at is None  # the pod is about to be created


def test_priority_and_retries_are_those_of_the_workload() -> None:
    row = job_row(job(), workload(priority=7, status=REQUEUE), at(0))
    assert (row.priority, row.requeues) == (7, 2)


def test_an_evicted_run_is_not_waiting_time() -> None:
    its = workload(conditions=[cond("Evicted")], status={"accumulatedPastExecutionTimeSeconds": 40})
    row = job_row(job(), its, at(60))
    assert (row.waiting_seconds, row.running_seconds) == (20, None)


def test_a_deactivated_job_does_not_wait() -> None:
    its = workload(
        active=False, conditions=[cond("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded", seconds=25)]
    )
    row = job_row(job(), its, at(60))
    assert (row.state, row.waiting_seconds) == ("Deactivated", 25)
    assert aged(row, 5.0).waiting_seconds == 25


@pytest.mark.parametrize(
    ("its", "state", "text"),
    [
        (workload(), "Pending", "50s wait"),
        (workload(status={"requeueHistory": {"ranSeconds": 20, "attempts": [{}]}}), "Pending", "30s wait"),
        (workload(conditions=[*admitted(10), cond("PodsReady")]), "Starting", "40s run"),
        (workload(conditions=admitted(10)), "Starting", "50s wait"),
        (workload(active=False, status={"requeueHistory": {"inactiveSince": wire(30)}}), "Deactivated", "30s wait"),
        (
            workload(
                active=False,
                status={"requeueHistory": {"ranSeconds": 20, "attempts": [{}], "inactiveSince": wire(30)}},
            ),
            "Deactivated",
            "20s run",
        ),
    ],
    ids=["pending", "evicted", "ready", "no pod started", "deactivated while it waited", "deactivated while it ran"],
)
def test_time_is_what_a_job_waited_if_it_waits_else_what_it_ran(its: Workload, state: str, text: str) -> None:
    row = job_row(job(suspend=state != "Starting"), its, at(50))
    assert (row.state, time(row)) == (state, text)


def test_an_untried_job_names_the_refused_job_of_its_shape() -> None:
    jobs = [job(name) for name in ("first", "same", "larger", "bypassed")]
    never = cond("QuotaReserved", "False", "ExceedsMaxQuota", "too large")
    bypassed = cond("QuotaReserved", "False", "ExceedsMaxQuota", messages.EQUIVALENT_MESSAGE)
    workloads = [
        workload("bypassed", conditions=[bypassed]),
        workload("first", conditions=[never]),
        workload("same"),
        workload("larger", requests={"cpu": "2"}),
    ]
    rows = {row.name: row for row in job_rows(jobs, workloads, at(0))}
    assert {name: row.equivalent for name, row in rows.items()} == {
        "first": "",
        "same": "first",
        "larger": "",
        "bypassed": "first",
    }
    assert rows["same"].message == "ExceedsMaxQuota: too large, like Job first with the same requests"
    assert rows["larger"].message == "waits for its turn in q"


LIKE_FIRST = "WaitingForQuota: too full, like Job first with the same requests"


@pytest.mark.parametrize(
    ("others", "said_of_second"),
    [
        ({}, ("first", LIKE_FIRST)),
        ({"requests": {"cpu": "2"}}, ("", "waits for its turn in q")),
        ({"requests": {"cpu": "2"}, "queueName": "another"}, ("first", LIKE_FIRST)),
    ],
    ids=["all are equal", "one of another shape waits to be tried", "that waits in another queue"],
)
def test_quota_that_one_lacks_is_named_for_those_that_wait_for_nothing_else(
    others: dict[str, Any], said_of_second: tuple[str, str]
) -> None:
    """As long as a Workload of another shape waits to be tried the queue is StrictFIFO: `second` may be behind it."""
    waits = cond("QuotaReserved", "False", "WaitingForQuota", "too full")
    bypassed = cond("QuotaReserved", "False", "WaitingForQuota", messages.EQUIVALENT_MESSAGE)
    workloads = [
        workload("first", conditions=[waits]),
        workload("second"),
        workload("bypassed", conditions=[bypassed]),
        workload("other", **others),
    ]
    rows = {
        row.name: row for row in job_rows([job(name) for name in ("first", "second", "bypassed")], workloads, at(0))
    }
    said = {name: (row.equivalent, ps.reason(row)) for name, row in rows.items()}
    assert said == {
        "first": ("", "WaitingForQuota: too full"),
        "second": said_of_second,
        "bypassed": ("first", LIKE_FIRST),
    }


def test_jobs_of_one_shape_differ_only_in_their_own_labels() -> None:
    """The Job controller's defaults put them into each template."""
    never = cond("QuotaReserved", "False", "ExceedsMaxQuota", "too large")
    workloads = [workload("first", conditions=[never]), workload("same")]
    for its in workloads:
        marks = {"batch.kubernetes.io/job-name": its.metadata.name, "controller-uid": its.metadata.uid}
        its.spec.pod_sets[0].template["metadata"] = {"labels": marks}
    rows = {row.name: row for row in job_rows([job("first"), job("same")], workloads, at(0))}
    assert rows["same"].message == "ExceedsMaxQuota: too large, like Job first with the same requests"


@pytest.mark.parametrize("over", [{"active": False}, {"conditions": [cond("Finished")]}])
def test_an_admitted_job_is_not_named_as_the_refused_one(over: dict) -> None:
    never = cond("QuotaReserved", "False", "ExceedsMaxQuota", "too large")
    past = workload("past", **{**over, "conditions": [never, *over.get("conditions", [])]})
    rows = {row.name: row for row in job_rows([job("past"), job("same")], [past, workload("same")], at(0))}
    assert rows["same"].message == "waits for its turn in q"


def test_an_untried_workload_waits_behind_others_whatever_its_condition() -> None:
    """As after a release, behind the head of a StrictFIFO queue."""
    untried = cond("QuotaReserved", "False", "PendingEvaluation", messages.PENDING_EVALUATION_MESSAGE)
    row = job_row(job(), workload(conditions=[untried]), at(60))
    assert (row.reason, row.message) == BEHIND_OTHERS


@pytest.mark.parametrize("uid", ["uid-w-other", ""])
def test_a_victim_waits_behind_others_until_it_is_tried_again(uid: str) -> None:
    """Behind the head of a StrictFIFO queue its condition keeps the message of the preemption."""
    message = messages.preempted(uid, "uid-other", "InClusterQueue", "/u", "/u")
    untried = cond("QuotaReserved", "False", "PendingEvaluation", message)
    attempt = {**ATTEMPT, "reason": "Preempted", "cause": "for priority 20 of ClusterQueue u", "podCause": ""}
    its = workload(
        conditions=[cond("Evicted", reason="Preempted", message=message), untried],
        status={"requeueHistory": {"attempts": [attempt]}},
    )
    row = job_row(job(), its, at(60))
    assert (row.state, row.reason, row.message) == ("Pending", *BEHIND_OTHERS)
    assert ps.reason(row) == "preempted for priority 20 of ClusterQueue u; waits for its turn in q"


BOOM = {"exit": 3, "ended": 20, "owner": "j"}
ATTEMPT = {"start": wire(0), "end": wire(30), "reason": "PodsReadyTimeout", "podCause": "exit 3: boom"}


@pytest.mark.parametrize(
    ("a_job", "its_workload", "pods", "cause"),
    [
        (job(suspend=False), workload(conditions=admitted()), [pod(phase="Failed", **BOOM)], "exit 3"),
        (
            job(suspend=False),
            workload(conditions=admitted()),
            [pod(phase="Pending", waiting="x", owner="j")],
            "CreateContainerError: x",
        ),
        (job(), workload(conditions=[EVICTED], status={"requeueHistory": {"attempts": [ATTEMPT]}}), [], "exit 3: boom"),
        (job(conditions=[FAILED]), workload(), [pod(phase="Failed", **BOOM)], "exit 3"),
        (
            job(conditions=[cond("Failed", reason="DeadlineExceeded")]),
            None,
            [pod(phase="Failed", **BOOM)],
            "DeadlineExceeded (before: exit 3)",
        ),
        (job(conditions=[COMPLETE]), workload(), [pod(phase="Failed", **BOOM)], ""),
        (job(deleted=1), workload(conditions=admitted()), [pod(phase="Failed", **BOOM)], ""),
        (
            job(suspend=False, status={"active": 1, "ready": 1}),
            workload(conditions=admitted()),
            [pod(phase="Failed", **BOOM)],  # which has been replaced
            "",
        ),
    ],
)
def test_a_row_has_the_cause_of_its_pods_or_of_the_last_attempt(
    a_job: Job, its_workload: Workload | None, pods: list[Pod], cause: str
) -> None:
    workloads = [its_workload] if its_workload is not None else []
    (row,) = job_rows([a_job], workloads, at(60), pods)
    assert row.cause == cause


def test_a_preemption_hides_the_cause_of_earlier_attempts() -> None:
    preempted = {**ATTEMPT, "reason": "Preempted", "podCause": ""}
    its = workload(status={"requeueHistory": {"attempts": [ATTEMPT, preempted]}})
    assert job_row(job(), its, at(60)).cause == ""


def test_a_backoff_has_the_time_of_its_end() -> None:
    assert job_row(job(), workload(conditions=[EVICTED], status=REQUEUE), at(60)).retry_at == at(120)


@pytest.mark.parametrize(
    ("ready", "cause"),
    [
        (cond("PodsReady", "False", "WaitForStart"), "readiness probe has not succeeded yet"),
        (cond("PodsReady", "False", "WaitForRecovery"), "readiness probe failed"),
    ],
)
def test_a_probe_that_had_succeeded_has_failed(ready: dict[str, Any], cause: str) -> None:
    unready = pod("j-aaaaa", before="NodeShutdown")
    [container] = unready.status.container_statuses
    container = msgspec.structs.replace(container, last_state=type(container.last_state)())
    unready = msgspec.structs.replace(
        unready, status=msgspec.structs.replace(unready.status, container_statuses=(container,))
    )
    its = workload(conditions=[*admitted(), ready])
    running = job(suspend=False, status={"active": 1})
    assert job_row(running, its, at(60), pods=[unready]).cause == cause
    assert [row.message for row in pod_rows(running, [unready], were_ready=were_ready(its))] == [cause]
