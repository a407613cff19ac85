"""What each event in the life of a Workload writes: one function per transition.

The only code that sets conditions of Workloads. Reasons and messages are Kueue's. A transition whose result already
holds changes nothing, and then nothing is written. See BEHAVIOUR.md, Q17 to Q29.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from job_controller.pod_facts import INT32_MAX
from queue_manager.api import condition_types, event_reasons, messages, reasons
from queue_manager.api.check_states import CheckState
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

# --- pending -----------------------------------------------------------------------------------------------


def refuse(draft: Draft, reason: str, message: str, requests: Mapping[str, Amounts]) -> None:
    """Set QuotaReserved=False because the scheduler refused the Workload. Records an Event if they changed.

    `requests` are those of all its pods, by pod set; they are written to status.resourceRequests.
    """
    requeue_history.end_inactivity(draft)
    if draft.set(condition_types.QUOTA_RESERVED, "False", reason, message):
        draft.event("Warning", reason, message)
    draft.set(condition_types.ADMITTED, "False", reasons.NO_RESERVATION, messages.NO_RESERVATION_MESSAGE)
    rows = (PodSetRequest(name=name, resources=quantities(amounts)) for name, amounts in requests.items())
    draft.put(resource_requests=tuple(rows))


def block(draft: Draft, reason: str, message: str) -> None:
    """Set QuotaReserved=False because the queue, the spec or a gate keeps the Workload from being tried."""
    requeue_history.end_inactivity(draft)
    draft.set(condition_types.QUOTA_RESERVED, "False", reason, message)
    draft.set(condition_types.ADMITTED, "False", reasons.NO_RESERVATION, messages.NO_RESERVATION_MESSAGE)


def quantities(amounts: Amounts) -> dict[str, str | int]:
    """Amounts as API quantities."""
    return {resource: text(resource, value) for resource, value in amounts.items()}


# --- reserving quota ---------------------------------------------------------------------------------------


def reserve(draft: Draft, cluster_queue: str, assignment: Assignment) -> None:
    """Reserve quota and end the backoff. `admission_checks.confirm` sets Admitted in the same write."""
    requeue_history.end_inactivity(draft)
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
    """The duration in whole seconds, not less than 0."""
    return max(0, round(span.total_seconds()))


# --- pods --------------------------------------------------------------------------------------------------


def pods_ready(draft: Draft, ready: bool) -> None:
    """Set PodsReady from the readiness of the Job's pods. BEHAVIOUR.md#q19-podsready-condition."""
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


def pods_awaited(draft: Draft) -> None:
    """Set PodsReady=False for a Workload without admission: its pods are still to come."""
    if not draft.is_true(condition_types.ADMITTED) and not draft.is_true(condition_types.FINISHED):
        pods_ready(draft, ready=False)


# --- eviction and release ----------------------------------------------------------------------------------


def evict(
    draft: Draft,
    reason: str,
    message: str,
    *,
    kind: str = "",
    cause: str = "",
    quiet: bool = False,
    retry_at: datetime | None = None,
    attempt_cause: str = "",
    pod_cause: str = "",
    preemptor: str = "",
) -> None:
    """Set Evicted: the Job must stop, and the quota is kept until it has.

    `kind` (default: `reason`) and `cause` count in status.schedulingStats. `quiet`: record no Event. `retry_at` goes
    into status.requeueHistory, as do `attempt_cause` (default: `cause`), `pod_cause` and `preemptor`.
    """
    requeue_history.record(draft, reason, attempt_cause or cause, retry_at, pod_cause, preemptor)
    draft.set(condition_types.EVICTED, "True", reason, message)
    _count_eviction(draft, kind or reason, cause)
    draft.put(admission_checks=tuple(_reset(check, draft.now) for check in draft.status.admission_checks))
    if not quiet:
        draft.event("Normal", f"{reasons.EVICTED_DUE_TO}{reason}", message)


