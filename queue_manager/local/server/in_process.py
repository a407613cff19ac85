"""The embedded API server without a socket: an `engine.Transport` that calls it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from queue_manager.engine import transport
from queue_manager.engine.transport import JSON, ApiError, Response
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.exchange import ServerRequest, Stream

AGENT = "sluice"  # as over HTTP: who managedFields says wrote it


class LocalTransport:
    """One user's way to a server in the same process. Safe under virtual time: it never waits for anything real."""

    def __init__(self, server: ApiServer, user: str = "admin") -> None:
        self._server = server
        self._user = user

    async def request(self, request: transport.Request) -> Response:
        """See `engine.Transport.request`; a server in the same process answers at once, so there is no timeout."""
        headers = {"accept": request.accept, "content-type": request.content_type, "user-agent": AGENT}
        body = request.body or b""
        received = ServerRequest(request.method, request.path, request.query or {}, headers, body, self._user)
        await asyncio.sleep(0)  # as over a socket, others get their turn
        answer = await self._server.handle(received)
        if isinstance(answer, Response):
            return answer
        try:
            return Response(answer.status, answer.headers, b"".join([chunk async for chunk in answer.chunks]))
        finally:
            await answer.chunks.aclose()

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `engine.Transport.stream`."""
        request = ServerRequest("GET", path, query or {}, {"accept": JSON}, b"", self._user)
        await asyncio.sleep(0)
        answer = await self._server.handle(request)
        if not isinstance(answer, Stream):
            if answer.status != 200:
                raise ApiError.of(answer.status, answer.body)
            yield _once(answer.body)
            return
        try:
            yield answer.chunks
        finally:
            await answer.chunks.aclose()

    async def close(self) -> None:
        """Nothing to close: the server is not ours."""


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
