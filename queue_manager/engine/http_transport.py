"""Transport over HTTP: requests by `http_connections`, streams and whatever needs a proxy by `aiohttp_session`.

aiohttp is imported with the first stream: that takes 0.1 s, a third of the run time of a short command.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from queue_manager.engine import kubeconfig
from queue_manager.engine.http_connections import HttpConnections
from queue_manager.engine.transport_protocol import JSON, Request, Response

if TYPE_CHECKING:
    from queue_manager.engine.aiohttp_session import AiohttpSession

# Concurrent requests, watches not counted. Each needs a connection, and a TLS handshake costs both sides more than a
# request: measured with 100 instead of 16, creating the 100 pods of a Job took a third longer.
MAX_IN_FLIGHT = 16
USER_AGENT = "sluice"  # the API server records it as field manager in managedFields
# identity, as controller-runtime: compressing a list costs the API server more than sending it.
OWN_HEADERS = (("User-Agent", USER_AGENT), ("Accept-Encoding", "identity"))


class HttpTransport:
    """Implements `Transport`. Connections open with the first request, on its event loop."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str = "",
        authorization: kubeconfig.Authorization | None = None,
        ssl: tls.SSLContext | None = None,
        server_hostname: str | None = None,
        headers: Iterable[tuple[str, str]] = (),
        proxy: str | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
    ) -> None:
        """`token` is a fixed bearer token, `authorization` one that is renewed.

        `headers` are sent with every request. `proxy` is the URL of a proxy; those of the environment are ignored.
        `max_in_flight` limits the concurrent requests; watches do not count.
        """
        self.base_url = base_url.rstrip("/")
        self._token = token
        self._authorization = authorization
        self._ssl = ssl
        self._server_hostname = server_hostname
        self._slots = asyncio.Semaphore(max_in_flight)
        self._proxy = proxy
        self._headers = (*OWN_HEADERS, *headers)
        self._connections = HttpConnections(self.base_url, ssl=ssl, server_hostname=server_hostname)
        self._session: AiohttpSession | None = None

    @classmethod
    def from_kubeconfig(cls, path: str | Path, context: str | None = None) -> HttpTransport:
        """A transport that connects as kubectl would with this file. Raises KubeconfigError or OSError."""
        return cls.of(kubeconfig.load(path, context))

    @classmethod
    def of(cls, access: kubeconfig.Access) -> HttpTransport:
        """A transport to this server, as this user."""
        return cls(
            access.server,
            authorization=access.authorization,
            ssl=access.ssl,
            server_hostname=access.server_hostname,
            headers=access.headers,
            proxy=access.proxy,
        )

    async def request(self, request: Request) -> Response:
        """See `Transport.request`. Waits for a free slot; the request's timeout includes that wait."""
        headers = [*self._headers, ("Accept", request.accept), *request.headers, *await self._auth()]
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        sender = self._connections if self._proxy is None else self._aiohttp()
        async with asyncio.timeout(request.timeout), self._slots:
            return await sender.request(request, headers)

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        headers = [*self._headers, ("Accept", JSON), *await self._auth()]
        async with self._aiohttp().stream(path, query, headers) as chunks:
            yield chunks

    async def close(self) -> None:
        """Close all connections. Requests under way and open streams end with an error."""
        self._connections.close()
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _aiohttp(self) -> AiohttpSession:
        if self._session is None:
            from queue_manager.engine.aiohttp_session import AiohttpSession

            self._session = AiohttpSession(
                self.base_url, ssl=self._ssl, server_hostname=self._server_hostname, proxy=self._proxy
            )
        return self._session

    async def _auth(self) -> list[tuple[str, str]]:
        value = f"Bearer {self._token}" if self._token else ""
        if self._authorization is not None:
            value = await self._authorization()
        return [("Authorization", value)] if value else []
