"""An API server of a few dozen lines on a loopback port: list and watch of one collection, pods, for the engine's
tests.

It can misbehave on request: refuse requests, cut or stall watches, send any line.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from queue_manager.engine.http_transport import HttpTransport

Tree = dict[str, Any]


def pod(name: str, namespace: str = "default", **fields: Any) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": fields.pop("labels", {})},
        "spec": {},
        "status": {"phase": "Pending"},
        **fields,
    }


class Loopback:
    def __init__(self) -> None:
        self.revision = 100
        self.oldest = 100  # watches from before get 410
        self.objects: dict[str, Tree] = {}
        self.history: list[tuple[int, bytes]] = []
        self.refusals: deque[web.Response] = deque()  # answers to the next requests of any kind
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []  # of the requests
        self.bodies: list[Tree] = []
        self.chunk = 0  # if set, watch lines are sent in pieces of so many bytes
        self.page = 0  # if set, the most objects in one answer
        self.stalled = False
        self.change = asyncio.Condition()
        self._cuts = 0
        self._uids = 0
        self._server: TestServer | None = None

    # --- used by tests ---

    def put(self, obj: Tree) -> Tree:
        """Create or replace an object without a request."""
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        old = self.objects.get(key)
        self.revision += 1
        if old is None:
            self._uids += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self._uids}"
        stored = {**obj, "metadata": {**meta, "uid": uid, "resourceVersion": str(self.revision)}}
        self.objects[key] = stored
        self.send("MODIFIED" if old else "ADDED", stored)
        return stored

    def remove(self, name: str, namespace: str = "default") -> Tree:
        self.revision += 1
        old = self.objects.pop(f"{namespace}/{name}")
        gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}
        self.send("DELETED", gone)
        return gone

    def send(self, type: str, obj: Any) -> None:
        self.send_line(json.dumps({"type": type, "object": obj}).encode() + b"\n")

    def send_line(self, line: bytes) -> None:
        self.history.append((self.revision, line))
        self._notify()

    def bookmark(self) -> None:
        self.send("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(self.revision)}})

    def cut(self) -> None:
        """Reset all open watches."""
        self._cuts += 1
        self._notify()

    def forget_history(self) -> None:
        """As a compaction: watches from before get 410."""
        self.oldest = self.revision

    def watches(self) -> list[dict[str, str]]:
        return [query for method, _, query in self.requests if method == "GET" and "watch" in query]

    def lists(self) -> list[dict[str, str]]:
        return [query for method, _, query in self.requests if method == "GET" and "limit" in query]

    def _notify(self) -> None:
        async def notify() -> None:
            async with self.change:
                self.change.notify_all()

        self._task = asyncio.ensure_future(notify())

    # --- requests ---

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path, dict(request.query)))
        self.headers.append(dict(request.headers))
        if self.refusals:
            return self.refusals.popleft()
        if request.method == "GET":
            if "watch" in request.query:
                return await self._watch(request)
            return self._get(request) if "name" in request.match_info else self._list(request)
        body = await request.read()
        tree: Tree = json.loads(body) if body else {}
        self.bodies.append(tree)
        return self._write(request, tree)

    def _list(self, request: web.Request) -> web.Response:
        items = sorted(self.objects.values(), key=lambda obj: obj["metadata"]["name"])
        meta = {"resourceVersion": str(self.revision)}
        if self.page:
            start = int(request.query.get("continue", "0"))
            if start + self.page < len(items):
                meta["continue"] = str(start + self.page)
            items = items[start : start + self.page]
        bare = [{name: value for name, value in obj.items() if name not in ("kind", "apiVersion")} for obj in items]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": bare})

    def _get(self, request: web.Request) -> web.Response:
        obj = self.objects.get(_key(request))
        return status(404, "NotFound", "not found") if obj is None else web.json_response(obj)

    def _write(self, request: web.Request, body: Tree) -> web.Response:
        key = _key(request)
        match request.method:
            case "POST":
                key = f"{request.match_info['namespace']}/{body['metadata']['name']}"
                if key in self.objects:
                    return status(409, "AlreadyExists", "already exists")
                return web.json_response(self.put(body), status=201)
            case "DELETE":
                if key not in self.objects:
                    return status(404, "NotFound", "not found")
                gone = self.remove(request.match_info["name"], request.match_info["namespace"])
                details = {"name": gone["metadata"]["name"], "uid": gone["metadata"]["uid"]}
                return web.json_response({"kind": "Status", "status": "Success", "details": details})
            case _:
                old = self.objects.get(key)
                if old is None:
                    return status(404, "NotFound", "not found")
                return web.json_response(self.put(_merged(old, body)))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        seen = int(request.query.get("resourceVersion") or 0)
        if seen < self.oldest:
            return status(410, "Expired", "too old resource version")
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        cuts = self._cuts
        position = next((at for at, (revision, _) in enumerate(self.history) if revision > seen), len(self.history))
        while self._cuts == cuts:
            lines = [] if self.stalled else self.history[position:]
            position += len(lines)
            await self._send(answer, b"".join(line for _, line in lines))
            async with self.change:
                while self._cuts == cuts and (self.stalled or len(self.history) <= position):
                    await self.change.wait()
        if request.transport is not None:
            request.transport.abort()
        return answer

    async def _send(self, answer: web.StreamResponse, data: bytes) -> None:
        size = self.chunk or max(1, len(data))
        for start in range(0, len(data), size):
            await answer.write(data[start : start + size])
            if self.chunk:
                await asyncio.sleep(0.001)  # so that the pieces arrive as pieces


def status(code: int, reason: str, message: str, headers: dict[str, str] | None = None, **details: Any) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response({**body, "details": details}, status=code, headers=headers)


def _key(request: web.Request) -> str:
    return f"{request.match_info.get('namespace', '')}/{request.match_info.get('name', '')}"


def _merged(old: Tree, patch: Tree) -> Tree:
    merged = {**old}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name, {}), value) if isinstance(value, dict) else value
    return merged


@asynccontextmanager
async def serve() -> AsyncIterator[tuple[Loopback, HttpTransport]]:
    loopback = Loopback()
    app = web.Application()
    collection, plural = "/api/v1/namespaces/{namespace}/{plural}", "/api/v1/{plural}"
    for path in (plural, collection, collection + "/{name}", collection + "/{name}/{subresource}"):
        app.router.add_route("*", path, loopback.handle)
    async with TestServer(app, host="127.0.0.1") as server:
        transport = HttpTransport(str(server.make_url("")), token="secret")
        try:
            yield loopback, transport
        finally:
            await transport.close()
            loopback.cut()
