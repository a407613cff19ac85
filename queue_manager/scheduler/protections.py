"""Tries refused Workloads again when the minimum runtime of a Workload that they could preempt is over.

Each protected Workload has one delayed key in the queue, which is derived from the holdings and so exists again after a
restart. When the clock jumps, the engine syncs all delayed keys. An admission that then lies in the future is corrected
by the life cycle, as for all other times that count from it, so the protection takes no longer than its own length.
BEHAVIOUR.md#q51-minimum-runtime.
"""

from __future__ import annotations

from collections.abc import Callable

from job_controller.model import Key
from queue_manager.api.resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.lifecycle.clock_set_back import is_ahead
from queue_manager.scheduler.quota_cache import QuotaCache


class Protections:
    """Waits for the ends of minimum runtimes."""

    def __init__(self, runtime: Runtime, quota_cache: QuotaCache, sync_workload: Callable[[Key], None]) -> None:
        """`sync_workload` makes the life cycle decide about a Workload."""
        self._clock = runtime.clock
        self._quota_cache = quota_cache
        self._sync_workload = sync_workload
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self.queue: WorkQueue[str] = WorkQueue("minimum-runtimes", metrics=runtime.metrics)  # uids of Workloads
        quota_cache.protection_listeners.append(self.queue.add)
        runtime.worker(self.queue, self.sync)

    async def sync(self, uid: str) -> None:
        """Wait while this Workload is protected; then those that it has held back are eligible again."""
        state, now = self._quota_cache.state, self._clock.now()
        holding, workload = state.holdings.get(uid), self._workloads.by_uid(uid)
        if holding is None or holding.evicted:
            return  # its quota was or will be released, and that makes them eligible
        if workload is not None and is_ahead(workload, now):
            self._sync_workload(workload.metadata.key)
        if holding.protected_until is not None and now < holding.protected_until:
            self.queue.add_after(uid, (holding.protected_until - now).total_seconds())
        else:
            self._quota_cache.requeue_inadmissible(state.relatives(holding.cluster_queue))
