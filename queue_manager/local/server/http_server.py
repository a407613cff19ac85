"""Serve the API server on a loopback socket over TLS.

Uses aiohttp's low-level server, without router and middlewares. Every process of this machine can connect to loopback,
so each request must carry the bearer token. It must also name this server in its Host header, which defeats DNS
rebinding: a web page whose own name resolves to 127.0.0.1 gets no response. A client that does not read from its watch
for `STALLED_SECONDS` is disconnected.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import socket
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_exceptions import HTTPRequestEntityTooLarge
from aiohttp.web_protocol import RequestHandler

from queue_manager.engine.anonymous_connections import BACKLOG, Connections
from queue_manager.engine.transport_protocol import Response
from queue_manager.local import status_errors
from queue_manager.local.request_limits import MAX_BODY
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.http_messages import ServerRequest, Stream, refuse

log = logging.getLogger(__name__)

MAX_HEAD = 1 << 20  # bytes of a request line, and of a header: as much as a Kubernetes API server takes
STALLED_SECONDS = 30.0
SHUTDOWN_SECONDS = 2.0
USER = "admin"
_HEADERS = ("Accept", "Content-Type", "User-Agent")  # the headers that the API reads
_REASONS = {status.value: status.phrase for status in HTTPStatus}


def _brief(record: logging.LogRecord) -> bool:
    """A filter of log records that keeps each one, and reduces that of a malformed HTTP request to one line at WARNING,
    without a traceback: the fault lies with the client.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.msg, record.args, record.exc_info = "a request was not HTTP: %.200s", (error.message,), None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True


_requests = log.getChild("requests")
_requests.addFilter(_brief)


class Listening:
    """A server that listens at `url` until `close` is called."""

    def __init__(self, url: str, api: ApiServer, web_server: web.Server, connections: Connections) -> None:
        self.url = url
        self._api = api
        self._web = web_server
        self._connections = connections

    async def close(self) -> None:
        """Stop listening, end the watches, let running requests finish."""
        self._connections.close()
        self._api.close()
        await self._web.shutdown(SHUTDOWN_SECONDS)


async def serve(
    server: ApiServer, context: ssl.SSLContext, *, token: str, host: str = "127.0.0.1", port: int = 0
) -> Listening:
    """Listen on a loopback address; port 0 takes a free one. `context` has the server's certificate.

    Raises ValueError for any other address or an empty token, OSError when the port is taken.
    """
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError(f"{host} is not a loopback address: the embedded API server is for this machine only")
    if not token:
        raise ValueError("the embedded API server needs a bearer token")
    door = _RequestHandler(server, token)
    web_server = web.Server(
        door.handle,
        request_factory=_make_request,
        handler_cancellation=True,  # a client that disconnects ends its watch
        access_log=None,
        logger=_requests,
        keepalive_timeout=300.0,
        max_line_size=MAX_HEAD,
        max_field_size=MAX_HEAD,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    taken = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    door.hosts = frozenset(f"{name}:{taken}" for name in (shown, "localhost", "127.0.0.1", "[::1]"))
    door.connections = Connections(listener, web_server, context)
    return Listening(f"https://{shown}:{taken}", server, web_server, door.connections)


def _make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: object,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)  # type: ignore[arg-type]


class _RequestHandler:
    """Authenticates requests, and converts between aiohttp's requests and responses and those of http_messages.py."""

    connections: Connections

    def __init__(self, server: ApiServer, token: str) -> None:
        self._server = server
        self._token = token.encode()
        self.hosts: frozenset[str] = frozenset()

    async def handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        """Answer one request on a connection."""
        refusal = self._refusal(raw.headers)
        if refusal is not None:
            return _BufferedResponse(refuse(refusal))
        self.connections.trust(raw.protocol)
        try:
            body = await self._body(raw)
        except status_errors.StatusError as error:
            return _BufferedResponse(refuse(error))
        path, _, query = raw.raw_path.partition("?")
        headers = {name.lower(): raw.headers[name] for name in _HEADERS if name in raw.headers}
        asked = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
        request = ServerRequest(raw.method, unquote(path), asked, headers, body, USER)
        answer = await self._server.handle(request)
        if isinstance(answer, Stream):
            return await self._stream(raw, answer)
        return _BufferedResponse(answer)

    def _refusal(self, headers: Mapping[str, str]) -> status_errors.StatusError | None:
        if headers.get("Host", "").lower() not in self.hosts:
            return status_errors.forbidden(None, "", "the Host header names another server")
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(_bytes(given), self._token):
            return status_errors.unauthorized()
        return None

    async def _body(self, raw: web.BaseRequest) -> bytes:
        if not raw.body_exists:
            return b""
        if (raw.content_length or 0) > MAX_BODY:
            raise status_errors.too_large(MAX_BODY)
        if raw.headers.get("Expect", "").lower() == "100-continue":
            await raw.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            raw.writer.output_size = 0
        try:
            # A body that arrived together with the head is already buffered: taking it costs half as much as `read`.
            body = raw.content.read_nowait() if raw.content.is_eof() else await raw.read()
        except HTTPRequestEntityTooLarge:
            raise status_errors.too_large(MAX_BODY) from None
        if len(body) > MAX_BODY:
            raise status_errors.too_large(MAX_BODY)
        return body

    async def _stream(self, raw: web.BaseRequest, answer: Stream) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.enable_chunked_encoding()
        try:
            await response.prepare(raw)
            await raw.writer.drain()
            async for chunk in answer.chunks:
                async with asyncio.timeout(STALLED_SECONDS):
                    await response.write(chunk)
                    await raw.writer.drain()
            async with asyncio.timeout(STALLED_SECONDS):
                await response.write_eof()
        except TimeoutError:
            log.warning("%s: a client read nothing for %.0f s and was disconnected", raw.path_qs, STALLED_SECONDS)
            if raw.transport is not None:
                raw.transport.abort()
        except ConnectionError:
            pass  # the client disconnected
        finally:
            await answer.chunks.aclose()
        return response


def _bytes(header: str) -> bytes:
    return header.encode("utf-8", "surrogateescape")


class _BufferedResponse(web.StreamResponse):
    """A response that is sent in a single write, at a third of the cost of `web.Response`."""

    def __init__(self, answer: Response) -> None:
        super().__init__(status=answer.status)
        self._answer = answer

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Write head and body in one call."""
        answer = self._answer
        keep = request.keep_alive
        self._keep_alive = keep
        lines = "".join([f"{name}: {value}\r\n" for name, value in answer.headers.items()])
        head = (
            f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, '')}\r\n{lines}"
            f"Content-Length: {len(answer.body)}\r\nConnection: {'keep-alive' if keep else 'close'}\r\n\r\n"
        ).encode("latin-1", "replace")
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has disconnected")
        transport.write(head + (b"" if request.method == "HEAD" else answer.body))
        await request.writer.drain()
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has written the body."""
