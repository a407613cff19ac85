"""The life cycle of a Workload: the next step, given the object and its surroundings.

All state is in the object: spec.active, conditions, status.admission, requeueState, finalizers. A Workload is in one
of these states, and each rule below handles one way out of one of them:

    waiting     no quota; pending, blocked by a queue or gate, or in backoff     -> admitted (by the scheduler)
    admitted    holds quota, its Job runs                                        -> evicted, finished
    evicted     holds quota until its Job has stopped (see `jobs`)               -> waiting or inactive
    inactive    spec.active is false, no quota                                   -> waiting (when a user reactivates it)
    finished    final; only retention is left

Rules are evaluated in order, and the first that returns a step decides: one step, one write, then the next evaluation.
Because each step is derived from the object alone, a crash between two writes loses nothing. Time enters only as
`now`; a step in the future is a `Wait` with the time of the next evaluation.

Source: Kueue's pkg/controller/core/workload_controller.go; BEHAVIOUR.md#q20-podsready-timeout to
BEHAVIOUR.md#q29-retention. LIFECYCLE.md is generated from the rules and their docstrings.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from job_controller.times import later
from queue_manager.api import condition_types, event_reasons, keys, messages, policy_values, reasons
from queue_manager.api.types import Condition, Workload, stops
from queue_manager.lifecycle import admission_checks, clock_set_back, pods_ready_timeout, transitions
from queue_manager.lifecycle.queue_entry import waits
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.lifecycle.steps import (
    ApplyTransition,
    Deactivate,
    DeleteExpired,
    Idle,
    RemoveFinalizer,
    Step,
    Wait,
    WorkloadContext,
)
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.scheduling.execution_time import execution_deadline

Rule = Callable[[Workload, WorkloadContext, WorkloadSettings, datetime], Step | None]


def next_step(workload: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime) -> Step:
    """The step of the first rule that applies, else Idle."""
    for rule in RULES:
        step = rule(workload, context, settings, now)
        if step is not None:
            return step
    return Idle()


# --- the end -----------------------------------------------------------------------------------------------


def workload_without_owner_is_finished(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Finish a Workload without a Job as OwnerNotFound; if it is being deleted, remove its finalizer."""
    if not context.owner_gone or w.is_true(condition_types.FINISHED):
        return None
    if w.metadata.deletion_timestamp is not None:
        return _remove_finalizer(w)
    finish = partial(transitions.finish, reason=reasons.OWNER_NOT_FOUND, message=messages.OWNER_NOT_FOUND_MESSAGE)
    return ApplyTransition(finish, Cause.FINISH)


