"""The next step of a Workload, from its state and its context."""

from dataclasses import replace

import msgspec
import pytest

from queue_manager.api.keys import ADMISSION_GATED_BY, DEACTIVATED_FOR
from queue_manager.api.messages import EQUIVALENT_MESSAGE, UNSATISFIED_CHECKS_MESSAGE
from queue_manager.api.reasons import UNSATISFIED_CHECKS
from queue_manager.lifecycle.rules import next_step
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.steps import (
    ApplyTransition,
    Deactivate,
    DeleteExpired,
    Idle,
    RemoveFinalizer,
    Wait,
    WorkloadContext,
)
from queue_manager.lifecycle.workload_settings import PodsReadySettings, WorkloadSettings
from queue_manager.queueing.equal_workloads import PendingReason
from tests.unit.queueing.builders import at, condition, workload

CONTEXT = WorkloadContext(cluster_queue="cq")
SETTINGS = WorkloadSettings()
RUNNING = [condition("QuotaReserved", "True"), condition("Admitted", "True", "Admitted", seconds=10)]
ADMISSION = {"admission": {"clusterQueue": "cq", "podSetAssignments": []}}
OWNED = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]}


def make(conditions=(), *, meta=None, **more):
    built = workload(conditions=list(conditions), **more)
    tree = msgspec.to_builtins(built)
    tree["metadata"] |= OWNED | (meta or {})
    return msgspec.convert(tree, type(built))


def step(w, context=CONTEXT, settings=SETTINGS, seconds=20):
    return next_step(w, context, settings, at(seconds))


def outcome(w, context=CONTEXT, settings=SETTINGS, seconds=20):
    """What the change makes of QuotaReserved."""
    change = step(w, context, settings, seconds)
    assert isinstance(change, ApplyTransition), change
    draft = Draft(w, at(seconds))
    change.apply(draft)
    assert draft.changed
    reserved = draft.condition("QuotaReserved")
    return (reserved.reason, reserved.message)


@pytest.mark.parametrize(
    ("context", "reason", "message"),
    [
        (replace(CONTEXT, local_queue_exists=False), "Misconfigured", "LocalQueue lq doesn't exist"),
        (replace(CONTEXT, local_queue_stop="Hold"), "Suspended", "LocalQueue lq is inactive"),
        (replace(CONTEXT, cluster_queue_exists=False), "Misconfigured", "ClusterQueue cq doesn't exist"),
        (replace(CONTEXT, cluster_queue_active=False), "Suspended", "ClusterQueue cq is inactive"),
    ],
)
def test_a_pending_workload_names_what_blocks_it(context, reason, message):
    assert outcome(make(), context) == (reason, message)
    said = make([condition("QuotaReserved", "False", reason, message), condition("Admitted", "False", "NoReservation")])
    draft = Draft(said, at(20))
    draft.set("Admitted", "False", "NoReservation", "The workload has no reservation")
    assert isinstance(step(draft.workload, context), Idle)


@pytest.mark.parametrize("reason", ["Suspended", "Misconfigured", "Deactivated"])
def test_once_the_blocker_is_gone_it_waits_for_evaluation(reason):
    w = make([condition("QuotaReserved", "False", reason)])
    assert outcome(w) == ("PendingEvaluation", "Workload is pending evaluation in the scheduling queue")


def test_a_workload_equal_to_a_refused_one_has_its_reason():
    w = make([condition("QuotaReserved", "False", "PendingEvaluation", "Exceeded the PodsReady timeout ns/w")])
    context = replace(CONTEXT, bypassed=PendingReason("WaitingForQuota", "full"))
    assert outcome(w, context) == (
        "WaitingForQuota",
        "Bypassed scheduling evaluation because an equivalent workload recently failed",
    )


def test_a_workload_that_is_passed_over_follows_the_reason_of_the_refusal():
    w = make([condition("QuotaReserved", "False", "WaitingForQuota", EQUIVALENT_MESSAGE)])
    assert isinstance(step(w, replace(CONTEXT, bypassed=PendingReason("WaitingForQuota", "full"))), Idle)
    assert outcome(w, replace(CONTEXT, bypassed=PendingReason("ExceedsMaxQuota", "small")))[0] == "ExceedsMaxQuota"


@pytest.mark.parametrize(
    ("reason", "becomes"), [("WaitingForQuota", "PendingEvaluation"), ("ExceedsMaxQuota", None)], ids=str
)
def test_an_overtaken_head_of_a_strictfifo_queue_waits_for_its_next_try(reason, becomes):
    w, context = make([condition("QuotaReserved", "False", reason, "full")]), replace(CONTEXT, behind_head=True)
    assert (outcome(w, context)[0] if becomes else isinstance(step(w, context), Idle)) == (becomes or True)


