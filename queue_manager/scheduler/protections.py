"""Tries refused Workloads again when the minimum runtime of a Workload that they could preempt is over.

Each protected Workload has one delayed key in the queue, which is derived from the holdings and so exists again after a
restart. When the clock jumps, the engine syncs all delayed keys. An admission that then lies in the future is corrected
by the life cycle, as for all other times that count from it, so the protection takes no longer than its own length.
BEHAVIOUR.md#q53-minimum-runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from job_controller.model import Key
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.lifecycle.clock_set_back import is_ahead
from queue_manager.scheduler.quota_cache import QuotaCache


class Protections:
    """Makes refused Workloads eligible again when a minimum runtime ends."""

    def __init__(self, runtime: Runtime, quota_cache: QuotaCache, sync_workload: Callable[[Key], None]) -> None:
        """`sync_workload` makes the life cycle decide about a Workload."""
        self._clock = runtime.clock
        self._quota_cache = quota_cache
        self._sync_workload = sync_workload
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._protected: set[str] = set()  # uids of the Workloads whose end was not reacted to yet
        self.queue: WorkQueue[str] = WorkQueue("minimum-runtimes", metrics=runtime.metrics)
        quota_cache.protection_listeners.append(self._on_change)
        runtime.worker(self.queue, self.sync)

    def _on_change(self, uid: str) -> None:
        self._protected.add(uid)
        self.queue.add(uid)

    async def sync(self, uid: str) -> None:
        """Requeue this key while its Workload is protected; afterwards make those that it held back eligible."""
        if uid not in self._protected:
            return  # it ended together with another one
        now, workload = self._clock.now(), self._workloads.by_uid(uid)
        if workload is not None and is_ahead(workload, now):
            self._sync_workload(workload.metadata.key)
        seconds = self._seconds_left(uid, now)
        if seconds > 0:
            self.queue.add_after(uid, seconds)
        else:
            self._end(now)

    def _end(self, now: datetime) -> None:
        """Try refused Workloads again for all minimum runtimes that have ended by `now`, at once.

        Workloads of one class are often admitted in the same second, so their minimum runtimes end together.
        """
        state = self._quota_cache.state
        ended = {uid for uid in self._protected if self._seconds_left(uid, now) <= 0}
        self._protected -= ended
        queues = {state.holdings[uid].cluster_queue for uid in ended if uid in state.holdings}
        relatives = {name for queue in queues for name in state.relatives(queue)}
        if relatives:
            self._quota_cache.requeue_inadmissible(relatives)

    def _seconds_left(self, uid: str, now: datetime) -> float:
        holding = self._quota_cache.state.holdings.get(uid)
        until = holding.protected_until if holding is not None and not holding.evicted else None
        return (until - now).total_seconds() if until is not None else 0.0