def preempt(draft: Draft, reason: str, message: str, priorities: str, needed_by: str, pod_error: str = "") -> None:
    """Evict a Workload because another one needs its quota.

    `priorities`: a text that names those of both Workloads, appended to the message of the Event Preempted.

    `needed_by` goes into status.requeueHistory, for the user: it names ClusterQueues and a priority, no Workload. So
    does `pod_error`, an error of its pods.

    Without a Job nothing has to stop, and the quota is released in the same write.
    BEHAVIOUR.md#q49-carrying-out-a-preemption.
    """
    if not draft.is_true(condition_types.QUOTA_RESERVED) or draft.is_true(condition_types.EVICTED):
        return
    if draft.is_true(condition_types.FINISHED):
        return
    preemptor = messages.preemptor_uid(message)
    evict(draft, reasons.PREEMPTED, message, attempt_cause=needed_by, pod_cause=pod_error, preemptor=preemptor)
    draft.set(condition_types.PREEMPTED, "True", reason, message)
    draft.event("Normal", reasons.PREEMPTED, f"{message}; {priorities}")
    if not draft.original.job_uid:
        unreserve(draft, waits_for_pods=False)


def _count_eviction(draft: Draft, reason: str, cause: str) -> None:
    stats = draft.status.scheduling_stats or SchedulingStats()
    rows = {(e.reason or "", e.underlying_cause or ""): e.count or 0 for e in stats.evictions}
    rows[reason, cause] = rows.get((reason, cause), 0) + 1
    counts = (EvictionCount(reason=r, underlying_cause=c, count=n) for (r, c), n in rows.items())
    draft.put(scheduling_stats=SchedulingStats(evictions=tuple(counts)))


def _reset(check: AdmissionCheckState, now: datetime) -> AdmissionCheckState:
    if check.state == CheckState.PENDING:
        return check
    return AdmissionCheckState(
        name=check.name,
        state=CheckState.PENDING,
        last_transition_time=now,
        message=f"Reset to Pending after eviction. Previously: {check.state}",
        retry_count=(check.retry_count or 0) + 1 if check.state == CheckState.RETRY else check.retry_count,
    )


def exceed_execution_time(draft: Draft, limit: int) -> None:
    """Announce the deactivation after `limit` seconds, the maximum execution time. A later run has the whole time
    again.
    """
    target_deactivation(draft, reasons.MAX_EXEC_TIME_EXCEEDED, messages.MAX_EXEC_TIME_MESSAGE)
    draft.put(accumulated_past_execution_time_seconds=None)
    draft.event("Warning", reasons.MAX_EXEC_TIME_EXCEEDED, messages.max_exec_time_exceeded(limit))


def target_deactivation(draft: Draft, reason: str, message: str) -> None:
    """Set DeactivationTarget with this reason: the next step of the life cycle sets spec.active to false."""
    draft.set(condition_types.DEACTIVATION_TARGET, "True", reason, message)


def deactivate(draft: Draft, pod_cause: str = "") -> None:
    """Evict a Workload whose spec.active is false; remove its DeactivationTarget and requeueState.

    The eviction has the reason and message of DeactivationTarget. `pod_cause`: why the Workload's pods were not ready.

    BEHAVIOUR.md#q21-deactivation
    """
    target = draft.condition(condition_types.DEACTIVATION_TARGET)
    cause = target.reason if target is not None and target.is_true else ""
    backs_off = cause == reasons.REQUEUING_LIMIT_EXCEEDED and not draft.is_true(condition_types.QUOTA_RESERVED)
    if not draft.is_true(condition_types.EVICTED) or backs_off:
        if backs_off:
            draft.drop(condition_types.EVICTED)  # so that its time is that of the deactivation, not of the last attempt
        evict(
            draft,
            reasons.deactivated_due_to(cause),
            messages.deactivated_message(target.message if target is not None and cause else ""),
            kind=reasons.DEACTIVATED,
            cause=cause,
            quiet=draft.status.admission is None,
            pod_cause=pod_cause,
        )
    draft.drop(condition_types.DEACTIVATION_TARGET)
    draft.put(requeue_state=None)
    requeue_history.forget_since(draft)
    evicted = draft.condition(condition_types.EVICTED)
    if backs_off and evicted is not None:
        draft.set(condition_types.REQUEUED, "False", evicted.reason, evicted.message)
    if not draft.is_true(condition_types.QUOTA_RESERVED):
        block(draft, reasons.DEACTIVATED, messages.DEACTIVATED_MESSAGE)
    if not draft.is_true(condition_types.ADMITTED):
        requeue_history.begin_inactivity(draft)


