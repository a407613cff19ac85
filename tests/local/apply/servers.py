"""The embedded API server and a real one, with the same method to send a request."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import urllib.error
import urllib.request
from typing import Any

from queue_manager.engine.clock import SystemClock
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer, Response
from queue_manager.local.server.http_messages import ServerRequest
from queue_manager.local.storage.store import Store
from tests.control_plane.server import ControlPlane

Json = Any
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
AGENT = "probe/1.0"


class Embedded:
    """The embedded API server, without a socket."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.server = ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock)
        self._loop = asyncio.new_event_loop()

    def ask(
        self, method: str, path: str, body: Json = None, content_type: str = "application/json"
    ) -> tuple[int, Json]:
        path, _, query = path.partition("?")
        asked = dict(pair.split("=", 1) for pair in query.split("&")) if query else {}
        headers = {"accept": "application/json", "content-type": content_type, "user-agent": AGENT}
        answer = self._loop.run_until_complete(
            self.server.handle(ServerRequest(method, path, asked, headers, raw(body)))
        )
        assert isinstance(answer, Response)
        return answer.status, json.loads(answer.body)

    def close(self) -> None:
        self._loop.close()


class Real:
    """kube-apiserver."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._ssl: ssl.SSLContext = plane.ssl_context()

    def ask(
        self, method: str, path: str, body: Json = None, content_type: str = "application/json"
    ) -> tuple[int, Json]:
        headers = {"Content-Type": content_type, "User-Agent": AGENT, "Authorization": f"Bearer {self._plane.token}"}
        request = urllib.request.Request(self._plane.url + path, raw(body) or None, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._ssl) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            return error.code, json.loads(text) if text[:1] == "{" else {"message": text}


def raw(body: Json) -> bytes:
    if body is None or isinstance(body, bytes):
        return body or b""
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def seen(status: int, body: Json) -> Json:
    """An answer without what differs between servers or from second to second."""
    if status >= 300:
        causes = (body.get("details") or {}).get("causes") or []
        causes = sorted((c.get("field", ""), c.get("reason", ""), c["message"]) for c in causes)
        return {"status": status, "message": body["message"], "causes": causes}
    meta = {name: value for name, value in body["metadata"].items() if name not in ("uid", "resourceVersion")}
    meta.pop("creationTimestamp", None)
    managers = [{**entry, "time": "time" in entry} for entry in meta.pop("managedFields", [])]
    managers.sort(key=lambda e: (e["manager"], e["operation"], e["apiVersion"], e.get("subresource", "")))
    shown = {name: value for name, value in body.items() if name != "metadata"}
    return {"status": status, "object": shown, "metadata": meta, "managers": managers}
