"""HTTP/1.1 for short requests: connections kept alive, one request at a time on each.

An API client sends small requests and reads small answers, thousands a second. A general HTTP library spends three
quarters of such a client's CPU on what it does not need (redirects, cookies, encodings, tracing): measured 0.45 ms
a request where this takes 0.1 ms. Watches, of which there are few, stay with aiohttp.

    dialling --> busy <--> idle --> closed        dialling --> closed
                   └────────────────────^

A connection is handed to whoever has waited longest, be it a new one or one just released. At most DIALLING of them
are opened at once: a TLS handshake costs as much as several requests, so a burst is best served by few connections, and
by more only while it lasts.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections import deque
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from multidict import CIMultiDict

from queue_manager.engine.transport import Response

DIALLING = 4
CONNECT_TIMEOUT = 10.0  # seconds
KEEP_ALIVE = 60.0  # seconds an idle connection is trusted
MAX_HEAD = 1 << 20  # bytes
REPEATABLE = ("GET", "HEAD", "PUT", "DELETE")  # may be sent again when a kept connection turns out to be closed

_CRLF, _END = b"\r\n", b"\r\n\r\n"


class Malformed(ConnectionError):
    """What the server sends is not HTTP/1.1."""


class StaleConnection(ConnectionError):
    """A kept connection was closed by the server before it said anything."""


@dataclass(frozen=True)
class Server:
    """Where connections lead. `prefix` is the part of the URL before each path."""

    host: str
    port: int
    authority: str
    prefix: str
    ssl: tls.SSLContext | None
    server_hostname: str | None

    @classmethod
    def of(cls, url: str, ssl: tls.SSLContext | None, server_hostname: str | None) -> Server:
        """Without a context https is verified by the system's authorities."""
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        host = parts.hostname or ""
        context = (ssl or tls.create_default_context()) if secure else None
        port = parts.port or (443 if secure else 80)
        return cls(host, port, parts.netloc, parts.path, context, (server_hostname or host) if secure else None)


