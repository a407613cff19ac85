"""One API server on which the built-in Job controller and ours work side by side, and an observer.

Jobs belong to one of the controllers by spec.managedBy. A Job is at rest when nothing in its namespace has changed for
QUIET_SECONDS and the canary of its controller (canary.py) was answered in a round that began after the last change: a
controller that is slow or down is waited for. Retries after an error are not visible here: lockstep.py waits longer
where the two sides differ.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

from job_controller.labels import OWN_TRACKING_FINALIZER, TRACKING_FINALIZER
from job_controller.managed_by import OWN_MANAGER
from queue_manager.api.api_resources import EVENTS, JOBS, NAMESPACES, PODS
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.runtime import Runtime
from queue_manager.operator.required_permissions import JOB_CONTROLLER as PERMISSIONS
from queue_manager.operator.required_permissions import rules
from tests.control_plane.jobs.canary import POLL_SECONDS, Canary
from tests.control_plane.jobs.controller_processes import (
    GARBAGE_COLLECTOR,
    JOB_CONTROLLER,
    ControllerProcess,
    built_in,
    job_counters,
    ours,
)
from tests.control_plane.jobs.snapshot import Seen, SeenEvent
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.server import ControlPlane

Json = Any
QUIET_SECONDS = 1.5
LONGEST_RUN_SECONDS = 24 * 3600
BUILT_IN, OURS = "built-in", "ours"
SIDES = (BUILT_IN, OURS)
JOB = "job"
_IN_NAMESPACE = "comparison: namespace"


def connect(plane: ControlPlane) -> HttpTransport:
    return HttpTransport(plane.url, token=plane.token, ssl=plane.ssl_context())


class SharedServer:
    """Use `SharedServer.open`."""

    def __init__(self, plane: ControlPlane, observer: Runtime) -> None:
        self.plane = plane
        self.user = observer.client
        self.jobs = observer.cache(JOBS, Seen)
        self.pods = observer.cache(PODS, Seen)
        self._events = observer.cache(EVENTS, SeenEvent)
        self._touched: dict[str, float] = {}
        self._last_event = 0.0  # loop time of the last Event
        self._rested_after = 0.0  # rest is measured from here: a controller has just started
        self._canaries: dict[str, Canary] = {}
        self._steps = 0  # in progress
        self._may_step = asyncio.Event()
        self._may_step.set()
        self._no_step = asyncio.Event()
        self._stack = contextlib.ExitStack()
        self._controllers: dict[str, ControllerProcess] = {}
        for cache in (self.pods, self._events):
            cache.index(_IN_NAMESPACE, lambda found: (found.metadata.namespace,))
        self._events.subscribe(self._note_event)
        for cache in (self.jobs, self.pods):
            cache.subscribe(self._touch)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, plane: ControlPlane) -> AsyncIterator[SharedServer]:
        transport = connect(plane)
        try:
            observer = Runtime(transport, SystemClock(), Random(1))
            shared = cls(plane, observer)
            async with observer:
                try:
                    await shared.start()
                    yield shared
                finally:
                    for canary in shared._canaries.values():
                        canary.cancel()
                    shared.stop()
        finally:
            await transport.close()

    # --- the two controllers ---

    async def start(self) -> None:
        """Start both controllers, ours under its service account. Waiting for processes is done in a thread."""
        token, _ = await (await account(self.user, "default", rules([PERMISSIONS]))).token(LONGEST_RUN_SECONDS)
        path = self.plane.folder / "job-controller-kubeconfig"
        await asyncio.to_thread(self._spawn, write_kubeconfig(path, self.plane.url, {"token": token}, self.plane))
        self._rested_after = asyncio.get_running_loop().time()
        for side in SIDES:
            if side not in self._canaries:
                self._canaries[side] = Canary(self, side)

    def _spawn(self, kubeconfig: Path) -> None:
        options = {"manage": "ManagedBy"}
        self._controllers = {
            BUILT_IN: self._stack.enter_context(built_in(self.plane, JOB_CONTROLLER, GARBAGE_COLLECTOR)),
            OURS: self._stack.enter_context(ours(self.plane, options, kubeconfig)),
        }

    def stop(self) -> None:
        """Kill both controllers."""
        self._stack.close()

    @contextlib.asynccontextmanager
    async def step(self) -> AsyncIterator[None]:
        """A step of a history happens in this block. Controllers are not restarted meanwhile."""
        await self._may_step.wait()
        self._steps += 1
        try:
            yield
        finally:
            self._steps -= 1
            if not self._steps:
                self._no_step.set()

    async def restart(self) -> None:
        """Restart both controllers between two steps of all histories that are played.

        A controller that dies in the middle of a sync is another question: the built-in one loses failures then, see
        job_controller/DIFFERENCES.md.
        """
        self._may_step.clear()
        try:
            while self._steps:
                self._no_step.clear()
                await self._no_step.wait()
            while asyncio.get_running_loop().time() - self._last_event < QUIET_SECONDS:
                await asyncio.sleep(POLL_SECONDS)  # Events are written after everything else
            self.stop()
            await self.start()
        finally:
            self._may_step.set()

    def last_log(self, side: str) -> str:
        """Exit status and last log lines of a controller, for an error message."""
        controller = self._controllers[side]
        return (
            f"its exit status is {controller.process.poll()}, its log ends with:\n{controller.log.read_text()[-3000:]}"
        )

    def counters(self) -> dict[str, dict[str, float]]:
        """The counters of both controllers since their start."""
        return {side: job_counters(controller.metrics()) for side, controller in self._controllers.items()}

    # --- objects ---

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

    def events_in(self, namespace: str) -> list[SeenEvent]:
        return self._events.lookup(_IN_NAMESPACE, namespace)

    # --- rest ---

    def _touch(self, old: Seen | None, new: Seen | None) -> None:
        obj = new if new is not None else old
        if obj is not None:
            self._touched[obj.metadata.namespace] = asyncio.get_running_loop().time()

    def _note_event(self, old: SeenEvent | None, new: SeenEvent | None) -> None:
        self._last_event = asyncio.get_running_loop().time()

    def touch(self, namespace: str) -> None:
        self._touched[namespace] = asyncio.get_running_loop().time()

    async def rest(self, namespace: str, side: str) -> None:
        """Wait until nothing has changed for a while and the controller has answered to a later round of its canary."""
        loop = asyncio.get_running_loop()
        canary = self._canaries[side]
        while True:
            canary.check()
            since = max(self._touched.get(namespace, 0.0), self._rested_after)
            left = since + QUIET_SECONDS - loop.time()
            if left <= 0 and canary.answered > since:
                return
            await asyncio.sleep(max(left, POLL_SECONDS))
