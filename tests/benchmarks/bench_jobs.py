"""Compare the built-in Job controller with ours on one API server, with the same Jobs, one after the other.

    python -m tests.benchmarks.bench_jobs [--large] [--only succeed,fail] [N ...]

One table row per case. Per controller: seconds from the creation of the Job until its N pods exist; seconds from the
first pod status written until the Job's final status; writes per pod (those of the harness are not counted) and status
writes per Job; CPU per pod; peak memory. `ratio` is ours to built-in. The last rows show a bare client on the same
server, with the same observer: it creates the same pods, and makes the other two writes that each pod needs, its status
and the removal of its finalizer. No controller can be faster.

Each case has a controller process of its own, without client-side rate limits. Pods do not run: the harness writes
their statuses, 50 at a time. Compare ratios: the machine is part of every figure.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from job_controller.labels import OWN_TRACKING_FINALIZER as FINALIZER
from job_controller.model import Job, Object, Record
from job_controller.pod_manifest import manifest
from job_controller.sync_steps import PodPlan
from queue_manager.api.api_resources import JOBS, NAMESPACES, PODS
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH, Request
from tests.control_plane.jobs.controller_processes import JOB_CONTROLLER, ControllerProcess, built_in, ours
from tests.control_plane.jobs.shared_server import BUILT_IN, OURS, SIDES, SharedServer
from tests.control_plane.server import ControlPlane

Json = Any
IN_FLIGHT = 50
TIMEOUT_SECONDS = 900.0
SERVER_FLAGS = ("--max-requests-inflight=4000", "--max-mutating-requests-inflight=2000")
_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Case:
    """`jobs` Jobs of `pods` pods each, all of which end with `outcome`."""

    name: str
    pods: int
    outcome: str
    spec: dict[str, Json]
    jobs: int = 1

    @property
    def total(self) -> int:
        return self.jobs * self.pods


@dataclass
class Result:
    created: float = 0.0
    finished: float = 0.0
    writes: dict[str, float] = field(default_factory=dict)
    cpu: float = 0.0
    memory: int = 0
    status_writes: float = 0.0

    @property
    def total(self) -> float:
        return self.created + self.finished


class PodHead(Object):
    """A pod of which only its metadata is decoded."""


class JobEnd(Record):
    type: str = ""
    status: str = ""


class JobEnds(Record):
    conditions: tuple[JobEnd, ...] = ()


class JobHead(Object):
    status: JobEnds = JobEnds()

    @property
    def ended(self) -> bool:
        return any(c.type in ("Complete", "Failed") and c.status == "True" for c in self.status.conditions)


def cases(sizes: Iterable[int]) -> list[Case]:
    found: list[Case] = []
    for n in sizes:
        indexed = {"completionMode": "Indexed", "completions": n, "parallelism": n}
        found += [
            Case(f"{n} succeed", n, "Succeeded", indexed),
            Case(f"{n} succeed, per index", n, "Succeeded", {**indexed, "backoffLimitPerIndex": 1}),
            Case(f"{n} fail", n, "Failed", {**indexed, "backoffLimit": n - 1}),
            Case(f"{n} fail, per index", n, "Failed", {**indexed, "backoffLimitPerIndex": 0}),
        ]
    return found


MANY_JOBS = Case("500 Jobs of 4 pods", 4, "Succeeded", {"completions": 4, "parallelism": 4}, jobs=500)


class Bench:
    """One API server; `run` plays one case with one controller."""

    def __init__(self, plane: ControlPlane, transport: HttpTransport) -> None:
        self._plane = plane
        self._transport = transport
        self._number = 0

    async def run(self, side: str, case: Case) -> Result:
        self._number += 1
        namespace = f"bench-{self._number}"
        rival_context = (
            ours(self._plane, {"manage": "ManagedBy"}) if side == OURS else built_in(self._plane, JOB_CONTROLLER)
        )
        with rival_context as controller:
            observer = Runtime(self._transport, SystemClock(), Random(1))
            jobs, pods = observer.cache(JOBS, JobHead), observer.cache(PODS, PodHead)
            async with observer:
                await observer.client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
                await asyncio.sleep(1.0)  # the controller has started
                result = await self._measure(observer.client, controller, side, case, namespace, jobs, pods)
                await self._clear(observer.client, namespace, pods.values())
                return result

    async def _measure(
        self,
        client: RestClient,
        controller: ControllerProcess,
        side: str,
        case: Case,
        namespace: str,
        jobs: Any,
        pods: Any,
    ) -> Result:
        result = Result()
        before, cpu = await self._writes(), controller.cpu_seconds()
        began = time.perf_counter()
        body = SharedServer.manifest(side, case.spec, {}, {}, {})
        names = [f"job-{number}" for number in range(case.jobs)]

        async def submit(name: str) -> None:
            await client.create(JOBS, namespace, {**body, "metadata": {"name": name}})

        await _each(names, submit)
        await _until(pods, lambda: len(pods) >= case.total)
        result.created = time.perf_counter() - began

        began = time.perf_counter()
        await asyncio.gather(
            _each(pods.values(), ending(client, case.outcome)),
            _until(jobs, lambda: sum(job.ended for job in jobs.values()) == case.jobs),
        )
        result.finished = time.perf_counter() - began
        result.cpu = controller.cpu_seconds() - cpu
        result.memory = controller.peak_memory()
        await asyncio.sleep(0.5)  # Events may still be under way
        after = await self._writes()
        result.writes = {kind: after.get(kind, 0) - before.get(kind, 0) for kind in ("pods", "jobs", "events")}
        result.writes["pods"] -= case.total
        result.writes["jobs"] -= case.jobs
        return result

    async def _writes(self) -> dict[str, float]:
        """The number of writes that the API server has answered, by resource."""
        answer = await self._transport.request(Request("GET", "/metrics", accept="text/plain"))
        counts: dict[str, float] = {}
        for labels, value in _REQUESTS.findall(answer.body.decode()):
            found = dict(_LABEL.findall(labels))
            if found.get("verb") in ("POST", "PUT", "PATCH", "DELETE"):
                resource = found.get("resource", "")
                counts[resource] = counts.get(resource, 0) + float(value)
        return counts

    async def _clear(self, client: RestClient, namespace: str, pods: Sequence[Object]) -> None:
        """Delete everything, so that the next case starts with an empty cluster."""
        for path in (JOBS.path(namespace), PODS.path(namespace)):
            query = {"propagationPolicy": "Background", "gracePeriodSeconds": "0"}
            await self._transport.request(Request("DELETE", path, query=query, timeout=300))
        while await client.list(PODS, namespace):
            await asyncio.sleep(0.2)

    async def bare(self, case: Case) -> tuple[float, float]:
        """Seconds that a client needs which does nothing else.

        First to create the same pods until the same observer has seen them (on a small machine watching costs as much
        as creating); then to write their statuses and remove their finalizers, which is all that must be written until
        the Job ends.
        """
        self._number += 1
        namespace = f"bench-{self._number}"
        observer = Runtime(self._transport, SystemClock(), Random(1))
        pods = observer.cache(PODS, PodHead)
        async with observer:
            client = observer.client
            await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
            body = SharedServer.manifest(OURS, {**case.spec, "suspend": True}, {}, {}, {})
            job = await client.create(JOBS, namespace, body, type=Job)  # no controller runs

            async def create(index: int) -> None:
                await client.create(PODS, namespace, manifest(job, PodPlan(index), FINALIZER), type=PodHead)

            began = time.perf_counter()
            await asyncio.gather(_each(range(case.total), create), _until(pods, lambda: len(pods) >= case.total))
            created = time.perf_counter() - began
            began = time.perf_counter()
            await _each(pods.values(), ending(client, case.outcome))
            await _each(pods.values(), lambda pod: self._free(client, pod))
            ended = time.perf_counter() - began
            await self._clear(client, namespace, ())
        return created, ended

    @staticmethod
    async def _free(client: RestClient, pod: Object) -> None:
        await client.patch(PODS, pod.metadata.namespace, pod.metadata.name, {"metadata": {"finalizers": None}})


def ending(client: RestClient, phase: str) -> Callable[[Object], Awaitable[None]]:
    """Returns a function that writes what a kubelet writes when a pod has ended."""
    status = pod_status(phase)

    async def end(pod: Object) -> None:
        meta = pod.metadata
        await client.patch(
            PODS, meta.namespace, meta.name, status, subresource="status", content_type=STRATEGIC_PATCH, type=PodHead
        )

    return end


def pod_status(phase: str) -> Json:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    code = int(phase == "Failed")
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": now}}
    container = {"name": "main", "ready": False, "restartCount": 0, "image": "i", "imageID": "i", "state": state}
    return {"status": {"phase": phase, "containerStatuses": [container]}}


async def _each(items: Iterable[Any], do: Callable[[Any], Awaitable[None]]) -> None:
    waiting = iter(items)

    async def hand() -> None:
        for item in waiting:
            await do(item)

    await asyncio.gather(*(hand() for _ in range(IN_FLIGHT)))


async def _until(cache: Any, holds: Callable[[], bool]) -> None:
    """Wait until the condition holds; the cache wakes the wait, not a timer."""
    event = asyncio.Event()

    def look(old: object, new: object) -> None:
        if holds():
            event.set()

    cache.subscribe(look)
    if not holds():
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await event.wait()


COLUMNS = ("case", "who", "pods exist", "ends in", "total", "writes/pod", "status writes/Job", "CPU/pod", "peak")


def lines(case: Case, results: dict[str, Result]) -> Iterable[tuple[str, ...]]:
    """Three table rows: built-in, ours, ratio."""
    figures = {}
    for side, r in results.items():
        per_pod = r.writes["pods"] / case.total
        figures[side] = (
            r.created,
            r.finished,
            r.total,
            per_pod,
            r.writes["jobs"] / case.jobs,
            r.cpu / case.total,
            r.memory,
        )
    for side, (created, finished, total, per_pod, status, cpu, memory) in figures.items():
        yield (
            case.name, side, f"{created:.2f} s", f"{finished:.2f} s", f"{total:.2f} s", f"{per_pod:.2f}",
            f"{status:.1f}", f"{cpu * 1000:.2f} ms", f"{memory / 2**20:.0f} MB",
        )  # fmt: skip
    ratios = [mine / theirs if theirs else 0.0 for theirs, mine in zip(figures[BUILT_IN], figures[OURS], strict=True)]
    yield (case.name, "ratio", *(f"{ratio:.2f}" for ratio in ratios))


def show(row: Sequence[str]) -> None:
    print("  ".join(f"{cell:<24}" if i == 0 else f"{cell:>17}" for i, cell in enumerate(row)), flush=True)


async def bench(chosen: list[Case]) -> None:
    with ControlPlane.start(*SERVER_FLAGS) as plane:
        transport = HttpTransport(plane.url, token=plane.token, ssl=plane.ssl_context(), max_in_flight=IN_FLIGHT)
        try:
            board = Bench(plane, transport)
            show(COLUMNS)
            for case in chosen:
                results = {side: await board.run(side, case) for side in SIDES}
                for row in lines(case, results):
                    show(row)
                if case.outcome == "Succeeded" and case.jobs == 1 and "backoffLimitPerIndex" not in case.spec:
                    created, ended = await board.bare(case)
                    share = created / results[OURS].created
                    figures = (f"{created:.2f} s", f"{ended:.2f} s", f"{created + ended:.2f} s")
                    show((case.name, "bare client", *figures, f"ours creates at {share:.0%} of its rate"))
        finally:
            await transport.close()


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("sizes", nargs="*", type=int, default=[10, 100, 1000], metavar="N")
    parser.add_argument("--large", action="store_true", help="N = 5000 too")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args(arguments)
    sizes = [*options.sizes, *([5000] if options.large else [])]
    chosen = [case for case in (*cases(sizes), MANY_JOBS) if options.only in case.name]
    with contextlib.suppress(KeyboardInterrupt):
        tune_garbage_collector()
        with event_loop() as loop:
            loop.run(bench(chosen))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
