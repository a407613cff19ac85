"""Differences of the program's event loop from asyncio's."""

from __future__ import annotations

import asyncio
import logging

import pytest

from queue_manager.engine.process_tuning import event_loop


@pytest.mark.parametrize("closed", [True, False])
def test_errors_on_a_closed_connection_are_not_logged(closed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """uvloop answers late TLS data, fails, and would log a traceback when the manager stops."""

    async def scenario() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        if closed:
            writer.transport.abort()
        why = {"message": "Fatal error on SSL protocol", "exception": RuntimeError("the handler is closed")}
        asyncio.get_running_loop().call_exception_handler({**why, "transport": writer.transport})
        asyncio.get_running_loop().call_exception_handler({"message": "a task failed"})
        writer.transport.abort()
        server.close()

    with caplog.at_level(logging.ERROR), event_loop() as runner:
        runner.run(scenario())
    reported = [record.message.splitlines()[0] for record in caplog.records]
    assert reported == [*([] if closed else ["Fatal error on SSL protocol"]), "a task failed"]
