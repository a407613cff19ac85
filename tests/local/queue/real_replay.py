"""Replays a recording on the real server in real time: the counterpart of `World` on the embedded one.

Our Job controller is one client of the server, the queue's controllers are another, which can be killed and started
again. Each has a service account with its rights. Pods are written by the recording. The history comes from watches, so
it also has what the server's own garbage collector does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import Random

import msgspec

from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    WORKLOADS,
    Resource,
)
from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Request
from queue_manager.hosting.job_controller_port import attach_job_controller
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin
from queue_manager.operator.required_permissions import JOB_CONTROLLER, QUEUE
from queue_manager.wiring import attach_queue_controllers
from tests.control_plane import webhooks
from tests.control_plane.cleanup import clear, forget_events
from tests.control_plane.manager.service_account import credentials
from tests.control_plane.server import ControlPlane
from tests.control_plane.webhooks import Webhooks
from tests.local.queue.replay import TEAMS, begin_namespaces

RECORDED = (JOBS, WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, PODS, EVENTS)


class RealWorld:
    def __init__(self, plane: ControlPlane, config: KueueConfig, admission: list[AdmissionPlugin]) -> None:
        self.clock = SystemClock()
        self.history: list[bytes] = []
        self._plane = plane
        self._config = config
        self._admission = admission
        self._manager: tuple[Runtime, HttpTransport] | None = None

    async def start(self) -> None:
        """Start the queue's controllers, with empty caches."""
        transport = HttpTransport.from_kubeconfig(await credentials(self._plane, [QUEUE]))
        runtime = Runtime(transport, self.clock, Random(1))
        self._admission[:] = attach_queue_controllers(runtime, self._config).admission
        await runtime.__aenter__()
        self._manager = runtime, transport

    async def kill(self) -> None:
        """End the queue's controllers as kill -9 does: the connections are cut in the middle of requests."""
        if self._manager is None:
            return
        (runtime, transport), self._manager = self._manager, None
        await transport.close()
        dead = ConnectionAbortedError("killed")
        await runtime.__aexit__(type(dead), dead, None)

    async def open(self, stack: AsyncExitStack) -> None:
        transport = HttpTransport.from_kubeconfig(self._plane.kubeconfig)
        stack.push_async_callback(transport.close)
        self.client = RestClient(transport)
        stack.push_async_callback(_empty, self.client)
        tasks = [asyncio.create_task(self._watch(transport, resource)) for resource in RECORDED]
        stack.callback(lambda: [task.cancel() for task in tasks])
        own = HttpTransport.from_kubeconfig(await credentials(self._plane, [JOB_CONTROLLER]))
        stack.push_async_callback(own.close)
        jobs = Runtime(own, self.clock, Random(1))
        attach_job_controller(jobs, self._config.job_controller.options())
        await stack.enter_async_context(jobs)
        stack.push_async_callback(self.kill)
        await self.start()

    async def _watch(self, transport: HttpTransport, resource: Resource) -> None:
        """Append the events of a watch to the history."""
        answer = await transport.request(Request("GET", resource.path(), query={"limit": "1"}))
        version = msgspec.json.decode(answer.body)["metadata"]["resourceVersion"]
        rest = b""
        async with transport.stream(resource.path(), query={"watch": "1", "resourceVersion": version}) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    data = msgspec.json.encode(event["object"])
                    self.history.append(b" ".join((event["type"].encode(), str(resource).encode(), data)))


async def _empty(client: RestClient) -> None:
    await clear(client)
    for namespace in TEAMS:
        await forget_events(client, namespace)
        await client.patch(NAMESPACES, "", namespace, {"metadata": {"labels": {"team": None}}})


@asynccontextmanager
async def _world(plane: ControlPlane, hooks: Webhooks, config: KueueConfig) -> AsyncIterator[RealWorld]:
    admission: list[AdmissionPlugin] = []
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(hooks.serve(admission))
        world = RealWorld(plane, config, admission)
        await world.open(stack)
        yield world


def real_world(plane: ControlPlane, hooks: Webhooks, config: KueueConfig) -> AbstractAsyncContextManager[RealWorld]:
    return _world(plane, hooks, config)


@asynccontextmanager
async def with_namespaces(plane: ControlPlane) -> AsyncIterator[None]:
    """Both namespaces of the recordings, labelled so that the webhooks are called for their objects."""
    transport = HttpTransport.from_kubeconfig(plane.kubeconfig)
    client = RestClient(transport)
    try:
        await begin_namespaces(client, TEAMS)
        for name in TEAMS:
            await client.patch(NAMESPACES, "", name, {"metadata": {"labels": {webhooks.NAME: "true"}}})
        yield
    finally:
        await client.delete(NAMESPACES, "", "ns2")
        await transport.close()
