"""spec.ttlSecondsAfterFinished: deleting finished Jobs, whoever manages them (KEP-592, BEHAVIOUR.md#b35-ttl)."""

from __future__ import annotations

from datetime import datetime

from job_controller import conditions
from job_controller.model import Job, Key
from job_controller.perform import CONFLICT, NOT_FOUND, status_of
from job_controller.ports import Clock, Cluster, Metrics, Queue

DURATION = "ttl_after_finished_controller_job_deletion_duration_seconds"


def remaining(job: Job, now: datetime) -> float | None:
    """Seconds until the Job is deleted; None if it is not.

    The TTL counts from lastTransitionTime of the terminal condition. Without that time the Job is not deleted.
    """
    ttl = job.spec.ttl_seconds_after_finished
    finished = conditions.finished(job.status)
    ended = finished.last_transition_time if finished is not None else None
    if ttl is None or ended is None or job.metadata.deletion_timestamp is not None:
        return None
    return (ended - now).total_seconds() + ttl


class TtlController:
    """The controller. The host calls `job_changed` for every change, and `sync` for queued keys."""

    def __init__(self, cluster: Cluster, queue: Queue, clock: Clock, metrics: Metrics) -> None:
        self._cluster = cluster
        self._queue = queue
        self._clock = clock
        self._metrics = metrics

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Enqueue the Job for the time of its deletion."""
        left = remaining(new, self._clock.now()) if new is not None else None
        if new is not None and left is not None:
            self._queue.add_after(new.metadata.key, max(0.0, left))

    async def sync(self, key: Key) -> None:
        """Delete the Job if its TTL has expired for the live object too: the TTL may have been extended.

        Raises errors that the host should retry.
        """
        cached = self._cluster.job(key)
        if cached is None or self._waits(cached):
            return
        live = await self._cluster.read_job(key)
        if live is None or self._waits(live):
            return
        try:
            await self._cluster.delete_job(key, live.metadata.uid)
        except Exception as error:
            if status_of(error) not in (NOT_FOUND, CONFLICT):
                raise
            return
        left = remaining(live, self._clock.now()) or 0.0
        self._metrics.observe(DURATION, {}, max(0.0, -left))

    def _waits(self, job: Job) -> bool:
        """Whether the Job is not due. If it will be, it is enqueued for that time."""
        left = remaining(job, self._clock.now())
        if left is not None and left > 0:
            self._queue.add_after(job.metadata.key, left)
        return left is None or left > 0
