"""A cluster for tests of the node agent: the API server in memory, real placement, real processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from queue_manager.api.api_resources import EVENTS, PODS, PRIORITY_CLASSES
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.local.agent import escaped_processes
from queue_manager.local.agent.agent import Agent
from queue_manager.local.agent.cgroups import Cgroups
from queue_manager.local.agent.eviction_order import PressurePolicy
from queue_manager.local.agent.pod_files import Layout
from queue_manager.local.agent.pod_logs import LogFiles
from queue_manager.local.container_logs_protocol import LogOptions
from queue_manager.local.controllers.taint_eviction import TaintEviction
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.node_registration import NodeSpec, node_specs, register
from queue_manager.local.placement import Placement
from queue_manager.local.pod_priority import PodPriority
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store, StoredChange
from tests.waiting import until

Tree = dict[str, Any]


class World:
    """The server lives as long as the world; agents start and stop."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = SystemClock()
        # A seed of its own: worlds of other test processes, created in the same millisecond, have other UIDs.
        self.store = Store(self.clock, random.Random(str(directory)))
        self.server = ApiServer(self.store, KindRegistry.builtin(), self.clock, [PodPriority(self.store)])
        self.client = RestClient(LocalTransport(self.server))
        self._changes: list[StoredChange] = []
        self.store.subscribe(self._changes.append)

    @contextlib.asynccontextmanager
    async def running(
        self,
        nodes: Sequence[NodeSpec] | None = None,
        policy: PressurePolicy | None = None,
        cgroups: Cgroups | None = None,
    ) -> AsyncIterator[Agent]:
        """Agent and placement run in this block; leaving it drops them without clean-up, as a kill does."""
        specs = nodes or node_specs(cpu="4", memory="8Gi")
        await register(self.client, specs, self.clock.now())
        runtime = Runtime(LocalTransport(self.server), self.clock, random.Random(2))
        agent = Agent(runtime, self.directory / "pods", [spec.host for spec in specs], policy, cgroups)
        Placement(runtime)
        TaintEviction(runtime)
        async with runtime:
            yield agent

    @property
    def logs(self) -> LogFiles:
        return LogFiles(Layout((self.directory / "pods").resolve()), self.clock.now)

    async def priority(self, name: str, value: int, **more: object) -> None:
        """Create a PriorityClass."""
        await self.client.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value, **more})

    # --- pods ---

    async def create(self, script: str = "true", name: str = "pod", **spec: Any) -> Tree:
        container = {"name": "main", "image": "busybox", "command": ["/bin/sh", "-c", script]} | spec.pop(
            "container", {}
        )
        pod = {"metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]} | spec}
        return await self.client.create(PODS, "default", pod)

    async def pod(self, name: str = "pod") -> Tree:
        return await self.client.get(PODS, "default", name)

    async def when(self, held: Callable[[Tree], object], name: str = "pod", seconds: float = 20.0) -> Tree:
        """The pod as soon as `held` is true of it."""
        found: list[Tree] = []

        async def look() -> bool:
            found[:] = [await self.pod(name)]
            return bool(held(found[0]))

        await until(look, seconds=seconds)
        return found[0]

    async def over(self, name: str = "pod", seconds: float = 20.0) -> Tree:
        return await self.when(lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"), name, seconds)

    async def gone(self, name: str = "pod") -> None:
        async def look() -> bool:
            try:
                await self.pod(name)
            except ApiError as error:
                return error.status == 404
            return False

        await until(look)

    async def events(self, name: str = "pod") -> list[tuple[str, str, str]]:
        return [(e["type"], e["reason"], e["message"]) for e in await self.raw_events(name)]

    async def raw_events(self, name: str = "pod") -> list[Tree]:
        found = await self.client.list(EVENTS, "default")
        return [event for event in found if event["involvedObject"]["name"] == name]

    async def first_event(self, name: str = "pod") -> tuple[str, str, str]:
        """The first Event about a pod; Events are written after the objects."""
        found: list[tuple[str, str, str]] = []

        async def look() -> bool:
            found[:] = await self.events(name)
            return bool(found)

        await until(look)
        return found[0]

    def writes_of(self, pod: Tree) -> int:
        """How often the object was written."""
        name = pod["metadata"]["name"]
        return sum(change.resource == str(PODS) and change.new.key == f"default/{name}" for change in self._changes)

    def phases(self, pod: Tree) -> list[str]:
        """The phases of a pod in the order of their writes, without repetitions."""
        key = f"default/{pod['metadata']['name']}"
        versions = [c.new.data for c in self._changes if (c.resource, c.new.key) == (str(PODS), key)]
        seen = [json.loads(data)["status"]["phase"] for data in versions]
        return [phase for phase, _ in itertools.groupby(seen)]

    def files(self, pod: Tree, container: str = "main") -> Path:
        return self.directory / "pods" / pod["metadata"]["uid"] / container

    async def output(self, pod: Tree, container: str = "main", **options: Any) -> str:
        pieces = [piece async for piece in self.logs.open(pod, container, LogOptions(**options))]
        return b"".join(pieces).decode()

    def close(self) -> None:
        escaped_processes.kill(
            {path.name for path in (self.directory / "pods").glob("*")}, (self.directory / "pods").resolve()
        )


def state(pod: Tree, container: str = "main") -> Tree:
    """The state of a container."""
    status = pod["status"]
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((s["state"] for s in statuses if s["name"] == container), {})


def running(pod: Tree) -> bool:
    return "running" in state(pod)


def waiting(pod: Tree, container: str = "main") -> Tree:
    found: Tree = state(pod, container).get("waiting") or {}
    return found


def terminated(pod: Tree, container: str = "main") -> Tree:
    found: Tree = state(pod, container)["terminated"]
    return found


def condition(pod: Tree, type: str) -> Tree:
    return next((c for c in pod["status"].get("conditions") or () if c["type"] == type), {})
