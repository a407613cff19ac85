"""A server for tests: permissive kinds, a clock that tests advance, and short ways to send requests."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from job_controller.api_rules.field_errors import FieldError, required
from queue_manager.api.api_resources import CONFIG_MAPS, CRDS, JOBS, NAMESPACES, NODES, PODS, Resource
from queue_manager.engine.transport_protocol import Response
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.kinds.kind_registry import MountedGroup
from queue_manager.local.server.api_server import ApiServer, ServerRequest, Stream
from queue_manager.local.storage.store import Store, StoreJournal

Json = Any

KNOWN = {"apiVersion", "kind", "metadata", "spec", "status", "data", "target", "message", "type"}


class OpenSchema:
    """Accepts every known top-level field."""

    def check(self, body: Json, old: Json | None = None) -> list[str]:
        return [f'unknown field "{name}"' for name in body if name not in KNOWN]

    def prune(self, body: Json) -> None:
        for name in [name for name in body if name not in KNOWN]:
            del body[name]


def pod_fields(pod: Json) -> Mapping[str, str]:
    return {
        "spec.nodeName": pod.get("spec", {}).get("nodeName", ""),
        "status.phase": pod.get("status", {}).get("phase", ""),
    }


def start_pod(pod: Json) -> None:
    pod["status"] = {"phase": "Pending"}


def containers_required(pod: Json) -> list[FieldError]:
    return [] if pod.get("spec", {}).get("containers") else [required("spec.containers")]


def kinds() -> list[Kind]:
    schema = OpenSchema()
    return [
        Kind(
            PODS,
            schema,
            subresources=("log", "binding", "eviction"),
            prepare_create=start_pod,
            validate_create=containers_required,
            fields=pod_fields,
        ),
        Kind(JOBS, schema, default_propagation="Orphan"),
        Kind(CONFIG_MAPS, schema, has_status=False, generation=False),
        Kind(NAMESPACES, schema, generation=False),
        Kind(NODES, schema, generation=False),
        Kind(CRDS, schema),
    ]


class SmallRegistry:
    """The kinds above."""

    generation = 0

    def __init__(self) -> None:
        self._kinds = {(k.resource.group, k.resource.version, k.resource.plural): k for k in kinds()}
        self.installed: list[str] = []
        self.mounted: dict[str, MountedGroup] = {}

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def all(self) -> list[Kind]:
        return list(self._kinds.values())

    def install(self, crd: Json) -> None:
        self.installed.append(crd["metadata"]["name"])

    def remove(self, crd: Json) -> None:
        self.installed.remove(crd["metadata"]["name"])


@dataclass
class StillClock:
    """A clock that only tests advance."""

    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def pass_seconds(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class Answer:
    """A response with its body decoded."""

    status: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))


class World:
    """A server, and methods to send requests."""

    def __init__(self, journal: StoreJournal | None = None, *, history: int = 1000, **options: Any) -> None:
        self.clock = StillClock()
        self.store = Store(self.clock, random.Random(1), journal, history=history)
        self.registry = SmallRegistry()
        self.server = ApiServer(self.store, self.registry, self.clock, **options)

    async def ask(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: Any,
    ) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        asked = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()}
        headers = {"content-type": content_type, "accept": accept}
        answer = await self.server.handle(ServerRequest(method, path, asked, headers, raw))
        assert isinstance(answer, Response)
        return Answer(answer.status, json.loads(answer.body) if answer.body else None, answer.headers)

    async def create(self, resource: Resource, obj: Json, namespace: str = "default") -> Json:
        """Create an object that must be accepted; returns it as stored."""
        answer = await self.ask("POST", resource.path(namespace if resource.namespaced else ""), obj)
        assert answer.status == 201, answer.body
        return answer.body

    async def get(self, resource: Resource, name: str, namespace: str = "default") -> Json:
        return (await self.ask("GET", path(resource, name, namespace))).body

    async def watch(self, resource: Resource, namespace: str = "", **query: Any) -> Watcher:
        asked = {"watch": "true"} | {name: str(value) for name, value in query.items()}
        accept = asked.pop("accept", "application/json")
        answer = await self.server.handle(ServerRequest("GET", resource.path(namespace), asked, {"accept": accept}))
        assert isinstance(answer, Stream), answer
        return Watcher(answer.chunks)


class Watcher:
    """The events of a watch, one after another."""

    def __init__(self, chunks: AsyncGenerator[bytes, None]) -> None:
        self._chunks = chunks
        self._lines: list[bytes] = []

    async def next(self, seconds: float = 5) -> Json:
        """The next event, which arrives within so many seconds; None at the end of the watch."""
        while not self._lines:
            try:
                chunk = await asyncio.wait_for(anext(self._chunks), seconds)
            except StopAsyncIteration:
                return None
            assert chunk.endswith(b"\n")
            self._lines = chunk.splitlines()
        return json.loads(self._lines.pop(0))

    async def seen(self, count: int) -> list[tuple[str, str]]:
        """The next events as (type, name)."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def nothing(self) -> bool:
        """Whether no further event can be read now."""
        waiting = asyncio.ensure_future(anext(self._chunks))
        for _ in range(5):
            await asyncio.sleep(0)
        done = waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return not done and not self._lines

    async def close(self) -> None:
        await self._chunks.aclose()


def path(resource: Resource, name: str, namespace: str = "default", subresource: str = "") -> str:
    return resource.path(namespace if resource.namespaced else "", name, subresource)


def pod(name: str = "", /, **meta: Any) -> Json:
    metadata = {"name": name, **meta} if name else meta
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "local"}]},
    }


def job(name: str, /, **meta: Any) -> Json:
    metadata = {"name": name, **meta}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"parallelism": 1}}


def config_map(name: str, /, **meta: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": {"a": "1"}}


def owner(obj: Json, **more: Any) -> Json:
    """An ownerReference to an object."""
    meta = obj["metadata"]
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"], **more}
