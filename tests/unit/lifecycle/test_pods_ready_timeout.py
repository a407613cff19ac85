"""PodsReady timeouts: which deadline applies, what is written, and what is recorded."""

from dataclasses import replace

import msgspec
import pytest

from queue_manager.lifecycle import pods_ready_timeout, requeue_history, transitions
from queue_manager.lifecycle.pods_ready_timeout import Deadline
from queue_manager.lifecycle.rules import next_step
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.steps import ApplyTransition, Deactivate, Wait, WorkloadContext
from queue_manager.lifecycle.unscheduled import Unscheduled
from queue_manager.lifecycle.workload_settings import PodsReadyBounds, PodsReadySettings, WorkloadSettings
from tests.unit.queueing.builders import at, condition, wire, workload

RUNNING = [condition("QuotaReserved", "True"), condition("Admitted", "True", "Admitted", seconds=10)]
LOST = [*RUNNING, condition("PodsReady", "False", "WaitForRecovery", seconds=500)]
STUCK = Unscheduled(2, "0/3 nodes are available")
CONTEXT = WorkloadContext(cluster_queue="cq")


def settings(**values) -> WorkloadSettings:
    return WorkloadSettings(pods_ready=PodsReadySettings(**{"timeout": 300, "recovery_timeout": 60, **values}))


def history(since: float | None = None, ends: tuple[float, ...] = ()) -> dict:
    tried = [{"start": wire(end - 5), "end": wire(end), "reason": "PodsReadyTimeout"} for end in ends]
    return {"requeueHistory": {"attempts": tried, **({"since": wire(since)} if since is not None else {})}}


def timed_out(w, own: WorkloadSettings, seconds: float, unscheduled=None) -> Draft:
    draft = Draft(w, at(seconds))
    pods_ready_timeout.time_out(draft, own, 0.0, unscheduled)
    return draft


@pytest.mark.parametrize(
    ("conditions", "own", "unscheduled", "expected"),
    [
        (RUNNING, settings(), None, Deadline(at(310), "WaitForStart")),
        (RUNNING, settings(), STUCK, Deadline(at(310), "WaitForStart")),
        (RUNNING, settings(unschedulable_timeout=20), None, Deadline(at(310), "WaitForStart")),
        (RUNNING, settings(unschedulable_timeout=20), STUCK, Deadline(at(30), "WaitForStart")),
        (RUNNING, settings(unschedulable_timeout=900), STUCK, Deadline(at(910), "WaitForStart")),
        (LOST, settings(unschedulable_timeout=20), STUCK, Deadline(at(560), "WaitForRecovery")),
        (RUNNING, settings(give_up_after=100), None, Deadline(at(110), "WaitForStart", last=True)),
        (RUNNING, settings(give_up_after=1000), None, Deadline(at(310), "WaitForStart")),
        (LOST, settings(give_up_after=30), None, Deadline(at(530), "WaitForRecovery", last=True)),
        (LOST, settings(recovery_timeout=0, give_up_after=30), None, None),
    ],
)
def test_the_earlier_deadline_counts(conditions, own, unscheduled, expected):
    assert pods_ready_timeout.pods_deadline(workload(conditions=conditions), own, unscheduled) == expected


def test_time_without_ready_pods_counts_over_all_tries():
    w = workload(conditions=RUNNING, status=history(since=-600))
    assert pods_ready_timeout.pods_deadline(w, settings(give_up_after=700)) == Deadline(
        at(100), "WaitForStart", last=True
    )


FRACTIONS = {"timeout": 0.3, "recovery_timeout": 2.5, "unschedulable_timeout": 1.001, "give_up_after": 7.7}


@pytest.mark.parametrize(("conditions", "stuck"), [(RUNNING, None), (RUNNING, STUCK), (LOST, None)])
def test_a_fractional_timeout_that_has_passed_evicts(conditions, stuck):
    """Times on the wire are whole seconds: they must not delay the eviction by up to a second of repeated syncs."""
    w, context = workload(conditions=conditions), WorkloadContext(cluster_queue="cq", unscheduled=stuck)
    for own in (settings(**FRACTIONS), settings(**{**FRACTIONS, "give_up_after": 0.2})):
        wait = next_step(w, context, own, at(500.1 if conditions is LOST else 10.1))
        assert isinstance(wait, Wait)
        step = next_step(w, context, own, wait.until)
        assert isinstance(step, ApplyTransition)
        draft = Draft(w, wait.until)
        step.apply(draft)
        assert draft.changed


