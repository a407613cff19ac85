"""Counts the attempts of a Workload: the periods with quota, the present one and that of a finished Job included. Pure.

status.requeueHistory records the last ten attempts that an eviction ended. Beyond these, and for a Workload without
such a record, status.schedulingStats counts evictions. It does not show which of them came before an admission, nor
which deactivations by a user came while the Workload was pending; neither ended an attempt. A deactivation
ends a budget of retries, and the reactivation starts a new one. Reports on a deactivated Workload cover its last
budget only.
"""

from __future__ import annotations

from datetime import datetime

from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Attempt, Workload
from queue_manager.lifecycle.requeue_history import MAX_ATTEMPTS

_TIMEOUTS = (reasons.PODS_READY_TIMEOUT, reasons.deactivated_due_to(reasons.REQUEUING_LIMIT_EXCEEDED))


def count_attempts(workload: Workload) -> int:
    """Return the number of all attempts."""
    return count_lost_attempts(workload) + is_in_attempt(workload)


def count_lost_attempts(workload: Workload) -> int:
    """Return the number of attempts that an eviction ended. An eviction before an admission ended none."""
    history, evictions = workload.status.requeue_history, _evictions(workload)
    recorded = history.attempts if history is not None else ()
    if 0 < len(recorded) < MAX_ATTEMPTS:
        timeouts = sum(count for reason, _, count in evictions if reason == reasons.PODS_READY_TIMEOUT)
        known = sum(attempt.reason in _TIMEOUTS for attempt in recorded)
        return len(recorded) + max(0, timeouts - known)  # those that another queue manager did not record
    lost = sum(count for reason, cause, count in evictions if (reason, cause) != (reasons.DEACTIVATED, ""))
    lost += sum(attempt.reason == reasons.DEACTIVATED for attempt in recorded)
    return max(len(recorded), lost - 1 if _was_deactivated_in_backoff(workload) else lost)


def first_admission(workload: Workload) -> datetime | None:
    """Return when the first attempt began; None before, and if the Workload does not record it any more."""
    history, admitted = workload.status.requeue_history, workload.condition(condition_types.ADMITTED)
    recorded, lost = history.attempts if history is not None else (), count_lost_attempts(workload)
    if lost:
        return recorded[0].start if lost == len(recorded) < MAX_ATTEMPTS else None
    return admitted.last_transition_time if admitted is not None and admitted.is_true else None


def is_in_attempt(workload: Workload) -> bool:
    """Whether the Workload is admitted, or was when its Job ended, and no eviction has ended that attempt."""
    return workload.is_true(condition_types.ADMITTED) and not workload.is_true(condition_types.EVICTED)


def budget_attempts(workload: Workload) -> tuple[Attempt, ...]:
    """Return the recorded lost attempts since the last activation; if deactivated, those that led to that."""
    history = workload.status.requeue_history
    attempts = history.attempts if history is not None else ()
    earlier = attempts if workload.spec.active else attempts[:-1]
    ends = [number for number, attempt in enumerate(earlier, 1) if attempt.reason.startswith(reasons.DEACTIVATED)]
    return attempts[ends[-1] :] if ends else attempts


def count_budget_attempts(workload: Workload) -> int:
    """Return the number of attempts since the last activation, or of all attempts if no record dates the activation."""
    history, recorded = workload.status.requeue_history, budget_attempts(workload)
    begun = history is not None and len(recorded) < len(history.attempts)
    return len(recorded) + is_in_attempt(workload) if begun else count_attempts(workload)


def seconds_before_deactivation(workload: Workload) -> float | None:
    """Return how long the Job of a deactivated Workload ran at most since its last activation, before it was evicted.

    None if that is not recorded. Of more attempts than are recorded, those before the last activation count too.
    """
    history, attempts = workload.status.requeue_history, budget_attempts(workload)
    if history is None or not attempts or workload.spec.active:
        return None
    *earlier, last = attempts
    if last.start is None or last.end is None:
        return None
    ran = sum(attempt.ran_seconds or 0 for attempt in earlier) + (last.end - last.start).total_seconds()
    return max(ran, history.ran_seconds) if len(attempts) == MAX_ATTEMPTS else ran


def _evictions(workload: Workload) -> list[tuple[str, str, int]]:
    stats = workload.status.scheduling_stats
    found = stats.evictions if stats is not None else ()
    return [(e.reason or "", e.underlying_cause or "", e.count or 0) for e in found]


def _was_deactivated_in_backoff(workload: Workload) -> bool:
    """Whether the deactivation came during a backoff. It counts as an eviction then, although no attempt had begun."""
    evicted, last = workload.condition(condition_types.EVICTED), workload.last_attempt
    if evicted is None or not evicted.is_true or not evicted.reason.startswith(reasons.DEACTIVATED_DUE_TO):
        return False
    ended, at = last.end if last is not None else None, evicted.last_transition_time
    return ended is not None and at is not None and ended < at
