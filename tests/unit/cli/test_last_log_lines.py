"""The last line of a log, and the cases without one."""

from __future__ import annotations

import pytest

from queue_manager.cli.connection import NoResponse
from queue_manager.cli.last_log_lines import error_line_of
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Relay, Request, Response


class LogServer(Relay):
    """Answers every request for a log with `answer`."""

    def __init__(self, answer: Response | Exception) -> None:
        self._answer = answer
        self.asked: list[Request] = []

    async def request(self, request: Request) -> Response:
        self.asked.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (Response(200, {}, b"no such column\n"), "no such column"),
        (Response(200, {}, b"reading\nno such column\n\n \n"), "no such column"),
        (Response(200, {}, b""), ""),
        (Response(200, {}, b"\xff!\n"), "\ufffd!"),
        (Response(404, {}, b"gone"), ""),
        (NoResponse("too long"), ""),
        (TimeoutError(), ""),
    ],
)
async def test_the_last_line_or_none(answer: Response | Exception, line: str) -> None:
    node = LogServer(answer)
    assert await error_line_of(RestClient(node), "default", "p", "main") == line
    (request,) = node.asked
    assert request.path == "/api/v1/namespaces/default/pods/p/log"
    assert (request.query or {})["container"] == "main"
