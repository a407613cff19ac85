"""The HTTPS server that the API server calls: a table of routes, each a function of a review to its answer.

Connections stay open: an API server sends thousands of reviews on one. It closes an idle connection after 90 s, so this
server waits longer, or a request could meet a connection that is being closed. Any client may connect, so a connection
that has brought no review is closed after a few seconds (`engine.anonymous_connections`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Protocol

import orjson
from aiohttp import web

from job_controller.json_tree import Json
from queue_manager.configuration.addresses import Address
from queue_manager.engine.anonymous_connections import Connections
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.operator.listening import listen

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 180.0
FINISH_SECONDS = 1.0  # for responses in flight when the server closes
MAX_BYTES = 64 << 20  # for conversion an API server sends whole pages of a list, up to 10 000 objects

Answer = Callable[[Json], Awaitable[Json]]
PureAnswer = Callable[[Json], Json]


class NotServing(Exception):
    """A review cannot be answered yet: 503."""


class NotAReview(ValueError):
    """The body of a request is not a review; the answer is 400."""


class Closing(Protocol):
    """Closes a server: accepts no more, and answers what is in flight."""

    async def __call__(self) -> None:
        """Return when the last request in flight is answered."""
        ...


def in_thread(answer: PureAnswer) -> Answer:
    """Return a route that runs a slow pure function in a thread, so that other requests do not wait for it."""

    async def route(review: Json) -> Json:
        return await asyncio.to_thread(answer, review)

    return route


async def serve(
    address: Address, context: ssl.SSLContext, routes: Mapping[str, Answer], metrics: MetricRegistry
) -> tuple[str, Closing]:
    """Listen, and return the URL and a function that closes the server. Raises OSError if the port is taken."""
    listener = listen(address)
    app = web.Application(client_max_size=MAX_BYTES)
    for path, answer in routes.items():
        app.router.add_post(path, _handler(path, answer, metrics, lambda: connections))
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=FINISH_SECONDS,
    )
    await runner.setup()
    assert runner.server is not None
    connections = Connections(listener, runner.server, context)

    async def close() -> None:
        connections.close()
        await runner.cleanup()

    host = f"[{address.host}]" if ":" in (address.host or "") else address.host or "localhost"
    return f"https://{host}:{listener.getsockname()[1]}", close


def _handler(
    path: str, answer: Answer, metrics: MetricRegistry, connections: Callable[[], Connections]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        began = time.perf_counter()
        response = await _respond(path, answer, request)
        if response.status == HTTPStatus.OK:
            connections().trust(request.protocol)
        seconds = time.perf_counter() - began
        metrics.observe("controller_runtime_webhook_latency_seconds", {"webhook": path}, seconds)
        labels = {"webhook": path, "code": str(response.status)}
        metrics.inc("controller_runtime_webhook_requests_total", labels)
        return response

    return handle


async def _respond(path: str, answer: Answer, request: web.Request) -> web.Response:
    try:
        review = orjson.loads(await request.read())
        if not isinstance(review, dict):
            raise NotAReview("not an object")
        body = orjson.dumps(await answer(review))
    except (orjson.JSONDecodeError, NotAReview) as error:
        return web.Response(status=400, text=f"the request is not a review: {error}\n")
    except NotServing as reason:
        return web.Response(status=503, text=f"{reason}\n")
    except Exception:
        log.exception("a review could not be answered", extra={"path": path})
        return web.Response(status=500, text="the review could not be answered\n")
    return web.Response(body=body, content_type="application/json")
