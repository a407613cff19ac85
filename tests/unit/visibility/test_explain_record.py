"""One dominant reason per Job, with its sentence, what would change it, and the next command."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.api import keys, messages
from queue_manager.api.types import Namespace, Workload
from queue_manager.cli.explain import lines
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduling.backfill import BackfillRules
from queue_manager.visibility.deactivated_jobs import start_condition
from queue_manager.visibility.effects_of_changes import KnownNames
from queue_manager.visibility.explain_record import Explanation, explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.obstacles import Obstacle
from queue_manager.visibility.reason_codes import CODES
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.unit.visibility.build import (
    ADMISSION,
    admitted,
    at,
    cluster_queue,
    cond,
    flavor,
    job,
    local_queue,
    wire,
    workload,
)

NAMESPACES = [
    msgspec.convert({"metadata": {"name": name, "uid": name}}, Namespace) for name in ("default", "secret-team")
]


def explained(
    j: Job | None, w: Workload | None, others: Iterable[Workload] = (), seconds: float = 100, **around: Any
) -> Explanation:
    """`around`: local, above, cluster_queues, cohorts, flavors, and fields of Surroundings."""
    local, above = around.pop("local", local_queue()), around.pop("above", cluster_queue(namespaceSelector={}))
    queues = [each for each in (above, *around.pop("cluster_queues", ())) if each is not None]
    objects = ClusterObjects(
        workloads=[*([w] if w is not None else []), *others],
        local_queues=[local] if local is not None else [],
        cluster_queues=queues,
        cohorts=around.pop("cohorts", ()),
        flavors=around.pop("flavors", [flavor()]),
        namespaces=NAMESPACES,
    )
    given = {"objects": objects, "local": local, "above": above, **around}
    return explain(j, w, Surroundings(**given), at(seconds))


def holding(name: str, cpu: str, namespace: str = "default", **more: Any) -> Workload:
    assigned = {**ADMISSION["podSetAssignments"][0], "resourceUsage": {"cpu": cpu}}
    admission = {**ADMISSION, "clusterQueue": more.pop("cluster_queue", "cq"), "podSetAssignments": [assigned]}
    status = {"admission": admission}
    return workload(name, conditions=admitted(), status=status, requests={"cpu": cpu}, namespace=namespace, **more)


NO_ROOM = "0/2 nodes are available: 2 Insufficient cpu."
STUCK = {"unplaced": Unscheduled(1, NO_ROOM)}
GAVE_UP = cond(
    "Evicted",
    reason="DeactivatedDueToRequeuingLimitExceeded",
    message=f"{messages.REQUEUING_LIMIT_MESSAGE}; {messages.pods_unschedulable(1, NO_ROOM)}",
)
STARTING = {"suspend": False, "status": {"active": 1}}
RUNNING = {"suspend": False, "status": {"ready": 1, "active": 1}}
EVICTED = cond("Evicted", reason="PodsReadyTimeout", message="Exceeded the PodsReady timeout default/j")
UNRESERVED = cond("QuotaReserved", "False", "PendingEvaluation")
GATE = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
CHECK = {"admission": ADMISSION, "admissionChecks": [{"name": "budget", "state": "Pending"}]}


@pytest.mark.parametrize(
    ("code", "command", "j", "w", "around"),
    [
        ("", "sluice show j", job(**RUNNING), holding("j", "1"), {}),
        ("", "sluice show j", job(**STARTING), holding("j", "1"), {}),
        ("", "sluice show j", job(**RUNNING), holding("j", "1"), STUCK),
        ("WAIT/Unschedulable", "sluice show j", job(**STARTING), holding("j", "1"), STUCK),
        (
            "HOLD/DeactivatedDueToUnschedulable",
            "kubectl describe nodes",
            job(),
            workload(active=False, conditions=[GAVE_UP]),
            {},
        ),
        ("", "sluice show j", job(conditions=[cond("Complete")]), None, {}),
        ("", "sluice show j", job(conditions=[cond("Failed", reason="BackoffLimitExceeded")]), None, {}),
        ("HOLD/Suspended", "kubectl patch job j", job(queue=""), None, {}),
        ("WAIT/PendingEvaluation", "sluice explain j", job(created=99), None, {}),
        ("FAULT/ControllerStale", "sluice show j", job(), None, {}),
        (
            "NEVER/Misconfigured",
            "sluice cancel j",
            job(),
            None,
            {"obstacles": [Obstacle("no class", "fix", never=True)]},
        ),
        ("NEVER/Refused", "sluice cancel j", job(), workload(conditions=[cond("Finished")]), {}),
        ("HOLD/Deactivated", "sluice reactivate j", job(), workload(active=False), {}),
        ("HOLD/AdmissionGated", "kubectl annotate job j", job(), workload(annotations=GATE), {}),
        ("NEVER/Misconfigured", "sluice queues", job(), workload(), {"local": None}),
        ("NEVER/Misconfigured", "sluice queues", job(), workload(), {"above": None}),
        ("HOLD/Suspended", "sluice release q", job(), workload(), {"local": local_queue(stop="Hold")}),
        (
            "HOLD/Suspended",
            "sluice release cq/cq",
            job(),
            workload(),
            {"above": cluster_queue(stopPolicy="Hold", namespaceSelector={})},
        ),
        (
            "NEVER/Misconfigured",
            "sluice doctor",
            job(),
            workload(),
            {"above": cluster_queue(quotas={"gone": {"cpu": "4"}})},
        ),
        (
            "WAIT/Backoff",
            "sluice show j",
            job(),
            workload(conditions=[UNRESERVED, EVICTED], status={"requeueState": {"count": 1, "requeueAt": wire(160)}}),
            {},
        ),
        (
            "WAIT/Evicted",
            "sluice show j",
            job(),
            workload(conditions=[*admitted(), EVICTED], status={"admission": ADMISSION}),
            {},
        ),
        (
            "WAIT/UnsatisfiedAdmissionChecks",
            "sluice show j",
            job(),
            workload(conditions=[cond("QuotaReserved")], status=CHECK),
            {},
        ),
        ("FAULT/AdmittedNotRunning", "sluice show j", job(), holding("j", "1"), {}),
        ("FAULT/ControllerStale", "sluice show j", job(**STARTING), workload(conditions=[UNRESERVED]), {}),
        ("FAULT/ControllerStale", "sluice show j", job(**RUNNING), workload(conditions=[UNRESERVED]), {}),
        ("WAIT/PendingEvaluation", "sluice explain j", job(), workload(), {}),
        ("NEVER/ExceedsMaxQuota", "sluice cancel j", job(), workload(requests={"cpu": "5"}), {}),
        ("NEVER/NoMatchingFlavor", "sluice cancel j", job(), workload(requests={"gpu": "1"}), {}),
    ],
)
def test_a_job_in_this_state_has_this_code_and_next_command(
    code: str, command: str, j: Job, w: Workload | None, around: dict[str, Any]
) -> None:
    found = explained(j, w, **around)
    assert (found.code, found.next_command[: len(command)]) == (code, command)
    assert found.sentence.endswith(".")
    assert not code or found.code in CODES


def test_a_job_that_ran_too_long_gets_more_time_before_it_is_reactivated() -> None:
    reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
    its = workload(active=False, maximumExecutionTimeSeconds=3, conditions=[cond("Evicted", reason=reason)])
    found = explained(job(), its)
    assert "maximum execution time of 3 s" in found.sentence
    assert found.changes == [f"its label {keys.MAX_EXEC_TIME} is raised, and it is reactivated (sluice reactivate j)"]
    assert found.next_command == f"kubectl label --overwrite job j -n default {keys.MAX_EXEC_TIME}=SECONDS"


@pytest.mark.parametrize(
    ("requeue_at", "then", "change"),
    [
        (None, "it is pending again.", "its last pod has stopped"),
        (119, "it is pending again once its backoff has ended.", "its last pod has stopped, the backoff ends"),
        (99, "it is pending again.", "its last pod has stopped"),
    ],
    ids=["no backoff", "backoff", "a backoff that has ended"],
)
def test_an_evicted_job_waits_for_its_pods_and_for_the_end_of_its_backoff(
    requeue_at: float | None, then: str, change: str
) -> None:
    """Both begin with the eviction; the time of the end is a deadline of its own."""
    backoff = {} if requeue_at is None else {"requeueState": {"count": 1, "requeueAt": wire(requeue_at)}}
    found = explained(job(), workload(conditions=[*admitted(), EVICTED], status={"admission": ADMISSION, **backoff}))
    assert (found.code, found.changes) == ("WAIT/Evicted", [f"{change}, and its queue admits it again"])
    assert found.sentence == f"It was evicted, and its pods are being stopped; then {then}"


@pytest.mark.parametrize(
    ("more", "code", "sentence", "change"),
    [
        ({}, "HOLD/Suspended", "LocalQueue q is held", "the queue is released"),
        (
            {"requests": {"cpu": "64"}},
            "NEVER/ExceedsMaxQuota",
            "can never use more than 4 cpu",
            "it requests at most 4",
        ),
    ],
)
def test_a_job_of_a_held_queue_is_promised_no_start_that_never_comes(
    more: dict[str, Any], code: str, sentence: str, change: str
) -> None:
    found = explained(job(), workload(**more), local=local_queue(stop="Hold"))
    assert found.code == code
    assert sentence in found.sentence
    assert "LocalQueue q is held (sluice release q)." in found.sentence
    assert change in found.changes[0]
    assert all("the queue is released" in each for each in found.changes)


def test_a_stopped_queue_without_its_flavor_is_more_than_held() -> None:
    above = cluster_queue(quotas={"gone": {"cpu": "4"}}, stopPolicy="Hold", namespaceSelector={})
    found = explained(job(), workload(), above=above)
    assert (found.code, found.next_command) == ("NEVER/Misconfigured", "sluice doctor")
    assert "gone" in found.sentence
    assert found.sentence.endswith("ClusterQueue cq is held (sluice release cq/cq).")


def test_both_held_queues_of_a_job_are_named_with_the_commands_that_release_them() -> None:
    above = cluster_queue(stopPolicy="HoldAndDrain", namespaceSelector={})
    found = explained(job(), workload(), local=local_queue(stop="Hold"), above=above)
    said = "LocalQueue q is held (sluice release q), and ClusterQueue cq is drained (sluice release cq/cq)."
    assert (found.code, found.sentence, found.changes) == ("HOLD/Suspended", said, ["both queues are released"])
    assert found.next_command == "sluice release q; sluice release cq/cq"


@pytest.mark.parametrize(
    ("around", "missing"),
    [({"local": None}, "LocalQueue default/q"), ({"above": None}, "ClusterQueue cq")],
)
def test_a_queue_that_is_to_be_created_is_named(around: dict[str, Any], missing: str) -> None:
    assert explained(job(), workload(), **around).changes == [f"{missing} is created"]


@pytest.mark.parametrize(
    ("around", "sentence"),
    [
        ({"local": None}, "LocalQueue queu does not exist in namespace default (did you mean queue?)."),
        (
            {"above": None, "local": local_queue("queu", cluster_queue="mll")},
            "ClusterQueue mll does not exist (did you mean ml?).",
        ),
        (
            {
                "above": cluster_queue(quotas={"defualt": {"cpu": "4"}}, namespaceSelector={}),
                "local": local_queue("queu"),
            },
            "ClusterQueue cq: Can't admit new workloads: references missing ResourceFlavor(s): defualt "
            "(did you mean default?).",
        ),
    ],
    ids=["LocalQueue", "ClusterQueue", "flavor"],
)
def test_a_mistyped_queue_or_flavor_is_named_with_the_one_that_may_be_meant(
    around: dict[str, Any], sentence: str
) -> None:
    names = KnownNames(["queue", "other"], ["ml", "cpu-only"], ["default"])
    found = explained(job(queue="queu"), workload(queueName="queu"), names=names, flavors=[flavor("default")], **around)
    assert (found.code, found.sentence) == ("NEVER/Misconfigured", sentence)


def test_the_evidence_names_amounts_holders_policies_and_position() -> None:
    """A queue of 4 cpu that borrows 2 more: 5 are in use, 3 are requested."""
    limited = {"f": {"cpu": "4"}}
    above = cluster_queue(quotas=limited, cohortName="all", namespaceSelector={})
    lender = cluster_queue("lender", quotas={"f": {"cpu": "2"}}, cohortName="all", namespaceSelector={})
    others = [
        holding("big", "4"),
        holding("small", "1", "secret-team"),
        workload("first", requests={"cpu": "6"}, priority=5),
    ]
    found = explained(job(), workload(requests={"cpu": "3"}), others, above=above, cluster_queues=[lender])
    [row] = found.flavors
    assert found.code == "WAIT/WaitingForQuota"
    assert found.sentence == "It requests 3 cpu, and ClusterQueue cq has 1 cpu of flavor f free."
    assert (row.requested, row.free, row.borrowable, row.limit, row.verdict) == ("3", "1", "1", "6", "2 more needed")
    held = [(h.namespace, h.workloads, h.holds, h.jobs) for h in found.holders]
    assert held == [
        ("default", 1, {"f/cpu": "4"}, ["default/big"]),
        ("secret-team", 1, {"f/cpu": "1"}, ["secret-team/small"]),
    ]
    [check] = found.preemptions
    assert (check.policy, check.verdict, check.running) == ("withinClusterQueue: Never", "PolicyNever", 2)
    assert found.position is not None
    assert (found.position.cluster_queue, found.position.of, found.position.local_queue) == (2, 2, 2)
    assert found.changes[0] == "running Workloads release 2 cpu of flavor f, unless Workloads before this one take it"


def test_a_reader_who_may_not_see_all_gets_the_published_reason_and_no_foreign_name() -> None:
    """Without the permission to list everything, nothing of other namespaces is named."""
    said = cond("QuotaReserved", "False", "WaitingForQuota", "couldn't assign flavors to pod set main: no")
    found = explained(job(), workload(conditions=[said]), objects=None, not_seen=("workloads of all namespaces",))
    assert (found.code, found.message) == ("WAIT/WaitingForQuota", said["message"])
    assert [(row.requested, row.free, row.limit) for row in found.flavors] == [("1", None, None)]
    assert (found.holders, found.preemptions, found.position) == ([], [], None)
    assert found.not_seen == ["workloads of all namespaces"]


def test_a_job_behind_the_head_of_a_strict_queue_names_the_head() -> None:
    strict = cluster_queue(queueingStrategy="StrictFIFO", namespaceSelector={})
    head = workload("head", requests={"cpu": "4"}, priority=1)
    found = explained(job(), workload(), [head, holding("busy", "1")], above=strict)
    assert (found.code, found.next_command) == ("WAIT/BehindHead", "sluice explain default/head")


@pytest.mark.parametrize(
    ("priority", "running", "policy", "verdict"),
    [
        (1, {"priority": 0}, "LowerPriority", "Chosen"),
        (0, {"priority": 0}, "LowerPriority", "NotLower"),
        (0, {"priority": 0}, "Never", "PolicyNever"),
    ],
)
def test_preemption_in_the_own_queue_is_explained_by_its_policy(
    priority: int, running: dict[str, Any], policy: str, verdict: str
) -> None:
    preemption = {"withinClusterQueue": policy}
    above = cluster_queue(preemption=preemption, namespaceSelector={})
    found = explained(job(), workload(priority=priority), [holding("r", "4", **running)], above=above)
    assert [check.verdict for check in found.preemptions] == [verdict]
    waits = "WAIT/WaitingForPreemptedWorkloads" if verdict == "Chosen" else "WAIT/WaitingForQuota"
    assert found.code == waits


@pytest.mark.parametrize(("seconds", "verdict"), [(100, "Protected"), (600, "Chosen")])
def test_a_minimum_runtime_protects_until_its_end(seconds: float, verdict: str) -> None:
    above = cluster_queue(preemption={"withinClusterQueue": "LowerPriority"}, namespaceSelector={})
    running = holding("r", "4", annotations={"sluice/min-runtime": "10m"})
    bound = WorkloadSettings(max_min_runtime=3600)
    found = explained(job(), workload(priority=1), [running], seconds, above=above, settings=bound)
    assert [check.verdict for check in found.preemptions] == [verdict]
    assert [check.protected_until for check in found.preemptions] == [at(600) if verdict == "Protected" else None]
    protects = verdict == "Protected"
    assert ("the minimum runtime that protects a running Workload ends" in found.changes) == protects
    assert [one.at for one in found.deadlines] == ([at(600)] if protects else [])


def test_the_first_end_of_a_minimum_runtime_is_given_if_candidates_do_not_suffice() -> None:
    above = cluster_queue(preemption={"withinClusterQueue": "LowerPriority"}, namespaceSelector={})
    running = [
        holding("free", "1"),
        *(holding(f"r{n}", "1", annotations={"sluice/min-runtime": f"{n}m"}) for n in (9, 8)),
    ]
    running.append(holding("not lower", "1", annotations={"sluice/min-runtime": "5m"}, priority=1))
    bound = WorkloadSettings(max_min_runtime=3600)
    found = explained(job(), workload(priority=1, requests={"cpu": "3"}), running, above=above, settings=bound)
    assert [(c.verdict, c.protected_until) for c in found.preemptions] == [("NotEnough", at(480))]


@pytest.mark.parametrize(
    ("maximum", "starts_by"), [pytest.param(900, 900, id="declared"), pytest.param(None, None, id="not declared")]
)
def test_the_head_for_which_backfilling_keeps_quota_is_told_so(maximum: int | None, starts_by: int | None) -> None:
    declared = {"maximumExecutionTimeSeconds": maximum} if maximum is not None else {}
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    running, waits = [holding("r", "4", **declared)], workload(requests={"cpu": "2"})
    found = explained(job(), waits, running, settings=keeps)
    assert found.sentence.endswith("0 cpu of flavor f free; what is released is kept for it.")
    assert (found.kept_for_it, found.starts_by) == (True, at(starts_by) if starts_by is not None else None)
    assert not explained(job(), waits, running, seconds=30, settings=keeps).kept_for_it, "it has not waited enough"
    assert not explained(job(), waits, running).kept_for_it, "backfilling is off"


def test_a_victim_that_is_being_stopped_names_who_needed_its_quota() -> None:
    evicted = cond("Evicted", reason="Preempted", message="m")
    attempts = {"attempts": [{"reason": "Preempted", "cause": "for priority 7 of ClusterQueue b"}]}
    status = {"admission": ADMISSION, "requeueHistory": attempts}
    found = explained(job(), workload(conditions=[*admitted(), evicted], status=status))
    assert found.sentence.startswith(
        "It was preempted for priority 7 of ClusterQueue b, and its pods are being stopped"
    )


def test_an_admin_sees_for_which_job_a_workload_was_preempted() -> None:
    """Other readers see the queue and the priority; so does an admin once that Job is gone."""
    message = messages.preempted("uid-w-urgent", "uid-urgent", "InCohortReclamation", "/all/b", "/all/cq")
    attempts = {"attempts": [{"reason": "Preempted", "cause": "for priority 7 of ClusterQueue b"}]}
    conditions = [cond("Evicted", reason="Preempted", message=message), UNRESERVED]
    victim = workload(conditions=conditions, status={"requeueHistory": attempts})
    winner = holding("urgent", "4", namespace="team-b", cluster_queue="b")
    who = "for priority 7 of ClusterQueue b"
    for found, job_name in (
        (explained(job(), victim, [winner]), "team-b/urgent"),
        (explained(job(), victim), ""),
        (explained(job(), victim, objects=None), ""),
        (explained(job(), victim, [winner], only_named="default"), ""),
    ):
        assert (found.preempted_for, found.preempted_for_job) == (who, job_name)
        said = f"{who}: Job {job_name}" if job_name else who
        assert ("preempted", [said]) in lines(found, at(100))


def test_a_workload_that_must_borrow_is_told_why_only_its_own_queue_makes_room() -> None:
    """It may preempt lower priorities of its own queue, which do not suffice, and reclaim nothing that it borrows."""
    policies = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    above = cluster_queue(cohortName="all", preemption=policies, namespaceSelector={})
    other = cluster_queue("other", cohortName="all", namespaceSelector={})
    running = [holding("own", "1"), holding("r", "6", cluster_queue="other")]
    waiting = workload(requests={"cpu": "6"}, priority=1)
    found = explained(job(), waiting, running, above=above, cluster_queues=[other])
    assert [(c.cluster_queue, c.verdict) for c in found.preemptions] == [("cq", "NotEnough"), ("other", "MustBorrow")]


@pytest.mark.parametrize(
    ("reclaim", "borrower", "request_", "verdict"),
    [
        ("LowerPriority", "6", "4", "Chosen"),
        ("Any", "4", "3", "WithinQuota"),
        ("LowerPriority", "6", "6", "MustBorrow"),
        ("Never", "6", "4", "PolicyNever"),
    ],
)
def test_reclaiming_from_another_queue_is_explained_by_quota_and_policy(
    reclaim: str, borrower: str, request_: str, verdict: str
) -> None:
    """Two queues of 4 cpu in one cohort; the Workload has priority 1, what runs in the other has 0."""
    above = cluster_queue(cohortName="all", preemption={"reclaimWithinCohort": reclaim}, namespaceSelector={})
    other = cluster_queue("other", cohortName="all", namespaceSelector={})
    running = [holding("r", borrower, cluster_queue="other"), holding("own", "2", priority=1)]
    if verdict in ("Chosen", "PolicyNever", "MustBorrow"):
        running = running[:1]
    waiting = workload(requests={"cpu": request_}, priority=1)
    found = explained(job(), waiting, running, above=above, cluster_queues=[other])
    assert [c.verdict for c in found.preemptions if c.cluster_queue == "other"] == [verdict]


def test_no_less_than_nothing_is_free_after_a_quota_was_lowered() -> None:
    """6 cpus of 4 are in use."""
    found = explained(job(), workload(requests={"cpu": "2"}), [holding("r", "6")])
    assert [(row.free, row.verdict) for row in found.flavors] == [("0", "4 more needed")]


def test_the_schema_is_stable() -> None:
    """Scripts read these fields: a new one may be added, none may go or be renamed."""
    found = msgspec.to_builtins(explained(job(), workload(requests={"cpu": "4"}), [holding("r", "1")]))
    assert list(found) == [
        *("namespace", "name", "workload", "queue", "clusterQueue", "state", "code", "sentence", "reason", "message"),
        *(
            "position",
            "flavors",
            "holders",
            "preemptions",
            "changes",
            "nextCommand",
            "keptForIt",
            "startsBy",
            "notSeen",
            "cause",
            "deadlines",
            "advice",
            "preemptedFor",
            "preemptedForJob",
            "logCommand",
            "releasedBy",
            "release",
            "keptFor",
        ),
    ]
    assert list(found["position"]) == ["clusterQueue", "of", "localQueue", "ahead"]
    assert list(found["flavors"][0]) == [
        *("podSet", "flavor", "resource", "requested", "free", "borrowable", "kept", "limit", "verdict")
    ]
    assert list(found["holders"][0]) == ["clusterQueue", "namespace", "queue", "workloads", "holds", "jobs", "stopping"]
    assert list(found["preemptions"][0]) == [
        *("clusterQueue", "flavor", "policy", "running", "candidates", "verdict", "text", "protectedUntil")
    ]


def test_quota_of_any_flavor_that_would_do_is_named() -> None:
    """One pod of flavor g, or one cpu of flavor f."""
    quotas = {"f": {"cpu": "4", "pods": "9"}, "g": {"cpu": "9", "pods": "1"}}
    above = cluster_queue(quotas=quotas, namespaceSelector={})
    in_f = holding("a", "4")
    assigned = {"name": "main", "flavors": {"cpu": "g", "pods": "g"}, "resourceUsage": {"cpu": "1", "pods": "1"}}
    admission = {"clusterQueue": "cq", "podSetAssignments": [{**assigned, "count": 1}]}
    in_g = workload("b", conditions=admitted(), status={"admission": admission}, requests={"cpu": "1"})
    found = explained(job(), workload(), [in_f, in_g], above=above, flavors=[flavor(), flavor("g")])
    assert found.changes[0] == "running Workloads release 1 pod of flavor g, or 1 cpu of flavor f"


@pytest.mark.parametrize(
    ("reason", "pod_cause", "condition", "command"),
    [
        ("RequeuingLimitExceeded", "", "its pods can become ready in time", "sluice show j"),
        ("RequeuingLimitExceeded", "exit 3: boom", "its containers no longer fail", "sluice show j"),
        ("RequeuingLimitExceeded", "OOMKilled", "its memory limit is raised", "sluice show j"),
        ("AdmissionCheck", "", "the admission check accepts it", "sluice show j"),
        (
            "MaximumExecutionTimeExceeded",
            "",
            "its label kueue.x-k8s.io/max-exec-time-seconds is raised",
            "kubectl label --overwrite job j -n default kueue.x-k8s.io/max-exec-time-seconds=SECONDS",
        ),
    ],
)
def test_a_deactivated_job_starts_when_its_cause_is_gone_and_it_is_reactivated(
    reason: str, pod_cause: str, condition: str, command: str
) -> None:
    """The line is a condition; `next` is the command for what comes first."""
    evicted = cond("Evicted", reason=f"DeactivatedDueTo{reason}", message="too many tries")
    attempt = {"start": wire(0), "end": wire(30), "reason": f"DeactivatedDueTo{reason}", "podCause": pod_cause}
    status = {"requeueHistory": {"attempts": [attempt]}}
    its = workload(active=False, conditions=[evicted], status=status, maximumExecutionTimeSeconds=30)
    found = explain(job(), its, Surroundings(), at(60))
    assert found.changes == [f"{condition}, and it is reactivated (sluice reactivate j)"]
    assert found.next_command == command


def test_a_job_that_gave_up_before_its_retries_were_used_says_so() -> None:
    evicted = cond("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded", message="too many tries")
    its = workload(active=False, conditions=[evicted])
    said = "Not all of its retries were used: waitForPodsReady gave up after 2 of the Job's 5 retries."
    for failed, expected in ((3, True), (6, False)):
        found = explain(job(status={"failed": failed}, backoffLimit=5), its, Surroundings(), at(60))
        assert found.sentence.endswith(said) is expected


def test_a_job_whose_program_does_not_exist_starts_when_it_is_submitted_again() -> None:
    assert start_condition("crashes", "j", "no such program: /x") == "its command is fixed, and it is submitted again"


def test_a_cluster_queue_that_is_being_deleted_is_not_put_right() -> None:
    ending = {"conditions": [cond("Active", "False", "Terminating", "Can't admit new workloads")]}
    found = explained(job(), workload(), above=cluster_queue(namespaceSelector={}, status=ending, deleted=9))
    assert (found.code, found.sentence) == ("NEVER/Misconfigured", "ClusterQueue cq is being deleted.")
    assert found.changes == [
        "its label kueue.x-k8s.io/queue-name names a LocalQueue of another ClusterQueue",
        "an admin creates ClusterQueue cq again after its deletion",
    ]


def test_a_job_without_a_workload_names_all_its_obstacles() -> None:
    found = [
        Obstacle("cannot start: no class", "correct the label", never=True),
        Obstacle("can never start: asks 64 cpu, queue limit 4", "request less", never=True),
    ]
    said = explained(job(), None, obstacles=found)
    assert said.sentence == "Cannot start: no class. Besides, can never start: asks 64 cpu, queue limit 4."
    assert said.changes == ["you correct the label, and you request less"]


def test_a_missing_class_may_be_why_there_is_no_workload_if_nobody_sees_the_classes() -> None:
    said = explained(job(), None, unseen_class="urgent")
    assert said.code == "FAULT/ControllerStale"
    assert said.sentence == (
        "No Workload was created for it: its WorkloadPriorityClass urgent does not exist, which you may not see, "
        "or no controller has taken it up."
    )
    assert said.changes[0] == "an admin creates WorkloadPriorityClass urgent, if it does not exist"


def test_pods_that_were_ready_in_this_attempt_are_no_longer_ready() -> None:
    lost = [*admitted(), cond("PodsReady", "False", "WaitForRecovery", "At least one pod has failed")]
    its = msgspec.structs.replace(holding("j", "1"), status=workload(conditions=lost).status)
    said = explained(job(**STARTING), its)
    assert (said.code, said.sentence) == ("", "It holds its quota, and its pods are no longer ready.")
