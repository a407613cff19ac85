"""The two servers of the contract, the embedded one and a real kube-apiserver, both reached over HTTP.

Some tests need what no API offers: an object put straight into storage (`put_in_storage`), and a history that was
compacted (`compact`). Each server has its own implementation of both.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from queue_manager.api.api_resources import Resource
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.transport_protocol import Request
from queue_manager.local.controllers.garbage_collector import GarbageCollector
from queue_manager.local.controllers.namespace_deletion import NamespaceController
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.kubeconfig_file import write_kubeconfig
from queue_manager.local.server import http_server
from queue_manager.local.server.api_server import AdmissionPlugin, ApiServer
from queue_manager.local.storage.store import Store
from tests.control_plane.server import ControlPlane
from tests.local.tls import tls

Json = Any
HISTORY = 100  # changes that the embedded server keeps


class Server(Protocol):
    """An API server whose storage a test can change directly."""

    name: str
    transport: HttpTransport
    kubeconfig: Path

    async def put_in_storage(self, resource: Resource, obj: Json) -> None:
        """Put an object into storage as it is, past all rules."""
        ...

    async def compact(self, resource: Resource) -> None:
        """Make the server forget all revisions of a resource before now."""
        ...


@dataclass
class Embedded:
    api: ApiServer
    transport: HttpTransport
    kubeconfig: Path
    admission: list[AdmissionPlugin]
    name: str = "embedded"

    async def put_in_storage(self, resource: Resource, obj: Json) -> None:
        self.api.store.put(str(resource), json.loads(json.dumps(obj)))

    async def compact(self, resource: Resource) -> None:
        """Write until the bounded change log has dropped the old revisions."""
        meta = {"name": "filler", "namespace": "default", "uid": "filler"}
        filler = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        for _ in range(2 * HISTORY):
            self.api.store.put(str(resource), filler)


@dataclass
class Real:
    plane: ControlPlane
    transport: HttpTransport
    name: str = "real"

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig

    async def put_in_storage(self, resource: Resource, obj: Json) -> None:
        key = f"/registry/{resource.plural}/{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        await self._etcd("kv/put", key=_encode(key.encode()), value=_encode(json.dumps(obj).encode()))

    async def compact(self, resource: Resource) -> None:
        answer = await self._etcd("kv/range", key=_encode(b"/registry/none"))
        await self._etcd("kv/compaction", revision=answer["header"]["revision"], physical=True)

    async def _etcd(self, call: str, **message: Json) -> Json:
        """Call etcd's JSON gateway; the API server would refuse such an object."""
        etcd = HttpTransport(self.plane.etcd)
        try:
            answer = await etcd.request(Request("POST", f"/v3/{call}", body=json.dumps(message).encode()))
        finally:
            await etcd.close()
        assert answer.status == 200, answer.body
        return json.loads(answer.body)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


@contextlib.asynccontextmanager
async def embedded(folder: Path, *, controllers: bool = False) -> AsyncIterator[Embedded]:
    """A new embedded server, with its garbage collector and namespace controller if `controllers` is set."""
    clock = SystemClock()
    admission: list[AdmissionPlugin] = []
    api = ApiServer(Store(clock, random.Random(7), history=HISTORY), KindRegistry.builtin(), clock, admission)
    listening = await http_server.serve(api, tls().server, token="secret")
    write_kubeconfig(folder / "kubeconfig", listening.url, "secret", tls().authority)
    transport = HttpTransport(listening.url, token="secret", ssl=tls().client)
    tasks = [asyncio.ensure_future(c.run()) for c in (GarbageCollector(api), NamespaceController(api)) if controllers]
    try:
        yield Embedded(api, transport, folder / "kubeconfig", admission)
    finally:
        await transport.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listening.close()


@contextlib.asynccontextmanager
async def real(plane: ControlPlane) -> AsyncIterator[Real]:
    """The shared real server, through a connection pool of this test's event loop."""
    transport = HttpTransport(plane.url, token=plane.token, ssl=plane.ssl_context())
    try:
        yield Real(plane, transport)
    finally:
        await transport.close()