def finished_workload_is_released_and_expires(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Remove the finalizer of a finished Workload immediately, and delete the Workload after the retention."""
    finished = w.condition(condition_types.FINISHED)
    if finished is None or not finished.is_true:
        return None
    if keys.FINALIZER in w.metadata.finalizers:
        return RemoveFinalizer()
    if w.metadata.deletion_timestamp is not None or settings.retain_finished is None:
        return Idle()
    ahead = times_in_the_future_are_corrected(w, context, settings, now)
    return ahead or _expire(finished.last_transition_time, settings.retain_finished, now, owner=False)


def deleted_workload_without_job_is_released(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Remove the finalizer of a deleted Workload that belongs to no Job. What an owner of another kind runs is not
    stopped.

    The finalizer of a Workload with a Job is removed by `jobs`, after the Job has stopped.
    """
    if w.metadata.deletion_timestamp is None:
        return None
    owner = w.metadata.controller
    has_job = owner.is_job if owner is not None else bool(w.job_uid)
    return Idle() if has_job else _remove_finalizer(w)


def _remove_finalizer(w: Workload) -> Step:
    return RemoveFinalizer() if keys.FINALIZER in w.metadata.finalizers else Idle()


def _expire(since: datetime | None, keep: float | None, now: datetime, *, owner: bool) -> Step:
    if keep is None or since is None:
        return Idle()
    end = later(since, keep)
    if now < end:
        return Wait(end)
    if owner:
        return DeleteExpired(True, "Deleted job: deactivation retention period expired")
    return DeleteExpired(False, "Deleted finished workload due to elapsed retention")


def times_in_the_future_are_corrected(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Correct times in the future, before the rules below count from them."""
    return ApplyTransition(clock_set_back.correct, Cause.CLOCK) if clock_set_back.is_ahead(w, now) else None


# --- spec.active -------------------------------------------------------------------------------------------


def announced_deactivation_is_written(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Set spec.active to false once DeactivationTarget is True, once per announcement. If a user has reactivated the
    Workload before the eviction was written, the eviction is still written, without setting spec.active again: its
    cause persists, and would be announced again immediately.
    """
    target = w.condition(condition_types.DEACTIVATION_TARGET)
    if not w.spec.active or target is None or not target.is_true:
        return None
    announced = target.last_transition_time.isoformat() if target.last_transition_time is not None else ""
    if announced and w.metadata.annotations.get(keys.DEACTIVATED_FOR) == announced:
        return ApplyTransition(_deactivate(context), Cause.DEACTIVATION)
    return Deactivate(announced)


def inactive_workload_is_evicted(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Evict an inactive Workload with quota. If a rule deactivated it, delete its Job after the retention."""
    if w.spec.active:
        return None
    draft = Draft(w, now)
    transitions.deactivate(draft)
    if draft.changed:
        return ApplyTransition(_deactivate(context), Cause.DEACTIVATION)
    release = _release_without_job(w)
    if release is not None:
        return release
    evicted = w.condition(condition_types.EVICTED)
    if evicted is None or w.is_true(condition_types.QUOTA_RESERVED):
        return Idle()
    if not evicted.reason.startswith(reasons.DEACTIVATED_DUE_TO):
        return Idle()  # retention exempts what a user deactivated
    return _expire(evicted.last_transition_time, settings.retain_deactivated, now, owner=True)


def _deactivate(context: WorkloadContext) -> Callable[[Draft], None]:
    return partial(transitions.deactivate, pod_cause=context.pod_cause)


# --- without quota -----------------------------------------------------------------------------------------


def gated_workload_is_not_enqueued(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Report a Workload whose annotation names admission gates, which is not enqueued."""
    gates = w.metadata.annotations.get(keys.ADMISSION_GATED_BY, "")
    reserved = w.condition(condition_types.QUOTA_RESERVED)
    if reserved is not None and reserved.is_true:
        return None
    if gates:
        return _change_or_idle(w, now, lambda d: _gate(d, gates))
    if reserved is not None and reserved.reason == reasons.ADMISSION_GATED:
        return ApplyTransition(_open_gate, Cause.REQUEUE)
    return None


def _gate(draft: Draft, gates: str) -> None:
    if draft.is_true(condition_types.QUOTA_RESERVED):
        return
    before = draft.condition(condition_types.QUOTA_RESERVED)
    transitions.block(draft, reasons.ADMISSION_GATED, f"Admission is gated by: {gates}")
    if before is None or before.reason != reasons.ADMISSION_GATED:
        draft.event("Normal", reasons.ADMISSION_GATED, f"Workload admission is gated by: {gates}")


def _open_gate(draft: Draft) -> None:
    if draft.is_true(condition_types.QUOTA_RESERVED):
        return
    transitions.block(draft, reasons.PENDING_EVALUATION, messages.GATE_CLEARED_MESSAGE)
    draft.event("Normal", event_reasons.ADMISSION_GATE_CLEARED, messages.ADMISSION_GATE_CLEARED_MESSAGE)


def workload_in_backoff_is_requeued(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Requeue an evicted Workload without quota once requeueAt has passed, or the cause of Requeued=False has ended."""
    if w.is_true(condition_types.QUOTA_RESERVED):
        return None
    state = w.status.requeue_state
    at = state.requeue_at if state is not None else None
    if at is not None:
        return _wait_for_retry(w, settings, at, now)
    requeued = w.condition(condition_types.REQUEUED)
    if requeued is None or requeued.is_true:
        return None
    if requeued.reason == reasons.LOCAL_QUEUE_STOPPED and context.local_queue_stop != policy_values.STOP_NONE:
        return None
    if requeued.reason == reasons.CLUSTER_QUEUE_STOPPED and context.cluster_queue_stop != policy_values.STOP_NONE:
        return None
    draft = Draft(w, now)
    transitions.requeue(draft)
    return ApplyTransition(transitions.requeue, Cause.REQUEUE) if draft.changed else None


def _wait_for_retry(w: Workload, settings: WorkloadSettings, at: datetime, now: datetime) -> Step:
    """Wait for requeueAt, or for giveUpAfter if that ends first."""
    end = pods_ready_timeout.ends_instead_of_retry(w, settings)
    if end is not None:
        return Wait(end) if now < end else ApplyTransition(pods_ready_timeout.give_up, Cause.DEACTIVATION)
    return Wait(at) if now < at else ApplyTransition(transitions.end_backoff, Cause.REQUEUE)


# Reasons that the scheduler writes, and replaces itself.
_BY_SCHEDULER = (
    reasons.NO_MATCHING_FLAVOR,
    reasons.WAITING_FOR_QUOTA,
    reasons.EXCEEDS_MAX_QUOTA,
    reasons.TOPOLOGY_PLACEMENT_FAILED,
    reasons.WAITING_FOR_PREEMPTED,
    reasons.WAITING_FOR_PODS_READY,
    reasons.PENDING_EVALUATION,
)


def pending_reason_is_kept_up_to_date(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Update the reason of QuotaReserved=False if it no longer holds."""
    reserved = w.condition(condition_types.QUOTA_RESERVED)
    if reserved is not None and reserved.is_true:
        return None
    if reserved is None and blocker(w, context) is None:
        return _explain_untried(w, context, settings, now)
    return _change_or_idle(w, now, lambda d: _update_reason(d, context))


def _explain_untried(w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime) -> Step | None:
    """Write the reason of a Workload that was not tried because an equal one was refused.

    The reason is written only once the Workload has been pending for a period, because most start before. While urgent
    writes wait, it is written later still: a backlog has thousands of such Workloads, whose reasons would delay
    the starts of others.
    """
    created = w.metadata.creation_timestamp
    if created is None or not waits(w):
        return None
    due = later(created, settings.pending_reason_period)
    if now < due:
        return Wait(due)
    refused = context.bypassed
    if refused is None:
        return None
    if context.urgent_writes_wait and settings.pending_reason_period > 0:
        return Wait(later(now, settings.pending_reason_period))
    return ApplyTransition(lambda d: _pass_over(d, refused), Cause.REASON)


def _pass_over(draft: Draft, refused: PendingReason) -> None:
    if draft.condition(condition_types.QUOTA_RESERVED) is None:
        transitions.block(draft, refused.reason, messages.EQUIVALENT_MESSAGE)


def _update_reason(draft: Draft, context: WorkloadContext) -> None:
    """Write the reason of QuotaReserved=False for the newest state, in which the scheduler may have changed it."""
    reserved = draft.condition(condition_types.QUOTA_RESERVED)
    if reserved is not None and reserved.is_true:
        return
    why = blocker(draft.workload, context)
    if why is None and reserved is not None:
        why = _reason_after_blocker(reserved, context)
    if why is not None:
        transitions.block(draft, why.reason, why.message)
    elif reserved is not None and draft.is_true(condition_types.ADMITTED):
        # Another writer has removed the reservation: without quota, Admitted is False.
        transitions.block(draft, reserved.reason, reserved.message)


def blocker(w: Workload, context: WorkloadContext) -> PendingReason | None:
    """Why the LocalQueue or ClusterQueue of the Workload keeps it from being tried; None if neither does."""
    queue = w.spec.queue_name
    if not context.local_queue_exists:
        return PendingReason(reasons.MISCONFIGURED, messages.does_not_exist("LocalQueue", queue))
    if stops(context.local_queue_stop):
        return PendingReason(reasons.SUSPENDED, messages.is_inactive("LocalQueue", queue))
    if not context.cluster_queue_exists:
        return PendingReason(reasons.MISCONFIGURED, messages.does_not_exist("ClusterQueue", context.cluster_queue))
    if not context.cluster_queue_active:
        return PendingReason(reasons.SUSPENDED, messages.is_inactive("ClusterQueue", context.cluster_queue))
    return None


def _reason_after_blocker(reserved: Condition, context: WorkloadContext) -> PendingReason | None:
    """The reason that replaces one that no longer holds, until the scheduler gives another; None: it still holds."""
    evaluated_later = PendingReason(reasons.PENDING_EVALUATION, messages.PENDING_EVALUATION_MESSAGE)
    if reserved.reason == reasons.WAITING_FOR_QUOTA and context.behind_head:
        return evaluated_later  # however much quota is free
    if reserved.reason in _BY_SCHEDULER and (context.bypassed is None or _follows(reserved, context.bypassed)):
        return None
    if reserved.reason == reasons.MISCONFIGURED and context.error:
        return None  # written by the scheduler, and still true
    if context.bypassed is not None:
        return PendingReason(context.bypassed.reason, messages.EQUIVALENT_MESSAGE)
    return evaluated_later


def _follows(reserved: Condition, refused: PendingReason) -> bool:
    """Whether the condition has the reason of an equal Workload, and no numbers of its own, which could be outdated."""
    return (reserved.reason, reserved.message) == (refused.reason, messages.EQUIVALENT_MESSAGE)


def _change_or_idle(w: Workload, now: datetime, apply: Callable[[Draft], None]) -> Step:
    draft = Draft(w, now)
    apply(draft)
    return ApplyTransition(apply, Cause.REASON) if draft.changed else Idle()


# --- holding quota -----------------------------------------------------------------------------------------


def _release_without_job(w: Workload) -> Step | None:
    """Release the quota of an evicted Workload without a Job immediately: there is nothing to stop."""
    if not w.job_uid and w.is_true(condition_types.EVICTED) and w.is_true(condition_types.QUOTA_RESERVED):
        return ApplyTransition(lambda d: transitions.unreserve(d, waits_for_pods=False), Cause.RELEASE)
    return None


def evicted_workload_keeps_quota_until_job_stops(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Wait until `jobs` has stopped the Job of an evicted Workload. Without a Job, release the quota at once."""
    if not w.is_true(condition_types.EVICTED) or not w.is_true(condition_types.QUOTA_RESERVED):
        return None
    return _release_without_job(w) or Idle()


def admission_checks_take_effect(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Update the list of admission checks, and carry out what their states require (see `admission_checks`)."""
    if w.is_true(condition_types.EVICTED) and w.is_true(condition_types.QUOTA_RESERVED):
        return None

    def check(draft: Draft) -> None:
        if not draft.is_true(condition_types.FINISHED):
            admission_checks.synchronise(draft, context.checks)
            admission_checks.act(draft, context.pod_error)

    draft = Draft(w, now)
    check(draft)
    return ApplyTransition(check, Cause.ADMISSION_CHECK) if draft.changed else None


def reservation_of_stopped_queue_is_released(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Release a reservation without admission if one of its queues is stopped, terminating or missing."""
    if (
        not w.is_true(condition_types.QUOTA_RESERVED)
        or w.is_true(condition_types.ADMITTED)
        or w.is_true(condition_types.EVICTED)
    ):
        return None
    why = _why_released(w, context)
    return ApplyTransition(lambda d: transitions.release(d, *why), Cause.RELEASE) if why is not None else None


def _why_released(w: Workload, context: WorkloadContext) -> tuple[str, str] | None:
    local, cluster = f"LocalQueue {w.spec.queue_name}", f"ClusterQueue {context.cluster_queue}"
    if not context.local_queue_exists:
        return reasons.MISCONFIGURED, f"{local} is terminating or missing"
    if stops(context.local_queue_stop):
        return reasons.SUSPENDED, f"{local} is stopped"
    if not context.cluster_queue_exists or context.cluster_queue_terminating:
        return reasons.MISCONFIGURED, f"{cluster} is terminating or missing"
    if stops(context.cluster_queue_stop):
        return reasons.SUSPENDED, f"{cluster} is stopped"
    return None


def workload_of_draining_queue_is_evicted(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Evict an admitted Workload if one of its queues has the stopPolicy HoldAndDrain."""
    if not w.is_true(condition_types.ADMITTED) or context.draining is None:
        return None
    reason, message = context.draining
    return ApplyTransition(lambda d: _evict_once(d, reason, message, context.pod_error), Cause.EVICTION)


def _evict_once(draft: Draft, reason: str, message: str, pod_error: str) -> None:
    if draft.is_true(condition_types.QUOTA_RESERVED) and not draft.is_true(condition_types.EVICTED):
        transitions.evict(draft, reason, message, pod_cause=pod_error)


def workload_past_deadline_is_evicted(
    w: Workload, context: WorkloadContext, settings: WorkloadSettings, now: datetime
) -> Step | None:
    """Evict or deactivate an admitted Workload at its deadline for ready pods, or at the end of its execution time."""
    if not w.is_true(condition_types.ADMITTED) or w.is_true(condition_types.EVICTED):
        return None
    ready = pods_ready_timeout.pods_deadline(w, settings, context.unscheduled)
    execution = execution_deadline(w)
    if ready is not None and ready.at <= now:
        time_out = partial(
            pods_ready_timeout.time_out,
            settings=settings,
            jitter=context.jitter,
            unscheduled=context.unscheduled,
            pod_cause=context.pod_cause,
        )
        return ApplyTransition(time_out, Cause.EVICTION)
    if execution is not None and execution <= now:
        return ApplyTransition(_exceed_execution_time, Cause.DEACTIVATION)
    deadlines = [ready.at] if ready is not None else []
    deadlines += [execution] if execution is not None else []
    return Wait(min(deadlines)) if deadlines else None


def _exceed_execution_time(draft: Draft) -> None:
    deadline, limit = execution_deadline(draft.workload), draft.original.spec.maximum_execution_time_seconds
    if deadline is None or limit is None or deadline > draft.now or draft.is_true(condition_types.EVICTED):
        return
    transitions.exceed_execution_time(draft, limit)


RULES: tuple[Rule, ...] = (
    workload_without_owner_is_finished,
    finished_workload_is_released_and_expires,
    deleted_workload_without_job_is_released,
    times_in_the_future_are_corrected,
    announced_deactivation_is_written,
    inactive_workload_is_evicted,
    gated_workload_is_not_enqueued,
    workload_in_backoff_is_requeued,
    reservation_of_stopped_queue_is_released,
    admission_checks_take_effect,
    pending_reason_is_kept_up_to_date,
    evicted_workload_keeps_quota_until_job_stops,
    workload_of_draining_queue_is_evicted,
    workload_past_deadline_is_evicted,
)
