"""Requests over connections of our own: answers in any pieces, connections used again, broken ones noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_manager.engine.connections import DIALLING, Malformed, Pool, Reader, Server

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nWarning: one\r\nWarning: two\r\n\r\n"
    b"3\r\nhel\r\nC;x=y\r\nlo\r\n\r\n world\r\n0\r\nTrailer: t\r\n\r\n"
)


CHUNKED_BODY = b"hello\r\n\r\n world"


@given(st.sampled_from([PLAIN, CHUNKED]), st.lists(st.integers(0, len(CHUNKED)), max_size=8))
def test_answer_is_the_same_in_whatever_pieces_it_comes(answer: bytes, cuts: list[int]) -> None:
    reader, found = Reader(), None
    edges = [0, *sorted(min(cut, len(answer)) for cut in cuts), len(answer)]
    for start, end in pairwise(edges):
        if end > start:
            assert found is None
            found = reader.feed(answer[start:end])
    assert found is not None
    assert reader.keeps
    if answer is PLAIN:
        assert (found.status, found.headers["content-type"], found.body) == (200, "text/plain", b"hello")
    else:
        assert (found.status, found.body) == (201, CHUNKED_BODY)


@pytest.mark.parametrize(
    ("answer", "keeps"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN, True),
        (PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), False),
        (PLAIN.replace(b"1.1", b"1.0"), False),
    ],
)
def test_whether_a_connection_may_be_used_again(answer: bytes, keeps: bool) -> None:
    reader = Reader()
    assert reader.feed(answer) is not None
    assert reader.keeps is keeps


def test_body_of_unknown_length_ends_with_the_connection() -> None:
    reader = Reader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nso much") is None
    found = reader.end()
    assert found is not None
    assert found.body == b"so much"
    assert not reader.keeps


@pytest.mark.parametrize("answer", [b"SSH-2.0-x y\r\n\r\n", PLAIN + b"more"])
def test_what_is_not_http_is_refused(answer: bytes) -> None:
    with pytest.raises(Malformed):
        Reader().feed(answer)


@asynccontextmanager
async def serving(serve: Serve, limit: int = 100) -> AsyncIterator[tuple[Pool, list[int]]]:
    """A pool for a server of which each connection is served so; and the number of connections it has had."""
    connections = [0]

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[0] += 1
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = Pool(Server.of(f"http://127.0.0.1:{port}/base", None, None), limit)
    try:
        yield pool, connections
    finally:
        pool.close()
        server.close()


async def requests(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
        yield head


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async for _ in requests(reader):
            writer.write(PLAIN)
    except asyncio.IncompleteReadError:
        return


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with serving(answering) as (pool, connections):
        for _ in range(5):
            assert (await pool.request("GET", "/x", b"", None)).body == b"hello"
        assert connections == [1]


async def test_many_at_once_share_few_connections() -> None:
    async with serving(answering, limit=3) as (pool, connections):
        found = await asyncio.gather(*(pool.request("POST", "/x", b"", None) for _ in range(40)))
        assert [answer.status for answer in found] == [200] * 40
        assert connections[0] <= min(3, DIALLING)


async def closing_after_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Closes without having said so."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(PLAIN)


async def test_request_that_may_be_repeated_survives_a_kept_connection_that_was_closed() -> None:
    async with serving(closing_after_each) as (pool, _):
        for _ in range(5):
            assert (await pool.request("GET", "/x", b"", None)).status == 200


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_request_given_up_leaves_no_answer_for_the_next() -> None:
    async with serving(silent) as (pool, connections):
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await pool.request("GET", "/x", b"", None)
        assert connections == [2]


async def breaking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(PLAIN[:-2])


async def test_answer_that_breaks_off_is_an_error() -> None:
    async with serving(breaking) as (pool, _):
        with pytest.raises(ConnectionError, match="in the middle"):
            await pool.request("GET", "/x", b"", None)


async def test_everybody_who_waits_learns_that_there_is_no_server() -> None:
    async with serving(silent) as (pool, _):
        pass
    pool = Pool(Server.of("http://127.0.0.1:9", None, None), 5)
    found = await asyncio.gather(*(pool.request("GET", "/x", b"", None) for _ in range(20)), return_exceptions=True)
    assert all(isinstance(error, ConnectionError) for error in found)


async def test_closing_ends_who_waits() -> None:
    async with serving(silent) as (pool, _):
        request = asyncio.create_task(pool.request("GET", "/x", b"", None))
        await asyncio.sleep(0)
        pool.close()
        with pytest.raises(ConnectionError):
            await request
