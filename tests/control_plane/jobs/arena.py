"""One API server on which the built-in Job controller and ours work side by side, and somebody who watches.

Jobs are told apart by spec.managedBy. When is a Job at rest? When nothing in its namespace has changed for QUIET
seconds, and the canary of its controller (canary.py) has been answered in a round that began after the last change.
So a controller that is slow, or down, is waited for. What it tries again after an error is not seen by this: the
player (match.py) waits further where the two sides are not alike.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from job_controller.labels import OWN_MANAGER, OWN_TRACKING_FINALIZER, TRACKING_FINALIZER
from queue_manager.api.resources import EVENTS, JOBS, NAMESPACES, PODS
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.runtime import Runtime
from tests.control_plane.jobs.canary import BEAT, Canary
from tests.control_plane.jobs.picture import Seen, Told
from tests.control_plane.jobs.rivals import GARBAGE_COLLECTOR, JOB_CONTROLLER, Rival, built_in, job_counters, ours
from tests.control_plane.server import ControlPlane

Json = Any
QUIET = 1.5  # seconds
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
        self._events = observer.cache(EVENTS, Told)
        self._touched: dict[str, float] = {}
        self._told = 0.0  # when the last Event came
        self._rested_after = 0.0  # rest counts from here: a controller has just started
        self._canaries: dict[str, Canary] = {}
        self._steps = 0  # that are being taken now
        self._may_step = asyncio.Event()
        self._may_step.set()
        self._nobody_steps = asyncio.Event()
        self._stack = contextlib.ExitStack()
        self._rivals: dict[str, Rival] = {}
        for cache in (self.pods, self._events):
            cache.index(_IN_NAMESPACE, lambda found: (found.metadata.namespace,))
        self._events.subscribe(self._tell)
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
                self._canaries[side] = Canary(self, side)

    def _spawn(self) -> None:
        options = {"manage": "ManagedBy"}
        self._rivals = {
            BUILT_IN: self._stack.enter_context(built_in(self.plane, JOB_CONTROLLER, GARBAGE_COLLECTOR)),
            OURS: self._stack.enter_context(ours(self.plane, options)),
        }

    def stop(self) -> None:
        """Both die."""
        self._stack.close()

    @contextlib.asynccontextmanager
    async def step(self) -> AsyncIterator[None]:
        """Something happens in here, and comes to rest. Controllers are not restarted meanwhile."""
        await self._may_step.wait()
        self._steps += 1
        try:
            yield
        finally:
            self._steps -= 1
            if not self._steps:
                self._nobody_steps.set()

    async def restart(self) -> None:
        """Both forget everything, between any two steps of all histories that are played.

        What a controller leaves behind that dies in the midst of a sync is another question: the built-in one loses
        failures then, see DIFFERENCES.md.
        """
        self._may_step.clear()
        try:
            while self._steps:
                self._nobody_steps.clear()
                await self._nobody_steps.wait()
            while asyncio.get_running_loop().time() - self._told < QUIET:
                await asyncio.sleep(BEAT)  # Events are written later than all else
            self.stop()
            await self.start()
        finally:
            self._may_step.set()

    def trouble(self, side: str) -> str:
        """What a controller says, for one that does not do what it should."""
        rival = self._rivals[side]
        return f"its exit status is {rival.process.poll()}, its log ends with:\n{rival.log.read_text()[-3000:]}"

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

    def events_in(self, namespace: str) -> list[Told]:
        return self._events.lookup(_IN_NAMESPACE, namespace)

    # --- rest ---

    def _touch(self, old: Seen | None, new: Seen | None) -> None:
        obj = new if new is not None else old
        if obj is not None:
            self._touched[obj.metadata.namespace] = asyncio.get_running_loop().time()

    def _tell(self, old: Told | None, new: Told | None) -> None:
        self._told = asyncio.get_running_loop().time()

    def touch(self, namespace: str) -> None:
        self._touched[namespace] = asyncio.get_running_loop().time()

    async def rest(self, namespace: str, side: str) -> None:
        """Until nothing has changed for a while and the controller has answered to something later."""
        loop = asyncio.get_running_loop()
        canary = self._canaries[side]
        while True:
            canary.check()
            since = max(self._touched.get(namespace, 0.0), self._rested_after)
            left = since + QUIET - loop.time()
            if left <= 0 and canary.answered > since:
                return
            await asyncio.sleep(max(left, BEAT))
