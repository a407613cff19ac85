"""Accept connections on a server's socket, and limit how long a client may keep one without being trusted.

Every client that reaches the socket can connect, and each connection costs a file descriptor. A connection is
*anonymous* from its acceptance until the server trusts it: the API server when a request on it has carried the token,
the server of probes and metrics, which knows no token, when a request on it is complete:

    accept -> TLS handshake -> request -> trusted
    |<------------- anonymous ---------->|

| limit | what happens beyond it |
|---|---|
| an anonymous connection gets `ANONYMOUS_SECONDS` | it is closed |
| `MAX_ANONYMOUS` anonymous connections at once | the next one waits; the oldest is closed after `GRACE_SECONDS` |
| `file_descriptors.for_connections()` connections in all | the new one is closed; pods keep the descriptors they need |

Honest clients need a few milliseconds each, so a burst of them is served in turn, and silent connections cannot occupy
the socket for long. A connection is closed by shutting down its socket: its transport then reads end of
stream, whatever state it is in.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from typing import NamedTuple

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from queue_manager.engine import file_descriptors

log = logging.getLogger(__name__)

ANONYMOUS_SECONDS = 10.0  # as long as client-go waits for a TLS handshake
MAX_ANONYMOUS = 128
GRACE_SECONDS = 0.25
POLL_SECONDS = 0.01
CLOSE_SECONDS = 2.0  # for a client to answer the end of a TLS connection
BACKLOG = 512  # connections that the kernel keeps until they are accepted
RETRY_SECONDS = 0.1  # after a connection could not be accepted


class _Anonymous(NamedTuple):
    socket: socket.socket
    since: float  # of the loop's clock
    deadline: asyncio.TimerHandle


class Connections:
    """Accepts the connections of `listener` and passes them to `web_server`, over TLS if there is a `context`."""

    def __init__(self, listener: socket.socket, web_server: web.Server, context: ssl.SSLContext | None = None) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._web = web_server
        self._context = context
        self._anonymous: dict[RequestHandler, _Anonymous] = {}  # the oldest first
        self._max_open = file_descriptors.for_connections()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._full = False
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def trust(self, handler: RequestHandler) -> None:
        """Mark the connection as trusted: from now on, the server decides how long it stays."""
        if (known := self._anonymous.pop(handler, None)) is not None:
            known.deadline.cancel()

    def close(self) -> None:
        """Accept no more connections and close those that are anonymous."""
        self._accepting.cancel()
        self._listener.close()
        for handler in list(self._anonymous):
            self._drop(handler)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted = await self._next()
            try:
                if self._is_full():
                    accepted.close()
                    continue
                await self._make_room()
            except asyncio.CancelledError:
                accepted.close()
                raise
            task = loop.create_task(self._open(self._register(accepted), accepted))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _next(self) -> socket.socket:
        while True:
            try:
                return (await asyncio.get_running_loop().sock_accept(self._listener))[0]
            except OSError as error:  # the client is gone already, or no descriptor is left
                log.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _make_room(self) -> None:
        """Wait until there are fewer than MAX_ANONYMOUS anonymous connections; after GRACE_SECONDS close the oldest."""
        loop = asyncio.get_running_loop()
        while len(self._anonymous) >= min(MAX_ANONYMOUS, self._max_open // 2):
            handler, oldest = next(iter(self._anonymous.items()))
            if loop.time() - oldest.since >= GRACE_SECONDS:
                self._drop(handler)
            else:
                await asyncio.sleep(POLL_SECONDS)

    def _register(self, accepted: socket.socket) -> RequestHandler:
        loop = asyncio.get_running_loop()
        handler = self._web()
        deadline = loop.call_later(ANONYMOUS_SECONDS, self._drop, handler)
        self._anonymous[handler] = _Anonymous(accepted, loop.time(), deadline)
        return handler

    def _is_full(self) -> bool:
        full = len(self._web.connections) + len(self._handshakes) >= self._max_open
        if full and not self._full:
            log.warning("%d connections are open; new ones are refused until some are closed", self._max_open)
        self._full = full
        return full

    async def _open(self, handler: RequestHandler, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=ANONYMOUS_SECONDS if self._context is not None else None,
                ssl_shutdown_timeout=CLOSE_SECONDS if self._context is not None else None,
            )
        except OSError as error:  # no TLS, another CA, or too slow
            log.debug("a connection was closed in its TLS handshake: %s", error)
            self._drop(handler)

    def _drop(self, handler: RequestHandler) -> None:
        known = self._anonymous.pop(handler, None)
        if known is None:
            return
        known.deadline.cancel()
        with suppress(OSError):  # it is closed already
            known.socket.shutdown(socket.SHUT_RDWR)
