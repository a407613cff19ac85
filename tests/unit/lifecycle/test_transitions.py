"""The exact writes of each transition."""

import msgspec
import pytest

from queue_manager.lifecycle import admission_checks, pods_ready_timeout, transitions
from queue_manager.lifecycle.status_draft import Draft, WorkloadEvent
from queue_manager.lifecycle.workload_settings import PodsReadySettings
from queue_manager.scheduling.flavor_assignment import Assignment, PodSetResult
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.unit.queueing.builders import at, condition, workload

ASSIGNED = Assignment(
    [PodSetResult("main", 1, {"cpu": 1500}, flavors={"cpu": "default"})], {FlavorResource("default", "cpu"): 1500}
)
ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [
        {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1500m"}, "count": 1}
    ],
}
RESERVED = [condition("QuotaReserved", "True"), condition("Admitted", "True", "Admitted", seconds=10)]


def said(draft: Draft) -> dict:
    return {c.type: (c.status, c.reason, c.message) for c in draft.status.conditions}


def patched(draft: Draft) -> dict:
    """The patch of the status as it is sent."""
    return msgspec.json.decode(msgspec.json.encode(draft.patch()))["status"]


def test_admission_is_one_write_with_two_conditions_the_assignment_and_two_events():
    draft = Draft(workload(created=0), at(7.9))
    transitions.reserve(draft, "cq", ASSIGNED)
    admission_checks.confirm(draft)
    assert said(draft) == {
        "QuotaReserved": ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq"),
        "Admitted": ("True", "Admitted", "The workload is admitted"),
    }
    status = patched(draft)
    assert status["admission"] == ADMISSION
    assert status["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:07Z"
    assert status["conditions"][0]["observedGeneration"] == 1
    assert draft.events == [
        WorkloadEvent("Normal", "QuotaReserved", "Quota reserved in ClusterQueue cq, wait time since queued was 7s"),
        WorkloadEvent("Normal", "Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 0s"),
    ]


def test_admission_ends_the_eviction_condition():
    evicted = condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout ns/w")
    draft = Draft(workload(conditions=[evicted]), at(9))
    transitions.reserve(draft, "cq", ASSIGNED)
    admission_checks.confirm(draft)
    assert said(draft)["Evicted"] == ("False", "QuotaReserved", "Previously: Exceeded the PodsReady timeout ns/w")


def test_a_refusal_is_one_event_per_reason():
    draft = Draft(workload(), at(1))
    transitions.refuse(draft, "WaitingForQuota", "full", {"main": {"cpu": 1000}})
    assert said(draft) == {
        "QuotaReserved": ("False", "WaitingForQuota", "full"),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
    }
    assert patched(draft)["resourceRequests"] == [{"name": "main", "resources": {"cpu": "1"}}]
    assert draft.events == [WorkloadEvent("Warning", "WaitingForQuota", "full")]
    again = Draft(draft.workload, at(2))
    transitions.refuse(again, "WaitingForQuota", "full", {"main": {"cpu": 1000}})
    assert not again.changed
    assert again.events == []


def test_a_number_is_written_when_it_is_zero_and_an_empty_list_is_removed():
    known = {"accumulatedPastExecutionTimeSeconds": 5, "resourceRequests": [{"name": "main"}]}
    draft = Draft(workload(status=known), at(1))
    draft.put(accumulated_past_execution_time_seconds=0, resource_requests=())
    assert patched(draft) == {"accumulatedPastExecutionTimeSeconds": 0, "resourceRequests": None}


@pytest.mark.parametrize(
    ("admitted", "before", "ready", "after"),
    [
        (False, None, False, ("False", "WaitForStart", "Not all pods are ready or succeeded")),
        (True, None, False, ("False", "WaitForStart", "Not all pods are ready or succeeded")),
        (
            True,
            ("False", "WaitForStart"),
            True,
            ("True", "Started", "All pods reached readiness and the workload is running"),
        ),
        (
            True,
            ("True", "Started"),
            False,
            ("False", "WaitForRecovery", "At least one pod has failed, waiting for recovery"),
        ),
        (
            True,
            ("True", "Recovered"),
            False,
            ("False", "WaitForRecovery", "At least one pod has failed, waiting for recovery"),
        ),
        (
            True,
            ("False", "WaitForRecovery"),
            True,
            ("True", "Recovered", "All pods reached readiness and the workload is running"),
        ),
        (
            True,
            ("False", "WaitForRecovery"),
            False,
            ("False", "WaitForRecovery", "At least one pod has failed, waiting for recovery"),
        ),
        (False, ("False", "WaitForRecovery"), False, ("False", "WaitForStart", "Not all pods are ready or succeeded")),
    ],
)
def test_pods_are_awaited_at_first_then_ready_then_awaited_again(admitted, before, ready, after):
    conditions = [condition("Admitted", "True")] if admitted else []
    conditions += [condition("PodsReady", *before)] if before else []
    draft = Draft(workload(conditions=conditions), at(5))
    transitions.pods_ready(draft, ready)
    assert said(draft)["PodsReady"] == after


def test_a_timeout_counts_and_sets_the_time_of_the_next_try():
    draft = Draft(workload(conditions=RESERVED), at(20.7))
    pods_ready_timeout.evict_or_deactivate(draft, PodsReadySettings(base=60), "WaitForStart", jitter=0)
    assert said(draft)["Evicted"] == ("True", "PodsReadyTimeout", "Exceeded the PodsReady timeout ns/w")
    status = patched(draft)
    assert status["requeueState"] == {"count": 1, "requeueAt": "2026-01-01T00:01:20Z"}
    assert status["schedulingStats"] == {
        "evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}]
    }
    assert draft.events == [
        WorkloadEvent("Normal", "EvictedDueToPodsReadyTimeout", "Exceeded the PodsReady timeout ns/w")
    ]


@pytest.mark.parametrize(("limit", "count", "evicts"), [(0, 0, False), (1, 0, True), (1, 1, False), (None, 99, True)])
def test_beyond_the_limit_a_timeout_only_announces_the_deactivation(limit, count, evicts):
    draft = Draft(workload(conditions=RESERVED, status={"requeueState": {"count": count}}), at(20))
    pods_ready_timeout.evict_or_deactivate(draft, PodsReadySettings(limit=limit), "WaitForStart", jitter=0)
    assert ("Evicted" in said(draft)) is evicts
    if not evicts:
        assert said(draft)["DeactivationTarget"] == (
            "True",
            "RequeuingLimitExceeded",
            "exceeding the maximum number of re-queuing retries",
        )
        assert draft.events == []


def test_a_deactivation_names_its_cause_and_clears_the_retries():
    target = condition(
        "DeactivationTarget", "True", "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries"
    )
    status = {"requeueState": {"count": 2}, "admission": ADMISSION}
    draft = Draft(workload(conditions=[*RESERVED, target], status=status, spec={"active": False}), at(30))
    transitions.deactivate(draft)
    text = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    assert said(draft)["Evicted"] == ("True", "DeactivatedDueToRequeuingLimitExceeded", text)
    assert "DeactivationTarget" not in said(draft)
    patch = patched(draft)
    assert patch["requeueState"] is None
    assert patch["schedulingStats"]["evictions"] == [
        {"reason": "Deactivated", "underlyingCause": "RequeuingLimitExceeded", "count": 1}
    ]
    assert draft.events == [WorkloadEvent("Normal", "EvictedDueToDeactivatedDueToRequeuingLimitExceeded", text)]


def test_deactivating_a_pending_workload_records_no_event():
    draft = Draft(workload(spec={"active": False}), at(3))
    transitions.deactivate(draft)
    assert said(draft)["Evicted"] == ("True", "Deactivated", "The workload is deactivated")
    assert said(draft)["QuotaReserved"] == ("False", "Deactivated", "The workload is deactivated")
    assert draft.events == []


def test_releasing_quota_resets_the_old_run_in_one_write():
    """PodsReady is reset in the write that ends the admission."""
    conditions = [
        *RESERVED,
        condition("Evicted", "True", "PodsReadyTimeout", "late", 25),
        condition("PodsReady", "False", "WaitForRecovery", seconds=20),
    ]
    draft = Draft(workload(conditions=conditions, status={"admission": ADMISSION}), at(30))
    transitions.unreserve(draft, waits_for_pods=True)
    assert said(draft) == {
        "QuotaReserved": ("False", "PendingEvaluation", "late"),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
        "Evicted": ("True", "PodsReadyTimeout", "late"),
        "Requeued": ("False", "PodsReadyTimeout", "late"),
        "PodsReady": ("False", "WaitForStart", "Not all pods are ready or succeeded"),
    }
    status = patched(draft)
    assert status["admission"] is None
    assert status["accumulatedPastExecutionTimeSeconds"] == 20


def test_the_time_of_a_very_long_run_is_capped():
    """The API refuses larger values, and the quota could never be released."""
    admitted = condition("Admitted", "True", "Admitted") | {"lastTransitionTime": "0001-01-01T00:00:00Z"}
    conditions = [RESERVED[0], admitted, condition("Evicted", "True", "Preempted", "by another")]
    draft = Draft(workload(conditions=conditions, status={"admission": ADMISSION}), at(30))
    transitions.unreserve(draft, waits_for_pods=True)
    assert patched(draft)["accumulatedPastExecutionTimeSeconds"] == 2**31 - 1


def test_a_preempted_workload_is_requeued_at_once():
    conditions = [*RESERVED, condition("Evicted", "True", "Preempted", "by another")]
    draft = Draft(workload(conditions=conditions, status={"admission": ADMISSION}), at(30))
    transitions.unreserve(draft, waits_for_pods=True)
    assert said(draft)["Requeued"] == ("True", "Preempted", "by another")


@pytest.mark.parametrize(
    ("reason", "after"),
    [
        ("Deactivated", ("True", "Reactivated", "The workload was reactivated")),
        ("DeactivatedDueToRequeuingLimitExceeded", ("True", "Reactivated", "The workload was reactivated")),
        ("DeactivatedDueToAdmissionCheck", ("True", "Reactivated", "The workload was reactivated")),
        ("PodsReadyTimeout", ("True", "BackoffFinished", "The workload backoff was finished")),
        ("AdmissionCheck", ("True", "BackoffFinished", "The workload backoff was finished")),
        (
            "ClusterQueueStopped",
            ("True", "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
        ),
        ("LocalQueueStopped", ("True", "LocalQueueRestarted", "The LocalQueue was restarted after being stopped")),
    ],
)
def test_requeued_becomes_true_with_the_reason_of_its_cause(reason, after):
    draft = Draft(workload(conditions=[condition("Requeued", "False", reason)]), at(5))
    transitions.requeue(draft)
    assert said(draft)["Requeued"] == after


def test_a_condition_keeps_its_time_while_its_status_stays():
    draft = Draft(workload(conditions=[condition("QuotaReserved", "False", "A", "a", 3)]), at(9))
    transitions.block(draft, "B", "b")
    assert draft.condition("QuotaReserved").last_transition_time == at(3)


def test_unknown_conditions_of_others_survive_a_patch():
    """Conditions of other controllers belong to them."""
    draft = Draft(workload(conditions=[condition("Theirs", "True")]), at(9))
    transitions.block(draft, "B", "b")
    assert [c["type"] for c in patched(draft)["conditions"]] == ["Theirs", "QuotaReserved", "Admitted"]


BECAUSE = "Preempted to accommodate a workload (UID: u, JobUID: j) due to prioritization in the ClusterQueue"
PRIORITIES = "preemptor effective priority: 9 (base: 9, boost: 0); preemptee effective priority: 1 (base: 1, boost: 0)"
NEEDED_BY = "for priority 9 of ClusterQueue cq"


def preempt(draft: Draft) -> None:
    transitions.preempt(draft, "InClusterQueue", BECAUSE, PRIORITIES, NEEDED_BY)


def test_a_preemption_is_one_write_with_two_conditions_and_two_events():
    job = {"metadata": {"labels": {"kueue.x-k8s.io/job-uid": "j"}}}
    held = msgspec.convert(
        {**msgspec.to_builtins(workload(conditions=RESERVED, status={"admission": ADMISSION})), **job}, type(workload())
    )
    draft = Draft(held, at(20))
    preempt(draft)
    assert said(draft)["Evicted"] == ("True", "Preempted", BECAUSE)
    assert said(draft)["Preempted"] == ("True", "InClusterQueue", BECAUSE)
    assert said(draft)["QuotaReserved"][0] == "True", "quota is held until the Job has stopped"
    assert draft.events == [
        WorkloadEvent("Normal", "EvictedDueToPreempted", BECAUSE),
        WorkloadEvent("Normal", "Preempted", f"{BECAUSE}; {PRIORITIES}"),
    ]
    assert patched(draft)["schedulingStats"] == {
        "evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]
    }
    assert patched(draft)["requeueHistory"]["attempts"][0]["cause"] == NEEDED_BY
    again = Draft(draft.workload, at(21))
    preempt(again)
    assert not again.changed


def test_a_preempted_workload_without_a_job_releases_its_quota_in_the_same_write():
    draft = Draft(workload(conditions=RESERVED, status={"admission": ADMISSION}), at(20))
    preempt(draft)
    assert said(draft)["QuotaReserved"] == ("False", "PendingEvaluation", BECAUSE)
    assert said(draft)["Requeued"] == ("True", "Preempted", BECAUSE)
    assert patched(draft)["admission"] is None


@pytest.mark.parametrize(
    "conditions",
    [[], [*RESERVED, condition("Finished", "True")], [*RESERVED, condition("Evicted", "True", "PodsReadyTimeout")]],
    ids=["pending", "finished", "evicted for another reason"],
)
def test_only_what_holds_quota_and_is_not_on_its_way_out_is_preempted(conditions):
    draft = Draft(workload(conditions=conditions, status={"admission": ADMISSION}), at(20))
    preempt(draft)
    assert not draft.changed
