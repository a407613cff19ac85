"""Requests through the official client: bodies and headers of both of its generations, errors, threads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiException

from queue_manager.api.api_resources import JOBS
from queue_manager.client.official_transport import OfficialTransport, blocking
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request

BODY = b'{"kind": "Status", "reason": "Forbidden", "message": "not yours"}'
TOKEN = {"BearerToken": {"in": "header", "key": "authorization", "value": "Bearer secret"}}


class Answer:
    """A response as version 37 returns it, whose body is read on demand; with `data`, as older versions do."""

    def __init__(self, status: int, body: bytes, *, data: str | None = None) -> None:
        self.status, self.data, self._body = status, data, body

    def read(self) -> bytes:
        return self._body

    def getheaders(self) -> dict[str, str]:
        return {"Content-Type": "application/json"}


def api_client(answer: Answer | ApiException, seen: list[Any] | None = None) -> Any:
    def request(method: str, url: str, **options: Any) -> Answer:
        if seen is not None:
            seen.append((method, url, options))
        if isinstance(answer, ApiException):
            raise answer
        return answer

    configuration = SimpleNamespace(host="https://server", auth_settings=lambda: TOKEN)
    rest = SimpleNamespace(request=request)
    return SimpleNamespace(configuration=configuration, rest_client=rest, default_headers={"User-Agent": "mine"})


def test_a_request_has_the_credentials_and_headers_of_the_official_client() -> None:
    seen: list[Any] = []
    transport = OfficialTransport(api_client(Answer(200, b"{}"), seen))
    asyncio.run(transport.request(Request("POST", "/path", query={"a": "b c"}, body=b'{"x": 1}')))
    (method, url, options) = seen[0]
    assert (method, url, options["body"]) == ("POST", "https://server/path?a=b+c", {"x": 1})
    assert options["headers"] == {
        "User-Agent": "mine",
        "Accept": "application/json",
        "Content-Type": "application/json",
        "authorization": "Bearer secret",
    }


@pytest.mark.parametrize("text", [None, BODY.decode()], ids=["read on demand", "read already"])
def test_the_body_of_a_response_is_bytes_in_each_version(text: str | None) -> None:
    transport = OfficialTransport(api_client(Answer(403, BODY, data=text)))
    assert asyncio.run(transport.request(Request("GET", "/path"))).body == BODY


def test_an_error_of_the_server_is_an_api_exception_in_each_version() -> None:
    raised = ApiException(status=403, reason="Forbidden")
    raised.body = BODY.decode()
    for answer in (Answer(403, BODY), raised):
        with pytest.raises(ApiException, match="not yours") as error:
            blocking(api_client(answer), lambda client: client.get(JOBS, "default", "one"))
        assert error.value.status == 403


async def test_blocking_works_where_an_event_loop_runs() -> None:
    async def work(client: RestClient) -> str:
        await asyncio.sleep(0)
        return "done"

    assert blocking(api_client(Answer(200, b"{}")), work) == "done"