def test_the_numbers_of_an_earlier_refusal_do_not_stay_when_an_equal_one_is_refused():
    w = make([condition("QuotaReserved", "False", "WaitingForQuota", "1 more needed")])
    context = replace(CONTEXT, bypassed=PendingReason("WaitingForQuota", "2 more needed"))
    assert outcome(w, context) == ("WaitingForQuota", EQUIVALENT_MESSAGE)


def test_a_fresh_workload_equal_to_a_parked_one_gets_its_reason_after_a_period():
    parked = replace(CONTEXT, bypassed=PendingReason("WaitingForQuota", "full"))
    assert step(make(), parked, seconds=20) == Wait(at(30))
    assert isinstance(step(make(), CONTEXT, seconds=30), Idle)
    assert outcome(make(), parked, seconds=30)[0] == "WaitingForQuota"


def test_a_reason_that_can_wait_is_not_written_while_urgent_writes_wait():
    busy = replace(CONTEXT, bypassed=PendingReason("WaitingForQuota", "full"), urgent_writes_wait=True)
    assert step(make(), busy, seconds=40) == Wait(at(70))
    assert outcome(make(), replace(busy, urgent_writes_wait=False), seconds=70)[0] == "WaitingForQuota"


def test_an_error_of_the_scheduler_stays_while_it_holds():
    w = make([condition("QuotaReserved", "False", "Misconfigured", "resources validation failed: x")])
    assert isinstance(step(w, replace(CONTEXT, error="resources validation failed: x")), Idle)
    assert outcome(w)[0] == "PendingEvaluation"


def test_a_newer_condition_of_the_scheduler_stays():
    """A reactivated Workload may be refused before the life cycle writes that it is pending."""
    context = replace(CONTEXT, error="workload namespace doesn't match ClusterQueue selector")
    change = step(make([condition("QuotaReserved", "False", "Deactivated")]), context)
    assert isinstance(change, ApplyTransition)
    draft = Draft(make([condition("QuotaReserved", "False", "Misconfigured", context.error)]), at(20))
    change.apply(draft)
    reserved = draft.condition("QuotaReserved")
    assert (reserved.reason, reserved.message) == ("Misconfigured", context.error)


@pytest.mark.parametrize("reason", ["PodsReadyTimeout", "AdmissionCheck", "SomebodyElse"])
def test_any_eviction_ends_with_its_backoff(reason):
    """An eviction by another controller has no backoff, and must not keep the Workload out of the queue."""
    w = make([condition("QuotaReserved", "False", "PendingEvaluation"), condition("Requeued", "False", reason)])
    change = step(w)
    assert isinstance(change, ApplyTransition)
    draft = Draft(w, at(20))
    change.apply(draft)
    assert draft.is_true("Requeued")


def test_conditions_of_the_scheduler_are_left_alone():
    w = make([condition("QuotaReserved", "False", "ExceedsMaxQuota")])
    assert isinstance(step(w), Idle)


@pytest.mark.parametrize(
    ("conditions", "settings", "deadline"),
    [
        ([], WorkloadSettings(pods_ready=PodsReadySettings(timeout=60)), 70),
        (
            [condition("PodsReady", "False", "WaitForStart")],
            WorkloadSettings(pods_ready=PodsReadySettings(timeout=60)),
            70,
        ),
        (
            [condition("PodsReady", "False", "WaitForRecovery", seconds=15)],
            WorkloadSettings(pods_ready=PodsReadySettings(timeout=60, recovery_timeout=30)),
            45,
        ),
    ],
)
def test_the_pods_ready_deadline_is_a_wait_and_then_an_eviction(conditions, settings, deadline):
    w = make([*RUNNING, *conditions], status=ADMISSION)
    assert step(w, settings=settings) == Wait(at(deadline))
    change = step(w, settings=settings, seconds=deadline)
    assert isinstance(change, ApplyTransition)
    draft = Draft(w, at(deadline))
    change.apply(draft)
    assert draft.is_true("Evicted")


@pytest.mark.parametrize(
    ("conditions", "settings"),
    [
        ([condition("PodsReady", "True", "Started")], WorkloadSettings()),
        (
            [condition("PodsReady", "False", "WaitForRecovery")],
            WorkloadSettings(pods_ready=PodsReadySettings(recovery_timeout=0)),
        ),
        ([], WorkloadSettings(pods_ready=None)),
    ],
)
def test_ready_pods_or_a_disabled_timeout_set_no_deadline(conditions, settings):
    assert isinstance(step(make([*RUNNING, *conditions], status=ADMISSION), settings=settings, seconds=9999), Idle)


