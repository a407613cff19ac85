"""A proxy between the manager and the API server that misbehaves on request. The manager's side is plain HTTP."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from tests.control_plane.server import ControlPlane

PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass
class Refusal:
    """A response sent instead of the server's, `times` times."""

    status: int
    times: int
    headers: dict[str, str] = field(default_factory=dict)
    to: Callable[[web.Request], bool] = lambda request: True


class Proxy:
    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession) -> None:
        self.url = ""
        self.requests: deque[tuple[str, str]] = deque(maxlen=10_000)
        self.refusals: list[Refusal] = []
        self.refused = 0
        self.down = False  # new connections are reset
        self.flows = asyncio.Event()  # requests wait while it is not set
        self.flows.set()
        self.stalled = False  # responses of the server are held back, connections stay open
        self.held: list[str] = []  # writes that the server has executed and whose responses are held back
        self.hold_writes = False
        self.watches_begun = 0
        self._plane = plane
        self._session = session
        self._watches: list[asyncio.Transport] = []

    def refuse(self, status: int, times: int, *, to: Callable[[web.Request], bool] = lambda request: True) -> None:
        headers = {"Retry-After": "1"} if status == 429 else {}
        self.refusals.append(Refusal(status, times, headers, to))

    def cut_watches(self) -> int:
        """Reset the connections of all watches; returns their number."""
        watches, self._watches = self._watches, []
        for transport in watches:
            transport.abort()
        return len(watches)

    @property
    def watches(self) -> int:
        return len(self._watches)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await self.flows.wait()
        if request.transport is None:  # the client has disconnected
            return web.Response(status=502)
        if self.down:
            request.transport.abort()
            return web.Response(status=502)
        self.requests.append((request.method, request.path))
        for refusal in self.refusals:
            if refusal.times and refusal.to(request):
                refusal.times -= 1
                self.refused += 1
                return web.json_response(_status(refusal.status), status=refusal.status, headers=refusal.headers)
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        body = await request.read()
        try:
            async with self._session.request(
                request.method, self._plane.url + request.path_qs, data=body or None, headers=headers
            ) as answer:
                if request.query.get("watch") and answer.status == 200:
                    return await self._watch(request, answer)
                content = await answer.read()
        except aiohttp.ClientError:
            request.transport.abort()
            return web.Response(status=502)
        if self.hold_writes and request.method in WRITES:
            self.held.append(f"{request.method} {request.path}")
            await asyncio.Event().wait()
        return web.Response(
            status=answer.status, body=content, headers={"Content-Type": answer.headers.get("Content-Type", "")}
        )

    async def _watch(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        connection = request.transport  # None once the client has disconnected
        assert isinstance(connection, asyncio.Transport)
        self._watches.append(connection)
        self.watches_begun += 1
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            async for chunk in answer.content.iter_any():
                if self.stalled:
                    await asyncio.Event().wait()
                await response.write(chunk)
        finally:
            if connection in self._watches:
                self._watches.remove(connection)
        return response


def _status(code: int) -> dict[str, object]:
    reason = {429: "TooManyRequests", 500: "InternalError"}.get(code, "")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": "no, says the proxy",
    }


@asynccontextmanager
async def proxy_to(plane: ControlPlane) -> AsyncIterator[Proxy]:
    connector = aiohttp.TCPConnector(ssl=plane.ssl_context(), limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        proxy = Proxy(plane, session)
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield proxy
        finally:
            await runner.cleanup()
