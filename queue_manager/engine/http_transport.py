"""Transport over HTTP: one aiohttp session with keep-alive connections.

The session is our own and not that of `kubernetes.aio`'s ApiClient. Measured on 2 cores with Python 3.11: importing
`kubernetes.aio` takes 1.0 s (aiohttp alone 0.5 s), a third of the start of `sluice up`, and its ApiClient adds the
construction of two models to each call (560–1350 µs instead of about 100). Only `auth-provider` needs it: it is
imported when a kubeconfig names one (see `kubeconfig`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl as tls
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import aiohttp

from queue_manager.engine import kubeconfig
from queue_manager.engine.transport_protocol import JSON, ApiError, Request, Response

TIMEOUT = aiohttp.ClientTimeout(
    total=None, sock_connect=10
)  # seconds; the timeout of a whole request comes with the request
CLOSE_TIMEOUT_SECONDS = 1.0  # for connections to report their end, which a TLS connection may never do
# Concurrent requests, watches not counted. Each needs a connection, and a TLS handshake costs both sides more than a
# request: measured with 100 instead of 16, creating the 100 pods of a Job took a third longer.
MAX_IN_FLIGHT = 16
USER_AGENT = "sluice"  # the API server records it as field manager in managedFields
READ_BUFFER = 1 << 18  # bytes; a watch under load arrives in chunks of up to this size


class HttpTransport:
    """Implements `Transport`. The session opens with the first request, on the event loop of that request."""

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
        # identity, as controller-runtime: compressing a list costs the API server more than sending it.
        self._headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
        self._request_headers = tuple(headers)  # per request: headers of the session would also go to the proxy
        self._session: aiohttp.ClientSession | None = None
        self._streams: set[aiohttp.ClientResponse] = set()

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
        headers = [("Accept", request.accept), *request.headers, *await self._auth()]
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        try:
            async with (
                asyncio.timeout(request.timeout),  # includes the wait for a free slot
                self._slots,
                self._open().request(
                    request.method,
                    self.base_url + request.path,
                    params=request.query,
                    data=request.body,
                    headers=headers,
                    timeout=TIMEOUT,
                    server_hostname=self._server_hostname,
                    allow_redirects=False,
                ) as answer,
            ):
                return Response(answer.status, answer.headers, await answer.read())
        except aiohttp.ClientError as error:
            raise _broken(error) from error

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        try:
            async with self._open().get(
                self.base_url + path,
                params=query,
                headers=[("Accept", JSON), *await self._auth()],
                timeout=TIMEOUT,
                server_hostname=self._server_hostname,
                allow_redirects=False,
            ) as answer:
                if answer.status != HTTPStatus.OK:
                    raise ApiError.of(answer.status, await answer.read(), answer.headers)
                self._streams.add(answer)
                try:
                    yield _chunks(answer)
                finally:
                    self._streams.discard(answer)
        except aiohttp.ClientError as error:
            raise _broken(error) from error

    async def close(self) -> None:
        """Close all connections within CLOSE_TIMEOUT_SECONDS; open streams end with an error.

        aiohttp alone would leave the readers of streams waiting, and would wait without limit for each connection to
        report its end.
        """
        for answer in self._streams:
            answer.content.set_exception(aiohttp.ClientConnectionError("the transport was closed"))
        if self._session is not None:
            session, self._session = self._session, None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                    await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=60,
                ssl=True if self._ssl is None else self._ssl,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                proxy=self._proxy,
                trust_env=False,
                auto_decompress=True,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=READ_BUFFER,
                loop=asyncio.get_running_loop(),
            )
        return self._session

    async def _auth(self) -> list[tuple[str, str]]:
        value = f"Bearer {self._token}" if self._token else ""
        if self._authorization is not None:
            value = await self._authorization()
        return [*self._request_headers, *([("Authorization", value)] if value else [])]


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except aiohttp.ClientError as error:
        raise _broken(error) from error


def _broken(error: aiohttp.ClientError) -> OSError:
    """The OSError for any failure between us and the server."""
    return ConnectionError(f"{type(error).__name__}: {error}")
