"""The writer of the history: bounded, patient with its database, and out of the way of everybody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import pytest

from queue_manager.accounting import history_writer
from queue_manager.accounting.history_sink_protocol import RecordsRefused, Retention
from queue_manager.accounting.history_writer import HistoryWriter
from queue_manager.accounting.record_types import JobRecord, Record, StepRecord
from queue_manager.accounting.step_reading import deleted
from tests.unit.accounting.history_samples import START, at, job

KEEP = Retention(timedelta(days=1), 1000)
LONG = 30.0


class Memory:
    """A store in memory. `failures` writes fail; what is in `refused` is refused; `gate`: writes wait for it."""

    def __init__(self, failures: int = 0, refused: Sequence[str] = ()) -> None:
        self.records: list[Record] = []
        self.batches: list[int] = []
        self.pruned: list[datetime] = []
        self.failures = failures
        self.refused = refused
        self.gate = threading.Event()
        self.gate.set()
        self.changed = threading.Condition()

    def await_records(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.records) >= count, LONG)

    def write(self, records: Sequence[Record]) -> None:
        self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no database")
        if any(isinstance(r, JobRecord) and r.uid in self.refused for r in records):
            raise RecordsRefused("no room for it")
        with self.changed:
            self.records += records
            self.changed.notify_all()
        self.batches.append(len(records))

    def unfinished(self) -> Mapping[str, JobRecord]:
        written = {record.uid: record for record in self.records if isinstance(record, JobRecord)}
        return {uid: job(uid) for uid in ("here", "gone", "unseen")} | written

    def untraced_steps(self) -> Mapping[str, Sequence[StepRecord]]:
        return {}

    def steps_of(self, job_uids: Collection[str]) -> Mapping[str, Sequence[StepRecord]]:
        return {}

    def prune(self, retention: Retention, now: datetime) -> int:
        self.pruned.append(now)
        return 0

    def close(self) -> None:
        return None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_writer, "COLLECT_SECONDS", 0.0)
    monkeypatch.setattr(history_writer, "RETRY_SECONDS", (0.001,))


def writer(store: Memory, **options: int) -> HistoryWriter:
    return HistoryWriter(lambda: store, KEEP, lambda: START, **options)


def test_what_is_queued_is_written_before_the_end() -> None:
    store = Memory()
    one = writer(store)
    one.put([job(str(number)) for number in range(1200)])
    one.start()
    assert one.stop(LONG)
    assert [r.uid for r in store.records if isinstance(r, JobRecord)] == [str(number) for number in range(1200)]
    assert max(store.batches) == history_writer.BATCH
    assert store.pruned == [START]


def test_beyond_its_bound_the_queue_drops_and_counts() -> None:
    store = Memory()
    one = writer(store, max_queued=3)
    one.put([job(str(number)) for number in range(5)])
    one.start()
    assert one.stop(LONG)
    assert (len(store.records), one.counts.written, one.counts.queue_full) == (3, 3, 2)


def test_a_database_that_comes_back_gets_everything() -> None:
    store = Memory(failures=4)
    one = writer(store)
    one.start()
    one.put([job("a"), job("b")])
    store.await_records(2)
    assert one.stop(LONG)
    assert (len(store.records), one.counts.failures) == (2, 4)


def test_a_refused_record_takes_no_other_with_it() -> None:
    store = Memory(refused=["bad"])
    one = writer(store)
    one.put([job("a"), job("bad"), job("b")])
    one.start()
    assert one.stop(LONG)
    assert [r.uid for r in store.records if isinstance(r, JobRecord)] == ["a", "b"]
    assert (one.counts.refused, one.counts.written) == (1, 2)


def test_a_database_that_hangs_delays_neither_callers_nor_the_end() -> None:
    store = Memory()
    store.gate.clear()
    one = writer(store, max_queued=10)
    one.start()
    began = time.monotonic()
    for number in range(1000):
        one.put([job(str(number))])
    assert not one.stop(0.05)
    assert time.monotonic() - began < 5
    assert one.queued <= 20  # with the batch that hangs
    store.gate.set()


def test_records_that_could_not_be_written_are_not_forgotten_at_the_end() -> None:
    store = Memory(failures=1_000_000)
    one = writer(store)
    one.put([job("a"), job("b")])
    one.start()
    assert not one.stop(0.2)
    assert one.queued == 2


def test_jobs_that_vanished_while_nothing_ran_are_recorded_as_deleted() -> None:
    store = Memory()
    one = writer(store)
    one.start()
    one.put([job("new")])
    store.await_records(1)
    one.reconcile_after_start(["here"], lambda gone: deleted(gone.uid, at(9)) if gone.uid != "unseen" else None)
    store.await_records(2)
    assert one.stop(LONG)
    assert store.records == [job("new"), deleted("gone", at(9))]
