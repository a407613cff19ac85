"""One session of aiohttp with a server: streams (watches, logs), and all requests through a proxy.

The session is our own and not that of `kubernetes.aio`'s ApiClient. Measured on 2 cores with Python 3.11: importing
`kubernetes.aio` takes 1.0 s (aiohttp alone 0.1 s), and its ApiClient adds the construction of two models to each call
(560–1350 µs instead of about 100). Only `auth-provider` needs it: it is imported when a kubeconfig names one (see
`kubeconfig`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl as tls
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

import aiohttp

from queue_manager.engine.transport_protocol import ApiError, Request, Response

TIMEOUT = aiohttp.ClientTimeout(
    total=None, sock_connect=10
)  # seconds; the timeout of a whole request comes with the request
CLOSE_TIMEOUT_SECONDS = 1.0  # for connections to report their end, which a TLS connection may never do
READ_BUFFER = 1 << 18  # bytes; a watch under load arrives in chunks of up to this size

Headers = Iterable[tuple[str, str]]


class AiohttpSession:
    """Requests and streams to one server. To be made on the event loop on which it is used.

    Headers are passed with each request: those of a session would also go to the proxy.
    """

    def __init__(
        self,
        base_url: str,
        *,
        ssl: tls.SSLContext | None = None,
        server_hostname: str | None = None,
        proxy: str | None = None,
    ) -> None:
        """See `HttpTransport`."""
        self._base_url = base_url
        self._server_hostname = server_hostname
        self._streams: set[aiohttp.ClientResponse] = set()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, ssl=True if ssl is None else ssl),
            proxy=proxy,
            trust_env=False,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
            loop=asyncio.get_running_loop(),
        )

    async def request(self, request: Request, headers: Headers) -> Response:
        """Send a request with these headers. `request.timeout` is up to the caller. Raises ConnectionError."""
        try:
            async with self._session.request(
                request.method,
                self._base_url + request.path,
                params=request.query,
                data=request.body,
                headers=headers,
                timeout=TIMEOUT,
                server_hostname=self._server_hostname,
                allow_redirects=False,
            ) as answer:
                return Response(answer.status, answer.headers, await answer.read())
        except aiohttp.ClientError as error:
            raise _broken(error) from error

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str] | None, headers: Headers
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        try:
            async with self._session.get(
                self._base_url + path,
                params=query,
                headers=headers,
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
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self._session.close()


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except aiohttp.ClientError as error:
        raise _broken(error) from error


def _broken(error: aiohttp.ClientError) -> OSError:
    """The OSError for any failure between us and the server."""
    return ConnectionError(f"{type(error).__name__}: {error}")
