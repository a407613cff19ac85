"""Requests over kept-alive connections, with a server that says what a test has it say."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import socket
import ssl
import struct
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from queue_manager.cli.connection_errors import may_have_arrived
from queue_manager.engine.http_connections import IDLE_SECONDS, HttpConnections, NotConnected
from queue_manager.engine.process_tuning import event_loop
from queue_manager.engine.transport_protocol import Request
from tests.local.tls import tls

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nlate"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers each request on each connection with the next of `answers`; with none left, with OK.

    An answer of b"" closes the connection instead.
    """

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0) if self.answers else OK
                writer.write(answer)
                if not answer or b"Connection: close" in answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def connected(server: Server, path: str = "") -> AsyncIterator[HttpConnections]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    connections = HttpConnections(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}{path}")
    try:
        yield connections
    finally:
        connections.close()
        listener.close()


async def unusable(connections: HttpConnections) -> None:
    """Wait until the idle connection is known to be closing."""
    while connections._idle[0][0].is_usable:
        await asyncio.sleep(0.001)


async def ask(connections: HttpConnections, method: str = "GET", **fields: object) -> bytes:
    response = await connections.request(Request(method, "/x", **fields), [])  # type: ignore[arg-type]
    return response.body


async def test_the_request_is_what_http_asks_for() -> None:
    server = Server()
    async with connected(server, "/a prefix") as connections:
        request = Request("PATCH", "/a b/%2F?c", {"labelSelector": "a=b,c in (d)"}, b"{}")
        await connections.request(request, [("Accept", "application/json"), ("X-Who", "\u00fc")])
        host = connections._authority
    assert server.requests == [
        b"PATCH /a%20prefix/a%20b/%2F%3Fc?labelSelector=a%3Db%2Cc+in+%28d%29 HTTP/1.1\r\n"
        b"Host: " + host.encode() + b"\r\nAccept: application/json\r\nX-Who: \xc3\xbc\r\nContent-Length: 2\r\n\r\n{}"
    ]


async def test_a_connection_is_used_again() -> None:
    server = Server()
    async with connected(server) as connections:
        for _ in range(3):
            assert await ask(connections) == b"{}"
    assert server.connections == 1


async def test_requests_at_once_have_connections_of_their_own() -> None:
    server = Server()
    async with connected(server) as connections:
        assert await asyncio.gather(*(ask(connections) for _ in range(5))) == [b"{}"] * 5
        assert server.connections == 5
        assert await asyncio.gather(*(ask(connections) for _ in range(5))) == [b"{}"] * 5
    assert server.connections == 5


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde",
        b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabcde",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
    ],
    ids=["chunked", "closed after it", "without a length", "HTTP 1.0", "after an informational one"],
)
async def test_every_form_of_a_response_is_read(answer: bytes) -> None:
    server = Server(answer)
    async with connected(server) as connections:
        assert await ask(connections) == b"abcde"
        assert await ask(connections) == b"{}"
    assert server.connections == (2 if b"Connection: close" in answer else 1)


async def test_status_and_headers_are_returned() -> None:
    head = b'HTTP/1.1 404 Not Found\r\nWarning: 299 - "a"\r\nRetry-After: 1\r\nWarning: 299 - "b"\r\n'
    async with connected(Server(head + b"Content-Length: 0\r\n\r\n")) as connections:
        response = await connections.request(Request("GET", "/"), [])
    assert (response.status, response.body) == (404, b"")
    assert response.headers == {"Warning": '299 - "a", 299 - "b"', "Retry-After": "1", "Content-Length": "0"}


async def test_204_has_no_body_and_keeps_the_connection() -> None:
    server = Server(b"HTTP/1.1 204 No Content\r\n\r\n")
    async with connected(server) as connections:
        assert await ask(connections, "DELETE") == b""
        assert await ask(connections) == b"{}"
    assert server.connections == 1


