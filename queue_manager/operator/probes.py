"""Serves /healthz and /readyz over plain HTTP, and /metrics over TLS, or over plain HTTP on a loopback address.

- /healthz returns 200 as long as the event loop runs, so that the kubelet restarts a process that hangs.
- /readyz returns 200 when every cache is filled and the controllers run, or while another manager leads; otherwise
  503 with what is missing.
- /metrics returns Prometheus text, or OpenMetrics if the Accept header requests it.

Every client that reaches the port of the probes may ask; for metrics over TLS, see `metrics_access`. So a connection
serves one request and is then closed, and one without a complete request is closed after seconds
(`engine.anonymous_connections`): idle connections cannot use up the file descriptors. A connection over TLS is closed
after these seconds in any case.

kopf's own probe server is not used: it always returns 200, so it cannot express "not ready"; it caches a result for
ten seconds, longer than the start takes; and it serves one path on one address.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Protocol

from aiohttp import web

from queue_manager.configuration import KueueConfig
from queue_manager.configuration.addresses import OFF, Address, parse
from queue_manager.engine.anonymous_connections import Connections
from queue_manager.engine.metric_registry import Exposition
from queue_manager.operator.listening import listen
from queue_manager.operator.preflight import CannotStart

Answer = Callable[[web.Request], Awaitable[web.Response]]
SHUTDOWN_SECONDS = 0.2  # for responses in flight
ANSWER_SECONDS = 10.0  # for a client to read its response


def addresses(config: KueueConfig, metrics_port: int | None) -> dict[Address, list[str]]:
    """Map each address to what it serves ("health", "metrics"): one loopback port for all, or as configured.

    Raises CannotStart for an address that cannot be parsed.
    """
    if metrics_port is not None:
        return {Address("127.0.0.1", metrics_port): ["health", "metrics"]}
    served: dict[Address, list[str]] = {}
    for what, field, text in (
        ("health", "health.healthProbeBindAddress", config.health.health_probe_bind_address),
        ("metrics", "metrics.bindAddress", config.metrics.bind_address),
    ):
        if text not in OFF:
            served.setdefault(_address(field, text), []).append(what)
    return served


def explicit_addresses(config: KueueConfig) -> dict[Address, list[str]]:
    """Like `addresses`, for `sluice up`: only endpoints whose configured address differs from the default.

    The embedded API server serves /metrics in any case. Raises CannotStart for an address that cannot be parsed.
    """
    usual = KueueConfig()
    own = {
        "health": config.health.health_probe_bind_address != usual.health.health_probe_bind_address,
        "metrics": config.metrics.bind_address != usual.metrics.bind_address,
    }
    found = {address: [what for what in parts if own[what]] for address, parts in addresses(config, None).items()}
    return {address: parts for address, parts in found.items() if parts}


def over_tls(served: Mapping[Address, list[str]]) -> Address | None:
    """Return the address that serves metrics to other machines, which needs TLS; None if no address does.

    Raises CannotStart if the probes have the same address.
    """
    for address, parts in served.items():
        if "metrics" in parts and not address.is_loopback:
            if parts != ["metrics"]:
                raise CannotStart(
                    "metrics.bindAddress: the probes are served there (health.healthProbeBindAddress); metrics need an "
                    "address of their own, because they are served over TLS"
                )
            return address
    return None


def without_readers(served: Mapping[Address, list[str]]) -> dict[Address, list[str]]:
    """Move metrics to loopback if other machines could read them, since this process may not check who reads them.

    Raises CannotStart if the probes have the same address.
    """
    address = over_tls(served)
    moved = {} if address is None else {Address("127.0.0.1", address.port): ["metrics"]}
    return {**{each: parts for each, parts in served.items() if each != address}, **moved}


def _address(field: str, text: str) -> Address:
    try:
        return parse(text)
    except ValueError as error:
        raise CannotStart(f"{field}: {error}") from error


class MetricsSource(Protocol):
    """A source of metrics."""

    async def expose(self, accept: str) -> Exposition:
        """Return all metrics in the format that this Accept header requests."""
        ...


def routes(config: KueueConfig, registry: MetricsSource, unready: Callable[[], str]) -> Mapping[str, dict[str, Answer]]:
    """Return by port ("health", "metrics") the handlers by path. `unready` returns what is missing, "" if ready."""

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        missing = unready()
        return web.Response(status=503, text=f"{missing}\n") if missing else web.Response(text="ok\n")

    async def metrics(request: web.Request) -> web.Response:
        exposed = await registry.expose(request.headers.get("Accept", ""))
        return web.Response(body=exposed.body, headers={"Content-Type": exposed.content_type})

    health = config.health
    return {
        "health": {_path(health.liveness_endpoint_name): healthz, _path(health.readiness_endpoint_name): readyz},
        "metrics": {"/metrics": metrics},
    }


def _path(name: str) -> str:
    return "/" + name.strip("/")


async def serve(
    stack: AsyncExitStack,
    served: Mapping[Address, list[str]],
    answers: Mapping[str, dict[str, Answer]],
    contexts: Mapping[Address, ssl.SSLContext] = MappingProxyType({}),
) -> list[str]:
    """Serve until the stack is closed; returns the URLs of all paths. Raises CannotStart if a port is taken.

    `contexts`: of the addresses with TLS.
    """
    urls = []
    for address, parts in served.items():
        paths = {path: answer for part in parts for path, answer in answers[part].items()}
        try:
            listener = listen(address)
        except OSError as error:
            where = f"{address.host or ''}:{address.port}"
            raise CannotStart(f"cannot serve {', '.join(parts)} on {where}: {error.strerror or error}") from error
        port = listener.getsockname()[1]
        context = contexts.get(address)
        await _serve(stack, listener, paths, context)
        scheme = "http" if context is None else "https"
        urls += [f"{scheme}://{address.host or 'localhost'}:{port}{path}" for path in paths]
    return urls


async def _serve(
    stack: AsyncExitStack, listener: socket.socket, paths: Mapping[str, Answer], context: ssl.SSLContext | None
) -> None:
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)

    def once(answer: Answer) -> Answer:
        """The handler of one request, after whose response the connection is closed."""

        async def handle(request: web.Request) -> web.Response:
            if context is None:
                connections.trust(request.protocol)
            response = await answer(request)
            response.force_close()
            if request.transport is not None:
                asyncio.get_running_loop().call_later(ANSWER_SECONDS, request.transport.abort)
            return response

        return handle

    for path, answer in paths.items():
        app.router.add_get(path, once(answer))
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    assert runner.server is not None
    connections = Connections(listener, runner.server, context)
    stack.callback(connections.close)
