"""How fast a manager empties Kueue's own benchmark on a real API server, and what that costs.

    make bench-queue [ARGS="--scale 0.1"]

30 ClusterQueues in 5 cohorts get 15 000 Workloads without Jobs within about a minute; a simulated runner ends each one
some time after its admission (`queue_shape`, `queue_load`). The manager is `sluice manager` with its defaults, in a
process of its own. Beside it, on a server of its own, a plain client that makes the same writes without any queue:
what the server itself allows. The machine is part of every figure, so compare the two columns. Figures of other days
and machines are only a scale.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from job_controller.model import Object
from queue_manager.api.api_resources import EVENTS, NAMESPACES
from queue_manager.engine.json_codec import decoder
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.rest_client import Page, RestClient
from queue_manager.engine.transport_protocol import Request, Transport
from tests.benchmarks import queue_report
from tests.benchmarks.interpreter import interpreter
from tests.benchmarks.queue_load import IN_FLIGHT, PLAIN_IN_FLIGHT, Load, PlainClient, Stalled, client_of
from tests.benchmarks.queue_record import Record
from tests.benchmarks.queue_shape import Shape
from tests.control_plane.conftest import install_kinds
from tests.control_plane.jobs.controller_processes import parse_metrics
from tests.control_plane.manager.process import Manager
from tests.control_plane.server import ControlPlane
from tests.process_figures import cpu_seconds, peak_resident_bytes

CONFIG = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
QUIET_SECONDS = 3.0  # without a write, after which everything has been written
QUIET_WITHIN_SECONDS = 120.0
WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch", "APPLY": "apply", "DELETE": "delete"}


class Event(Object):
    """A core/v1 Event, as far as it is counted."""

    reason: str = ""


@dataclass(frozen=True)
class Spent:
    """CPU seconds by process, and requests by what they were: of the whole server so far, or during one run."""

    cpu: Mapping[str, float]
    writes: Counter[str]

    def since(self, earlier: Spent) -> Spent:
        cpu = {name: seconds - earlier.cpu.get(name, 0.0) for name, seconds in self.cpu.items()}
        return Spent(cpu, self.writes - earlier.writes)


@dataclass(frozen=True)
class Result:
    record: Record
    spent: Spent
    settled: float  # seconds from the start to the last write, which Events and queue status may be
    memory: int = 0  # of the manager, at most, in bytes
    lost_events: int = 0
    events: Counter[str] = field(default_factory=Counter)  # Event objects by reason
    load_average: tuple[float, float, float] = field(default_factory=os.getloadavg)


class Meter:
    """Reads what has been spent."""

    def __init__(self, plane: ControlPlane, transport: Transport, **others: int) -> None:
        """`others`: pids by name."""
        self._pids = {**plane.pids(), **others}
        self._transport = transport

    def cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    async def spent(self) -> Spent:
        return Spent(self.cpu(), await self._writes())

    async def _writes(self) -> Counter[str]:
        """Writes that the API server has answered: "patch workloads/status", with the status code if it is an error."""
        answer = await self._transport.request(Request("GET", "/metrics", accept="text/plain"))
        found: Counter[str] = Counter()
        for (name, labels), value in parse_metrics(answer.body.decode()).items():
            of = dict(labels)
            if name == "apiserver_request_total" and of["verb"] in WRITES:
                what = "/".join(part for part in (of["resource"], of["subresource"]) if part)
                code = "" if of["code"].startswith("2") else f" ({of['code']})"
                found[f"{WRITES[of['verb']]} {what}{code}"] += int(value)
        return found

    async def _revision(self) -> str:
        """The revision of etcd, which every write raises. The metrics would show writes too, but take 160 ms of CPU."""
        answer = await self._transport.request(Request("GET", NAMESPACES.path(), query={"limit": "1"}))
        return decoder(Page).decode(answer.body).metadata.resource_version

    async def quiet(self) -> float:
        """Wait until nothing has been written for QUIET_SECONDS: queue status, Events and finalizers come last.

        Returns the time of the last write, of the monotonic clock.
        """
        before, since = await self._revision(), time.monotonic()
        deadline = since + QUIET_WITHIN_SECONDS
        while time.monotonic() - since < QUIET_SECONDS and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            now = await self._revision()
            if now != before:
                before, since = now, time.monotonic()
        return since


async def measure(plane: ControlPlane, shape: Shape, config: str = CONFIG, every: float = 5.0) -> Result:
    """The manager with this load. Raises Stalled."""
    async with client_of(plane, IN_FLIGHT) as runtime:
        await set_up(runtime.client, shape)
        manager = await Manager.start(plane.kubeconfig, config=config)
        try:
            meter = Meter(plane, runtime.client.transport, manager=manager.process.pid, clients=os.getpid())
            load = Load(runtime, shape)
            async with runtime:
                before = await meter.spent()
                progress = queue_report.Progress(meter.cpu)
                await load.play(progress.show, every)
                settled = await meter.quiet() - load.record.started
                spent = (await meter.spent()).since(before)
            lost = sum(values_of(await manager.get("/metrics"), "events_dropped_total"))
            memory = peak_resident_bytes(manager.process.pid)
            await manager.stop()
            events = await runtime.client.list(EVENTS, type=Event)
            return Result(load.record, spent, settled, memory, int(lost), Counter(event.reason for event in events))
        finally:
            await manager.kill()


async def measure_plain(plane: ControlPlane, shape: Shape) -> Result:
    """The plain client."""
    async with client_of(plane, PLAIN_IN_FLIGHT) as runtime:
        await set_up(runtime.client, shape)
        meter = Meter(plane, runtime.client.transport, clients=os.getpid())
        client = PlainClient(runtime, shape)
        async with runtime:
            before = await meter.spent()
            await client.play()
            return Result(client.record, (await meter.spent()).since(before), client.record.makespan)


def values_of(answer: tuple[int, str], metric: str) -> list[float]:
    """The values of all series of this metric in the response to /metrics."""
    return [value for (name, _), value in parse_metrics(answer[1]).items() if name == metric]


async def set_up(client: RestClient, shape: Shape) -> None:
    for resource, namespace, obj in shape.manifests():
        await client.create(resource, namespace, obj)


async def bench(shape: Shape, config: str) -> None:
    print(queue_report.headline(shape), flush=True)
    print(interpreter(), flush=True)
    with ControlPlane.start() as plane:
        install_kinds(plane)
        print("a plain client makes the same writes, without a queue ...", flush=True)
        plain = await measure_plain(plane, shape)
    with ControlPlane.start() as plane:
        install_kinds(plane)
        print("sluice manager:", flush=True)
        try:
            ours = await measure(plane, shape, config)
        except* Stalled as stalled:
            raise SystemExit(f"{stalled.exceptions[0]}\n{(plane.folder / 'manager.log').read_text()[-2000:]}") from None
    queue_report.show(shape, ours, plain)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the Workloads; they arrive at the same rate")
    parser.add_argument("--duration-scale", type=float, default=1.0, help="factor of all run times and intervals")
    parser.add_argument("--cohorts", type=int, default=5, help="of 6 ClusterQueues each")
    parser.add_argument("--config", type=Path, help="a KueueConfig for the manager")
    options = parser.parse_args(arguments)
    shape = Shape().scaled(options.scale, options.duration_scale, options.cohorts)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that all processes are ended
    tune_garbage_collector()
    config = options.config.read_text() if options.config else CONFIG
    try:
        with event_loop() as loop:
            loop.run(bench(shape, config))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
