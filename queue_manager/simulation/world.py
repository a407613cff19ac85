"""A whole cluster in one process under virtual time: store, API server, every controller, and a scripted kubelet.

Only sockets, disk and processes are missing; requests, caches, queues and controllers are those of `sluice up`. The
API history depends only on the seed and the script, byte for byte. With `separate_queue` the queue's controllers have
a runtime of their own, as beside a real API server: they can be killed and started again while everything else
continues.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random
from types import TracebackType
from typing import Any, Self

from queue_manager import kube_yaml
from queue_manager.api.api_resources import by_kind
from queue_manager.configuration import KueueConfig
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.local.controllers.garbage_collector import GarbageCollector
from queue_manager.local.controllers.namespace_deletion import NamespaceController
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store, StoredChange
from queue_manager.simulation.kubelet import Kubelet, PodScript, Script
from queue_manager.simulation.virtual_time import virtual_clock
from queue_manager.wiring import QueueManager, attach_controllers


class World:
    """`async with World(seed, script) as world:` inside `run_virtual`. `world.client` acts as a user."""

    def __init__(
        self,
        seed: int = 0,
        script: Script | None = lambda pod: PodScript(),
        config: KueueConfig | None = None,
        *,
        separate_queue: bool = False,
        wrap_transport: Callable[[Transport], Transport] = lambda transport: transport,
    ) -> None:
        """`script` None: no kubelet. `wrap_transport` wraps the transport of the queue's controllers; unless they are
        separate, all other controllers share it.
        """
        self.clock = virtual_clock()
        self.rng = Random(seed)
        self.history: list[bytes] = []
        self._config = config or KueueConfig()
        self._script = script
        self._separate_queue = separate_queue
        self._wrap_transport = wrap_transport
        self._stack = AsyncExitStack()
        self.store = Store(self.clock, self.rng)
        self.store.subscribe(self._record)
        self.admission: list[AdmissionPlugin] = []
        self.server = ApiServer(self.store, KindRegistry.builtin(), self.clock, self.admission)
        self.client = RestClient(LocalTransport(self.server, "user"))
        self._manager: tuple[Runtime, _Wire] | None = None

    async def __aenter__(self) -> Self:
        await install_crds(self.client)
        transport: Transport = LocalTransport(self.server, "system:sluice")
        transport = transport if self._separate_queue else self._wrap_transport(transport)
        runtime = Runtime(transport, self.clock, self.rng, silence=None)
        options = self._config.job_controller.options()
        queue = attach_controllers(runtime, self._config, queue=not self._separate_queue, job_controller=options)
        if queue is not None:
            self._use_queue(queue, runtime)
        for controller in (GarbageCollector(self.server), NamespaceController(self.server)):
            runtime.task(controller.run)
        if self._script is not None:
            Kubelet(runtime, self._script)
        await self._stack.enter_async_context(runtime)
        if self._separate_queue:
            self._stack.push_async_callback(self.kill)
            await self.start()
        return self

    def _use_queue(self, queue: QueueManager, runtime: Runtime) -> None:
        self.queue = queue
        self.metrics = runtime.metrics
        self.admission[:] = self.queue.admission

    async def start(self) -> None:
        """Start the queue's controllers, with empty caches."""
        wire = _Wire(self._wrap_transport(LocalTransport(self.server, "system:sluice-queue")))
        runtime = Runtime(wire, self.clock, self.rng)
        self._use_queue(attach_controllers(runtime, self._config), runtime)
        self._manager = runtime, wire
        await runtime.__aenter__()

    @property
    def alive(self) -> bool:
        """Whether the queue's controllers run."""
        return self._manager is not None or not self._separate_queue

    async def kill(self) -> None:
        """End the queue's controllers as kill -9 would: no further write of theirs reaches the store."""
        if self._manager is None:
            return
        (runtime, wire), self._manager = self._manager, None
        wire.cut = True
        dead = ConnectionAbortedError("killed")
        await runtime.__aexit__(type(dead), dead, None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def apply(self, manifests: str) -> list[dict[str, Any]]:
        """Create the objects of a YAML text and return them as stored."""
        created = []
        for tree in kube_yaml.load_all(manifests):
            resource = by_kind(tree["apiVersion"], tree["kind"])
            namespace = tree["metadata"].get("namespace", "default") if resource.namespaced else ""
            created.append(await self.client.create(resource, namespace, tree))
        return created

    def _record(self, change: StoredChange) -> None:
        self.history.append(change.type.encode() + b" " + change.resource.encode() + b" " + change.new.data)


class _Wire(Relay):
    """A transport that can be cut."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.cut = False

    async def request(self, request: Request) -> Response:
        if self.cut:
            raise ConnectionAbortedError("killed")
        return await super().request(request)
