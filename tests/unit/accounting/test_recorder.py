"""The recorder on a runtime and SQLite: what is in the file when the runtime has stopped, and after a restart."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from queue_manager.accounting import database, recorder
from queue_manager.accounting.database import HistoryUnavailable
from queue_manager.accounting.history_queries import HistoryFilter, JobHistory, read_history
from queue_manager.accounting.history_retention import Retention
from queue_manager.accounting.history_writer import MAX_QUEUED
from queue_manager.accounting.job_summary import summary
from queue_manager.accounting.record_types import JobRecord, Record, StepRecord
from queue_manager.accounting.recorder import HistoryRecorder
from queue_manager.accounting.step_order import in_order
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli.doctor_reading import history_facts
from queue_manager.configuration.history_section import History
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.visibility.diagnosis.snapshot import HistoryFacts
from tests.waiting import until

LOCKED_SECONDS = 1.0
T0 = "2026-01-01T00:00:00Z"
KEEP, DROP = History(), History(max_age=timedelta(microseconds=1))
HELD = {"type": "QuotaReserved", "status": "False", "reason": "Suspended", "message": "it is stopped"}
RESERVED = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}


class World:
    """An API server with one Job and its Workload, and the file of the history."""

    def __init__(self, folder: Path) -> None:
        self.clock = SystemClock()
        self.server = ApiServer(Store(self.clock, Random(1)), KindRegistry.builtin(), self.clock)
        self.user = RestClient(LocalTransport(self.server, "user"))
        self.file = folder / "history.db"

    async def submit(self) -> None:
        await install_crds(self.user)
        container = {"name": "c", "image": "i"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        job = await self.user.create(
            JOBS, "default", {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": template}}
        )
        uid = job["metadata"]["uid"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
        pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
        meta = {"name": "w", "ownerReferences": [owner]}
        await self.user.create(
            WORKLOADS, "default", {"metadata": meta, "spec": {"queueName": "q", "podSets": [pod_set]}}
        )

    async def become(self, condition: dict[str, Any]) -> None:
        dated = {**condition, "lastTransitionTime": self._now()}
        await self.user.patch(WORKLOADS, "default", "w", {"status": {"conditions": [dated]}}, subresource="status")

    async def finish(self) -> None:
        status = {"startTime": self._now(), "completionTime": self._now()}
        ends = [
            {"type": end, "status": "True", "lastTransitionTime": self._now()}
            for end in ("SuccessCriteriaMet", "Complete")
        ]
        await self.user.patch(JOBS, "default", "j", {"status": status | {"conditions": ends}}, subresource="status")

    def _now(self) -> str:
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    @asynccontextmanager
    async def recording(self, max_queued: int = MAX_QUEUED, config: History = KEEP) -> AsyncIterator[Runtime]:
        runtime = Runtime(LocalTransport(self.server, "sluice"), self.clock, Random(2), silence=None)
        self.recorder = HistoryRecorder(runtime, f"sqlite:///{self.file}", config, max_queued=max_queued)
        async with runtime:
            yield runtime

    async def resume(self, runtime: Runtime) -> sqlite3.Connection:
        """The Workload is resumed and the recorder has seen it, while the connection that is returned has the lock."""
        await self.become(HELD)
        await self.until_recorded("Held")
        other = sqlite3.connect(self.file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await self.become(RESERVED)
        cache = runtime.cache(WORKLOADS, Workload)
        await until(lambda: all(each.is_true("QuotaReserved") for each in cache), "it is seen")
        return other

    def history(self) -> list[JobHistory]:
        try:
            return read_history(f"sqlite:///{self.file}", HistoryFilter())
        except HistoryUnavailable:
            return []

    def steps(self) -> list[str]:
        return [str(step.kind) for each in self.history() for step in sorted(each.steps, key=lambda s: s.occurrence)]

    async def until_recorded(self, *steps: str) -> None:
        await until(lambda: self.steps() == list(steps), f"the history has {steps}")


@pytest.fixture
async def world(tmp_path: Path) -> World:
    found = World(tmp_path)
    await found.submit()
    return found


async def test_a_database_that_is_locked_at_the_end_gets_the_last_step(world: World) -> None:
    """Another process holds the lock of the file for a second while the runtime stops."""
    async with world.recording() as runtime:
        other = await world.resume(runtime)
        asyncio.get_running_loop().call_later(LOCKED_SECONDS, other.close)
    assert world.steps() == ["Held", "Resumed"]


async def test_a_job_that_was_deleted_while_nothing_ran_is_deleted_from_the_next_start_on(world: World) -> None:
    async with world.recording():
        await until(lambda: world.history() != [], "the Job is in the history")
    await world.user.delete(JOBS, "default", "j", propagation="Background")
    async with world.recording():
        await world.until_recorded("Deleted")
    [[_, [deleted], _]] = world.history()
    assert deleted.message == "gone while nothing recorded the history"


async def test_dropped_records_are_counted_by_reason(world: World) -> None:
    """With no room, not even the submission waits for the database."""
    async with world.recording(max_queued=0) as runtime:
        await world.become(HELD)
        await until(lambda: f'{recorder.DROPPED}{{reason="queue_full"}} 2.0' in runtime.metrics.exposition(), "both")


async def test_a_step_that_was_lost_is_logged_and_found_by_the_next_process(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "LAST_WRITE_SECONDS", 0.2)
    monkeypatch.setattr(database, "CONNECT_SECONDS", 0.1)
    async with world.recording() as runtime:
        other = await world.resume(runtime)
    [lost] = [record for record in caplog.records if record.msg == "the history is incomplete"]
    assert vars(lost)["lost_records"] == 1
    await until(lambda: all(thread.name != "history" for thread in threading.enumerate()), "the writer has given up")
    other.close()
    assert world.steps() == ["Held"]
    async with world.recording():
        await world.until_recorded("Held", "Resumed")
    async with world.recording():
        pass
    assert world.steps() == ["Held", "Resumed"]


async def test_lost_steps_of_past_attempts_are_found_by_the_next_process(world: World) -> None:
    """Nothing ran from the first admission until the Workload was deactivated in its second attempt."""
    reason = "DeactivatedDueToRequeuingLimitExceeded"
    first = {"start": T0, "end": "2026-01-01T00:00:10Z", "reason": "PodsReadyTimeout", "ranSeconds": 12}
    second = {"start": "2026-01-01T00:00:20Z", "end": "2026-01-01T00:00:30Z", "reason": reason, "ranSeconds": 11}
    conditions = [
        {"type": kind, "status": status, "reason": why, "message": "", "lastTransitionTime": f"2026-01-01T00:00:{at}Z"}
        for kind, status, why, at in (("Evicted", "True", reason, 30), ("QuotaReserved", "False", "Deactivated", 31))
    ]
    evictions = [{"reason": "PodsReadyTimeout", "underlyingCause": "", "count": 2}]
    status = {
        "conditions": conditions,
        "schedulingStats": {"evictions": evictions},
        "requeueHistory": {"attempts": [first, second], "ranSeconds": 23},
    }
    await world.user.patch(WORKLOADS, "default", "w", {"status": status}, subresource="status")
    for _ in range(2):  # the second process finds nothing new
        async with world.recording():
            await until(lambda: len(world.steps()) == 7, "all steps")
    [[record, steps, _]] = world.history()
    ordered = [(str(each.kind), each.attempt) for each in in_order(steps)]
    attempts = [(kind, number) for number in (1, 2) for kind in ("Admitted", "Evicted", "Released", "Requeued")]
    assert ordered == [*attempts[:5], ("Deactivated", 2), ("Released", 2)]
    found = summary(record, steps, (), world.clock.now())
    assert (found.attempts, found.run_seconds, found.state) == (2, 23, "Deactivated")


async def test_a_job_beyond_the_bounds_that_exists_is_not_in_the_history_after_a_start(world: World) -> None:
    """The start reads it again from the cluster, after the first deletion."""
    async with world.recording():
        await world.finish()
        await world.until_recorded("Finished")
    async with world.recording(config=DROP) as runtime:
        await until(lambda: f"{recorder.WRITTEN} 2.0" in runtime.metrics.exposition(), "Job and end are written again")
        await until(lambda: world.history() == [], "they are deleted again")


async def test_new_bounds_hold_at_once_for_jobs_that_have_ended(world: World) -> None:
    async with world.recording():
        await world.finish()
        await world.until_recorded("Finished")
        world.recorder.reconfigure(DROP)
        await until(lambda: world.history() == [], "it is deleted")


class Hanging:
    """A store whose writes hang until `gate` is set."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def write(self, records: Sequence[Record]) -> None:
        self.gate.wait()

    def unfinished(self) -> Mapping[str, JobRecord]:
        return {}

    def untraced_steps(self) -> Mapping[str, Sequence[StepRecord]]:
        return {}

    def steps_of(self, job_uids: Collection[str]) -> Mapping[str, Sequence[StepRecord]]:
        return {}

    def prune(self, retention: Retention, now: datetime) -> int:
        return 0

    def close(self) -> None:
        return None