def test_pods_that_became_ready_meanwhile_are_not_evicted():
    w = make(RUNNING, status=ADMISSION)
    change = step(w, settings=WorkloadSettings(pods_ready=PodsReadySettings(timeout=5)))
    newer = make([*RUNNING, condition("PodsReady", "True", "Started")], status=ADMISSION)
    draft = Draft(newer, at(20))
    change.apply(draft)
    assert not draft.changed


def test_a_backoff_is_a_wait_and_then_one_write():
    w = make(
        [condition("Requeued", "False", "PodsReadyTimeout"), condition("Evicted", "True", "PodsReadyTimeout")],
        status={"requeueState": {"count": 3, "requeueAt": "2026-01-01T00:01:00Z"}},
    )
    assert step(w) == Wait(at(60))
    change = step(w, seconds=60)
    draft = Draft(w, at(60))
    change.apply(draft)
    assert draft.patch()["status"]["requeueState"] == {"count": 3, "requeueAt": None}
    assert draft.condition("Requeued").reason == "BackoffFinished"


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (replace(CONTEXT, cluster_queue_stop="HoldAndDrain", cluster_queue_active=False), "ClusterQueueStopped"),
        (replace(CONTEXT, local_queue_stop="HoldAndDrain"), "LocalQueueStopped"),
    ],
)
def test_a_drained_queue_evicts_what_runs(context, reason):
    w = make(RUNNING, status=ADMISSION)
    change = step(w, context)
    draft = Draft(w, at(20))
    change.apply(draft)
    assert draft.condition("Evicted").reason == reason


def test_a_held_queue_lets_running_workloads_finish():
    w = make([*RUNNING, condition("PodsReady", "True", "Started")], status=ADMISSION)
    assert isinstance(step(w, replace(CONTEXT, cluster_queue_stop="Hold", cluster_queue_active=False)), Idle)


def test_an_evicted_workload_waits_for_its_job_to_stop():
    w = make([*RUNNING, condition("Evicted", "True", "PodsReadyTimeout")], status=ADMISSION)
    assert isinstance(step(w, seconds=99999), Idle)


def test_an_announced_deactivation_is_carried_out():
    announced = step(make([*RUNNING, condition("DeactivationTarget", "True")], status=ADMISSION))
    assert announced == Deactivate(at(0).isoformat())


def test_a_reactivation_before_the_clean_up_is_not_undone():
    """One deactivation per announcement: the annotation was written with it. The budget is a new one."""
    status = {**ADMISSION, "requeueState": {"count": 3}}
    target = condition("DeactivationTarget", "True")
    w = make([*RUNNING, target], status=status, meta={"annotations": {DEACTIVATED_FOR: at(0).isoformat()}})
    change = step(w)
    assert isinstance(change, ApplyTransition)
    draft = Draft(w, at(20))
    change.apply(draft)
    assert draft.condition("DeactivationTarget") is None
    assert draft.condition("Evicted").reason == "DeactivatedDueToR"
    assert draft.status.requeue_state is None
    later = condition("DeactivationTarget", "True", seconds=5)
    again = make([*RUNNING, later], status=status, meta={"annotations": {DEACTIVATED_FOR: at(0).isoformat()}})
    assert step(again) == Deactivate(at(5).isoformat())


def test_execution_time_counts_over_all_runs():
    w = make(
        [*RUNNING, condition("PodsReady", "True", "Started")],
        status={**ADMISSION, "accumulatedPastExecutionTimeSeconds": 40},
        spec={"maximumExecutionTimeSeconds": 100},
    )
    assert step(w) == Wait(at(70))
    assert isinstance(step(w, seconds=70), ApplyTransition)


FINISHED = [condition("Finished", "True", "Succeeded", seconds=10)]
KUEUE = "kueue.x-k8s.io/resource-in-use"