@pytest.mark.parametrize(
    ("url", "authority", "name"),
    [
        ("https://[::1]:6443/", "[::1]:6443", "::1"),
        ("https://kubernetes.default.svc.:443", "kubernetes.default.svc:443", "kubernetes.default.svc"),
        ("https://u:p@a.example", "a.example", "a.example"),
    ],
)
def test_the_server_is_named_without_brackets_final_dot_and_password(url: str, authority: str, name: str) -> None:
    connections = HttpConnections(url)
    assert (connections._authority, connections._server_hostname) == (authority, name)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_what_a_closing_connection_swallows_is_sent_again_if_idempotent(method: str) -> None:
    server = Server(OK, b"")
    async with connected(server) as connections:
        await ask(connections)
        assert await ask(connections, method, body=b"1") == b"{}"
    assert [request.split()[0].decode() for request in server.requests] == ["GET", method, method]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_may_have_been_executed_is_not_sent_again(method: str) -> None:
    server = Server(OK, b"")
    async with connected(server) as connections:
        await ask(connections)
        with pytest.raises(ConnectionError, match="the server has closed the connection"):
            await ask(connections, method, body=b"1")
        assert await ask(connections, method, body=b"2") == b"{}"
    assert len(server.requests) == 3


async def test_a_connection_that_the_server_closed_while_idle_is_not_used() -> None:
    server = Server()
    async with connected(server) as connections:
        await ask(connections)
        server.writers[0].close()
        await unusable(connections)
        assert await ask(connections, "POST", body=b"1") == b"{}"
    assert server.connections == 2


async def test_a_connection_that_was_idle_for_long_is_not_used() -> None:
    server = Server()
    async with connected(server) as connections:
        await ask(connections)
        connections._idle = [(connection, since - IDLE_SECONDS - 1) for connection, since in connections._idle]
        await ask(connections)
        assert len(connections._idle) == 1
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nabc", "closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n9\r\nabc", "closed"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", "closed"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nzzz", "not HTTP"),
    ],
    ids=["less than its length", "half a chunk", "half a head", "SSH", "another protocol"],
)
async def test_half_a_response_is_an_error_and_not_sent_again(answer: bytes, problem: str) -> None:
    server = Server(OK, answer)
    async with connected(server) as connections:
        await ask(connections)
        with pytest.raises(ConnectionError, match=problem):
            await ask(connections)
        assert await ask(connections) == b"{}"
    assert len(server.requests) == 3


async def test_the_response_of_a_request_that_was_given_up_answers_no_other() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nla")
    async with connected(server) as connections:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ask(connections)
        server.writers[0].write(b"te")
        assert await ask(connections) == b"{}"
    assert server.connections == 2


async def test_bytes_that_nobody_requested_end_the_connection() -> None:
    server = Server()
    async with connected(server) as connections:
        await ask(connections)
        server.writers[0].write(TOO_LATE)
        await unusable(connections)
        assert await ask(connections) == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize("more", [TOO_LATE, b"HTTP/1.1 4", b"garbage"])
async def test_what_follows_a_response_is_not_part_of_it(more: bytes) -> None:
    server = Server(OK + more)
    async with connected(server) as connections:
        response = await connections.request(Request("POST", "/", body=b""), [])
        assert (response.status, response.body) == (200, b"{}")
        assert await ask(connections) == b"{}"
    assert server.connections == 2


async def test_an_idle_connection_keeps_nothing_of_a_response() -> None:
    server = Server()
    async with connected(server) as connections:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await ask(connections)
            assert gc.collect() < 3, "no cycles of references"
        finally:
            gc.enable()
        assert connections._idle[0][0]._reader is None


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_what_a_proxy_compresses_is_decompressed(coding: str) -> None:
    body = gzip.compress(b"text") if coding == "gzip" else zlib.compress(b"text")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: "
    server = Server(f"{head}{len(body)}\r\n\r\n".encode() + body, f"{head}3\r\n\r\nbad".encode())
    async with connected(server) as connections:
        assert await ask(connections) == b"text"
        with pytest.raises(ConnectionError, match="cannot be decompressed"):
            await ask(connections)


