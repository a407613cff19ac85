"""HTTP/1.1 requests over kept-alive connections to one server, with little CPU per request.

The manager makes three requests per Workload (its status and two Events), and is short of CPU just when many of them
wait. Measured over TLS with uvloop, Python 3.11: 150 µs of CPU per request of aiohttp, 70 µs of this module, which has
`httptools` parse the responses. aiohttp serves what lasts or needs a proxy (`aiohttp_session`).

    opened    for a request that finds no idle connection
    busy      with one request at a time; closed if that is broken off (timeout, cancellation) or cannot be read, or if
              the server does not keep the connection alive
    idle      the one that was used last is taken first; those that were idle for IDLE_SECONDS are closed with the next
              request

The server may close an idle connection just when a request is sent on it. That request is repeated on a new connection
if its method is idempotent (RFC 9110, section 9.2.2); otherwise it fails, since it may have been executed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
import zlib
from collections.abc import Iterable, Mapping
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

import aiohappyeyeballs
import httptools

from queue_manager.engine.transport_protocol import Request, Response

CONNECT_SECONDS = 10.0  # for the TCP connection and the TLS handshake
NEXT_ADDRESS_SECONDS = 0.25  # until the next address of a name is tried beside the one that does not answer (RFC 8305)
IDLE_SECONDS = 60.0
CLOSED = "the connection was closed"  # by us
IDEMPOTENT_METHODS = ("DELETE", "GET", "PUT")  # of those that are used
_PLAIN_IN_PATHS = "/%:@!$&'()*+,;=~"  # besides letters, digits and "_.-"
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class NotConnected(ConnectionError):
    """There is no connection, so the server has not seen the request."""


class Unanswered(ConnectionError):
    """A kept-alive connection ended before any byte of the response."""


class HttpConnections:
    """Sends requests to one server, each on a connection of its own while it lasts."""

    def __init__(self, base_url: str, *, ssl: tls.SSLContext | None = None, server_hostname: str | None = None) -> None:
        """`base_url`: scheme, host, port and the path before that of each request.

        `ssl`: for https; without it the system's certificates are trusted. `server_hostname`: the name in the server's
        certificate if it is not that of the URL. Raises ValueError for a URL without a valid port.
        """
        url = urlsplit(base_url)
        self._is_tls = url.scheme == "https"
        self._host, self._port = (url.hostname or "").rstrip("."), url.port or (443 if self._is_tls else 80)
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._authority = host if url.port is None else f"{host}:{url.port}"
        self._prefix = quote(url.path, safe=_PLAIN_IN_PATHS)
        self._ssl = ssl
        self._server_hostname = server_hostname or self._host
        self._is_closed = False
        self._idle: list[tuple[_Connection, float]] = []  # since when, by the loop's clock; the newest last
        self._busy: set[_Connection] = set()

    async def request(self, request: Request, headers: Iterable[tuple[str, str]]) -> Response:
        """Send a request with these headers, and those of host and length. `request.timeout` is up to the caller.

        Raises ConnectionError, caused by the error of socket, TLS or parser (NotConnected if nothing was sent), and
        ValueError for a header with a line break.
        """
        message = self._message(request, headers)
        if self._is_closed:
            raise NotConnected(CLOSED)
        connection = self._take_idle()
        if connection is not None:
            try:
                return await self._exchange(connection, message)
            except Unanswered:
                if request.method not in IDEMPOTENT_METHODS:
                    raise
        return await self._exchange(await self._connect(), message)

    def close(self) -> None:
        """Close all connections. Requests under way and later ones fail."""
        self._is_closed = True
        for connection in [*self._busy, *(idle for idle, _ in self._idle)]:
            connection.abort()
        self._idle.clear()

    def _message(self, request: Request, headers: Iterable[tuple[str, str]]) -> bytes:
        body = request.body or b""
        lines = [_line(name, value) for name, value in headers]
        path = self._prefix + quote(request.path, safe=_PLAIN_IN_PATHS)
        query = "?" + urlencode(request.query) if request.query else ""
        length = f"Content-Length: {len(body)}\r\n" if request.body is not None else ""
        head = f"{request.method} {path}{query} HTTP/1.1\r\nHost: {self._authority}\r\n{''.join(lines)}{length}\r\n"
        return head.encode() + body

    def _take_idle(self) -> _Connection | None:
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle:
            connection, since = self._idle.pop()
            if since >= oldest and connection.is_usable:
                return connection
            connection.abort()
        return None

    def _put_idle(self, connection: _Connection) -> None:
        now = asyncio.get_running_loop().time()
        while self._idle and (self._idle[0][1] < now - IDLE_SECONDS or not self._idle[0][0].is_usable):
            self._idle.pop(0)[0].abort()
        self._idle.append((connection, now))

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._is_tls and self._ssl is None:
            self._ssl = tls.create_default_context()
        context, name = (self._ssl, self._server_hostname) if self._is_tls else (None, None)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                connected = await aiohappyeyeballs.start_connection(
                    found, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS, interleave=1
                )
                _, connection = await loop.create_connection(
                    _Connection, sock=connected, ssl=context, server_hostname=name
                )
        except OSError as error:
            text = str(error) or type(error).__name__
            raise NotConnected(f"Cannot connect to {self._authority}: {text}") from error
        if self._is_closed:
            connection.abort()
            raise NotConnected(CLOSED)
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
            self._put_idle(connection)
        else:
            connection.abort()
        return response


def _line(name: str, value: str) -> str:
    line = f"{name}: {value}"
    if "\n" in line or "\r" in line or "\0" in line:
        raise ValueError(f"the header {name!r} has a line break in it")
    return f"{line}\r\n"


class _Connection(asyncio.Protocol):
    """One connection; it carries one request at a time."""

    def __init__(self) -> None:
        self.keeps_alive = False  # after a response: whether another request may follow
        self._transport: asyncio.Transport | None = None
        self._is_aborted = False
        self._reader: _ResponseReader | None = None  # of the request under way, as is
        self._response: asyncio.Future[Response] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it is open, as far as is known: the server may be closing it."""
        return self._transport is not None and not self._transport.is_closing()

    def exchange(self, message: bytes) -> asyncio.Future[Response]:
        """Send a request. Returns its response, which fails with ConnectionError."""
        self._reader = _ResponseReader()
        self._response = response = asyncio.get_running_loop().create_future()
        if self._transport is None or not self.is_usable:
            response.set_exception(Unanswered("the server has closed the connection"))
        else:
            self._transport.write(message)
        return response

    def abort(self) -> None:
        """Close the connection without waiting for the server."""
        self._is_aborted = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop has no such base class

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._reader is None:  # nothing was requested
            self.abort()
            return
        try:
            self._reader.feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.abort()
            self._end_if_complete()  # before bytes that do not belong to it
            self._fail(ConnectionError(f"the response is not HTTP: {error}"), error)
        else:
            self._end_if_complete()

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if self._reader is None:
            return
        if self._is_aborted:
            self._fail(ConnectionError(CLOSED), error)
            return
        has_begun = self._reader.has_begun
        if error is None:
            self._reader.end_of_stream()
            self._end_if_complete()
        text = "the server has closed the connection" if error is None else f"the connection broke: {error}"
        self._fail(ConnectionError(text) if has_begun else Unanswered(text), error)

    def _end_if_complete(self) -> None:
        if self._reader is None or self._reader.response is None:
            return
        try:
            response = _decompressed(self._reader.response)
        except zlib.error as error:
            self._fail(ConnectionError(f"the response cannot be decompressed: {error}"), error)
            return
        self.keeps_alive = self._reader.keeps_alive and self.is_usable
        future = self._end()
        if future is not None and not future.done():
            future.set_result(response)

    def _fail(self, error: ConnectionError, cause: Exception | None) -> None:
        future = self._end()
        if future is not None and not future.done():
            error.__cause__ = cause
            future.set_exception(error)

    def _end(self) -> asyncio.Future[Response] | None:
        """End the request under way, and keep nothing of its response, which may be large."""
        if self._reader is not None:
            self._reader.release()
        future, self._response, self._reader = self._response, None, None
        return future


