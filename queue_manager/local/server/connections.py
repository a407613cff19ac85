"""The connections of the API server's socket, and how long a client may hold one without saying who it is.

Every process of this machine can connect, and each connection costs a file descriptor. A connection is *anonymous*
from the moment it is accepted until a request on it has carried the token:

    accept -> TLS handshake -> head of a request -> trusted
    |<----------------- anonymous --------------->|

| limit | what happens beyond it |
|---|---|
| an anonymous connection gets `ANONYMOUS_SECONDS` | it is closed |
| `MAX_ANONYMOUS` anonymous connections at once | the oldest of them is closed: an honest client needs milliseconds |
| `descriptors.for_connections()` connections in all | the new one is closed, and pods keep the descriptors they need |

A connection is closed by shutting its socket down. Its transport, in whatever state, then sees the end of the stream.
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

from queue_manager.engine import descriptors

log = logging.getLogger(__name__)

ANONYMOUS_SECONDS = 5.0
MAX_ANONYMOUS = 128
CLOSE_SECONDS = 2.0  # for a client to answer the end of a TLS connection
RETRY_SECONDS = 0.1  # after a connection could not be accepted


class _Anonymous(NamedTuple):
    socket: socket.socket
    deadline: asyncio.TimerHandle


class Connections:
    """Accepts the connections of `listener` and hands them to `web_server` over TLS."""

    def __init__(self, listener: socket.socket, web_server: web.Server, context: ssl.SSLContext) -> None:
        self._listener = listener
        self._web = web_server
        self._context = context
        self._anonymous: dict[RequestHandler, _Anonymous] = {}  # the oldest first
        self._most = descriptors.for_connections()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._full = False
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def trust(self, handler: RequestHandler) -> None:
        """A request on this connection has carried the token."""
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
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # the client is gone already, or no descriptor is left
                log.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if self._has_room():
                task = loop.create_task(self._open(accepted))
                self._handshakes.add(task)
                task.add_done_callback(self._handshakes.discard)
            else:
                accepted.close()

    def _has_room(self) -> bool:
        full = len(self._web.connections) + len(self._handshakes) >= self._most
        if full and not self._full:
            log.warning("%d connections are open; new ones are refused until some are closed", self._most)
        self._full = full
        return not full

    async def _open(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        if len(self._anonymous) >= min(MAX_ANONYMOUS, self._most // 2):
            self._drop(next(iter(self._anonymous)))
        handler = self._web()
        deadline = loop.call_later(ANONYMOUS_SECONDS, self._drop, handler)
        self._anonymous[handler] = _Anonymous(accepted, deadline)
        try:
            await loop.connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=ANONYMOUS_SECONDS,
                ssl_shutdown_timeout=CLOSE_SECONDS,
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