def test_a_finished_workload_loses_its_finalizer_and_later_is_deleted():
    assert step(make(FINISHED, meta={"finalizers": [KUEUE]})) == RemoveFinalizer()
    kept = WorkloadSettings(retain_finished=60)
    assert step(make(FINISHED), settings=kept) == Wait(at(70))
    assert step(make(FINISHED), settings=kept, seconds=70) == DeleteExpired(
        False, "Deleted finished workload due to elapsed retention"
    )
    assert isinstance(step(make(FINISHED), seconds=10**6), Idle)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            "DeactivatedDueToRequeuingLimitExceeded",
            DeleteExpired(True, "Deleted job: deactivation retention period expired"),
        ),
        ("Deactivated", Idle()),
    ],
)
def test_retention_of_deactivated_jobs_spares_those_a_user_deactivated(reason, expected):
    conditions = [
        condition("Evicted", "True", reason, seconds=10),
        condition("QuotaReserved", "False", "Deactivated", "The workload is deactivated"),
        condition("Admitted", "False", "NoReservation", "The workload has no reservation"),
    ]
    since = {"requeueHistory": {"inactiveSince": "2026-01-01T00:00:10Z"}}
    w = make(conditions, status=since, spec={"active": False})
    assert step(w, settings=WorkloadSettings(retain_deactivated=60), seconds=100) == expected


def test_an_orphan_is_finished_unless_it_is_being_deleted():
    gone = replace(CONTEXT, owner_gone=True)
    assert isinstance(step(make(), gone), ApplyTransition)
    deleting = {"deletionTimestamp": "2026-01-01T00:00:01Z", "finalizers": [KUEUE]}
    assert step(make(meta=deleting), gone) == RemoveFinalizer()


DELETING = {"deletionTimestamp": "2026-01-01T00:00:01Z"}
POD_OWNER = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]


@pytest.mark.parametrize(
    ("w", "context", "expected"),
    [
        (make(meta={**DELETING, "finalizers": [KUEUE]}), CONTEXT, Idle()),  # the Job is stopped first
        (make(meta={**DELETING, "finalizers": [KUEUE], "ownerReferences": []}), CONTEXT, RemoveFinalizer()),
        (make(meta={**DELETING, "finalizers": ["theirs"], "ownerReferences": []}), CONTEXT, Idle()),
        (make(meta={**DELETING, "finalizers": [KUEUE], "ownerReferences": POD_OWNER}), CONTEXT, RemoveFinalizer()),
        (make(FINISHED, meta={**DELETING, "finalizers": [KUEUE]}), CONTEXT, RemoveFinalizer()),
        (make(FINISHED, meta={**DELETING, "finalizers": ["theirs"]}), CONTEXT, Idle()),
        (make(FINISHED), replace(CONTEXT, owner_gone=True), Wait(at(70))),
    ],
)
def test_finalizers_of_deleted_workloads(w, context, expected):
    assert step(w, context, WorkloadSettings(retain_finished=60)) == expected


