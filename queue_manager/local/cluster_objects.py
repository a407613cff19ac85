"""Kinds without a namespace in the memory of one manager, which then needs no right in the whole cluster.

    objects = await ClusterObjectServer.start(admission)
    await objects.client.create(CLUSTER_QUEUES, "", tree)      # what the files say, by the rules of the API server
    await objects.read_namespaces(client, ["team"])            # get: the one verb on them that a Role can grant
    transport = objects.beside(transport)                      # everything else is on the API server

An embedded API server without a disk holds the objects, so controllers read, watch and write them as any others:
finalizers and status are there, and end with the process. BEHAVIOUR.md#q180-cluster-objects-from-files.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from job_controller.json_tree import Json
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
)
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store

log = logging.getLogger(__name__)

USER = "system:sluice"
GIVEN = (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, WORKLOAD_PRIORITY_CLASSES, PRIORITY_CLASSES, RUNTIME_CLASSES)
"""What files may contain. An AdmissionCheck is not among them: its controller could not write its status."""
_COLLECTIONS = tuple(resource.path() for resource in (*GIVEN, ADMISSION_CHECKS))
NAMESPACE_SECONDS = 60.0  # between two reads of the labels of the namespaces


class ClusterObjectServer:
    """An embedded API server for the kinds without a namespace."""

    def __init__(self, server: ApiServer) -> None:
        self._transport = LocalTransport(server, USER)
        self.client = RestClient(self._transport)

    @classmethod
    async def start(cls, admission: Sequence[AdmissionPlugin]) -> ClusterObjectServer:
        """Return a server without objects. `admission`: the rules that its objects must meet besides their schema."""
        clock = SystemClock()
        made = cls(ApiServer(Store(clock, random.SystemRandom()), KindRegistry.builtin(), clock, admission))
        await install_crds(made.client)
        return made

    def beside(self, cluster: Transport) -> Transport:
        """Return a transport that answers requests for these kinds from here, and sends all others to `cluster`."""
        return _Split(cluster, self._transport)

    async def read_namespaces(self, cluster: RestClient, names: Iterable[str]) -> None:
        """Copy namespaces, whose labels decide about selectors, from the cluster. Raises ApiError, OSError."""
        for name in names:
            labels = (await cluster.get(NAMESPACES, "", name))["metadata"].get("labels") or {}
            await self._label(name, labels)

    async def follow_namespaces(self, cluster: RestClient, names: Iterable[str]) -> None:
        """Repeat `read_namespaces` every NAMESPACE_SECONDS: a Role cannot grant a watch of namespaces."""
        names = list(names)
        while True:
            await asyncio.sleep(NAMESPACE_SECONDS)
            try:
                await self.read_namespaces(cluster, names)
            except (ApiError, OSError) as error:
                log.warning("a namespace was not read, its last known labels stay in use", extra={"error": str(error)})

    async def _label(self, name: str, labels: Mapping[str, str]) -> None:
        tree: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
        known = {each["metadata"]["name"]: each["metadata"] for each in await self.client.list(NAMESPACES)}
        if name not in known:
            await self.client.create(NAMESPACES, "", tree)
        elif known[name].get("labels") != labels:
            await self.client.replace(NAMESPACES, tree)


class _Split(Relay):
    """Sends requests on kinds without a namespace to one transport, all others to another."""

    def __init__(self, cluster: Transport, memory: Transport) -> None:
        super().__init__(cluster)
        self._memory = memory

    async def request(self, request: Request) -> Response:
        return await self._holder(request.path).request(request)

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._holder(path).stream(path, query=query)

    def _holder(self, path: str) -> Transport:
        in_memory = path == NAMESPACES.path() or f"{path}/".startswith(tuple(f"{each}/" for each in _COLLECTIONS))
        return self._memory if in_memory else self._inner
