"""One API server on which the built-in Job controller and ours work side by side, and somebody who watches.

Jobs are told apart by spec.managedBy. A namespace is at rest when nothing in it has changed for QUIET seconds: the
built-in controller answers a change after at most one second, so what has not happened by then waits for
something.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from job_controller.labels import OWN_MANAGER, OWN_TRACKING_FINALIZER, TRACKING_FINALIZER
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http import HttpTransport
from queue_manager.engine.resources import EVENTS, JOBS, NAMESPACES, PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import ApiError
from tests.control_plane.jobs.picture import Seen
from tests.control_plane.jobs.rivals import GARBAGE_COLLECTOR, JOB_CONTROLLER, Rival, built_in, job_counters, ours
from tests.control_plane.server import ControlPlane

Json = Any
QUIET = 2.2  # seconds; the slower, the fewer mistakes of a busy machine
BUILT_IN, OURS = "built-in", "ours"
SIDES = (BUILT_IN, OURS)
JOB = "job"
_IN_NAMESPACE = "comparison: namespace"


def connect(plane: ControlPlane) -> HttpTransport:
    return HttpTransport(plane.url, token=plane.token, ssl=plane.ssl_context())


class Arena:
    """Use `Arena.open`."""

    def __init__(self, plane: ControlPlane, observer: Runtime) -> None:
        self.plane = plane
        self.user = observer.client
        self.jobs = observer.cache(JOBS, Seen)
        self.pods = observer.cache(PODS, Seen)
        self._touched: dict[str, float] = {}
        self._rested_after = 0.0  # rest counts from here: a controller has just started
        self._running = asyncio.Event()
        self._stack = contextlib.ExitStack()
        self._rivals: dict[str, Rival] = {}
        self.pods.index(_IN_NAMESPACE, lambda pod: (pod.metadata.namespace,))
        for cache in (self.jobs, self.pods):
            cache.subscribe(self._touch)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, plane: ControlPlane) -> AsyncIterator[Arena]:
        transport = connect(plane)
        try:
            observer = Runtime(transport, SystemClock(), Random(1))
            arena = cls(plane, observer)
            async with observer:
                try:
                    await arena.start()
                    yield arena
                finally:
                    arena.stop()
        finally:
            await transport.close()

    # --- the two controllers ---

    async def start(self) -> None:
        """Both of them; returns when both are seen to work. Starting waits for processes: not on the loop."""
        await asyncio.to_thread(self._spawn)
        await asyncio.gather(*(self._probe(side) for side in SIDES))
        self._rested_after = asyncio.get_running_loop().time()
        self._running.set()

    def _spawn(self) -> None:
        options = {"manage": "ManagedBy"}
        self._rivals = {
            BUILT_IN: self._stack.enter_context(built_in(self.plane, JOB_CONTROLLER, GARBAGE_COLLECTOR)),
            OURS: self._stack.enter_context(ours(self.plane, options)),
        }

    def stop(self) -> None:
        """Both die."""
        self._running.clear()
        self._stack.close()

    async def restart(self) -> None:
        """Both forget everything."""
        self.stop()
        await self.start()

    async def _probe(self, side: str) -> None:
        """A Job without work completes at once if anybody is there."""
        namespace = f"probe-{side}"
        with contextlib.suppress(ApiError):
            await self.create_namespace(namespace)
        body = self.manifest(side, {"completions": 0}, {}, {}, {"app": "probe"})
        body["metadata"] = {"generateName": "probe-"}
        created = await self.user.create(JOBS, namespace, body)
        name = created["metadata"]["name"]
        while not (self.jobs.get(namespace, name) or Seen()).status.get("completionTime"):
            await asyncio.sleep(0.1)

    def counters(self) -> dict[str, dict[str, float]]:
        """What both have counted since their start."""
        return {side: job_counters(rival.metrics()) for side, rival in self._rivals.items()}

    # --- what is where ---

    @staticmethod
    def finalizer(side: str) -> str:
        return TRACKING_FINALIZER if side == BUILT_IN else OWN_TRACKING_FINALIZER

    @staticmethod
    def manifest(
        side: str, spec: Json, template: Json, annotations: dict[str, str], labels: dict[str, str] | None
    ) -> Json:
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}], **template}
        managed = {"managedBy": OWN_MANAGER} if side == OURS else {}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": JOB, "annotations": annotations},
            "spec": {**spec, **managed, "template": {"metadata": {"labels": labels or {}}, "spec": pod}},
        }

    async def create_namespace(self, name: str) -> None:
        await self.user.create(NAMESPACES, "", {"metadata": {"name": name}})

    def job(self, namespace: str) -> Seen | None:
        return self.jobs.get(namespace, JOB)

    def pods_in(self, namespace: str) -> list[Seen]:
        return self.pods.lookup(_IN_NAMESPACE, namespace)

    async def events(self, namespace: str) -> list[Json]:
        found: list[Json] = await self.user.list(EVENTS, namespace, field_selector="involvedObject.kind=Job")
        return found

    # --- rest ---

    def _touch(self, old: Seen | None, new: Seen | None) -> None:
        obj = new if new is not None else old
        if obj is not None:
            self._touched[obj.metadata.namespace] = asyncio.get_running_loop().time()

    def touch(self, namespace: str) -> None:
        self._touched[namespace] = asyncio.get_running_loop().time()

    async def rest(self, namespace: str) -> None:
        """Until nothing has changed for a while, with both controllers running."""
        loop = asyncio.get_running_loop()
        while True:
            await self._running.wait()
            since = max(self._touched.get(namespace, 0.0), self._rested_after)
            left = since + QUIET - loop.time()
            if left <= 0:
                return
            await asyncio.sleep(left)