@pytest.mark.parametrize("after", [500, 610])
def test_a_workload_past_give_up_after_has_one_full_attempt(after):
    """It was admitted 610 s after its pods were first not ready."""
    w = workload(conditions=RUNNING, status=history(since=-600))
    own = settings(give_up_after=after)
    assert pods_ready_timeout.pods_deadline(w, own) == Deadline(at(310), "WaitForStart")
    draft = timed_out(w, own, 310)
    assert draft.is_true("DeactivationTarget")
    assert not draft.is_true("Evicted")


def test_give_up_after_deactivates_whatever_the_count():
    draft = timed_out(workload(conditions=RUNNING), settings(give_up_after=100, limit=50), 110)
    target = draft.condition("DeactivationTarget")
    assert (target.reason, target.message) == (
        "RequeuingLimitExceeded",
        "exceeding the maximum time of re-queuing retries",
    )


@pytest.mark.parametrize("retry", [1000, 600])
def test_give_up_after_also_ends_a_backoff(retry):
    """The deactivation names the limit, so that retention and the list of deactivated Jobs recognize it."""
    conditions = [
        condition("QuotaReserved", "False", "PendingEvaluation"),
        condition("Evicted", "True", "PodsReadyTimeout"),
        condition("Requeued", "False", "PodsReadyTimeout"),
    ]
    state = {"requeueState": {"count": 3, "requeueAt": wire(retry)}, **history(since=0)}
    w, own = workload(conditions=conditions, status=state), settings(give_up_after=600)
    assert next_step(w, CONTEXT, own, at(20)) == Wait(at(600))
    assert next_step(w, CONTEXT, settings(give_up_after=1200), at(20)) == Wait(at(retry))
    step = next_step(w, CONTEXT, own, at(600))
    assert isinstance(step, ApplyTransition)
    draft = Draft(w, at(600))
    step.apply(draft)
    assert isinstance(next_step(draft.workload, CONTEXT, own, at(600)), Deactivate)
    inactive = msgspec.structs.replace(draft.workload, spec=msgspec.structs.replace(draft.workload.spec, active=False))
    last = Draft(inactive, at(601))
    transitions.deactivate(last)
    assert last.condition("Evicted").reason == "DeactivatedDueToRequeuingLimitExceeded"
    assert last.condition("Evicted").last_transition_time == at(
        601
    )  # retention and the list of deactivated Jobs count from here
    assert last.condition("Requeued").reason == "DeactivatedDueToRequeuingLimitExceeded"
    assert last.status.requeue_state is None
    again = Draft(last.workload, at(602))
    transitions.deactivate(again)
    assert not again.changed


def test_an_unschedulable_attempt_has_its_own_cause():
    draft = timed_out(workload(conditions=RUNNING), settings(), 310, STUCK)
    evicted = draft.condition("Evicted")
    assert evicted.reason == "PodsReadyTimeout"
    assert evicted.message == (
        "Exceeded the PodsReady timeout ns/w; no node could take 2 of its pods: 0/3 nodes are available"
    )
    (row,) = draft.status.scheduling_stats.evictions
    assert (row.reason, row.underlying_cause) == ("PodsReadyTimeout", "Unschedulable")
    assert draft.status.requeue_history.attempts[0].cause == "Unschedulable"


@pytest.mark.parametrize(("own", "what"), [({"limit": 0}, "number"), ({"give_up_after": 60}, "time")])
def test_the_last_attempt_has_its_own_cause_too(own, what):
    """With a limit of 0 it is the only one."""
    target = timed_out(workload(conditions=RUNNING), settings(**own), 310, STUCK).condition("DeactivationTarget")
    assert target.message == (
        f"exceeding the maximum {what} of re-queuing retries; no node could take 2 of its pods: 0/3 nodes are available"
    )


def test_an_unschedulable_replacement_counts_as_recovery():
    draft = timed_out(workload(conditions=LOST), settings(), 560, STUCK)
    assert draft.status.scheduling_stats.evictions[0].underlying_cause == "WaitForRecovery"


