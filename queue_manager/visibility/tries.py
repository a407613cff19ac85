"""The tries of a Workload: the times it held quota and lost it again. Pure.

status.schedulingStats counts all tries of its life, status.requeueHistory records the last ten. A deactivation ends a
budget of retries, and the reactivation after it begins another. What is said of a Workload that gave up concerns its
last budget only.
"""

from __future__ import annotations

from queue_manager.api import condition_types, reasons
from queue_manager.api.types import Attempt, Workload


def tries(workload: Workload) -> int:
    """How many tries it has had in its life. A deactivation by a user while it waits is no try."""
    lost = sum(count for reason, cause, count in _evictions(workload) if (reason, cause) != (reasons.DEACTIVATED, ""))
    return lost - 1 if _gave_up_waiting(workload) else lost


def budget(workload: Workload) -> tuple[Attempt, ...]:
    """The recorded tries since it was last activated; of a deactivated Workload, those that led to that."""
    history = workload.status.requeue_history
    attempts = history.attempts if history is not None else ()
    earlier = attempts if workload.spec.active else attempts[:-1]
    ends = [number for number, attempt in enumerate(earlier, 1) if attempt.reason.startswith(reasons.DEACTIVATED)]
    return attempts[ends[-1] :] if ends else attempts


def budget_tries(workload: Workload) -> int:
    """How many tries it has had since it was last activated; all of its life where no record says since when."""
    history, recorded = workload.status.requeue_history, budget(workload)
    begun = history is not None and len(recorded) < len(history.attempts)
    return len(recorded) if begun else tries(workload)


def _evictions(workload: Workload) -> list[tuple[str, str, int]]:
    stats = workload.status.scheduling_stats
    found = stats.evictions if stats is not None else ()
    return [(e.reason or "", e.underlying_cause or "", e.count or 0) for e in found]


def _gave_up_waiting(workload: Workload) -> bool:
    """It was deactivated in its backoff: counted like an eviction, but no try had begun."""
    evicted, history = workload.condition(condition_types.EVICTED), workload.status.requeue_history
    if evicted is None or not evicted.is_true or not evicted.reason.startswith(reasons.DEACTIVATED_DUE_TO):
        return False
    last = history.attempts[-1].end if history is not None and history.attempts else None
    return last is not None and evicted.last_transition_time is not None and last < evicted.last_transition_time
