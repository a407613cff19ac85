"""A RunningCluster on the real server: our controllers as its clients, a scripted kubelet, the rules as webhooks.

The controllers work under a service account with the rights of an installation, users and kubelet as an admin. A
request that RBAC refuses fails the run (tests/control_plane/fixtures.py).

Objects have the names that the scenarios give them, so there is one cluster at a time, and it is emptied before the
next. kube-controller-manager collects garbage.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random

import msgspec

from queue_manager.api.api_resources import JOBS, NAMESPACES, by_kind
from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport
from queue_manager.hosting.job_controller_port import attach_job_controller
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin
from queue_manager.simulation.kubelet import Kubelet, Script
from queue_manager.wiring import QueueManager, attach_queue_controllers
from tests.control_plane import webhooks
from tests.control_plane.cleanup import clear, forget_events
from tests.control_plane.manager.service_account import credentials
from tests.control_plane.server import ControlPlane
from tests.control_plane.webhooks import Webhooks

NS = "ns"
TYPES = {"POST": b"ADDED", "PUT": b"MODIFIED", "PATCH": b"MODIFIED", "DELETE": b"DELETED"}


@dataclass
class RealCluster:
    client: RestClient
    clock: SystemClock
    history: list[bytes]
    admission: list[AdmissionPlugin]
    queue: QueueManager
    metrics: MetricRegistry


@asynccontextmanager
async def running(
    plane: ControlPlane, hooks: Webhooks, script: Script, config: KueueConfig
) -> AsyncIterator[RealCluster]:
    admission: list[AdmissionPlugin] = []
    async with AsyncExitStack() as stack:
        transport = HttpTransport.from_kubeconfig(plane.kubeconfig)
        stack.push_async_callback(transport.close)
        own = HttpTransport.from_kubeconfig(await credentials(plane))
        stack.push_async_callback(own.close)
        await stack.enter_async_context(hooks.serve(admission))
        stack.push_async_callback(_empty, RestClient(transport))
        recorder = Recorder(transport)
        runtime = Runtime(recorder.beside(own), SystemClock(), Random(1))
        queue = attach_queue_controllers(runtime, config)
        attach_job_controller(runtime, config.job_controller.options(), queue.permits)
        node = Runtime(recorder, SystemClock(), Random(1))
        Kubelet(node, script)
        await stack.enter_async_context(runtime)
        await stack.enter_async_context(node)
        stack.callback(admission.clear)
        admission.extend(queue.admission)
        yield RealCluster(RestClient(recorder), SystemClock(), recorder.history, admission, queue, runtime.metrics)


async def _empty(client: RestClient) -> None:
    await clear(client)
    await forget_events(client, NS)


@asynccontextmanager
async def prepared(plane: ControlPlane, hooks: Webhooks) -> AsyncIterator[None]:
    """The server without leftovers of other tests, with our namespace, and calling our webhooks."""
    transport = HttpTransport.from_kubeconfig(plane.kubeconfig)
    client = RestClient(transport)
    try:
        await clear(client)
        await _begin_namespace(client)
        async with webhooks.registered(client, hooks):
            async with hooks.serve([]), asyncio.timeout(60):
                while not all(hooks.asked.values()):
                    await _try_a_job(client)
            yield
    finally:
        await transport.close()


async def _begin_namespace(client: RestClient) -> None:
    try:
        await client.create(NAMESPACES, "", {"metadata": {"name": NS}})
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    await client.patch(NAMESPACES, "", NS, {"metadata": {"labels": {webhooks.NAME: "true"}}})


async def _try_a_job(client: RestClient) -> None:
    """Create a Job as a dry run: the webhooks are called if the server knows them by now."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "t"}, "spec": {"template": {"spec": pod}}}
    query, body = {"dryRun": "All"}, msgspec.json.encode(job)
    answer = await client.transport.request(Request("POST", JOBS.path(NS), query=query, body=body))
    assert answer.status == 201, answer.body


class Recorder(Relay):
    """A transport that records what its writes changed, in the form of `World.history`."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._versions: set[str] = set()
        self.history: list[bytes] = []

    def beside(self, other: Transport) -> Recorder:
        """Return a recorder of another client, with the same history."""
        recorder = Recorder(other)
        recorder._versions, recorder.history = self._versions, self.history
        return recorder

    async def request(self, request: Request) -> Response:
        answer = await self._inner.request(request)
        if request.method in TYPES and answer.status < 300:
            self._record(TYPES[request.method], answer.body)
        return answer

    def _record(self, type: bytes, body: bytes) -> None:
        """Skip a write that left the object as it was: its resourceVersion is known already."""
        tree = msgspec.json.decode(body)
        version = tree["metadata"].get("resourceVersion")
        if version and version not in self._versions:
            self._versions.add(version)
            resource = by_kind(tree["apiVersion"], tree["kind"])
            self.history.append(type + b" " + str(resource).encode() + b" " + body)