async def test_a_database_that_hangs_is_logged_once_and_known_to_doctor(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says when the records are written."""
    store = Hanging()
    monkeypatch.setattr(recorder, "_open", lambda url: store)
    monkeypatch.setattr(recorder, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(recorder, "CHECK_SECONDS", 0.02)
    caplog.set_level(logging.INFO)

    def logged(message: str) -> list[dict[str, Any]]:
        return [vars(record) for record in caplog.records if record.msg == message]

    async with world.recording() as runtime:
        await until(lambda: bool(logged("the history is not written")), "the stall is logged")
        facts = history_facts(runtime.metrics.exposition())
        assert facts is not None
        assert facts.stalled_seconds >= 0.2
        assert facts.waiting_records == 1
        await asyncio.sleep(0.1)  # several checks
        store.gate.set()
        await until(lambda: bool(logged("the history is written again")), "the end of the stall is logged")
        assert history_facts(runtime.metrics.exposition()) == HistoryFacts(0.0, 0)
    [stalled] = logged("the history is not written")
    assert (stalled["cause"], stalled["waiting_records"]) == ("its database hangs or is away", 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_thread_that_has_ended_is_named_as_the_cause(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def exits(url: str) -> Hanging:
        raise SystemExit

    monkeypatch.setattr(recorder, "_open", exits)
    monkeypatch.setattr(recorder, "STALL_SECONDS", 0.05)
    monkeypatch.setattr(recorder, "CHECK_SECONDS", 0.02)
    async with world.recording():
        await until(lambda: any(vars(each).get("cause") == "its thread has ended" for each in caplog.records), "logged")
