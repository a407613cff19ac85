"""Differences of the program's event loop from asyncio's."""

from __future__ import annotations

import asyncio
import logging

import pytest

from queue_manager.engine.process_tuning import event_loop

SSL = "Fatal error on SSL protocol"
LATE = "unable to perform operation on <TCPTransport closed=True reading=False 0x7f8d>; the handler is closed"


@pytest.mark.parametrize(
    ("aborted", "error", "logged"),
    [(True, "bad record", []), (False, LATE, []), (False, "bad record", [SSL])],
)
def test_errors_on_a_closed_connection_are_not_logged(
    aborted: bool, error: str, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """uvloop answers late TLS data, fails, and would log a traceback when the manager stops."""

    async def scenario() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        if aborted:
            writer.transport.abort()
        why = {"message": SSL, "exception": RuntimeError(error)}
        asyncio.get_running_loop().call_exception_handler({**why, "transport": writer.transport})
        asyncio.get_running_loop().call_exception_handler({"message": "a task failed"})
        writer.transport.abort()
        server.close()

    with caplog.at_level(logging.ERROR), event_loop() as runner:
        runner.run(scenario())
    reported = [record.message.splitlines()[0] for record in caplog.records]
    assert reported == [*logged, "a task failed"]
