"""One API server on which the built-in Job controller and ours work side by side, and somebody who watches.

Jobs are told apart by spec.managedBy. When is a Job at rest? Each controller has a canary: a Job whose only pod
becomes ready and unready in turn, which the controller has to put into its status. A namespace is at rest when
nothing in it has changed for QUIET seconds, and a change of the canary that came after the last one in the
namespace has been answered. So a controller that is slow, or down, is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any
from uuid import uuid4

from job_controller.labels import OWN_MANAGER, OWN_TRACKING_FINALIZER, TRACKING_FINALIZER
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http import HttpTransport
from queue_manager.engine.resources import EVENTS, JOBS, NAMESPACES, PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import STRATEGIC_PATCH
from tests.control_plane.jobs.picture import Seen
from tests.control_plane.jobs.rivals import GARBAGE_COLLECTOR, JOB_CONTROLLER, Rival, built_in, job_counters, ours
from tests.control_plane.server import ControlPlane

Json = Any
QUIET = 2.0  # seconds
BEAT = 0.05  # seconds
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
        self._answered = dict.fromkeys(SIDES, 0.0)  # when the last change began that a canary got an answer to
        self._canaries: dict[str, asyncio.Task[None]] = {}
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
                    for canary in arena._canaries.values():
                        canary.cancel()
                    arena.stop()
        finally:
            await transport.close()

    # --- the two controllers ---

    async def start(self) -> None:
        """Both of them. Starting waits for processes: not on the loop."""
        await asyncio.to_thread(self._spawn)
        self._rested_after = asyncio.get_running_loop().time()
        for side in SIDES:
            if side not in self._canaries:
                self._canaries[side] = asyncio.create_task(self._canary(side))

    def _spawn(self) -> None:
        options = {"manage": "ManagedBy"}
        self._rivals = {
            BUILT_IN: self._stack.enter_context(built_in(self.plane, JOB_CONTROLLER, GARBAGE_COLLECTOR)),
            OURS: self._stack.enter_context(ours(self.plane, options)),
        }

    def stop(self) -> None:
        """Both die."""
        self._stack.close()

    async def restart(self) -> None:
        """Both forget everything."""
        self.stop()
        await self.start()

    async def _canary(self, side: str) -> None:
        """Ask the controller for a sign of life, again and again."""
        loop = asyncio.get_running_loop()
        namespace = f"canary-{uuid4().hex[:8]}"
        await self.create_namespace(namespace)
        await self.user.create(JOBS, namespace, self.manifest(side, {}, {}, {}, {"app": "canary"}))
        while not self.pods_in(namespace):
            await asyncio.sleep(BEAT)
        (pod,) = self.pods_in(namespace)
        ready = False
        while True:
            ready = not ready
            began = loop.time()
            condition = {"type": "Ready", "status": str(ready)}
            status = {"status": {"phase": "Running", "conditions": [condition]}}
            await self.user.patch(
                PODS, namespace, pod.metadata.name, status, subresource="status", content_type=STRATEGIC_PATCH
            )
            while (self.job(namespace) or Seen()).status.get("ready") != int(ready):
                await asyncio.sleep(BEAT)
            self._answered[side] = began

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

    async def rest(self, namespace: str, side: str) -> None:
        """Until nothing has changed for a while and the controller has answered to something later."""
        loop = asyncio.get_running_loop()
        while True:
            since = max(self._touched.get(namespace, 0.0), self._rested_after)
            left = since + QUIET - loop.time()
            if self._canaries[side].done():
                self._canaries[side].result()
            if left <= 0 and self._answered[side] > since:
                return
            await asyncio.sleep(max(left, BEAT))
