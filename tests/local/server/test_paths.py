"""Paths outside of resources, and numbers that no field can hold."""

from __future__ import annotations

import random

import pytest

from queue_manager.api.metric_families import Family
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer, Response, ServerRequest
from queue_manager.local.storage.store import Store
from tests.local.server.world import StillClock

BIG = b"9" * 30


@pytest.fixture
def server() -> ApiServer:
    """A server of the built-in kinds."""
    clock = StillClock()
    return ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock)


async def ask(server: ApiServer, method: str, path: str, body: bytes = b"", media: str = "", **query: str) -> Response:
    answer = await server.handle(
        ServerRequest(method, path, query, {"content-type": media or "application/json"}, body)
    )
    assert isinstance(answer, Response)
    return answer


@pytest.mark.parametrize("name", ["healthz", "livez", "readyz"])
async def test_health_as_a_whole_by_check_and_verbose(server: ApiServer, name: str) -> None:
    assert (await ask(server, "GET", f"/{name}")).body == b"ok"
    assert (await ask(server, "GET", f"/{name}/ping")).body == b"ok"
    assert (await ask(server, "GET", f"/{name}/odd")).status == 404
    verbose = (await ask(server, "GET", f"/{name}", verbose="")).body.decode()
    assert verbose.startswith("[+]ping ok\n")
    assert verbose.endswith(f"{name} check passed\n")


async def test_metrics_are_served_if_a_registry_is_given(server: ApiServer) -> None:
    assert (await ask(server, "GET", "/metrics")).status == 404
    clock, metrics = StillClock(), MetricRegistry([Family("a", "gauge", (), "A.")])
    measured = ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock, exposed=metrics.expose)
    answer = await ask(measured, "GET", "/metrics")
    content_type = "text/plain; version=0.0.4; charset=utf-8"
    assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, content_type, b"")
    assert (await ask(measured, "POST", "/metrics")).status == 405


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis/batch/v1", "/version"])
async def test_paths_of_the_server_are_read_only(server: ApiServer, path: str) -> None:
    assert (await ask(server, "POST", path, b"{}")).status == 405
    assert (await ask(server, "HEAD", path)).status == 200


@pytest.mark.parametrize("number", [BIG, b"9" * 5000, b"-" + BIG], ids=["big", "endless", "negative"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{"taints":[{"key":%b}]}}',
        b'{"apiVersion":"v1","kind":"Node","kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"cpu":%b}}}',
        b"apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {capacity: {cpu: %b}}",
    ],
    ids=["json", "repeated", "yaml"],
)
@pytest.mark.parametrize("strict", ["Strict", "Ignore"])
async def test_numbers_beyond_64_bits_are_no_internal_error(
    server: ApiServer, body: bytes, number: bytes, strict: str
) -> None:
    """Also in a server-side apply."""
    text = body % number
    media = "application/json" if text.startswith(b"{") else "application/yaml"
    apply = "application/apply-patch+yaml"
    created = await ask(server, "POST", "/api/v1/nodes", text, media, fieldValidation=strict)
    applied = await ask(server, "PATCH", "/api/v1/nodes/n", text, apply, fieldManager="m", fieldValidation=strict)
    assert b"Internal error occurred" not in created.body + applied.body
