"""spec.ttlSecondsAfterFinished: deleting finished Jobs, whoever manages them (KEP-592, BEHAVIOUR.md#b35-ttl)."""

from __future__ import annotations

from datetime import datetime

from job_controller import conditions
from job_controller.model import Job, Key
from job_controller.perform import CONFLICT, NOT_FOUND, status_of
from job_controller.ports import Clock, JobClient, Metrics, Queue
from job_controller.times import WaitStart, wait_start

DURATION = "ttl_after_finished_controller_job_deletion_duration_seconds"


def start(job: Job, now: datetime, before: WaitStart | None = None) -> WaitStart | None:
    """When the TTL starts: at lastTransitionTime of the terminal condition.

    None if the Job has no TTL or no such time, or is being deleted already. `before` is the previous result for this
    Job: if the clock was set back, the TTL takes its own length from when that was first observed.
    """
    finished = conditions.finished(job.status)
    ended = finished.last_transition_time if finished is not None else None
    if job.spec.ttl_seconds_after_finished is None or ended is None or job.metadata.deletion_timestamp is not None:
        return None
    return wait_start(ended, before, now)


def remaining(job: Job, now: datetime, before: WaitStart | None = None) -> float | None:
    """Seconds until the Job is deleted; None if it is not. `before` as of `start`."""
    begins = start(job, now, before)
    if begins is None:
        return None
    return (begins.effective - now).total_seconds() + (job.spec.ttl_seconds_after_finished or 0)


class TtlController:
    """The controller. The host calls `job_changed` for every change, and `sync` for queued keys."""

    def __init__(self, cluster: JobClient, queue: Queue, clock: Clock, metrics: Metrics) -> None:
        self._cluster = cluster
        self._queue = queue
        self._clock = clock
        self._metrics = metrics
        self._starts: dict[str, WaitStart] = {}  # by Job UID

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Enqueue the Job for the time of its deletion."""
        if new is None:
            self._starts.pop(old.metadata.uid if old is not None else "", None)
            return
        left = self._remaining(new)
        if left is not None:
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
        left = self._remaining(live) or 0.0
        self._metrics.observe(DURATION, {}, max(0.0, -left))

    def _waits(self, job: Job) -> bool:
        """Whether the Job is not due. If it will be, it is enqueued for that time."""
        left = self._remaining(job)
        if left is not None and left > 0:
            self._queue.add_after(job.metadata.key, left)
        return left is None or left > 0

    def _remaining(self, job: Job) -> float | None:
        now, uid = self._clock.now(), job.metadata.uid
        begins = start(job, now, self._starts.get(uid))
        if begins is not None:
            self._starts[uid] = begins
        return remaining(job, now, begins)
