"""Times of a Workload that lie in the future, because the clock was set back."""

import pytest

from queue_manager.lifecycle import clock_set_back, rules
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.steps import ApplyTransition, DeleteExpired, Idle, Wait, WorkloadContext
from queue_manager.lifecycle.workload_settings import (
    PodsReadySettings,
    WorkloadSettings,
    reconfigured,
    without_future_times,
)
from tests.unit.queueing.builders import at, condition, wire, workload

DAY = 86400


def evicted(reason="PodsReadyTimeout", *, wait=60, since=None):
    """Evicted on the next day, with `wait` seconds of backoff."""
    return workload(
        conditions=[
            condition("Evicted", "True", reason, seconds=DAY),
            condition("Requeued", "False", reason, seconds=DAY),
            condition("QuotaReserved", "False", "PendingEvaluation", seconds=DAY),
        ],
        status={
            "requeueState": {"count": 1, "requeueAt": wire(DAY + wait)},
            **({"requeueHistory": {"since": wire(since)}} if since is not None else {}),
        },
    )


def corrected(w, now=0.4):
    draft = Draft(w, at(now))
    clock_set_back.correct(draft)
    return draft.workload


@pytest.mark.parametrize("reason", ["PodsReadyTimeout", "AdmissionCheck"])
def test_a_backoff_in_the_future_keeps_its_length_and_starts_now(reason):
    after = corrected(evicted(reason))
    assert after.condition("Evicted").last_transition_time == at(0)
    assert (after.status.requeue_state.count, after.status.requeue_state.requeue_at) == (1, at(60))
    assert corrected(after, 1) == after


def test_times_are_corrected_before_the_wait_for_the_retry():
    step = rules.next_step(evicted(), WorkloadContext(), WorkloadSettings(), at(0))
    assert isinstance(step, ApplyTransition)
    draft = Draft(evicted(), at(0))
    step.apply(draft)
    assert rules.next_step(draft.workload, WorkloadContext(), WorkloadSettings(), at(0)) == Wait(at(60))


def test_give_up_after_counts_from_now_at_the_latest():
    assert corrected(evicted(since=DAY - 300)).status.requeue_history.since == at(0)
    assert corrected(evicted(since=-300)).status.requeue_history.since == at(-300)


def test_the_pods_ready_timeout_counts_from_now_at_the_latest():
    w = workload(conditions=[condition("QuotaReserved", "True"), condition("Admitted", "True", seconds=DAY)])
    assert rules.next_step(corrected(w), WorkloadContext(), WorkloadSettings(), at(0)) == Wait(at(1800))


def test_the_time_of_a_deactivation_target_is_not_corrected():
    w = workload(conditions=[condition("DeactivationTarget", "True", seconds=DAY)])
    assert not clock_set_back.is_ahead(w, at(0))
    assert corrected(w).condition("DeactivationTarget").last_transition_time == at(DAY)


@pytest.mark.parametrize(("ahead", "wrong"), [(0, False), (5, False), (6, True)])
def test_small_clock_differences_are_not_corrected(ahead, wrong):
    w = workload(conditions=[condition("Admitted", "True", seconds=ahead)])
    assert clock_set_back.is_ahead(w, at(0)) is wrong
    assert (corrected(w) == w) is not wrong


def test_the_smallest_and_largest_times_are_handled():
    last = workload(
        conditions=[{**condition("Evicted", "True"), "lastTransitionTime": "9999-12-31T23:59:59Z"}],
        status={"requeueState": {"requeueAt": "0001-01-01T00:00:00Z"}},
    )
    assert corrected(last).status.requeue_state.requeue_at == at(0)


FINISHED = workload(conditions=[condition("Finished", "True", seconds=DAY)])


def test_a_finished_workload_is_kept_no_longer_than_its_retention():
    kept = WorkloadSettings(retain_finished=60)
    step = rules.next_step(FINISHED, WorkloadContext(), kept, at(0))
    assert isinstance(step, ApplyTransition)
    draft = Draft(FINISHED, at(0))
    step.apply(draft)
    assert rules.next_step(draft.workload, WorkloadContext(), kept, at(0)) == Wait(at(60))
    assert isinstance(rules.next_step(draft.workload, WorkloadContext(), kept, at(60)), DeleteExpired)


def test_a_finished_workload_keeps_its_times_while_nothing_counts_from_them():
    assert rules.next_step(FINISHED, WorkloadContext(), WorkloadSettings(), at(0)) == Idle()


def test_a_deadline_counts_from_a_reload_no_later_than_now():
    """waitForPodsReady was switched on a day ahead of the clock, while the Workload was running."""
    w = workload(conditions=[condition("QuotaReserved", "True"), condition("Admitted", "True", seconds=-DAY)])
    ahead = reconfigured(
        WorkloadSettings(pods_ready=None), WorkloadSettings(pods_ready=PodsReadySettings(timeout=60)), at(DAY)
    )
    known = without_future_times(ahead, at(0))
    assert rules.next_step(w, WorkloadContext(), known, at(0)) == Wait(at(60))
    assert without_future_times(known, at(30)) is known
