"""The clients of the queue benchmark: they create Workloads, and end each one that has been admitted for long enough.

As in Kueue's test/performance/scheduler/runner, one program does both, with plain requests; nothing runs. An evicted
Workload has no Job that must stop, so the manager releases its quota, and the runner only forgets its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from random import Random

from queue_manager.api import condition_types
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle import transitions
from queue_manager.lifecycle.status_draft import Draft
from tests.benchmarks.queue_record import Record
from tests.benchmarks.queue_shape import Shape, WorkloadClass, admitted_status, workload
from tests.control_plane.server import ControlPlane

IN_FLIGHT = 200  # requests of the clients of a load, who are many people in reality
PLAIN_IN_FLIGHT = 50  # of the plain client, as of the manager
STALLED_SECONDS = 120.0


class Stalled(Exception):
    """No Workload has changed for STALLED_SECONDS, though not all have ended."""


class Load:
    """One program beside the manager: creates, watches, ends."""

    def __init__(self, runtime: Runtime, shape: Shape, time: Callable[[], float] = time.monotonic) -> None:
        """`time`: in seconds."""
        self.record = Record(shape, time)
        self._shape = shape
        self._time = time
        self._clock = runtime.clock
        self._client = runtime.client
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._ends: dict[str, asyncio.TimerHandle] = {}  # by uid
        self._writes: set[asyncio.Task[None]] = set()
        self._run_seconds = {kind.name: kind.run_seconds for kind in shape.classes}

    async def play(self, show: Callable[[Record], None], every: float) -> None:
        """Create everything at its time, and end it; returns when all has ended. Raises Stalled, or a write's error."""
        self._workloads.subscribe(self._changed)
        streams = [self._create(kind, queue.name) for queue in self._shape.queues for kind in self._shape.classes]
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(stream)
            group.create_task(self._report(show, every))

    async def _report(self, show: Callable[[Record], None], every: float) -> None:
        shown = self._time()
        while not self.record.complete:
            await asyncio.sleep(0.05)
            for task in [task for task in self._writes if task.done()]:
                self._writes.discard(task)
                task.result()
            now = self._time()
            if now - self.record.last_change > STALLED_SECONDS:
                raise Stalled(f"{self._shape.total - self.record.finished} Workloads wait, and nothing happens")
            if now - shown >= every:
                shown = now
                show(self.record)

    async def _create(self, kind: WorkloadClass, queue: str) -> None:
        """One after another, each an interval after the one before, as Kueue's generator does."""
        for number in range(kind.count):
            await asyncio.sleep(kind.interval_seconds)
            await self._client.create(WORKLOADS, queue, workload(kind, number, queue), type=Workload)

    # --- the runner ---

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        self.record.changed(old, new)
        if new is None:
            return
        uid = new.metadata.uid
        if not _runs(new):
            self._forget(uid)
        elif uid not in self._ends:
            seconds = self._run_seconds[new.metadata.name.partition("-")[0]]
            self._ends[uid] = asyncio.get_running_loop().call_later(seconds, self._start_end, uid)

    def _forget(self, uid: str) -> None:
        timer = self._ends.pop(uid, None)
        if timer is not None:
            timer.cancel()

    def _start_end(self, uid: str) -> None:
        self._writes.add(asyncio.get_running_loop().create_task(self._end(uid)))

    async def _end(self, uid: str) -> None:
        """Set Finished, unless the Workload has been evicted meanwhile."""
        while (current := self._workloads.by_uid(uid)) is not None and _runs(current):
            draft = Draft(current, self._clock.now())
            transitions.finish(draft, "ByTest", "By test runner")
            meta = current.metadata
            try:
                await self._client.patch(
                    WORKLOADS, meta.namespace, meta.name, draft.patch(), subresource="status", type=Workload
                )
            except ApiError as error:
                if not error.is_conflict:
                    raise
                await self._client.get(WORKLOADS, meta.namespace, meta.name, type=Workload)


def _runs(workload: Workload) -> bool:
    is_true = workload.is_true
    return (
        is_true(condition_types.ADMITTED)
        and not is_true(condition_types.EVICTED)
        and not is_true(condition_types.FINISHED)
    )


class PlainClient:
    """The same writes without a queue: a create, an admission and an end of each, as fast as the server takes them."""

    def __init__(self, runtime: Runtime, shape: Shape) -> None:
        self.record = Record(shape)
        self._shape = shape
        self._client = runtime.client
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)

    async def play(self) -> None:
        """Returns when the watch has delivered all."""
        self._workloads.subscribe(self.record.changed)
        todo = iter(
            (kind, queue.name, number)
            for queue in self._shape.queues
            for kind in self._shape.classes
            for number in range(kind.count)
        )

        async def worker() -> None:
            for kind, queue, number in todo:
                await self._write(kind, queue, number)

        await asyncio.gather(*(worker() for _ in range(PLAIN_IN_FLIGHT)))
        while not self.record.complete:
            await asyncio.sleep(0.05)

    async def _write(self, kind: WorkloadClass, queue: str, number: int) -> None:
        now = datetime.now(UTC)
        new = await self._client.create(WORKLOADS, queue, workload(kind, number, queue), type=Workload)
        name, version = new.metadata.name, {"resourceVersion": new.metadata.resource_version}
        status = admitted_status(kind, queue, now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        patch = {"metadata": version, "status": status}
        admitted = await self._client.patch(WORKLOADS, queue, name, patch, subresource="status", type=Workload)
        draft = Draft(admitted, now)
        transitions.finish(draft, "ByTest", "By test runner")
        await self._client.patch(WORKLOADS, queue, name, draft.patch(), subresource="status", type=Workload)


@contextlib.asynccontextmanager
async def client_of(plane: ControlPlane, in_flight: int) -> AsyncIterator[Runtime]:
    """A runtime that is not started, so that caches can be added."""
    transport = HttpTransport(plane.url, token=plane.token, ssl=plane.ssl_context(), max_in_flight=in_flight)
    try:
        yield Runtime(transport, SystemClock(), Random(1))
    finally:
        await transport.close()
