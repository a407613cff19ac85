"""HTTP/1.1 requests over kept-alive connections to one server, with little CPU per request.

The manager makes three requests per Workload (its status and two Events), and is short of CPU just when many of them
wait. Measured over TLS with uvloop, Python 3.11: 150 µs of CPU per request of aiohttp, 70 µs of this module, which has
`httptools` parse the responses. aiohttp serves what lasts or needs a proxy (`aiohttp_session`).

    opened    for a request that finds no idle connection
    busy      with one request at a time; closed if that is broken off (timeout, cancellation) or cannot be read, or if
              the server does not keep the connection alive
    idle      for IDLE_SECONDS; the one that was used last is taken first

The server may close an idle connection just when a request is sent on it. That request is repeated on a new connection
if its method is idempotent (RFC 9110, section 9.2.2); otherwise it fails, since it may have been executed.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Iterable, Mapping
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

import httptools

from queue_manager.engine.transport_protocol import Request, Response

CONNECT_SECONDS = 10.0  # for the TCP connection and the TLS handshake
IDLE_SECONDS = 60.0
IDEMPOTENT_METHODS = ("DELETE", "GET", "PUT")  # of those that are used
_PLAIN_IN_PATHS = "/%:@!$&'()*+,;=~"  # besides letters, digits and "_.-"


class Unanswered(ConnectionError):
    """A kept-alive connection ended before any byte of the response."""


class HttpConnections:
    """Sends requests to one server, each on a connection of its own while it lasts."""

    def __init__(self, base_url: str, *, ssl: tls.SSLContext | None = None, server_hostname: str | None = None) -> None:
        """`base_url`: scheme, host, port and the path before that of each request.

        `ssl`: for https; without it the system's certificates are trusted. `server_hostname`: the name in the server's
        certificate if it is not that of the URL.
        """
        url = urlsplit(base_url)
        self._is_tls = url.scheme == "https"
        self._host, self._port = url.hostname or "", url.port or (443 if self._is_tls else 80)
        self._authority, self._prefix = url.netloc.rpartition("@")[2], url.path
        self._ssl = ssl
        self._server_hostname = server_hostname
        self._idle: list[tuple[_Connection, float]] = []  # since when, by the loop's clock; the newest last
        self._busy: set[_Connection] = set()

    async def request(self, request: Request, headers: Iterable[tuple[str, str]]) -> Response:
        """Send a request with these headers, and those of host and length. `request.timeout` is up to the caller.

        Raises ConnectionError, caused by the error of socket, TLS or parser; ValueError for a header with a line break.
        """
        message = self._message(request, headers)
        connection = self._take_idle()
        if connection is not None:
            try:
                return await self._exchange(connection, message)
            except Unanswered:
                if request.method not in IDEMPOTENT_METHODS:
                    raise
        return await self._exchange(await self._connect(), message)

    def close(self) -> None:
        """Close all connections. Requests under way fail."""
        for connection in [*self._busy, *(idle for idle, _ in self._idle)]:
            connection.abort()
        self._idle.clear()

    def _message(self, request: Request, headers: Iterable[tuple[str, str]]) -> bytes:
        body = request.body or b""
        lines = [f"{name}: {_checked(name, value)}\r\n" for name, value in headers]
        path = self._prefix + quote(request.path, safe=_PLAIN_IN_PATHS)
        query = "?" + urlencode(request.query) if request.query else ""
        length = f"Content-Length: {len(body)}\r\n" if request.body is not None else ""
        head = f"{request.method} {path}{query} HTTP/1.1\r\nHost: {self._authority}\r\n{''.join(lines)}{length}\r\n"
        return head.encode() + body

    def _take_idle(self) -> _Connection | None:
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            connection, since = self._idle.pop()
            if since >= oldest and not connection.is_closed:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._is_tls and self._ssl is None:
            self._ssl = tls.create_default_context()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    _Connection,
                    self._host,
                    self._port,
                    ssl=self._ssl if self._is_tls else None,
                    server_hostname=self._server_hostname if self._is_tls else None,
                )
        except OSError as error:
            raise ConnectionError(f"Cannot connect to {self._authority}: {error or type(error).__name__}") from error
        return connection

    async def _exchange(self, connection: _Connection, message: bytes) -> Response:
        self._busy.add(connection)
        try:
            response = await connection.exchange(message)
        except BaseException:  # a response that still comes must not answer another request
            connection.abort()
            raise
        finally:
            self._busy.discard(connection)
        if connection.keeps_alive:
            self._idle.append((connection, asyncio.get_running_loop().time()))
        else:
            connection.abort()
        return response


def _checked(name: str, value: str) -> str:
    if "\n" in value or "\r" in value:
        raise ValueError(f"the value of the header {name} has a line break")
    return value


class _Connection(asyncio.Protocol):
    """One connection; it carries one request at a time."""

    def __init__(self) -> None:
        self.is_closed = False
        self.keeps_alive = False  # after a response: whether another request may follow
        self._transport: asyncio.Transport | None = None
        self._reader = _ResponseReader()
        self._response: asyncio.Future[Response] | None = None  # of the request under way

    def exchange(self, message: bytes) -> asyncio.Future[Response]:
        """Send a request. Returns its response, which fails with ConnectionError."""
        self._reader = _ResponseReader()
        self._response = response = asyncio.get_running_loop().create_future()
        if self._transport is None or self.is_closed:
            response.set_exception(Unanswered("the server has closed the connection"))
        else:
            self._transport.write(message)
        return response

    def abort(self) -> None:
        """Close the connection without waiting for the server."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop has no such base class

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._response is None:  # nothing was requested
            self.abort()
            return
        try:
            self._reader.feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"the response is not HTTP: {error}"), error)
            self.abort()
        else:
            self._end_if_complete()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if self.is_closed:  # by us
            self._fail(ConnectionError("the connection was closed"), error)
            return
        self.is_closed = True
        if error is None:
            self._reader.end_of_stream()
            self._end_if_complete()
        text = "the server has closed the connection" if error is None else f"the connection broke: {error}"
        self._fail(ConnectionError(text) if self._reader.has_begun else Unanswered(text), error)

    def _end_if_complete(self) -> None:
        response = self._reader.response
        if response is None or self._response is None:
            return
        future, self._response = self._response, None
        self.keeps_alive = self._reader.keeps_alive and not self.is_closed
        if not future.done():
            future.set_result(response)

    def _fail(self, error: ConnectionError, cause: Exception | None) -> None:
        future, self._response = self._response, None
        if future is not None and not future.done():
            error.__cause__ = cause
            future.set_exception(error)


