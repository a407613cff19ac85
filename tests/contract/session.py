"""Requests of one test, each answer compared at once with what the real server was recorded to answer.

The recording (tests/golden/contract/<file>.json) is the contract: both servers must answer as recorded, the real one
too, so that no recording becomes stale unnoticed. After a change of the tests or of the server's version, record with

    SLUICE_RECORD=1 python -m pytest tests/contract -k real
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from queue_manager.api.api_resources import CRDS, Resource, by_kind
from queue_manager.engine.transport_protocol import JSON, MERGE_PATCH, Request
from tests.contract.normal import Normal
from tests.contract.servers import Server

Json = Any
RECORDINGS = Path(__file__).parents[1] / "golden" / "contract"
RECORDING = bool(os.environ.get("SLUICE_RECORD"))
TIMEOUT_SECONDS = 30.0


@dataclass
class Answer:
    """A response with its body decoded and its warnings parsed."""

    status: int
    body: Json
    warnings: list[str]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def meta(self) -> Json:
        return self.body["metadata"]

    @property
    def version(self) -> str:
        return str(self.meta["resourceVersion"])


class Recording:
    """The recorded steps of one test."""

    def __init__(self, file: str, test: str) -> None:
        self.path = RECORDINGS / f"{file}.json"
        self._test = test
        self._all: dict[str, list[Json]] = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.steps = [] if RECORDING else self._all.get(test, [])

    def save(self) -> None:
        self._all[self._test] = self.steps
        tests = []
        for name in sorted(self._all):
            steps = ",\n".join(json.dumps(step, sort_keys=True, ensure_ascii=False) for step in self._all[name])
            tests.append(f"{json.dumps(name)}: [\n{steps}\n]")
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("{\n" + ",\n".join(tests) + "\n}\n")


class Session:
    """The requests of one test in a namespace of its own; every answer is compared at once."""

    def __init__(self, server: Server, namespace: str, recording: Recording) -> None:
        self.server = server
        self.namespace = namespace
        self.group = f"{namespace}.example.com"  # for the test's own CustomResourceDefinitions
        self.managed_fields = False
        self._recording = recording
        self.normal = Normal({namespace: "NAMESPACE"})
        self.defined: list[str] = []  # names of CustomResourceDefinitions
        self._step = 0

    @property
    def transport(self) -> Any:
        return self.server.transport

    def show_managed_fields(self) -> None:
        """Compare managedFields too, from here on."""
        self.normal = Normal({self.namespace: "NAMESPACE"}, managed_fields=True)

    # --- requests ---------------------------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        differs: str = "",
        silent: bool = False,
        query: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        """Send one request and compare the answer.

        `differs` names the row of queue_manager/local/DIFFERENCES.md that excuses the embedded server. `silent` leaves
        the answer out of the comparison: it is no part of the fact under test.
        """
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        asked = {**(query or {}), **{name: _option(value) for name, value in more.items()}}
        answer = await self.transport.request(
            Request(method, path, query=asked or None, body=raw, content_type=content_type, accept=accept)
        )
        headers = answer.headers
        found = Answer(answer.status, _decoded(answer.body), _warnings(headers), headers)
        if not silent:
            self.compare(self._request_line(method, path, asked), found, differs)
        return found

    def _request_line(self, method: str, path: str, query: Mapping[str, str]) -> str:
        shown = {name: "CONTINUE" if name == "continue" else value for name, value in query.items()}
        if shown.get("resourceVersion", "0") != "0":
            shown["resourceVersion"] = "VERSION"
        line = f"{method} {path}" + (f"?{urlencode(shown)}" if shown else "")
        return self.normal.text(line)

    def path(self, resource: Resource, name: str = "", subresource: str = "") -> str:
        return resource.path(self.namespace, name, subresource)

    async def create(self, obj: Json, **options: Any) -> Answer:
        return await self.ask("POST", self.path(self.resource_of(obj)), obj, **options)

    async def get(self, resource: Resource, name: str, **options: Any) -> Answer:
        return await self.ask("GET", self.path(resource, name), **options)

    async def list(self, resource: Resource, **options: Any) -> Answer:
        return await self.ask("GET", self.path(resource), **options)

    async def replace(self, obj: Json, subresource: str = "", **options: Any) -> Answer:
        path = self.path(self.resource_of(obj), obj["metadata"]["name"], subresource)
        return await self.ask("PUT", path, obj, **options)

    async def patch(
        self, resource: Resource, name: str, patch: Json, type: str = MERGE_PATCH, subresource: str = "", **options: Any
    ) -> Answer:
        path = self.path(resource, name, subresource)
        return await self.ask("PATCH", path, patch, content_type=type, **options)

    async def delete(self, resource: Resource, name: str, body: Json = None, **options: Any) -> Answer:
        return await self.ask("DELETE", self.path(resource, name), body, **options)

    def resource_of(self, obj: Json) -> Resource:
        try:
            return by_kind(obj["apiVersion"], obj["kind"])
        except KeyError:
            group, _, version = obj["apiVersion"].rpartition("/")
            return Resource(group, version, obj["kind"].lower() + "s", obj["kind"])

    async def define(self, crd: Json) -> None:
        """Create a definition and return when its kinds are served."""
        created = await self.ask("POST", CRDS.path(), crd, silent=True)
        assert created.status == 201, created.body
        self.defined.append(crd["metadata"]["name"])
        spec = crd["spec"]
        for version in spec["versions"]:
            kind = Resource(spec["group"], version["name"], spec["names"]["plural"], "", spec["scope"] == "Namespaced")
            await self.until(lambda kind=kind: self._served(kind))

    async def _served(self, kind: Resource) -> bool:
        return (await self.ask("GET", self.path(kind), silent=True)).status == 200

    async def gone(self, resource: Resource, name: str) -> None:
        """Return when the object does not exist any more."""
        await self.until(lambda: self._missing(resource, name))

    async def _missing(self, resource: Resource, name: str) -> bool:
        return (await self.get(resource, name, silent=True)).status == 404

    async def until(self, condition: Any) -> None:
        """Return when the asynchronous condition holds."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await condition():
                await asyncio.sleep(0.02)

    # --- watches -------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def watch(self, resource: Resource, **query: Any) -> AsyncIterator[Watcher]:
        """Watch a resource in the namespace; each event is compared when it is read."""
        asked = {"watch": "true", "timeoutSeconds": "20"} | {name: _option(value) for name, value in query.items()}
        async with self.transport.stream(self.path(resource), query=asked) as chunks:
            yield Watcher(self, chunks)

    @staticmethod
    def decoded(body: bytes) -> Json:
        return _decoded(body)

    # --- comparison ------------------------------------------------------------------------------------------

    def compare(self, request: str, answer: Answer, differs: str = "") -> None:
        """Compare an answer with the next recorded step; raises AssertionError with the difference."""
        step = {"request": request, "status": answer.status, "body": self.normal.tree(answer.body)}
        if answer.warnings:
            step["warnings"] = [self.normal.text(text) for text in answer.warnings]
        self.check_step(step, differs)

    def check_step(self, step: Json, differs: str = "") -> None:
        """Compare a normalized step with the recorded one, or record it."""
        if RECORDING:
            self._recording.steps.append(step)
            return
        steps = self._recording.steps
        assert self._step < len(steps), f"no step {self._step} was recorded; see tests/contract/session.py"
        recorded = steps[self._step]
        self._step += 1
        if differs and self.server.name == "embedded":
            assert step != recorded, f"{differs} is no difference any more: take it out of DIFFERENCES.md"
            return
        assert step == recorded, "\n" + difference(recorded, step)

    def finish(self) -> None:
        """Check that every recorded step was played, or save the recording."""
        if RECORDING:
            self._recording.save()
        else:
            assert self._step == len(self._recording.steps), "not every recorded step was played"


