"""What `explain` says where others take released quota first: preemptors, heads of StrictFIFO queues, their rivals."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_manager.api import keys, messages
from queue_manager.api.types import RequeueHistory, Workload
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.released_quota_times import TAKEN
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.unit.visibility.build import (
    ADMISSION,
    admitted,
    cluster_queue,
    cond,
    flavor,
    job,
    local_queue,
    wire,
    workload,
)
from tests.unit.visibility.test_explain_record import NAMESPACES, explained, holding

FAIR = WorkloadSettings(fair_sharing=("LessThanOrEqualToFinalShare", "LessThanInitialShare"))
STRICT = cluster_queue(queueingStrategy="StrictFIFO", namespaceSelector={})
QUOTAS = {"cq": "2", "other": "2", "lent": "0"}
SPENT = "ReclaimedBefore"


def in_cohort(
    waiting: Workload, *others: Workload, settings: WorkloadSettings | None = None, **spec: Any
) -> Explanation:
    """ClusterQueues that share 4 cpus, each with a LocalQueue of its name, and LocalQueue q of cq. `spec`: of all."""
    queues = [
        cluster_queue(name, cohortName="c", namespaceSelector={}, quotas={"f": {"cpu": cpus}}, **spec)
        for name, cpus in QUOTAS.items()
    ]
    objects = ClusterObjects(
        workloads=[waiting, *others],
        local_queues=[local_queue(), *(local_queue(name, cluster_queue=name) for name in QUOTAS)],
        cluster_queues=queues,
        cohorts=(),
        flavors=[flavor()],
        namespaces=NAMESPACES,
    )
    return explained(job(), waiting, above=queues[0], objects=objects, settings=settings or WorkloadSettings())


def test_what_the_first_of_a_strict_queue_withholds_is_not_released_for_others() -> None:
    """One of 4 cpus is free. The first of `other` waits for its 2."""
    head = workload("head", queueName="other", requests={"cpu": "2"})
    found = in_cohort(
        workload(created=20, requests={"cpu": "2"}), head, holding("r", "3"), queueingStrategy="StrictFIFO"
    )
    beside = "in addition to what is kept for the first Workload of ClusterQueue other, which is StrictFIFO"
    assert found.changes[0] == f"running Workloads release 1 cpu of flavor f, {beside}"


STRICT_AND_PREEMPTS = {"queueingStrategy": "StrictFIFO", "preemption": {"withinClusterQueue": "LowerPriority"}}
HEAD = workload("head", queueName="other", priority=5, requests={"cpu": "2"})


def test_who_would_release_quota_for_the_first_of_a_strict_queue_stops_none() -> None:
    """`head` waits for the two cpus that are lent. With a higher priority than its own, `low` is stopped."""
    lent, low = holding("lent", "2", cluster_queue="lent", priority=9), holding("low", "2")
    found = in_cohort(workload(priority=3, requests={"cpu": "2"}), HEAD, lent, low, **STRICT_AND_PREEMPTS)
    kept = "kept for default/head, the first of StrictFIFO ClusterQueue other"
    assert found.sentence == f"What preemption could free for it in ClusterQueue cq is {kept}."
    own = next(row for row in found.preemptions if row.cluster_queue == "cq")
    assert own.text == "what they free would be kept for the first of a StrictFIFO queue"
    assert "it gets a higher priority than default/head" in found.changes
    first = in_cohort(workload(priority=6, requests={"cpu": "2"}), HEAD, lent, low, **STRICT_AND_PREEMPTS)
    assert first.sentence == "1 Workload is being stopped to make room for it."


@pytest.mark.parametrize(("cpu", "helps"), [("2", True), ("3", False)])
def test_a_higher_priority_is_advised_only_if_a_strict_queue_leaves_room(cpu, helps) -> None:
    """Who borrows comes after `head` whatever its priority."""
    running = holding("lent", "1", cluster_queue="lent", priority=9), holding("low", "2", priority=1)
    found = in_cohort(workload(requests={"cpu": cpu}), HEAD, *running, **STRICT_AND_PREEMPTS)
    assert ("it gets a priority above 5" in found.changes) == helps
    urgent = in_cohort(workload(priority=6, requests={"cpu": cpu}), HEAD, *running, **STRICT_AND_PREEMPTS)
    assert urgent.sentence.endswith("being stopped to make room for it.") == helps


def test_behind_one_that_can_never_be_admitted_the_annotation_is_named() -> None:
    head, waits = workload("head", requests={"cpu": "9"}), workload(created=20)
    found = explained(job(), waits, [head, holding("r", "4")], above=STRICT)
    assert found.sentence == (
        "ClusterQueue cq is StrictFIFO, and its first Workload, default/head, can never be admitted."
    )
    assert found.changes[1] == (
        "an admin lets others pass such a Workload "
        "(annotation sluice/pass-by-never-fitting-head=true of ClusterQueue cq)"
    )
    possible = explained(job(), waits, [workload("head"), holding("r", "4")], above=STRICT)
    assert "waits." in possible.sentence
    assert len(possible.changes) == 1


def test_one_that_others_may_pass_is_not_the_head_that_they_wait_for() -> None:
    passing = cluster_queue(queueingStrategy="StrictFIFO", namespaceSelector={})
    passing.metadata.annotations[keys.PASS_BY] = "true"
    never, big = workload("never", requests={"cpu": "9"}), workload("big", requests={"cpu": "2"}, created=10)
    found = explained(job(), workload(created=20), [never, big, holding("r", "3")], above=passing)
    assert found.sentence == "ClusterQueue cq is StrictFIFO, and its first Workload, default/big, waits."
    assert found.next_command == "sluice explain default/big"


def victim(preemptor: Workload, cpu: str) -> Workload:
    """One in ClusterQueue lent that is being stopped for the preemptor."""
    message = messages.preempted(preemptor.metadata.uid, "", "InCohortFairSharing", "/c/other", "/c/lent")
    stops = [
        cond("Evicted", reason="Preempted", message=message),
        cond("Preempted", reason="InCohortFairSharing", message=message),
    ]
    assigned = {"name": "main", "flavors": {"cpu": "f"}, "count": 1}
    status = {"admission": {"clusterQueue": "lent", "podSetAssignments": [assigned]}}
    conditions = [*admitted(), *stops]
    return workload("victim", queueName="lent", conditions=conditions, status=status, requests={"cpu": cpu})


def test_own_quota_is_not_kept_for_a_preemptor_that_would_borrow_it() -> None:
    waits_for_victims = cond("QuotaReserved", "False", "WaitingForPreemptedWorkloads")
    borrower = workload("borrower", queueName="other", requests={"cpu": "4"}, conditions=[waits_for_victims])
    policy = {"reclaimWithinCohort": "Any"}
    around = [borrower, victim(borrower, "4")]
    own = in_cohort(workload(created=20), *around, settings=FAIR, preemption=policy)
    assert (
        own.changes[0]
        == "running Workloads release 1 cpu of flavor f, unless another ClusterQueue of its cohort takes it"
    )
    lent = in_cohort(workload(created=20, requests={"cpu": "3"}), *around, settings=FAIR, preemption=policy)
    assert "in addition to what is kept for a Workload that preempts others" in lent.changes[0]


def test_a_preemptor_that_borrows_may_lose_its_claim_to_an_owner() -> None:
    waits_for_victims = cond("QuotaReserved", "False", "WaitingForPreemptedWorkloads")
    borrower = workload(requests={"cpu": "3"}, conditions=[waits_for_victims])
    rival = workload("rival", queueName="other", created=20)
    policy = {"reclaimWithinCohort": "Any"}
    found = in_cohort(borrower, rival, victim(borrower, "4"), settings=FAIR, preemption=policy)
    assert found.changes == [
        "all pods of that Workload have stopped, unless another ClusterQueue of its cohort takes its own quota"
    ]
    alone = in_cohort(borrower, victim(borrower, "4"), settings=FAIR, preemption=policy)
    assert alone.changes == ["all pods of that Workload have stopped"]


@pytest.mark.parametrize(("times", "spares", "verdict"), [(1, False, "Chosen"), (2, False, SPENT), (0, True, SPENT)])
def test_one_that_was_stopped_for_it_twice_is_not_stopped_again(times: int, spares: bool, verdict: str) -> None:
    """Its attempts record for which Workload each of them ended, and the other one what they do not."""
    waiting, policy = workload(priority=3), {"reclaimWithinCohort": "Any"}
    attempts = [{"end": wire(n), "reason": "Preempted", "preemptor": waiting.metadata.uid} for n in range(times)]
    runs = holding("r", "4", cluster_queue="lent", priority=5)
    history = msgspec.convert({"attempts": attempts}, RequeueHistory)
    status = msgspec.structs.replace(runs.status, requeue_history=history)
    if spares:
        known = msgspec.convert({"spared": [runs.metadata.uid]}, RequeueHistory)
        waiting = msgspec.structs.replace(
            waiting, status=msgspec.structs.replace(waiting.status, requeue_history=known)
        )
    found = in_cohort(waiting, msgspec.structs.replace(runs, status=status), preemption=policy)
    assert [row.verdict for row in found.preemptions] == [verdict]
    assert (found.code == "WAIT/WaitingForQuota") is (verdict == SPENT)


def test_who_waits_for_the_victims_of_another_may_be_overtaken() -> None:
    waits_for_victims = cond("QuotaReserved", "False", "WaitingForPreemptedWorkloads")
    preemptor = workload("preemptor", queueName="other", requests={"cpu": "2"}, conditions=[waits_for_victims])
    found = in_cohort(
        workload(created=20), preemptor, victim(preemptor, "4"), preemption={"reclaimWithinCohort": "Any"}
    )
    assert found.changes == [f"they have stopped, {TAKEN}"]


def test_who_is_not_the_first_of_a_strict_queue_stops_no_one_yet() -> None:
    """Each of them can stop one of the two that run."""
    strict = cluster_queue(
        queueingStrategy="StrictFIFO", namespaceSelector={}, preemption={"withinClusterQueue": "LowerPriority"}
    )
    running = [holding("a", "2"), holding("b", "2")]
    head, waits = (workload(name, priority=9, created=i, requests={"cpu": "2"}) for i, name in enumerate(("head", "j")))
    first = explained(job("head"), head, [waits, *running], above=strict)
    second = explained(job(), waits, [head, *running], above=strict)
    assert [row.verdict for row in (*first.preemptions, *second.preemptions)] == ["Chosen", "OnceFirst"]
    assert second.code == "WAIT/BehindHead"


def test_with_block_admission_those_are_counted_that_wait_for_checks() -> None:
    """One of those that hold quota is not admitted yet."""
    settings = WorkloadSettings(pods_ready=PodsReadySettings(block_admission=True))
    reserved = [cond("QuotaReserved"), cond("Admitted", "False")]
    later = workload("later", conditions=reserved, status={"admission": ADMISSION})
    found = explained(job(), workload(), [holding("first", "1"), later], settings=settings)
    assert found.sentence == (
        "Nothing is admitted before the pods of all Workloads that hold quota are ready (blockAdmission). "
        "1 of these waits for admission checks."
    )