class _ResponseReader:
    """Reads one response; the methods `on_…` are called by the parser."""

    def __init__(self) -> None:
        self.response: Response | None = None  # once it is complete
        self.has_begun = False
        self.keeps_alive = False
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._has_head = False

    def feed(self, data: bytes) -> None:
        """Read the next bytes. Raises httptools.HttpParserError, also for bytes after the end; then the response that
        they follow is there.
        """
        self.has_begun = True
        if self._parser is not None:
            self._parser.feed_data(data)

    def release(self) -> None:
        """Drop the parser, which refers to this reader: otherwise only the garbage collector frees both."""
        self._parser = None

    def end_of_stream(self) -> None:
        """The server has closed the connection, which ends a response that has no length."""
        if self._has_head and self.response is None and not _has_length(self._headers):
            self._complete()

    def on_message_begin(self) -> None:
        """Refuse what follows the response: nothing else was requested."""
        if self.response is not None:
            raise ValueError("bytes after the response")

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
        assert self._parser is not None
        if self._parser.get_status_code() < 200:
            self._headers, self._has_head = {}, False
            return
        self.keeps_alive = self._parser.should_keep_alive()
        self._complete()

    def _complete(self) -> None:
        assert self._parser is not None
        body, self._body = b"".join(self._body), []
        self.response = Response(self._parser.get_status_code(), self._headers, body)


def _decompressed(response: Response) -> Response:
    """A proxy may compress, although it was not requested. Raises zlib.error."""
    if response.header("content-encoding") not in ("gzip", "deflate"):
        return response
    return response._replace(body=zlib.decompress(response.body, _GZIP_OR_ZLIB))


def _has_length(headers: Mapping[str, str]) -> bool:
    return not {"content-length", "transfer-encoding"}.isdisjoint(map(str.lower, headers))
