"""Why the status of a Workload is written: passed with each transition, and counted with each write.

A cause that only *explains* changes no decision: only people who read the status wait for it. Such a write gives way to
all others (`scheduler.write_queue`). Transitions of several causes can share one write, which then counts for the first
of them in the order of this list. BEHAVIOUR.md#q39-status-writes.
"""

from __future__ import annotations

from enum import Enum


class Cause(Enum):
    """The label `cause` of sluice_workload_status_writes_total, the most consequential first."""

    ADMISSION = "admission"  # quota reserved
    PREEMPTION = "preemption"
    EVICTION = "eviction"  # any other
    RELEASE = "release"  # quota given back
    FINISH = "finish"
    DEACTIVATION = "deactivation"
    REQUEUE = "requeue"  # a backoff or a stop of a queue ended
    ADMISSION_CHECK = "admission_check"
    PODS_READY = "pods_ready"  # PodsReady and reclaimable pods of an admitted Workload
    CLOCK = "clock"  # times in the future corrected
    REASON = "reason"  # the reason why the Workload is pending
    REASON_REFRESH = "reason_refresh"  # the same reason, with other numbers
    PODS_EXPECTED = "pods_expected"  # PodsReady=False of a Workload that is pending

    @property
    def place(self) -> int:
        """The place in the order of this list."""
        return _ORDER[self]

    @property
    def explains(self) -> bool:
        """Whether the write changes no decision and only explains the state to people."""
        return self in _EXPLAINING


_EXPLAINING = (Cause.REASON, Cause.REASON_REFRESH, Cause.PODS_EXPECTED)
_ORDER = {cause: place for place, cause in enumerate(Cause)}


def main_cause(causes: list[Cause]) -> Cause:
    """The most consequential of these causes of one write."""
    return min(causes, key=lambda cause: cause.place)