class Pool:
    """Connections to one server, at most `limit`. Belongs to the loop on which it is first used."""

    def __init__(self, server: Server, limit: int) -> None:
        self._server = server
        self._limit = limit
        self._idle: list[Connection] = []  # the last one released is the first one taken: the others may close
        self._open: set[Connection] = set()
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._dials: set[asyncio.Task[None]] = set()
        self._closed = False

    async def request(self, method: str, target: str, headers: bytes, body: bytes | None) -> Response:
        """One answer, whatever its status. `target` is encoded, `headers` complete lines. Raises OSError."""
        size = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
        line = f"{method} {self._server.prefix}{target} HTTP/1.1\r\nHost: {self._server.authority}\r\n".encode("ascii")
        message = b"".join((line, headers, size, _CRLF, body or b""))
        while True:
            connection = await self._take()
            kept = connection.requests > 0
            try:
                return await connection.exchange(message, head_only=method == "HEAD")
            except StaleConnection:
                if not kept or method not in REPEATABLE:
                    raise
            finally:
                self._release(connection)

    def close(self) -> None:
        self._closed = True
        for dial in self._dials:
            dial.cancel()
        for connection in list(self._open):
            connection.abort()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ConnectionError("the transport was closed"))

    # --- who gets which ---

    async def _take(self) -> Connection:
        if self._closed:
            raise ConnectionError("the transport was closed")
        loop = asyncio.get_running_loop()
        oldest = loop.time() - KEEP_ALIVE
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.released >= oldest:
                return connection
            connection.abort()
        waiter: asyncio.Future[Connection] = loop.create_future()
        self._waiting.append(waiter)
        self._dial()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._release(waiter.result())
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _release(self, connection: Connection) -> None:
        """To the one who has waited longest, or to the idle ones."""
        if connection.usable and not self._closed:
            self._hand_over(connection)
        else:
            connection.abort()
            self._dial()

    def _hand_over(self, connection: Connection) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        connection.released = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def _dial(self) -> None:
        """Open as many connections as are waited for, within the limits."""
        room = min(DIALLING, self._limit - len(self._open)) - len(self._dials)
        for _ in range(min(room, len(self._waiting) - len(self._dials))):
            dial = asyncio.get_running_loop().create_task(self._connect())
            self._dials.add(dial)

    async def _connect(self) -> None:
        server = self._server
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self._open),
                    server.host,
                    server.port,
                    ssl=server.ssl,
                    server_hostname=server.server_hostname,
                )
        except Exception as error:  # a name that cannot be resolved or encoded, a certificate, no answer
            self._ended_dial()
            self._fail(ConnectionError(f"Cannot connect to {server.authority}: {type(error).__name__}: {error}"))
        except BaseException:
            self._ended_dial()
            raise
        else:
            self._ended_dial()
            self._hand_over(connection)
            self._dial()

    def _ended_dial(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._dials.discard(task)

    def _fail(self, error: ConnectionError) -> None:
        """Who waits longest learns of it; the next one has another dial."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(error)
                break
        self._dial()


class Connection(asyncio.Protocol):
    """One request at a time: `exchange` sends it and returns its answer."""

    def __init__(self, siblings: set[Connection]) -> None:
        self.requests = 0
        self.released = 0.0
        self.usable = False
        self._siblings = siblings
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._reader = Reader()

    async def exchange(self, message: bytes, *, head_only: bool) -> Response:
        transport = self._transport
        if transport is None or not self.usable:
            raise StaleConnection("the connection was closed")
        self.usable = False  # until the whole answer is there
        self._answer = asyncio.get_running_loop().create_future()
        self._reader = Reader(head_only)
        transport.write(message)
        self.requests += 1
        try:
            return await self._answer
        finally:
            self._answer = None

    def abort(self) -> None:
        self.usable = False
        self._siblings.discard(self)
        if self._transport is not None:
            self._transport.abort()

    # --- the loop calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.usable = True
        self._siblings.add(self)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.done():
            self.abort()  # nobody asked, or nobody waits any more: what comes next would be taken for another answer
            return
        try:
            found = self._reader.feed(data)
        except (Malformed, ValueError, IndexError) as error:
            self._fail(Malformed(f"the answer is not HTTP/1.1: {error}"))
            self.abort()
            return
        if found is not None:
            self.usable = self._reader.keeps
            answer.set_result(found)

    def eof_received(self) -> None:
        self._end()

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._siblings.discard(self)
        self._end()
        self._transport = None

    def _end(self) -> None:
        self.usable = False
        found = self._reader.end()
        if found is not None and self._answer is not None and not self._answer.done():
            self._answer.set_result(found)
        elif self._reader.silent:
            self._fail(StaleConnection("the server closed the connection without an answer"))
        else:
            self._fail(ConnectionError("the server closed the connection in the middle of an answer"))

    def _fail(self, error: ConnectionError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


class Reader:
    """One answer out of bytes as they come (RFC 9112). Pure.

    head -> length | chunks | until the end of the connection
    """

    def __init__(self, head_only: bool = False) -> None:
        self.keeps = False  # whether the connection may be used again
        self._head_only = head_only
        self._buffer = b""
        self._status = 0
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._left = -1  # bytes of the body, or of the chunk with its CRLF; -1: not known
        self._chunked = False
        self._trailers = False
        self._body: list[bytes] = []

    @property
    def silent(self) -> bool:
        """Not a byte of the answer has come."""
        return not self._status and not self._buffer

    def feed(self, data: bytes) -> Response | None:
        """The answer, if this was the rest of it. Raises Malformed, ValueError."""
        self._buffer = self._buffer + data if self._buffer else data
        if not self._status and not self._read_head():
            return None
        if self._chunked:
            return self._read_chunks()
        if self._left < 0:
            return None
        if len(self._buffer) < self._left:
            return None
        if len(self._buffer) > self._left:
            raise Malformed("more bytes than announced")
        return self._done(self._buffer)

    def end(self) -> Response | None:
        """The connection has ended: so has a body of unknown length."""
        if self._status and not self._chunked and self._left < 0:
            self.keeps = False
            return self._done(self._buffer)
        return None

    def _done(self, body: bytes) -> Response:
        return Response(self._status, self._headers, body)

    def _read_head(self) -> bool:
        while True:
            end = self._buffer.find(_END)
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise Malformed("its head does not end")
                return False
            first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
            self._buffer = self._buffer[end + 4 :]
            version, code = first.split(" ", 2)[:2]
            if not version.startswith("HTTP/1."):
                raise Malformed(first[:100])
            if not 100 <= int(code) < 200:  # an interim answer says nothing
                break
        headers = CIMultiDict[str]()
        for line in lines:
            name, _, value = line.partition(":")
            headers.add(name, value.strip())
        self._status, self._headers = int(code), headers
        options = headers.get("Connection", "").lower()
        self.keeps = "close" not in options and (version == "HTTP/1.1" or "keep-alive" in options)
        if self._head_only or self._status in (204, 304):
            self._left = 0
        elif "chunked" in headers.get("Transfer-Encoding", "").lower():
            self._chunked = True
        elif "Content-Length" in headers:
            self._left = int(headers["Content-Length"])
        return True

    def _read_chunks(self) -> Response | None:
        """Chunks as far as they are complete; the rest stays in the buffer."""
        buffer, at = self._buffer, 0
        while True:
            if self._left < 0:
                end = buffer.find(_CRLF, at)
                if end < 0:
                    break
                line, at = buffer[at:end], end + 2
                if self._trailers:
                    if not line:
                        self._buffer = buffer[at:]
                        if self._buffer:
                            raise Malformed("more bytes than announced")
                        return self._done(b"".join(self._body))
                    continue
                size = int(line.split(b";", 1)[0], 16)
                if size == 0:
                    self._trailers = True
                    continue
                self._left = size + 2
            if len(buffer) - at < self._left:
                if len(buffer) - at and self._left > 2:  # take what is there: a long chunk is not searched again
                    part = buffer[at : at + min(len(buffer) - at, self._left - 2)]
                    self._body.append(part)
                    self._left -= len(part)
                    at += len(part)
                break
            self._body.append(buffer[at : at + self._left - 2])
            at += self._left
            self._left = -1
        self._buffer = buffer[at:]
        return None
