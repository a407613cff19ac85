"""What the program's own event loop does otherwise than asyncio's."""

from __future__ import annotations

import asyncio
import logging

import pytest

from queue_manager.engine.tuning import event_loop


@pytest.mark.parametrize("closed", [True, False])
def test_what_fails_on_a_connection_that_we_have_closed_is_not_told(
    closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """uvloop tries to answer what still arrives over TLS, cannot, and made a traceback of it as the manager stopped."""

    async def story() -> None:
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
        runner.run(story())
    told = [record.message.splitlines()[0] for record in caplog.records]
    assert told == [*([] if closed else ["Fatal error on SSL protocol"]), "a task failed"]
