"""Writes records to the store in a thread of its own, so that no controller ever waits for a database.

`put` appends to a bounded queue in memory, and drops records if it is full. The thread opens the store, takes
batches from the queue and writes each in one transaction. While the database cannot be reached the thread keeps its
batch and tries again; records whose content the database refuses are dropped. It deletes what is no longer
kept: at the start, once the Jobs that exist are recorded (which were perhaps deleted before), after each
reconfiguration, and from time to time. At the end the program waits a
limited time for the last write, and learns how many records were not written. The thread is a daemon: a database that
hangs does not keep the program from ending. `stalled_seconds` says for how long records have waited without one of them
being written, whatever the cause: a database that hangs or is away, or a thread that has died.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TypeAlias, TypeVar

from queue_manager.accounting.history_retention import PRUNE_SECONDS, Retention
from queue_manager.accounting.history_sink_protocol import HistorySink, RecordsRefused
from queue_manager.accounting.record_types import JobRecord, Record, StepRecord

log = logging.getLogger(__name__)

R = TypeVar("R")

MAX_QUEUED = 50_000  # records, about 50 MB
BATCH = 500  # records per transaction
COLLECT_SECONDS = 0.5  # from the first record of a batch to its write
RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)  # after each failure in a row; the last one repeats
LAST_RETRY_SECONDS = 0.1  # between attempts while the program waits for the last write

Steps: TypeAlias = Mapping[str, Sequence[StepRecord]]
"""Steps by UID of their Job."""

Missed: TypeAlias = Callable[[Steps, Steps], Iterable[Record]]
"""Returns the steps that nothing recorded, given the steps without a trace that the store had before the first write of
this process, and all steps of the Jobs that were to be compared."""


@dataclass(slots=True)
class WriteCounts:
    """Numbers of written, dropped and refused records since the start of the process."""

    written: int = 0
    queue_full: int = 0  # dropped for want of room in the queue
    refused: int = 0  # dropped by the database
    failures: int = 0  # attempts to open or write that were, or will be, repeated


class HistoryWriter:
    """The queue and the thread. `open` may raise; it is then called again."""

    def __init__(
        self,
        open: Callable[[], HistorySink],
        retention: Retention,
        now: Callable[[], datetime],
        *,
        max_queued: int = MAX_QUEUED,
    ) -> None:
        self.counts = WriteCounts()
        self._retention = retention
        self._prune_due = False
        self._open = open
        self._now = now
        self._max_queued = max_queued
        self._queued: list[Record] = []
        self._writing = 0  # records of the batch that the thread has taken
        self._progress_at = 0.0  # of time.monotonic(): the last write, or the first record after an empty queue
        self._changed = threading.Condition()
        self._unfinished: Mapping[str, JobRecord] = {}  # in the store before the first write of this process
        self._present: frozenset[str] | None = None  # UIDs of the Jobs at the start, until they are reconciled
        self._gone: Callable[[JobRecord], Record | None] | None = None
        self._untraced: Steps = {}  # as `_unfinished`
        self._compared: frozenset[str] = frozenset()
        self._missed: Missed = _nothing
        self._give_up_at = math.inf  # of time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)

    @property
    def queued(self) -> int:
        """The number of records that are queued or are being written."""
        return len(self._queued) + self._writing

    @property
    def stalled_seconds(self) -> float:
        """For how long records have waited without a write; 0 if none waits."""
        return time.monotonic() - self._progress_at if self.queued else 0.0

    @property
    def is_running(self) -> bool:
        """Whether the thread has started and not ended."""
        return self._thread.is_alive()

    def put(self, records: Iterable[Record]) -> None:
        """Queue these records; records for which the queue has no room are dropped. Never waits for the database."""
        with self._changed:
            if not self.queued:
                self._progress_at = time.monotonic()
            for record in records:
                if len(self._queued) >= self._max_queued:
                    self.counts.queue_full += 1
                else:
                    self._queued.append(record)
            if self._queued:
                self._changed.notify()

    def reconfigure(self, retention: Retention) -> None:
        """Enforce new bounds immediately."""
        with self._changed:
            self._retention, self._prune_due = retention, True
            self._changed.notify()

    def reconcile_after_start(
        self,
        present: Iterable[str],
        gone: Callable[[JobRecord], Record | None],
        missed: Missed | None = None,
        compared: Iterable[str] = (),
    ) -> None:
        """Record what happened while no process recorded it.

        For each Job that was unfinished in the store at the start and whose UID is not in `present`, write `gone(job)`,
        which is None for a Job in a namespace that this process does not watch. Also write the steps that `missed`
        returns, which gets all steps of the Jobs with a UID in `compared`. The thread calls both functions.
        """
        with self._changed:
            self._present, self._gone, self._missed = frozenset(present), gone, missed or _nothing
            self._compared = frozenset(compared)
            self._changed.notify()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Write the queued records; return whether all were written in time. `queued` is the number of the others."""
        self._give_up_at = time.monotonic() + seconds
        self._stopped.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(seconds)
        return not self.queued

    # --- the thread ---

    def _run(self) -> None:
        store = self._repeated(self._open)
        if store is None:
            return
        self._unfinished = self._repeated(store.unfinished) or {}
        self._untraced = self._repeated(store.untraced_steps) or {}
        prune_at = self._prune(store)
        while not self._stopped.is_set():
            self._await_work(prune_at)
            self._stopped.wait(COLLECT_SECONDS)
            self._reconcile(store)
            self._write_queued(store)
            if self._prune_due or self._now().timestamp() >= prune_at:
                prune_at = self._prune(store)
        self._write_queued(store)
        store.close()

    def _await_work(self, prune_at: float) -> None:
        with self._changed:
            while not (self._queued or self._prune_due or self._present is not None or self._stopped.is_set()):
                seconds = prune_at - self._now().timestamp()
                if not self._changed.wait(min(PRUNE_SECONDS, max(0.0, seconds))):
                    return

    def _write_queued(self, store: HistorySink) -> None:
        while self._queued:
            with self._changed:
                batch, self._queued[:BATCH] = self._queued[:BATCH], ()
                self._writing = len(batch)
            done = self._write(store, batch)
            with self._changed:
                self._writing = 0
                if done:
                    self._progress_at = time.monotonic()
                else:
                    self._queued[:0] = batch
                    return

    def _write(self, store: HistorySink, batch: list[Record]) -> bool:
        """Write a batch, one by one if the database refuses it. False: the program ends before that was possible."""

        def write() -> bool:
            store.write(batch)
            return True

        try:
            if not self._repeated(write):
                return False
        except RecordsRefused as error:
            if len(batch) > 1:
                return all(self._write(store, [record]) for record in batch)
            self.counts.refused += 1
            log.error("the history refuses a record", extra={"record": repr(batch[0])[:500], "error": str(error)[:500]})
            return True
        self.counts.written += len(batch)
        return True

    def _reconcile(self, store: HistorySink) -> None:
        with self._changed:
            present, gone, self._present = self._present, self._gone, None
        if present is not None and gone is not None:
            missing = (gone(job) for uid, job in self._unfinished.items() if uid not in present)
            self.put([record for record in missing if record is not None])
            compared = self._repeated(lambda: store.steps_of(self._compared)) if self._compared else {}
            self.put(self._missed(self._untraced, compared or {}))
            self._unfinished, self._untraced, self._missed, self._compared = {}, {}, _nothing, frozenset()
            self._prune_due = True

    def _prune(self, store: HistorySink) -> float:
        """Delete the Jobs that the retention no longer keeps; return the POSIX time of the next deletion."""
        now = self._now()
        with self._changed:
            kept, self._prune_due = self._retention, False
        if deleted := self._repeated(lambda: store.prune(kept, now)):
            log.info("deleted old Jobs from the history", extra={"jobs": deleted})
        return now.timestamp() + kept.prune_seconds

    def _repeated(self, act: Callable[[], R]) -> R | None:
        """The result of `act`, repeated while the database cannot be reached; None if the program ends before.

        Raises RecordsRefused.
        """
        for failures in count():
            try:
                return act()
            except RecordsRefused:
                raise
            except Exception as error:
                self.counts.failures += 1
                log.warning("the history cannot be written, tries again", extra={"error": str(error)[:500]})
            if self._stopped.wait(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]):
                if time.monotonic() + LAST_RETRY_SECONDS >= self._give_up_at:
                    return None
                time.sleep(LAST_RETRY_SECONDS)  # the event that would end this wait is set
        raise AssertionError


def _nothing(untraced: Steps, compared: Steps) -> Iterable[Record]:
    return ()
