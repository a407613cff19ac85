"""What each event in the life of a Workload writes: one function per transition, every string in its place.

The only code that sets conditions of Workloads. Texts and their combinations: spec kueue.md 4.2 to 4.7. A
transition that finds its work already done changes nothing, and then nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from job_controller.pod_facts import INT32_MAX
from queue_manager.api import condition_types, event_reasons, messages, reasons
from queue_manager.api.types import (
    Admission,
    AdmissionCheckState,
    EvictionCount,
    PodSetAssignment,
    PodSetRequest,
    RequeueState,
    SchedulingStats,
)
from queue_manager.lifecycle import requeue_history
from queue_manager.lifecycle.status_draft import Draft
from queue_manager.scheduling.amounts import Amounts, text
from queue_manager.scheduling.flavor_assignment import Assignment

Transition = Callable[[Draft], None]

STOPPED_QUEUES = {
    reasons.CLUSTER_QUEUE_STOPPED: (reasons.CLUSTER_QUEUE_RESTARTED, messages.CLUSTER_QUEUE_RESTARTED_MESSAGE),
    reasons.LOCAL_QUEUE_STOPPED: (reasons.LOCAL_QUEUE_RESTARTED, messages.LOCAL_QUEUE_RESTARTED_MESSAGE),
}

# --- waiting -----------------------------------------------------------------------------------------------


def refuse(draft: Draft, reason: str, message: str, requests: Mapping[str, Amounts]) -> None:
    """The scheduler could not admit it. One Event per changed reason. `requests`: of all its pods, by pod set."""
    if draft.set(condition_types.QUOTA_RESERVED, "False", reason, message):
        draft.event("Warning", reason, message)
    draft.set(condition_types.ADMITTED, "False", reasons.NO_RESERVATION, messages.NO_RESERVATION_MESSAGE)
    rows = (PodSetRequest(name=name, resources=quantities(amounts)) for name, amounts in requests.items())
    draft.put(resource_requests=tuple(rows))


def block(draft: Draft, reason: str, message: str) -> None:
    """It cannot even be tried: its queue, its spec or a gate is in the way."""
    draft.set(condition_types.QUOTA_RESERVED, "False", reason, message)
    draft.set(condition_types.ADMITTED, "False", reasons.NO_RESERVATION, messages.NO_RESERVATION_MESSAGE)


def quantities(amounts: Amounts) -> dict[str, str | int]:
    return {resource: text(resource, value) for resource, value in amounts.items()}


# --- getting quota -----------------------------------------------------------------------------------------


def reserve(draft: Draft, cluster_queue: str, assignment: Assignment) -> None:
    """Reserve quota, and end the backoff, which is over. `checks` decides, in the same write, if it is admitted too."""
    end_backoff(draft)
    waited = whole_seconds(draft.now - _waiting_since(draft))
    message = messages.quota_reserved(cluster_queue)
    draft.set(condition_types.QUOTA_RESERVED, "True", reasons.QUOTA_RESERVED, message)
    draft.event(
        "Normal",
        event_reasons.QUOTA_RESERVED,
        f"{message}, wait time since queued was {waited}s{assignment.considered}",
    )
    for old in (condition_types.EVICTED, condition_types.PREEMPTED, condition_types.BLOCKED_ON_PREEMPTION_GATES):
        past = draft.condition(old)
        if past is not None and past.is_true:
            draft.set(old, "False", reasons.QUOTA_RESERVED, messages.previously(past.message))
    _restart_queue(draft)
    draft.put(admission=_admission(cluster_queue, assignment), resource_requests=())


def _admission(cluster_queue: str, assignment: Assignment) -> Admission:
    return Admission(
        cluster_queue=cluster_queue,
        pod_set_assignments=tuple(
            PodSetAssignment(
                name=p.name,
                flavors=p.flavors,
                resource_usage=quantities({r: v for r, v in p.requests.items() if r in p.flavors}),
                count=p.count,
            )
            for p in assignment.pod_sets
        ),
    )


def _waiting_since(draft: Draft) -> datetime:
    requeued = draft.condition(condition_types.REQUEUED)
    if requeued is not None and requeued.is_true and requeued.last_transition_time is not None:
        return requeued.last_transition_time
    return draft.original.metadata.creation_timestamp or draft.now


def whole_seconds(span: timedelta) -> int:
    return max(0, round(span.total_seconds()))


# --- pods --------------------------------------------------------------------------------------------------


def pods_ready(draft: Draft, ready: bool) -> None:
    """The state of the pods as the Job tells it (spec 4.4)."""
    old = draft.condition(condition_types.PODS_READY)
    if not draft.is_true(condition_types.ADMITTED):
        draft.set(condition_types.PODS_READY, "False", reasons.WAIT_FOR_START, messages.WAIT_FOR_START_MESSAGE)
    elif ready:
        again = old is not None and old.reason in (reasons.WAIT_FOR_RECOVERY, reasons.RECOVERED)
        draft.set(
            condition_types.PODS_READY,
            "True",
            reasons.RECOVERED if again else reasons.STARTED,
            messages.PODS_READY_MESSAGE,
        )
    elif old is not None and (old.is_true or old.reason == reasons.WAIT_FOR_RECOVERY):
        draft.set(condition_types.PODS_READY, "False", reasons.WAIT_FOR_RECOVERY, messages.WAIT_FOR_RECOVERY_MESSAGE)
    else:
        draft.set(condition_types.PODS_READY, "False", reasons.WAIT_FOR_START, messages.WAIT_FOR_START_MESSAGE)


# --- losing quota ------------------------------------------------------------------------------------------


def evict(
    draft: Draft,
    reason: str,
    message: str,
    *,
    kind: str = "",
    cause: str = "",
    quiet: bool = False,
    retry_at: datetime | None = None,
) -> None:
    """The Job must stop; quota is kept until it has. `kind` and `cause` count in schedulingStats."""
    requeue_history.record(draft, reason, cause, retry_at)
    draft.set(condition_types.EVICTED, "True", reason, message)
    _count_eviction(draft, kind or reason, cause)
    draft.put(admission_checks=tuple(_reset(check, draft.now) for check in draft.status.admission_checks))
    if not quiet:
        draft.event("Normal", f"{reasons.EVICTED_DUE_TO}{reason}", message)


def _count_eviction(draft: Draft, reason: str, cause: str) -> None:
    stats = draft.status.scheduling_stats or SchedulingStats()
    rows = {(e.reason or "", e.underlying_cause or ""): e.count or 0 for e in stats.evictions}
    rows[reason, cause] = rows.get((reason, cause), 0) + 1
    counts = (EvictionCount(reason=r, underlying_cause=c, count=n) for (r, c), n in rows.items())
    draft.put(scheduling_stats=SchedulingStats(evictions=tuple(counts)))


def _reset(check: AdmissionCheckState, now: datetime) -> AdmissionCheckState:
    if check.state == "Pending":
        return check
    return AdmissionCheckState(
        name=check.name,
        state="Pending",
        last_transition_time=now,
        message=f"Reset to Pending after eviction. Previously: {check.state}",
        retry_count=(check.retry_count or 0) + 1 if check.state == "Retry" else check.retry_count,
    )


def exceed_execution_time(draft: Draft, limit: int) -> None:
    """It has run for its maximum, of `limit` seconds: deactivation follows, and a later run has all the time again."""
    target_deactivation(draft, reasons.MAX_EXEC_TIME_EXCEEDED, messages.MAX_EXEC_TIME_MESSAGE)
    draft.put(accumulated_past_execution_time_seconds=None)
    draft.event("Warning", reasons.MAX_EXEC_TIME_EXCEEDED, messages.max_exec_time_exceeded(limit))


def target_deactivation(draft: Draft, reason: str, message: str) -> None:
    """Announce that spec.active is about to become false, and why."""
    draft.set(condition_types.DEACTIVATION_TARGET, "True", reason, message)


def deactivate(draft: Draft) -> None:
    """spec.active is false, or was: evict for the announced cause, forget the backoff (spec 4.6)."""
    target = draft.condition(condition_types.DEACTIVATION_TARGET)
    cause = target.reason if target is not None and target.is_true else ""
    backs_off = cause == reasons.REQUEUING_LIMIT_EXCEEDED and not draft.is_true(condition_types.QUOTA_RESERVED)
    if not draft.is_true(condition_types.EVICTED) or backs_off:
        if backs_off:
            draft.drop(condition_types.EVICTED)  # deactivated now, not when the try before the backoff ended
        evict(
            draft,
            reasons.deactivated_due_to(cause),
            messages.deactivated_message(target.message if target is not None and cause else ""),
            kind=reasons.DEACTIVATED,
            cause=cause,
            quiet=draft.status.admission is None,
        )
    draft.drop(condition_types.DEACTIVATION_TARGET)
    draft.put(requeue_state=None)
    requeue_history.forget_since(draft)
    evicted = draft.condition(condition_types.EVICTED)
    if backs_off and evicted is not None:
        draft.set(condition_types.REQUEUED, "False", evicted.reason, evicted.message)
    if not draft.is_true(condition_types.QUOTA_RESERVED):
        block(draft, reasons.DEACTIVATED, messages.DEACTIVATED_MESSAGE)


def unreserve(draft: Draft, *, waits_for_pods: bool) -> None:
    """The Job has stopped: give the quota back, in one write with everything that belongs to the old run."""
    evicted = draft.condition(condition_types.EVICTED)
    if evicted is None or not evicted.is_true:
        return
    admitted = draft.condition(condition_types.ADMITTED)
    if admitted is not None and admitted.is_true and admitted.last_transition_time is not None:
        ran = int((draft.now - admitted.last_transition_time).total_seconds())
        past = draft.status.accumulated_past_execution_time_seconds or 0
        draft.put(accumulated_past_execution_time_seconds=min(INT32_MAX, past + max(0, ran)))
    at_once = evicted.reason in (reasons.PREEMPTED, reasons.NODE_FAILURES)
    draft.set(condition_types.REQUEUED, "True" if at_once else "False", evicted.reason, evicted.message)
    draft.put(admission=None)
    if draft.original.spec.active:
        block(draft, reasons.PENDING_EVALUATION, evicted.message)
    else:
        block(draft, reasons.DEACTIVATED, messages.DEACTIVATED_MESSAGE)
    if waits_for_pods:
        pods_ready(draft, ready=False)


def release(draft: Draft, reason: str, message: str) -> None:
    """Take back a reservation that was not yet an admission: there is no Job to stop, and nothing to evict."""
    if draft.is_true(condition_types.QUOTA_RESERVED) and not draft.is_true(condition_types.ADMITTED):
        draft.put(admission=None)
        block(draft, reason, message)


# --- coming back -------------------------------------------------------------------------------------------


def end_backoff(draft: Draft) -> None:
    """requeueAt has passed: remove it, and set Requeued. The count stays until a deactivation."""
    state = draft.status.requeue_state
    if state is not None and state.requeue_at is not None:
        draft.put(requeue_state=RequeueState(count=state.count) if state.count is not None else None)
    requeued = draft.condition(condition_types.REQUEUED)
    if requeued is not None and not requeued.is_true and not _needs_more_than_time(requeued.reason):
        draft.set(condition_types.REQUEUED, "True", reasons.BACKOFF_FINISHED, messages.BACKOFF_FINISHED_MESSAGE)


def _needs_more_than_time(reason: str) -> bool:
    """Than for its time: for a user or for its queue. Any other reason is over with its time, also one of somebody
    else's: who evicts for a reason of their own would find the Workload out of line for good."""
    return reason in STOPPED_QUEUES or reason.startswith(reasons.DEACTIVATED)


