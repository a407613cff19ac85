"""What holds for a store in any database; run with SQLite here and with PostgreSQL in tests/control_plane/history."""

from __future__ import annotations

from datetime import timedelta

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from queue_manager.accounting.database import VERSION_TABLE, open_for_reading
from queue_manager.accounting.history_queries import HistoryFilter, read_history
from queue_manager.accounting.history_sink_protocol import Retention
from queue_manager.accounting.history_store import READ_JOBS, open_store
from queue_manager.accounting.record_types import StepKind
from queue_manager.accounting.sql_tables import metadata
from tests.unit.accounting.history_samples import admitted, at, finished, job, pod, step

FOR_EVER = Retention(timedelta(days=10_000), 10**9)


def check_records_come_back_once(url: str) -> None:
    """Written twice, and once more by another process, they are read as they were, in order."""
    records = [
        job(),
        admitted(5),
        step(StepKind.EVICTED, 9, reason="PodsReadyTimeout", message='é "\0'),
        finished(20),
        pod(cpu_seconds=1.25, peak_memory_bytes=1 << 40),
        pod("p2", exit_code=None),
        job("j2", 1),
    ]
    for _ in range(2):
        store = open_store(url)
        store.write(records)
        store.write(records)
        store.close()
    first, second = read_history(url, HistoryFilter())
    assert first.job == records[0]
    assert sorted(first.steps, key=lambda s: s.at)[::2] == [records[1], records[3]]
    assert {s.message for s in first.steps} == {"", 'é "'}  # PostgreSQL stores no NUL
    assert sorted(first.pods, key=lambda p: p.uid) == records[4:6]
    assert (second.job.uid, second.steps, second.pods) == ("j2", [], [])


def check_filters(url: str) -> None:
    store = open_store(url)
    store.write([job("old"), finished(10, of="old"), job("long"), admitted(1, of="long"), job("new", 100, user="bob")])
    store.write([job("b", 50, namespace="team-b", queue="other")])
    store.close()

    def found(**wanted: object) -> list[str]:
        return [history.job.uid for history in read_history(url, HistoryFilter(**wanted))]  # type: ignore[arg-type]

    assert found() == ["long", "old", "b", "new"]
    assert found(since=at(11)) == ["long", "b", "new"]  # `old` had ended; `long` has not
    assert found(until=at(50)) == ["long", "old"]
    assert found(user="bob") == ["new"]
    assert found(namespace="team-b") == found(queue="other") == ["b"]
    assert found(name="job-old", namespace="team-a") == ["old"]


def check_retention(url: str) -> None:
    """Whole Jobs go, the oldest first; of what is left by Jobs that are gone nothing stays."""
    store = open_store(url)
    for number in range(30):
        uid = f"j{number:02}"
        store.write([job(uid, number), admitted(number, of=uid), finished(number + 1, of=uid), pod(uid, of=uid)])
    assert store.prune(FOR_EVER, at(100)) == 0
    assert store.prune(Retention(timedelta(seconds=80), 10**9), at(100)) == 20
    assert [history.job.uid for history in read_history(url, HistoryFilter())] == [f"j{n}" for n in range(20, 30)]
    store.write([pod("late", of="j00", seconds=1), admitted(1, of="j00")])
    assert store.prune(Retention(timedelta(days=1), 20), at(7200)) == 5  # 40 rows of 10 Jobs, 20 may stay
    left = read_history(url, HistoryFilter())
    assert [history.job.uid for history in left] == [f"j{n}" for n in range(25, 30)]
    store.write([job("j00")])
    assert read_history(url, HistoryFilter(name="job-j00"))[0][1:] == ([], [])
    store.close()


def check_retention_of_unfinished(url: str) -> None:
    """A Job that has not ended is kept, however old and many they are."""
    store = open_store(url)
    store.write([job("runs"), admitted(1, of="runs"), job("done", 1), finished(2, of="done"), job("waits", 2)])
    assert store.prune(Retention(timedelta(seconds=1), 1), at(100)) == 1
    assert [history.job.uid for history in read_history(url, HistoryFilter())] == ["runs", "waits"]
    store.close()


def check_unfinished(url: str) -> None:
    store = open_store(url)
    store.write([job("runs"), admitted(1, of="runs"), job("done"), finished(2, of="done")])
    store.write([job("gone"), step(StepKind.DELETED, 3, 0, of="gone")])
    assert store.unfinished() == {"runs": job("runs")}
    store.close()


def check_migrations_lead_to_the_tables(url: str) -> None:
    open_store(url).close()
    engine = open_for_reading(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def check_untraced_steps(url: str) -> None:
    """Those of unfinished Jobs, without the steps that are read again from objects."""
    store = open_store(url)
    held, resumed = step(StepKind.HELD, 1, occurrence=5), step(StepKind.RESUMED, 2, occurrence=6)
    ended = step(StepKind.HELD, 1, of="over", occurrence=7)
    store.write([job(), held, resumed, admitted(3), job("over"), ended, finished(9, of="over")])
    found = store.untraced_steps()
    assert {uid: sorted(steps, key=lambda each: each.at) for uid, steps in found.items()} == {"j1": [held, resumed]}
    store.close()


def check_steps_of_jobs(url: str) -> None:
    """More Jobs than one query reads."""
    store = open_store(url)
    names = [f"j{number}" for number in range(READ_JOBS + 2)]
    store.write([step for name in names for step in (job(name), admitted(3, of=name), finished(9, of=name))])
    found = store.steps_of([*names[1:], "unknown"])
    assert sorted(found) == sorted(names[1:])
    assert {len(steps) for steps in found.values()} == {2}
    store.close()


ALL = (
    check_records_come_back_once,
    check_filters,
    check_retention,
    check_retention_of_unfinished,
    check_unfinished,
    check_untraced_steps,
    check_steps_of_jobs,
    check_migrations_lead_to_the_tables,
)