RESERVED = [condition("QuotaReserved", "True"), condition("Admitted", "False", "UnsatisfiedAdmissionChecks")]


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (replace(CONTEXT, local_queue_exists=False), ("Misconfigured", "LocalQueue lq is terminating or missing")),
        (replace(CONTEXT, local_queue_stop="Hold"), ("Suspended", "LocalQueue lq is stopped")),
        (replace(CONTEXT, cluster_queue_exists=False), ("Misconfigured", "ClusterQueue cq is terminating or missing")),
        (
            replace(CONTEXT, cluster_queue_terminating=True),
            ("Misconfigured", "ClusterQueue cq is terminating or missing"),
        ),
        (replace(CONTEXT, cluster_queue_stop="Hold"), ("Suspended", "ClusterQueue cq is stopped")),
        (replace(CONTEXT, cluster_queue_stop="HoldAndDrain"), ("Suspended", "ClusterQueue cq is stopped")),
    ],
)
def test_a_deleted_or_stopped_queue_releases_reservations(context, said):
    waiting = {"name": "a", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:01Z"}
    w = make(RESERVED, status={**ADMISSION, "admissionChecks": [waiting]})
    context = replace(context, checks=("a",))
    assert outcome(w, context) == said
    draft = Draft(w, at(20))
    step(w, context).apply(draft)
    assert draft.status.admission is None
    assert not draft.events
    admitted = Draft(make(RUNNING, status=ADMISSION), at(20))
    step(w, context).apply(admitted)  # the checks have passed: only a drain evicts it
    assert not admitted.changed


def test_an_active_queue_releases_no_reservation():
    waiting = {"name": "a", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:01Z"}
    unsatisfied = condition("Admitted", "False", UNSATISFIED_CHECKS, UNSATISFIED_CHECKS_MESSAGE)
    w = make([RESERVED[0], unsatisfied], status={**ADMISSION, "admissionChecks": [waiting]})
    assert step(w, replace(CONTEXT, checks=("a",))) == Idle()


def test_an_evicted_workload_without_a_job_gives_its_quota_back_at_once():
    conditions = [*RUNNING, condition("Evicted", "True", "Preempted", "by another")]
    w = make(conditions, status=ADMISSION, meta={"ownerReferences": []})
    draft = Draft(w, at(20))
    step(w).apply(draft)
    assert not draft.is_true("QuotaReserved")
    assert draft.condition("PodsReady") is None  # there were none


@pytest.mark.parametrize(
    ("active", "reason", "said"),
    [
        (True, "Preempted", ("PendingEvaluation", "by another")),
        (False, "Deactivated", ("Deactivated", "The workload is deactivated")),
    ],
)
def test_released_quota_has_the_reason_of_the_next_wait(active, reason, said):
    conditions = [*RUNNING, condition("Evicted", "True", reason, "by another")]
    w = make(conditions, status=ADMISSION, meta={"ownerReferences": []}, spec={"active": active})
    assert outcome(w) == said


def test_an_exceeded_execution_time_deactivates_once():
    spec = {"maximumExecutionTimeSeconds": 100}
    w = make([*RUNNING, condition("PodsReady", "True", "Started")], status=ADMISSION, spec=spec)
    change = step(w, seconds=110)
    for newer in (
        make([*RUNNING, condition("Evicted", "True")], status=ADMISSION, spec=spec),
        make([RUNNING[0], condition("Admitted", "True", "Admitted", seconds=90)], status=ADMISSION, spec=spec),
        make([condition("QuotaReserved", "False")], spec=spec),
        make(RUNNING, status=ADMISSION),
    ):
        draft = Draft(newer, at(110))
        change.apply(draft)
        assert not draft.changed
    draft = Draft(w, at(110))
    change.apply(draft)
    assert draft.condition("DeactivationTarget").reason == "MaximumExecutionTimeExceeded"


def test_a_gate_is_the_reason_until_it_is_removed_and_ignored_with_quota():
    gated = {"annotations": {ADMISSION_GATED_BY: "example.com/a"}}
    w = make(meta=gated)
    draft = Draft(w, at(20))
    step(w).apply(draft)
    assert draft.condition("QuotaReserved").message == "Admission is gated by: example.com/a"
    assert [event.message for event in draft.events] == ["Workload admission is gated by: example.com/a"]
    assert step(draft.workload) == Idle()
    opened = make([condition("QuotaReserved", "False", "AdmissionGated"), condition("Admitted", "False")])
    assert outcome(opened)[0] == "PendingEvaluation"
    running = make([*RUNNING, condition("PodsReady", "True", "Started")], status=ADMISSION, meta=gated)
    assert step(running) == Idle()
    for change in (step(w), step(opened)):
        newer = Draft(running, at(20))
        change.apply(newer)
        assert not newer.changed


def test_steps_come_to_an_end():
    """Each change leads to a state with another step or none."""
    states = [
        make(),
        make([condition("QuotaReserved", "False", "Suspended")]),
        make(RUNNING, status=ADMISSION),
        make(spec={"active": False}),
        make([*RUNNING, condition("Evicted", "True", "Deactivated")], status=ADMISSION, spec={"active": False}),
    ]
    views = [CONTEXT, replace(CONTEXT, local_queue_exists=False), replace(CONTEXT, cluster_queue_stop="HoldAndDrain")]
    for w in states:
        for context in views:
            for _ in range(5):
                found = step(w, context, seconds=10**6)
                if not isinstance(found, ApplyTransition):
                    break
                draft = Draft(w, at(10**6))
                found.apply(draft)
                assert draft.changed, (w, context)
                w = draft.workload
            else:
                raise AssertionError("it never comes to rest")


def test_the_largest_time_has_deadlines():
    """A user may write it. An error would concern all Workloads; it counts as now."""
    last = {"lastTransitionTime": "9999-12-31T23:59:59Z"}
    admitted = [RUNNING[0], condition("Admitted", "True", "Admitted") | last]
    spec = {"maximumExecutionTimeSeconds": 2**31 - 1}
    draft = Draft(make(admitted, status=ADMISSION, spec=spec), at(0))
    change = step(draft.original, seconds=0)
    assert isinstance(change, ApplyTransition)
    change.apply(draft)
    assert draft.workload.condition("Admitted").last_transition_time == at(0)
    assert isinstance(step(draft.workload, seconds=0), Wait)
    finished = make([condition("Finished", "True", "Succeeded") | last], meta={"ownerReferences": []})
    change = step(finished, settings=replace(SETTINGS, retain_finished=60.0))
    assert isinstance(change, ApplyTransition)
    draft = Draft(finished, at(0))
    change.apply(draft)
    assert step(draft.workload, seconds=0, settings=replace(SETTINGS, retain_finished=60.0)) == Wait(at(60))
