"""An `engine.Transport` that calls the embedded API server directly, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from queue_manager.engine import transport_protocol
from queue_manager.engine.transport_protocol import JSON, ApiError, Response
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.http_messages import ServerRequest, Stream

AGENT = "sluice"  # user agent: the manager in managedFields, the same as over HTTP


class LocalTransport:
    """Calls a server in the same process as one user. Works under virtual time, because it never waits for real I/O."""

    def __init__(self, server: ApiServer, user: str = "admin") -> None:
        self._server = server
        self._user = user

    async def request(self, request: transport_protocol.Request) -> Response:
        """See `engine.Transport.request`. There is no timeout, because there is no network."""
        headers = {"accept": request.accept, "content-type": request.content_type, "user-agent": AGENT}
        body = request.body or b""
        received = ServerRequest(request.method, request.path, request.query or {}, headers, body, self._user)
        await asyncio.sleep(0)  # other tasks run here, as they do while a socket is read
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
            if not answer.is_ok:
                raise ApiError.of(answer.status, answer.body)
            yield _once(answer.body)
            return
        try:
            yield answer.chunks
        finally:
            await answer.chunks.aclose()

    async def close(self) -> None:
        """Do nothing: the transport does not own the server."""


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