class Watcher:
    """The events of a watch, one after another."""

    def __init__(self, session: Session, chunks: AsyncIterator[bytes]) -> None:
        self._session = session
        self._chunks = chunks
        self._lines: list[bytes] = []
        self._rest = b""

    async def next(self, *, silent: bool = False) -> Json:
        """The next event; None at the end of the watch."""
        while not self._lines:
            try:
                chunk = await asyncio.wait_for(anext(self._chunks), TIMEOUT_SECONDS)
            except StopAsyncIteration:
                if not silent:
                    self._session.check_step({"event": None})
                return None
            *self._lines, self._rest = (self._rest + chunk).split(b"\n")
        event = json.loads(self._lines.pop(0))
        if not silent:
            self._session.check_step({"event": self._session.normal.tree(event)})
        return event

    async def take(self, count: int) -> list[Json]:
        return [await self.next() for _ in range(count)]


def difference(recorded: Json, found: Json) -> str:
    """A unified diff of two trees."""
    before, after = (json.dumps(tree, indent=1, sort_keys=True).splitlines() for tree in (recorded, found))
    return "\n".join(difflib.unified_diff(before, after, "recorded", "found", lineterm="", n=4))


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decoded(body: bytes) -> Json:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode("utf-8", "replace")


def _warnings(headers: Mapping[str, str]) -> list[str]:
    """The texts of the Warning headers, which a server may send as several headers or as one."""
    values = [value for name, value in headers.items() if name.lower() == "warning"]
    texts: list[str] = []
    for value in values:
        rest = value
        while rest:
            rest = rest.partition('"')[2]
            text, index = "", 0
            while index < len(rest) and rest[index] != '"':
                index += rest[index] == "\\"
                text += rest[index]
                index += 1
            texts.append(text)
            rest = rest[index + 1 :]
            rest = rest if '"' in rest else ""
    return texts
