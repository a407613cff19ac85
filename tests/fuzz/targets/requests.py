"""Requests to the embedded API server: paths, query parameters, bodies in every media type, patches.

The head is `METHOD PATH?QUERY CONTENT-TYPE`. Every write is a dry run, so that all inputs meet the same objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import parse_qsl

import orjson

from queue_manager.api.keys import API_VERSION
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Response,
)
from queue_manager.local import status_errors
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.http_messages import ServerRequest
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from tests.fuzz.target import Target

N = "/namespaces/default"
POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}]}]}


def _kind(name: str) -> dict[str, str]:
    return {"apiVersion": API_VERSION, "kind": name}


OBJECTS: dict[str, dict[str, Any]] = {
    "/api/v1/nodes": {"metadata": {"name": "a"}},
    f"/api/v1{N}/configmaps": {"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"k": "v"}},
    f"/api/v1{N}/pods": {"metadata": {"name": "a", "finalizers": ["x/y"]}, "spec": POD_SPEC},
    f"/apis/batch/v1{N}/jobs": {"metadata": {"name": "a"}, "spec": {"suspend": True, "template": {"spec": POD_SPEC}}},
    "/apis/kueue.x-k8s.io/v1beta2/resourceflavors": {**_kind("ResourceFlavor"), "metadata": {"name": "a"}},
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues": {
        **_kind("ClusterQueue"),
        "metadata": {"name": "a"},
        "spec": {"cohortName": "c"},
    },
    f"/apis/kueue.x-k8s.io/v1beta2{N}/localqueues": {
        **_kind("LocalQueue"),
        "metadata": {"name": "a"},
        "spec": {"clusterQueue": "a"},
    },
    f"/apis/kueue.x-k8s.io/v1beta2{N}/workloads": {
        **_kind("Workload"),
        "metadata": {"name": "a"},
        "spec": {"queueName": "a", "podSets": [{"name": "main", "count": 1, "template": {"spec": POD_SPEC}}]},
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COLLECTIONS = (
    *OBJECTS,
    DEFINITIONS,
    "/apis/kueue.x-k8s.io/v1beta1/clusterqueues",
    f"/apis/kueue.x-k8s.io/v1beta1{N}/workloads",
)
QUERIES = (
    *(
        "",
        "limit=1",
        "limit=1&continue=e30",
        "labelSelector=l%3D1",
        "fieldSelector=metadata.name%3Da",
        "resourceVersion=1",
    ),
    *("fieldValidation=Strict", "fieldManager=m", "pretty=1", "includeObject=None", "watch=1&timeoutSeconds=0"),
)
BODIES = (JSON, "application/yaml", "application/vnd.kubernetes.protobuf")
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def _heads() -> tuple[str, ...]:
    reads = [f"GET {path}?{query} {JSON}" for path in COLLECTIONS for query in QUERIES]
    creates = [f"POST {path}?fieldValidation=Strict {media}" for path in COLLECTIONS for media in BODIES]
    updates = [f"{verb} {path}/a? {JSON}" for path in COLLECTIONS for verb in ("PUT", "DELETE", "GET")]
    statuses = [f"PUT {path}/a/status? {JSON}" for path in COLLECTIONS]
    reviews = [f"POST /apis/authorization.k8s.io/v1/{kind}accessreviews? {JSON}" for kind in ("subject", "selfsubject")]
    logs = [
        f"GET /api/v1{N}/pods/a/log?tailLines=1&sinceTime=2026-01-01T00:00:00Z {JSON}",
        f"DELETE /api/v1{N}/pods? {JSON}",
    ]
    return (*reads, *creates, *updates, *statuses, *reviews, *logs)


def _patch_heads() -> tuple[str, ...]:
    return tuple(
        f"PATCH {path}/a{of}?fieldManager=m {media}"
        for path in COLLECTIONS
        for of in ("", "/status")
        for media in PATCHES
    )


class _Server:
    """An embedded API server with one object of each kind."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.loop = asyncio.new_event_loop()
        self.store = Store(clock, Random(1))
        self.api = ApiServer(self.store, KindRegistry.builtin(), clock)
        self.loop.run_until_complete(self._fill())
        self._revision = self.store.revision

    async def _fill(self) -> None:
        await install_crds(RestClient(LocalTransport(self.api)))
        for path, obj in OBJECTS.items():
            answer = await self.api.handle(ServerRequest("POST", path, {}, {}, orjson.dumps(obj)))
            assert answer.status == 201, answer

    def decode(self, head: str, body: bytes) -> None:
        """Raises StatusError for a refusal. An exception behind a 500 is logged, which fails the input."""
        method, path, query, media = _parsed(head)
        if method not in ("GET", "HEAD"):
            query["dryRun"] = query.get("dryRun", "All") or "All"
        status = self.loop.run_until_complete(
            self._ask(ServerRequest(method, path, query, {"content-type": media}, body))
        )
        assert self.store.revision == self._revision, "a dry run has changed the store"
        if status >= 400:
            raise status_errors.StatusError(status, "", "")

    async def _ask(self, request: ServerRequest) -> int:
        answer = await self.api.handle(request)
        if not isinstance(answer, Response):
            await answer.chunks.aclose()
        elif answer.status >= 400 and answer.headers.get("Content-Type") == JSON:
            assert orjson.loads(answer.body)["kind"] == "Status"
        return answer.status


def _parsed(head: str) -> tuple[str, str, dict[str, str], str]:
    method, _, rest = head.partition(" ")
    target, _, media = rest.rpartition(" ")
    path, _, query = target.partition("?")
    return method, path, dict(parse_qsl(query, keep_blank_values=True, errors="replace")), media


def _target(heads: Callable[[], tuple[str, ...]]) -> Callable[[], Target]:
    return lambda: Target(_Server().decode, (status_errors.StatusError,), heads())


TARGETS = {"requests": _target(_heads), "patches": _target(_patch_heads)}
