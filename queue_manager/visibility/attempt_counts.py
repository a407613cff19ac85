"""Counts the attempts of a Workload: the periods in which it held quota and lost it again. Pure.

status.schedulingStats counts all attempts of the Workload, status.requeueHistory records the last ten. A deactivation
ends a budget of retries, and the reactivation starts a new one. Reports on a deactivated Workload cover its last
budget only.
"""

from __future__ import annotations

from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Attempt, Workload


def count_attempts(workload: Workload) -> int:
    """Return the number of all attempts. A deactivation by a user while the Workload is pending is not an attempt."""
    lost = sum(count for reason, cause, count in _evictions(workload) if (reason, cause) != (reasons.DEACTIVATED, ""))
    return lost - 1 if _was_deactivated_in_backoff(workload) else lost


def budget_attempts(workload: Workload) -> tuple[Attempt, ...]:
    """Return the recorded attempts since the last activation; if deactivated, those that led to the deactivation."""
    history = workload.status.requeue_history
    attempts = history.attempts if history is not None else ()
    earlier = attempts if workload.spec.active else attempts[:-1]
    ends = [number for number, attempt in enumerate(earlier, 1) if attempt.reason.startswith(reasons.DEACTIVATED)]
    return attempts[ends[-1] :] if ends else attempts


def count_budget_attempts(workload: Workload) -> int:
    """Return the number of attempts since the last activation, or of all attempts if no record dates the activation."""
    history, recorded = workload.status.requeue_history, budget_attempts(workload)
    begun = history is not None and len(recorded) < len(history.attempts)
    return len(recorded) if begun else count_attempts(workload)


def _evictions(workload: Workload) -> list[tuple[str, str, int]]:
    stats = workload.status.scheduling_stats
    found = stats.evictions if stats is not None else ()
    return [(e.reason or "", e.underlying_cause or "", e.count or 0) for e in found]


def _was_deactivated_in_backoff(workload: Workload) -> bool:
    """Whether it was deactivated during a backoff, which counts as an eviction although no attempt had begun."""
    evicted, last = workload.condition(condition_types.EVICTED), workload.last_attempt
    if evicted is None or not evicted.is_true or not evicted.reason.startswith(reasons.DEACTIVATED_DUE_TO):
        return False
    ended, at = last.end if last is not None else None, evicted.last_transition_time
    return ended is not None and at is not None and ended < at
