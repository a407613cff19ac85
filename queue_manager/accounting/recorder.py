"""Records the history of all Jobs that a runtime sees: from its caches, through `step_reading`, to the writer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import TypeVar

from job_controller.model import Job, Pod
from queue_manager.accounting import step_reading
from queue_manager.accounting.history_retention import Retention
from queue_manager.accounting.history_sink_protocol import HistorySink
from queue_manager.accounting.history_writer import MAX_QUEUED, HistoryWriter, Steps
from queue_manager.accounting.hold_messages import with_stopped_queue
from queue_manager.accounting.missed_attempts import missed_attempts
from queue_manager.accounting.missed_steps import missed_steps
from queue_manager.accounting.record_types import JobRecord, Record
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload
from queue_manager.configuration.history_section import History
from queue_manager.engine.runtime import Runtime

log = logging.getLogger(__name__)

WRITTEN, DROPPED = "sluice_history_records_written_total", "sluice_history_records_dropped_total"
FAILURES, QUEUED = "sluice_history_write_failures_total", "sluice_history_records_queued"
STALLED = "sluice_history_stalled_seconds"

# When the runtime stops: enough for a busy machine; with the rest less than the ten seconds until a kubelet kills.
LAST_WRITE_SECONDS = 3.0
REPORT_SECONDS = 1.0  # beyond that, to log what was not written
STALL_SECONDS = 10.0  # without a write although records wait: longer than an open or a batch on a slow disk
CHECK_SECONDS = 5.0  # between two checks for that
GONE = "gone while nothing recorded the history"

T = TypeVar("T", Job, Workload, Pod)


class HistoryRecorder:
    """Follows the caches of Jobs, Workloads and pods. Construct it before the runtime starts."""

    def __init__(
        self,
        runtime: Runtime,
        url: str,
        config: History,
        *,
        interruptible: bool = False,
        max_queued: int = MAX_QUEUED,
    ) -> None:
        """`interruptible`: a stop of this process stops the Jobs; if not, annotations that claim that are ignored."""
        self._clock = runtime.clock
        self._metrics = runtime.metrics
        self._namespaces = runtime.namespaces
        self._writer = HistoryWriter(partial(_open, url), retention(config), runtime.clock.now, max_queued=max_queued)
        self._exposed: dict[tuple[str, str], int] = {}
        self._jobs = runtime.cache(JOBS, Job)
        self._jobs.subscribe(self._putting(step_reading.job_records))
        if interruptible:
            self._jobs.subscribe(self._putting(step_reading.interruption_records))
        self._first: dict[str, Workload] | None = {}  # the first state seen of each, by UID, until it is compared
        runtime.cache(WORKLOADS, Workload).subscribe(self._keep_first)
        self._local_queues = runtime.cache(LOCAL_QUEUES, LocalQueue)
        self._cluster_queues = runtime.cache(CLUSTER_QUEUES, ClusterQueue)
        runtime.cache(WORKLOADS, Workload).subscribe(self._putting(self._workload_records))
        runtime.cache(PODS, Pod).subscribe(self._putting(step_reading.pod_records))
        runtime.metrics.before_exposition(self._measure)
        runtime.support(self._write, end_seconds=LAST_WRITE_SECONDS + REPORT_SECONDS)
        runtime.task(self._compare)

    def reconfigure(self, config: History) -> None:
        """Apply a changed retention (history.maxAge, history.maxRows)."""
        self._writer.reconfigure(retention(config))

    def _putting(
        self, read: Callable[[T | None, T | None, datetime], Iterable[Record]]
    ) -> Callable[[T | None, T | None], None]:
        """Return a cache subscriber that passes the records that `read` makes of a change to the writer."""

        def changed(old: T | None, new: T | None) -> None:
            self._writer.put(list(read(old, new, self._clock.now())))

        return changed

    def _workload_records(self, old: Workload | None, new: Workload | None, now: datetime) -> Iterator[Record]:
        for record in step_reading.workload_records(old, new, now):
            yield self._with_stopped_queue(record, new) if new is not None else record

    def _with_stopped_queue(self, record: Record, workload: Workload) -> Record:
        local = self._local_queues.get(*workload.local_queue)
        cluster = self._cluster_queues.get("", local.spec.cluster_queue) if local is not None else None
        return with_stopped_queue(record, local, cluster)

    async def _write(self) -> None:
        self._writer.start()
        try:
            await self._report_stalls()
        finally:
            if not await asyncio.to_thread(self._writer.stop, LAST_WRITE_SECONDS):
                log.error("the history is incomplete", extra={"lost_records": self._writer.queued})

    async def _report_stalls(self) -> None:
        """Log once that records wait without a write, and once that writes continue. Runs until it is cancelled."""
        is_stalled = False
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            seconds, before = self._stalled_seconds(), is_stalled
            is_stalled = seconds > 0
            if is_stalled and not before:
                cause = "its database hangs or is away" if self._writer.is_running else "its thread has ended"
                waiting = {"cause": cause, "waiting_records": self._writer.queued, "seconds": round(seconds)}
                log.error("the history is not written", extra=waiting)
            elif before and not is_stalled:
                log.info("the history is written again")

    def _stalled_seconds(self) -> float:
        """For how long records have waited without a write; 0 below STALL_SECONDS."""
        seconds = self._writer.stalled_seconds
        return seconds if seconds >= STALL_SECONDS else 0.0

    def _keep_first(self, old: Workload | None, new: Workload | None) -> None:
        if self._first is not None and old is None and new is not None:
            self._first[new.metadata.uid] = new

    async def _compare(self) -> None:
        """Once the caches are synced: find Jobs that were deleted, and steps that were lost, while nothing recorded."""
        now = self._clock.now()
        first, self._first = self._first or {}, None

        def missed(untraced: Steps, compared: Steps) -> list[Record]:
            found: list[Record] = []
            for workload in first.values():
                lost = list(missed_attempts(workload, compared.get(workload.job_uid, ()), now))
                steps = missed_steps(workload, [*untraced.get(workload.job_uid, ()), *lost], now)
                found += [*lost, *(self._with_stopped_queue(step, workload) for step in steps)]
            return found

        def gone(job: JobRecord) -> Record | None:
            seen = not self._namespaces or job.namespace in self._namespaces
            return step_reading.deleted(job.uid, now, GONE) if seen else None

        present = [job.metadata.uid for job in self._jobs]
        retried = [workload.job_uid for workload in first.values() if workload.last_attempt is not None]
        self._writer.reconcile_after_start(present, gone, missed, retried)

    def _measure(self) -> None:
        counts = self._writer.counts
        self._metrics.set(QUEUED, {}, self._writer.queued)
        self._metrics.set(STALLED, {}, round(self._stalled_seconds(), 1))
        self._count(WRITTEN, "", counts.written)
        self._count(FAILURES, "", counts.failures)
        self._count(DROPPED, "queue_full", counts.queue_full)
        self._count(DROPPED, "refused", counts.refused)

    def _count(self, name: str, reason: str, total: int) -> None:
        """Increase a counter of the metrics to the total that the thread of the writer has counted."""
        self._metrics.inc(name, {"reason": reason} if reason else {}, total - self._exposed.get((name, reason), 0))
        self._exposed[name, reason] = total


def _open(url: str) -> HistorySink:
    """Open the store. Its libraries are imported here, in the thread of the writer, as the start does not need them."""
    from queue_manager.accounting.history_store import open_store

    return open_store(url)


def retention(config: History) -> Retention:
    """The bounds that a configuration sets for the history."""
    return Retention(config.max_age, config.max_rows)