async def test_a_burst_leaves_no_idle_connections_for_good() -> None:
    server = Server()
    async with connected(server) as connections:
        await asyncio.gather(*(ask(connections) for _ in range(5)))
        old = [(connection, since - IDLE_SECONDS - 1) for connection, since in connections._idle[:3]]
        connections._idle[:3] = old
        await ask(connections)
        assert len(connections._idle) == 2


async def test_another_address_of_a_name_is_tried_beside_a_silent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener with a full backlog does not answer."""
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    with socket.socket() as silent, contextlib.ExitStack() as clients:
        silent.bind(("127.0.0.2", port))
        silent.listen(0)
        for _ in range(3):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.2", port))

        async def addresses(*_: object, **__: object) -> list[object]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        connections = HttpConnections(f"http://two.example:{port}")
        async with asyncio.timeout(5):
            assert await ask(connections) == b"{}"
        connections.close()
    listener.close()


async def test_close_ends_a_request_that_is_still_connecting() -> None:
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    connections = HttpConnections(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    asked = asyncio.create_task(ask(connections, "POST", body=b"1"))
    await asyncio.sleep(0)
    connections.close()
    for request in (asked, ask(connections)):
        with pytest.raises(NotConnected):
            await request
    assert server.requests == []
    listener.close()


async def test_a_connection_that_fails_says_why() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    listener = await asyncio.start_server(reset, "127.0.0.1", 0)
    connections = HttpConnections(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}", ssl=tls().client)
    with pytest.raises(NotConnected, match=r": .+") as caught:
        await ask(connections)
    assert not may_have_arrived(caught.value)
    listener.close()


async def test_close_ends_requests_under_way() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\n")
    async with connected(server) as connections:
        asked = asyncio.create_task(ask(connections))
        while not server.requests:
            await asyncio.sleep(0.001)
        connections.close()
        with pytest.raises(ConnectionError, match="was closed"):
            await asked
    assert server.connections == 1


async def test_a_line_break_in_a_header_is_refused() -> None:
    server = Server()
    async with connected(server) as connections:
        with pytest.raises(ValueError, match="Impersonate-User"):
            await connections.request(
                Request("GET", "/"), [("Impersonate-User", "a\r\nImpersonate-Group: system:masters")]
            )
    assert server.requests == []


async def test_tls_trusts_what_it_is_given_only() -> None:
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls().server)
    port = listener.sockets[0].getsockname()[1]
    trusting = HttpConnections(f"https://127.0.0.1:{port}", ssl=tls().client)
    assert await ask(trusting) == b"{}"
    for connections in (
        HttpConnections(f"https://127.0.0.1:{port}"),
        HttpConnections(f"https://127.0.0.1:{port}", ssl=tls().client, server_hostname="another.example"),
    ):
        with pytest.raises(ConnectionError, match="Cannot connect") as caught:
            await ask(connections)
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
    trusting.close()
    listener.close()


def test_the_loop_of_the_command_line_has_transports_of_its_own() -> None:
    """uvloop's are no instances of asyncio's classes."""

    async def use(context: ssl.SSLContext | None) -> int:
        server = Server(OK, OK, b"", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}")
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
        url = f"{'https' if context else 'http'}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        connections = HttpConnections(url, ssl=tls().client)
        for _ in range(4):
            assert await ask(connections) == b"{}"
        connections.close()
        listener.close()
        return server.connections

    with event_loop() as loop:
        assert loop.run(use(None)) == loop.run(use(tls().server)) == 3


def test_aiohttp_is_imported_with_the_first_stream_only() -> None:
    lines = "import sys, queue_manager.engine.renewing_transport as used; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
