"""When released quota makes refused Workloads eligible again: immediately, but once in PAUSE_SECONDS in a cohort.

Under load, Workloads of a cohort end soon after one another. Each release alone would have the same heads refused
again; what is released during the pause is tried together. Until then no other Workload of the cohort is tried either:
one that has just arrived would take the quota from those that waited for it. Pure: the caller passes the time.
BEHAVIOUR.md#q11-admission-cycle.
"""

from __future__ import annotations

from queue_manager.scheduling.quota_tree import QuotaNode

PAUSE_SECONDS = 0.2
EARLY_SECONDS = 0.002  # by which a timer of the event loop may end before its time


class ReleasedQuota:
    """The ClusterQueues that have released quota and whose cohorts were not tried since, by the root of their tree.

    A ClusterQueue that does not exist any more has the root None. Times are those of the event loop, in seconds.
    """

    def __init__(self) -> None:
        self._queues: dict[QuotaNode | None, dict[str, None]] = {}
        self._pauses: dict[QuotaNode | None, float] = {}  # until when

    def add(self, cluster_queue: str, root: QuotaNode | None, now: float) -> float | None:
        """Record a release. Return the seconds until it may be tried; None if an earlier release has returned them."""
        known = root in self._queues
        self._queues.setdefault(root, {})[cluster_queue] = None
        return None if known else max(0.0, self._pauses.get(root, now) - now)

    def take(self, now: float) -> list[str]:
        """Return the ClusterQueues whose cohorts are to be tried now. A pause begins for these."""
        if not self._queues:
            return []
        self._pauses = {root: until for root, until in self._pauses.items() if until > now + EARLY_SECONDS}
        due = [root for root in self._queues if root not in self._pauses]
        self._pauses |= dict.fromkeys(due, now + PAUSE_SECONDS)
        return [name for root in due for name in self._queues.pop(root)]

    def is_held(self, root: QuotaNode | None) -> bool:
        """Whether nothing of this cohort is tried before the end of a pause."""
        return root in self._queues
