"""The ports of probes and metrics: what idle clients cannot do to them, and on which addresses they answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from queue_manager.configuration import KueueConfig
from queue_manager.configuration.addresses import Address
from queue_manager.engine import anonymous_connections
from queue_manager.engine.metric_registry import Exposition, MetricRegistry
from queue_manager.operator import probes

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
PATIENCE = 20.0  # seconds


async def serve(stack: AsyncExitStack, host: str | None = "127.0.0.1") -> int:
    """The port."""
    answers = probes.routes(KueueConfig(), MetricRegistry([]), lambda: "")
    urls = await probes.serve(stack, {Address(host, 0): ["health", "metrics"]}, answers)
    return int(urls[0].split(":")[2].split("/")[0])


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with AsyncExitStack() as stack:
        yield await serve(stack)


async def idle(port: int, sent: bytes) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await writer.drain()
    return reader


async def closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(PATIENCE):
        return await reader.read() == b""


async def keep_sending(client: socket.socket) -> None:
    """Returns never: raises when the server has closed the connection."""
    async with asyncio.timeout(PATIENCE):
        while client.send(b"\n"):
            await asyncio.sleep(0.05)


async def ask(port: int, host: str = "127.0.0.1") -> bytes:
    """All that the server sends on one connection, until it closes it."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(REQUEST)
    async with asyncio.timeout(PATIENCE):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("sent", [b"", REQUEST[:20]], ids=["silent", "half a request"])
async def test_an_idle_connection_is_closed_in_time(monkeypatch: pytest.MonkeyPatch, port: int, sent: bytes) -> None:
    monkeypatch.setattr(anonymous_connections, "ANONYMOUS_SECONDS", 0.3)
    assert await closed(await idle(port, sent))


@pytest.mark.parametrize("sent", [b"", REQUEST[:20]], ids=["silent", "half a request"])
async def test_idle_connections_beyond_the_limit_make_room_for_a_probe(
    monkeypatch: pytest.MonkeyPatch, port: int, sent: bytes
) -> None:
    monkeypatch.setattr(anonymous_connections, "ANONYMOUS_SECONDS", 3600.0)
    monkeypatch.setattr(anonymous_connections, "MAX_ANONYMOUS", 3)
    waiting = [await idle(port, sent) for _ in range(3)]
    assert (await ask(port)).startswith(b"HTTP/1.1 200 OK\r\n")
    assert await closed(waiting[0])


async def test_a_connection_serves_one_request(port: int) -> None:
    answer = await ask(port)
    assert b"Connection: close" in answer
    assert answer.endswith(b"\r\n\r\nok\n")


async def test_a_client_that_does_not_read_its_answer_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setattr(probes, "ANSWER_SECONDS", 0.3)

    async def much(accept: str) -> Exposition:
        return Exposition("text/plain", b"x" * (64 << 20))

    registry = MetricRegistry([])
    monkeypatch.setattr(registry, "expose", much)
    async with AsyncExitStack() as stack:
        answers = probes.routes(KueueConfig(), registry, lambda: "")
        (url,) = await probes.serve(stack, {Address("127.0.0.1", 0): ["metrics"]}, answers)
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0]))) as client:
            client.sendall(REQUEST.replace(b"/healthz", b"/metrics"))
            with pytest.raises(ConnectionError):
                await keep_sending(client)


async def test_without_a_host_it_answers_on_every_address() -> None:
    async with AsyncExitStack() as stack:
        port = await serve(stack, None)
        assert (await ask(port)).startswith(b"HTTP/1.1 200")
        assert (await ask(port, "localhost")).startswith(b"HTTP/1.1 200")


async def test_a_taken_port_is_named() -> None:
    async with AsyncExitStack() as stack:
        port = await serve(stack)
        with pytest.raises(probes.CannotStart, match=rf"^cannot serve health on 127\.0\.0\.1:{port}: "):
            await probes.serve(stack, {Address("127.0.0.1", port): ["health"]}, {"health": {}})


def test_without_readers_metrics_are_on_loopback_at_the_same_port() -> None:
    served = {Address(None, 8081): ["health"], Address(None, 8443): ["metrics"]}
    assert probes.without_readers(served) == {Address(None, 8081): ["health"], Address("127.0.0.1", 8443): ["metrics"]}
    on_loopback = {Address("127.0.0.1", 0): ["health", "metrics"]}
    assert probes.without_readers(on_loopback) == on_loopback
