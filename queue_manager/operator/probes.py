"""What the process tells those who watch over it: /healthz, /readyz and /metrics, in plain HTTP.

- healthz answers as long as the event loop runs: a process that hangs is restarted.
- readyz answers 200 when every cache is filled and the controllers work, or while another manager leads; else 503
  and what is missing.
- metrics is the text of Prometheus, or of OpenMetrics for a scraper that asks for it.

kopf has a probe server of its own, and it is not used: it always answers 200, so that it cannot say "not yet";
it keeps an answer for ten seconds, longer than we take to be ready; and it serves one path on one address.
Metrics over TLS, with the API server deciding who may read them, are not there yet: in a cluster a
NetworkPolicy has to keep strangers away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Protocol

from aiohttp import web

from queue_manager.configuration import KueueConfig
from queue_manager.configuration.addresses import OFF, Address, parse
from queue_manager.engine.metric_registry import Exposed
from queue_manager.operator.preflight import CannotStart

Answer = Callable[[web.Request], web.Response]
SHUTDOWN_SECONDS = 0.2  # for answers under way


def addresses(config: KueueConfig, metrics_port: int | None) -> dict[Address, list[str]]:
    """Where to serve what (of "health" and "metrics"): all on one loopback port, or as the configuration says.

    Raises CannotStart for an address that is none.
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


def named(config: KueueConfig) -> dict[Address, list[str]]:
    """What `sluice up` serves on ports beside its API server: only what the configuration gives an own address.

    Its metrics are also at /metrics of the API server. Raises CannotStart for an address that cannot be parsed.
    """
    usual = KueueConfig()
    own = {
        "health": config.health.health_probe_bind_address != usual.health.health_probe_bind_address,
        "metrics": config.metrics.bind_address != usual.metrics.bind_address,
    }
    found = {address: [what for what in parts if own[what]] for address, parts in addresses(config, None).items()}
    return {address: parts for address, parts in found.items() if parts}


def _address(field: str, text: str) -> Address:
    try:
        return parse(text)
    except ValueError as error:
        raise CannotStart(f"{field}: {error}") from error


class Exposes(Protocol):
    """A source of metrics."""

    def exposed(self, accept: str) -> Exposed:
        """All of them in the format that this Accept header asks for."""
        ...


def routes(config: KueueConfig, registry: Exposes, unready: Callable[[], str]) -> Mapping[str, dict[str, Answer]]:
    """What is served, by path, for "health" and "metrics". `unready` says what is missing; empty: nothing is."""

    def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    def readyz(request: web.Request) -> web.Response:
        missing = unready()
        return web.Response(status=503, text=f"{missing}\n") if missing else web.Response(text="ok\n")

    def metrics(request: web.Request) -> web.Response:
        exposed = registry.exposed(request.headers.get("Accept", ""))
        return web.Response(body=exposed.body, headers={"Content-Type": exposed.content_type})

    health = config.health
    return {
        "health": {_path(health.liveness_endpoint_name): healthz, _path(health.readiness_endpoint_name): readyz},
        "metrics": {"/metrics": metrics},
    }


def _path(name: str) -> str:
    return "/" + name.strip("/")


async def serve(
    stack: AsyncExitStack, served: Mapping[Address, list[str]], answers: Mapping[str, dict[str, Answer]]
) -> list[str]:
    """Serve until the stack is closed; returns the URLs of all paths. Raises CannotStart if a port is taken."""
    urls = []
    for address, parts in served.items():
        app = web.Application()
        paths = {path: answer for part in parts for path, answer in answers[part].items()}
        for path, answer in paths.items():
            app.router.add_get(path, _handler(answer))
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, address.host, address.port).start()
        except OSError as error:
            where = f"{address.host or ''}:{address.port}"
            raise CannotStart(f"cannot serve {', '.join(parts)} on {where}: {error.strerror or error}") from error
        port = runner.addresses[0][1]
        urls += [f"http://{address.host or 'localhost'}:{port}{path}" for path in paths]
    return urls


def _handler(answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    return handle
