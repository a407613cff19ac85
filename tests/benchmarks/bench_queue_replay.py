"""The load of `make bench-queue` in memory and in virtual time: CPU of the manager by part, and its writes by cause.

The manager, with a runtime of its own, talks to the embedded API server, which answers as slowly as a real one does
under this load. Time is virtual, so what is decided and written depends on nothing but the code: two versions of the
code that print the same history have written the same. The CPU seconds of each part are those of its own callbacks:
those of the server and of the clients are counted apart.

    python -m tests.benchmarks.bench_queue_replay [--scale 0.1] [--cohorts 1] [--profile]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
from asyncio import events
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from time import process_time
from typing import Any

from queue_manager.engine.process_tuning import tune_garbage_collector
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.benchmarks.queue_load import Load
from tests.benchmarks.queue_record import BY_RUNNER, METADATA, Record
from tests.benchmarks.queue_report import preempted_once
from tests.benchmarks.queue_shape import Shape

SERVER_SECONDS = 0.0012  # between two writes that a real API server answers under the load of FULL_COHORTS cohorts
FULL_COHORTS = 5
MANAGER = "manager"
SHOWN_SECONDS = 5e-6  # per Workload

PART = ContextVar("PART", default="clients")


class CpuByPart:
    """CPU seconds of the callbacks of an event loop, by the part to which their task belongs."""

    def __init__(self, profile: cProfile.Profile | None = None) -> None:
        self.seconds: Counter[str] = Counter()
        self._profile = profile

    def __enter__(self) -> CpuByPart:
        self._run = run = events.Handle._run
        seconds, profile = self.seconds, self._profile

        def measured(handle: events.Handle) -> None:
            part = handle._context.get(PART, "clients")  # type: ignore[attr-defined]
            profiled = profile is not None and part.startswith(MANAGER)
            started = process_time()
            if profiled:
                profile.enable()  # type: ignore[union-attr]
            run(handle)
            if profiled:
                profile.disable()  # type: ignore[union-attr]
            seconds[part] += process_time() - started

        events.Handle._run = measured  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        events.Handle._run = self._run  # type: ignore[method-assign]


class SlowServer(Relay):
    """Each request is handled in the context of the server; writes are answered one after another."""

    def __init__(self, inner: Transport, server: Context, free: list[float], seconds: float) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._server = server
        self._free = free  # when the server is free again; shared by all its clients

    async def request(self, request: Request) -> Response:
        if request.method != "GET":
            loop = asyncio.get_running_loop()
            self._free[0] = max(self._free[0], loop.time()) + self._seconds
            await asyncio.sleep(self._free[0] - loop.time())
        return await asyncio.create_task(self._inner.request(request), context=self._server)

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._inner.stream(path, query=query)


def start_task(loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None) -> asyncio.Task[Any]:
    """A task factory: the tasks of the manager count apart, by the coroutine that they run."""
    if context is None:
        context = copy_context()
        if PART.get().startswith(MANAGER):
            context.run(PART.set, f"{MANAGER}: {coro.__qualname__}")
    return asyncio.Task(coro, loop=loop, context=context)


@dataclass(frozen=True)
class Replay:
    record: Record
    cpu: Counter[str]  # seconds by part
    history: str  # a digest of every version of every Workload

    @property
    def of_manager(self) -> float:
        return sum(seconds for part, seconds in self.cpu.items() if part.startswith(MANAGER))


def replay(shape: Shape, profile: cProfile.Profile | None = None) -> Replay:
    """Play the load to its end."""
    cpu = CpuByPart(profile)

    async def scenario() -> Replay:
        server, manager, free = copy_context(), copy_context(), [0.0]
        asyncio.get_running_loop().set_task_factory(start_task)
        PART.set("clients")
        pace = SERVER_SECONDS * FULL_COHORTS / shape.cohorts
        server.run(PART.set, "server")
        manager.run(PART.set, MANAGER)
        world = World(1, None, separate_queue=True, wrap_transport=lambda inner: SlowServer(inner, server, free, pace))
        await asyncio.create_task(world.__aenter__(), context=server)
        await asyncio.create_task(world.kill(), context=server)
        await asyncio.create_task(world.start(), context=manager)
        clients = Runtime(SlowServer(LocalTransport(world.server, "load"), server, free, pace), world.clock, Random(1))
        for resource, namespace, tree in shape.manifests():
            await clients.client.create(resource, namespace, tree)
        load = Load(clients, shape, asyncio.get_running_loop().time)
        async with clients:
            cpu.seconds.clear()
            await load.play(lambda record: None, 1e9)
            workloads = (line for line in world.history if b" workloads" in line[:30])
            digest = sha256(b"\n".join(workloads)).hexdigest()[:12]
            found = Replay(load.record, Counter(cpu.seconds), digest)
        await asyncio.create_task(world.__aexit__(None, None, None), context=server)
        return found

    with cpu:
        return run_virtual(scenario())


def show(shape: Shape, found: Replay) -> None:
    record, total = found.record, shape.total
    print(f"{total:,} Workloads in {len(shape.queues)} ClusterQueues")
    print(f"  {record.makespan:.1f} s of virtual time, history {found.history}")
    print(f"  CPU of the manager per Workload: {found.of_manager / total * 1e3:.3f} ms")
    for part, seconds in found.cpu.most_common():
        if seconds / total > SHOWN_SECONDS:
            print(f"    {seconds / total * 1e3:.3f} ms {part}")
    ours = sum(n for why, n in record.causes.items() if why not in (BY_RUNNER, *METADATA))
    print(f"  status writes by us per Workload: {ours / total:.3f}")
    for why, count in record.causes.most_common():
        print(f"    {count / total:.3f} {why}")
    print(f"  of those preempted once: {preempted_once(record)}")
    print(f"  preemptions: {dict(record.preemptions)}")
    for kind in shape.classes:
        print(f"  {kind.name} admitted after {record.wait(kind.name, last=True):.2f} s on average")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--scale", type=float, default=0.1, help="share of the Workloads")
    parser.add_argument("--cohorts", type=int, default=1, help="of 6 ClusterQueues each")
    parser.add_argument("--profile", action="store_true", help="print the functions that take most CPU in the manager")
    options = parser.parse_args(arguments)
    shape = Shape().scaled(options.scale, 1.0, options.cohorts)
    tune_garbage_collector()
    profile = cProfile.Profile() if options.profile else None
    show(shape, replay(shape, profile))
    if profile is not None:
        for order in ("tottime", "cumtime"):
            pstats.Stats(profile).sort_stats(order).print_stats(45)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