def unreserve(draft: Draft, *, waits_for_pods: bool) -> None:
    """Release the quota after the Job has stopped, add up how long it ran, and reset the conditions, in one write.

    `waits_for_pods`: waitForPodsReady is on, so PodsReady is reset in the same write. BEHAVIOUR.md#q27-quota-release.
    """
    evicted = draft.condition(condition_types.EVICTED)
    if evicted is None or not evicted.is_true:
        return
    admitted = draft.condition(condition_types.ADMITTED)
    if admitted is not None and admitted.is_true and admitted.last_transition_time is not None:
        ran = int((draft.now - admitted.last_transition_time).total_seconds())
        past = draft.status.accumulated_past_execution_time_seconds or 0
        draft.put(accumulated_past_execution_time_seconds=min(INT32_MAX, past + max(0, ran)))
        requeue_history.add_run(draft, max(0, ran))
    at_once = evicted.reason in (reasons.PREEMPTED, reasons.NODE_FAILURES)
    draft.set(condition_types.REQUEUED, "True" if at_once else "False", evicted.reason, evicted.message)
    draft.put(admission=None)
    if draft.original.spec.active:
        block(draft, reasons.PENDING_EVALUATION, evicted.message)
    else:
        block(draft, reasons.DEACTIVATED, messages.DEACTIVATED_MESSAGE)
        requeue_history.begin_inactivity(draft)
    if waits_for_pods:
        pods_ready(draft, ready=False)


def release(draft: Draft, reason: str, message: str) -> None:
    """Release a reservation that is not an admission yet: no Job has to stop, and nothing is evicted."""
    if draft.is_true(condition_types.QUOTA_RESERVED) and not draft.is_true(condition_types.ADMITTED):
        draft.put(admission=None)
        block(draft, reason, message)


# --- requeuing ---------------------------------------------------------------------------------------------


def end_backoff(draft: Draft) -> None:
    """Remove requeueAt, which has passed, and set Requeued. The count stays until a deactivation."""
    state = draft.status.requeue_state
    if state is not None and state.requeue_at is not None:
        draft.put(requeue_state=RequeueState(count=state.count) if state.count is not None else None)
    requeued = draft.condition(condition_types.REQUEUED)
    if requeued is not None and not requeued.is_true and not _needs_more_than_time(requeued.reason):
        draft.set(condition_types.REQUEUED, "True", reasons.BACKOFF_FINISHED, messages.BACKOFF_FINISHED_MESSAGE)


def _needs_more_than_time(reason: str) -> bool:
    """Whether Requeued=False ends with a user's or a queue's change, and not with requeueAt.

    Any other reason ends with requeueAt, including those of other writers: otherwise a Workload that another
    controller evicted would never be enqueued again.
    """
    return reason in STOPPED_QUEUES or reason.startswith(reasons.DEACTIVATED)


def requeue(draft: Draft) -> None:
    """Set Requeued=True, with the reason that corresponds to the previous reason of Requeued=False.

    Any reason that begins with Deactivated counts, so that a Workload deactivated by a rule can be reactivated too; it
    then has a new budget of retries and of execution time. BEHAVIOUR.md#q22-reactivation.
    """
    requeue_history.end_inactivity(draft)
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


def finish(draft: Draft, reason: str, message: str, pod_cause: str = "") -> None:
    """Set Finished. The first reason stays. `pod_cause`: why the pods of the Job failed, which may be deleted soon."""
    if not draft.is_true(condition_types.FINISHED):
        if pod_cause:
            requeue_history.record_failure(draft, pod_cause)
        draft.set(condition_types.FINISHED, "True", reason, message)