def test_the_attempt_is_recorded_in_the_patch_of_the_eviction():
    draft = timed_out(workload(conditions=RUNNING), settings(base=60), 310)
    status = msgspec.json.decode(msgspec.json.encode(draft.patch()))["status"]
    assert status["requeueState"] == {"count": 1, "requeueAt": wire(370)}
    assert status["requeueHistory"] == {
        "since": wire(10),
        "attempts": [
            {
                "start": wire(10),
                "end": wire(310),
                "reason": "PodsReadyTimeout",
                "cause": "WaitForStart",
                "retryAt": wire(370),
            }
        ],
    }


def test_ten_attempts_are_kept():
    w = workload(conditions=RUNNING, status=history(since=0, ends=tuple(range(-100, 0, 10))))
    kept = timed_out(w, settings(), 310).status.requeue_history.attempts
    assert len(kept) == 10
    assert (kept[0].end, kept[-1].end) == (at(-90), at(310))


def test_a_ready_run_resets_give_up_after():
    w = workload(conditions=LOST, status=history(since=-600))
    assert timed_out(w, settings(), 560).status.requeue_history.since == at(500)


def test_a_preempted_ready_run_resets_give_up_after():
    ready = [*RUNNING, condition("PodsReady", "True", "Started", seconds=20)]
    draft = Draft(workload(conditions=ready, status=history(since=-600)), at(50))
    transitions.evict(draft, "Preempted", "by another")
    assert draft.status.requeue_history.since is None
    assert draft.patch()["status"]["requeueHistory"]["since"] is None


def test_an_eviction_keeps_the_cause_of_the_pods_in_one_write():
    draft = Draft(workload(conditions=RUNNING), at(310))
    pods_ready_timeout.time_out(draft, settings(), 0.0, None, "exit 3: boom")
    status = draft.patch()["status"]
    (attempt,) = status["requeueHistory"]["attempts"]
    (evicted,) = [c for c in status["conditions"] if c["type"] == "Evicted"]
    assert attempt["podCause"] == "exit 3: boom"
    assert evicted["message"] == f"Exceeded the PodsReady timeout {draft.original.metadata.key}; exit 3: boom"


def test_a_deactivation_keeps_the_cause_of_the_pods():
    announced = condition("DeactivationTarget", "True", "RequeuingLimitExceeded", seconds=20)
    w = workload(conditions=[*RUNNING, announced], spec={"active": False})
    step = next_step(w, replace(CONTEXT, pod_cause="OOMKilled"), settings(), at(40))
    draft = Draft(w, at(40))
    step.apply(draft)
    assert [a.pod_cause for a in draft.status.requeue_history.attempts] == ["OOMKilled"]


def test_a_deactivation_keeps_the_attempts_and_resets_give_up_after():
    w = workload(conditions=RUNNING, status=history(since=0, ends=(-5,)), spec={"active": False})
    draft = Draft(w, at(40))
    transitions.deactivate(draft)
    assert [a.reason for a in draft.status.requeue_history.attempts] == ["PodsReadyTimeout", "Deactivated"]
    assert draft.status.requeue_history.since is None


def test_a_workload_that_was_never_admitted_has_no_attempt():
    draft = Draft(workload(), at(5))
    requeue_history.record(draft, "Deactivated", "")
    assert not draft.changed


def test_overrides_apply_to_their_workload_only():
    notes = {"sluice/pods-ready-timeout": "20s", "sluice/requeuing-limit": "0"}
    w, own = workload(conditions=RUNNING, annotations=notes), settings(bounds=PodsReadyBounds())
    assert pods_ready_timeout.pods_deadline(w, own) == Deadline(at(30), "WaitForStart")
    assert timed_out(w, own, 30).is_true("DeactivationTarget")
    assert pods_ready_timeout.pods_deadline(w, settings()) == Deadline(at(310), "WaitForStart")


@pytest.mark.parametrize(("formula", "waits"), [("Kueue", [60, 120, 240]), ("KEP1282", [1, 1, 2])])
def test_the_backoff_formula_sets_requeue_at(formula, waits):
    for n, wait in enumerate(waits):
        w = workload(conditions=RUNNING, status={"requeueState": {"count": n}})
        assert timed_out(w, settings(formula=formula), 310).status.requeue_state.requeue_at == at(310 + wait)