class _ResponseReader:
    """Reads one response; the methods `on_…` are called by the parser."""

    def __init__(self) -> None:
        self.response: Response | None = None  # once it is complete
        self.has_begun = False
        self.keeps_alive = False
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._has_head = False

    def feed(self, data: bytes) -> None:
        """Read the next bytes. Raises httptools.HttpParserError, also for bytes after the end."""
        self.has_begun = True
        self._parser.feed_data(data)

    def end_of_stream(self) -> None:
        """The server has closed the connection, which ends a response that has no length."""
        if self._has_head and self.response is None and not _has_length(self._headers):
            self._complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header that is repeated is joined to one value, as RFC 9110 allows (section 5.3)."""
        key, text = name.decode("latin-1"), value.decode("utf-8", "surrogateescape")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """The body follows."""
        self._has_head = True

    def on_body(self, data: bytes) -> None:
        """A part of the body, without the marks of a chunk."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The response is complete, or was an informational one, before the final one."""
        if self._parser.get_status_code() < 200:
            self._headers, self._has_head = {}, False
            return
        self.keeps_alive = self._parser.should_keep_alive()
        self._complete()

    def _complete(self) -> None:
        self.response = Response(self._parser.get_status_code(), self._headers, b"".join(self._body))


def _has_length(headers: Mapping[str, str]) -> bool:
    return not {"content-length", "transfer-encoding"}.isdisjoint(map(str.lower, headers))
