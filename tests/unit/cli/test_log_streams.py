"""Logs as they are printed: labels, broken connections, logs that cannot be read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import pytest

from queue_manager.cli import polling
from queue_manager.cli.log_streams import LogPrinter
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response
from queue_manager.visibility.log_selection import LogSource

SOURCE = LogSource("p", "uid", "main", "7")
Chunk = bytes | Exception


class LogStreams(Relay):
    """Answers each request for a stream with the next list of chunks; an exception breaks the stream there.

    The pod is the same each time.
    """

    def __init__(self, *streams: list[Chunk]) -> None:
        self._streams = list(streams)
        self.queries: list[dict[str, str]] = []

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        assert path == "/api/v1/namespaces/default/pods/p/log"
        self.queries.append(dict(query or {}))
        yield self._chunks(self._streams.pop(0))

    async def request(self, request: Request) -> Response:
        assert request.path == "/api/v1/namespaces/default/pods/p"
        status = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
        return Response(200, {}, msgspec.json.encode({"metadata": {"name": "p", "uid": "uid"}, "status": status}))

    async def _chunks(self, chunks: list[Chunk]) -> AsyncIterator[bytes]:
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "LONGEST_PAUSE_SECONDS", 0.0)


async def printed(
    server: LogStreams, capfdbinary: pytest.CaptureFixture[bytes], *, prefixed: bool = False, follow: bool = False
) -> tuple[bytes, bytes, int]:
    printer = LogPrinter(RestClient(server), "default", prefixed=prefixed)
    await printer.print(SOURCE, follow=follow)
    out, err = capfdbinary.readouterr()
    return out, err, printer.unreadable


async def test_a_single_log_is_printed_byte_for_byte(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    server = LogStreams([b"a\xff\n\x1b[1m", b"no end"])
    assert await printed(server, capfdbinary) == (b"a\xff\n\x1b[1mno end", b"", 0)
    assert server.queries == [{"container": "main"}]


async def test_each_line_of_several_logs_has_a_label(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    server = LogStreams([b"on", b"e\ntwo\nth", b"ree"])
    assert (await printed(server, capfdbinary, prefixed=True))[0] == b"[7] one\n[7] two\n[7] three\n"


@pytest.mark.parametrize("prefixed", [False, True])
async def test_a_followed_log_continues_where_its_connection_broke(
    capfdbinary: pytest.CaptureFixture[bytes], prefixed: bool
) -> None:
    server = LogStreams([b"one\ntwo\nth", OSError("reset")], [OSError("down")], [b"one\nt", b"wo\nthree\nfour\n"])
    out, err, unreadable = await printed(server, capfdbinary, prefixed=prefixed, follow=True)
    head = b"[7] " if prefixed else b""
    assert out == b"".join(head + line + b"\n" for line in (b"one", b"two", b"three", b"four"))
    assert (err, unreadable) == (b"", 0)
    assert server.queries[0] == {"container": "main", "follow": "true"}


@pytest.mark.parametrize("error", [ApiError(502, "BadGateway", "node is gone"), OSError("node is gone")])
async def test_a_log_that_cannot_be_read_is_counted_and_reported(
    capfdbinary: pytest.CaptureFixture[bytes], error: Exception
) -> None:
    out, err, unreadable = await printed(LogStreams([b"one\n", error]), capfdbinary)
    assert (out, unreadable) == (b"one\n", 1)
    assert err.startswith(b"cannot read the log of pod p: ")
    assert b"node is gone" in err