def requeue(draft: Draft) -> None:
    """What kept it out of line is over: flip Requeued, by the reason for which it was set (spec 4.6, 4.7).

    Any reason that begins with Deactivated counts: a Workload that Kueue itself deactivated comes back too,
    with a new budget of retries and of execution time.
    """
    requeued = draft.condition(condition_types.REQUEUED)
    if requeued is None or requeued.is_true:
        return
    if requeued.reason.startswith(reasons.DEACTIVATED):
        draft.set(condition_types.REQUEUED, "True", reasons.REACTIVATED, messages.REACTIVATED_MESSAGE)
        draft.put(requeue_state=None)
        if draft.original.spec.maximum_execution_time_seconds is not None:
            draft.put(accumulated_past_execution_time_seconds=None)
    elif requeued.reason in STOPPED_QUEUES:
        _restart_queue(draft)
    else:
        end_backoff(draft)


def _restart_queue(draft: Draft) -> None:
    requeued = draft.condition(condition_types.REQUEUED)
    if requeued is not None and not requeued.is_true and requeued.reason in STOPPED_QUEUES:
        draft.set(condition_types.REQUEUED, "True", *STOPPED_QUEUES[requeued.reason])


# --- the end -----------------------------------------------------------------------------------------------


def finish(draft: Draft, reason: str, message: str) -> None:
    """It has ended, for good: the first word about how stands."""
    if not draft.is_true(condition_types.FINISHED):
        draft.set(condition_types.FINISHED, "True", reason, message)
