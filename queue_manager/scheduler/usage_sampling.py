"""Samples the past usage of LocalQueues, by which admission fair sharing orders them.

The status of a LocalQueue carries its past usage, so a LocalQueue is sampled when its status is synced, at most once in
the sampling interval. `scheduling/usage_decay.py` computes the usage. BEHAVIOUR.md#q48-admission-fair-sharing.
"""

from __future__ import annotations

from datetime import datetime

from job_controller.model import Key
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduling.usage_decay import Sample, consumption


def sample_usage(cache: QuotaCache, queue: Key, now: datetime) -> Sample | None:
    """The past usage of a LocalQueue, brought up to date if the sampling interval is over; None if it is not kept.

    A new sample can change the order of the LocalQueues, so the scheduler is notified.
    """
    local, ledger = cache.queues.local_queues.get(queue), cache.queues.ledger
    if local is None or not cache.queues.is_ordered_by_usage(local.spec.cluster_queue):
        return None
    if ledger.is_due(queue, now):
        state = cache.state.queues.get(local.spec.cluster_queue)
        holdings = state.holdings.values() if state is not None else ()
        running = consumption(h.usage for h in holdings if h.queue == queue and h.admitted)
        cache.queues.sample_usage(queue, running, now)
        cache.changed.set()
    return ledger.get(queue)


def seconds_to_next_sample(cache: QuotaCache, sample: Sample | None, now: datetime) -> float | None:
    """Return the seconds until the next sample is due, negative if it is overdue; None without a previous one."""
    decay = cache.queues.ledger.decay
    if sample is None or decay is None:
        return None
    return decay.interval - (now - sample.at).total_seconds()
