"""Connections without authentication: how long they stay open, how many there are, and that they hold up no client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest

from queue_manager.engine import anonymous_connections, file_descriptors
from queue_manager.local.server.http_server import Listening, serve
from tests.local.server.world import World
from tests.local.tls import tls

HEAD = "GET /version HTTP/1.1\r\nHost: {host}:{port}\r\n"
REQUEST = HEAD + "Authorization: Bearer {token}\r\n\r\n"
TIMEOUT_SECONDS = 20.0


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    listening = await serve(World().server, tls().server, token="secret")
    yield listening
    await listening.close()


class Caller:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        self._reader, self._writer = reader, writer
        self._names = {"host": host, "port": port}

    @classmethod
    async def to(cls, listening: Listening, *, trust: ssl.SSLContext | None = None) -> Caller:
        host, _, port = listening.url.removeprefix("https://").rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), ssl=trust), host, int(port))

    async def send(self, text: str, token: str = "secret") -> None:
        self._writer.write(text.format(token=token, **self._names).encode())
        await self._writer.drain()

    async def ask(self, token: str = "secret") -> int:
        """The status of the answer to a request."""
        await self.send(REQUEST, token)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next(line for line in head.splitlines() if line.startswith("content-length:"))
            await self._reader.readexactly(int(length.partition(":")[2]))
        return int(head.split()[1])

    async def closed(self) -> bool:
        """Wait until the server has closed the connection."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            try:
                return await self._reader.read() == b""
            except ConnectionError:
                return True


async def anonymous(listening: Listening, how: str) -> Caller:
    """A connection that stops before it has sent a request with the token."""
    caller = await Caller.to(listening, trust=None if how == "silent" else tls().client)
    if how == "half a request":
        await caller.send(HEAD)
    elif how == "a wrong token":
        assert await caller.ask("wrong") == 401
    return caller


@pytest.mark.parametrize("how", ["silent", "a handshake only", "half a request", "a wrong token"])
async def test_a_connection_without_authentication_is_closed_after_a_timeout(
    monkeypatch: pytest.MonkeyPatch, listening: Listening, how: str
) -> None:
    monkeypatch.setattr(anonymous_connections, "ANONYMOUS_SECONDS", 0.3)
    known = await Caller.to(listening, trust=tls().client)
    assert await known.ask() == 200
    assert await (await anonymous(listening, how)).closed()
    assert await known.ask() == 200


@pytest.mark.parametrize("how", ["silent", "a handshake only", "half a request", "a wrong token"])
async def test_beyond_the_limit_the_oldest_anonymous_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch, listening: Listening, how: str
) -> None:
    monkeypatch.setattr(anonymous_connections, "ANONYMOUS_SECONDS", 3600.0)
    monkeypatch.setattr(anonymous_connections, "MAX_ANONYMOUS", 3)
    known = await Caller.to(listening, trust=tls().client)
    assert await known.ask() == 200
    waiting = [await anonymous(listening, how) for _ in range(3)]
    late = await Caller.to(listening, trust=tls().client)
    assert await late.ask() == 200
    assert await waiting[0].closed()
    assert await known.ask() == 200
    if how != "silent":
        await waiting[2].send("X: y\r\n" if how == "half a request" else HEAD)
        await waiting[2].send("Authorization: Bearer {token}\r\n\r\n")
        assert (await waiting[2]._reader.readline()).startswith(b"HTTP/1.1 200")


async def test_a_burst_of_authenticated_clients_is_served(
    monkeypatch: pytest.MonkeyPatch, listening: Listening
) -> None:
    monkeypatch.setattr(anonymous_connections, "MAX_ANONYMOUS", 4)
    monkeypatch.setattr(anonymous_connections, "GRACE_SECONDS", 60.0)

    async def once() -> int:
        return await (await Caller.to(listening, trust=tls().client)).ask()

    assert await asyncio.gather(*(once() for _ in range(60))) == [200] * 60


async def test_connections_leave_a_reserve_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_descriptors, "for_connections", lambda: 2)
    listening = await serve(World().server, tls().server, token="secret")
    known = []
    for _ in range(2):
        known.append(await Caller.to(listening, trust=tls().client))
        assert await known[-1].ask() == 200
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await Caller.to(listening, trust=tls().client)
    assert [await caller.ask() for caller in known] == [200, 200]
    await listening.close()
