"""Requests of the engine's client through the official one, so that both use the same connection and credentials."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import orjson

from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request, Response

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, ApiException

R = TypeVar("R")


class OfficialTransport:
    """Implements `Transport` without streams. Each request blocks its event loop: use it with `blocking` only."""

    def __init__(self, api_client: ApiClient) -> None:
        self._api_client = api_client

    async def request(self, request: Request) -> Response:
        """See `Transport.request`."""
        from kubernetes.client import ApiException

        config = self._api_client.configuration
        query = f"?{urlencode(request.query)}" if request.query else ""
        try:
            answer = self._api_client.rest_client.request(
                request.method,
                f"{config.host}{request.path}{query}",
                headers=self._headers(request),
                body=None if request.body is None else orjson.loads(request.body),
                _request_timeout=request.timeout,
            )
        except ApiException as error:  # older versions raise it for each status that is not a success
            body = error.body or ""
            return Response(error.status, error.headers or {}, body.encode() if isinstance(body, str) else body)
        return Response(answer.status, answer.getheaders(), _content(answer))

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Raises NotImplementedError: streams go through the official client itself."""
        raise NotImplementedError  # the protocol has it, and nothing here calls it

    async def close(self) -> None:
        """Does nothing: the user of the official client closes it."""

    def _headers(self, request: Request) -> dict[str, str]:
        headers = {**self._api_client.default_headers, "Accept": request.accept}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        for setting in self._api_client.configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        return headers


def _content(answer: Any) -> bytes:
    """The body of a response: read on demand since version 37 of the client, already read as text before."""
    data = answer.read() if answer.data is None else answer.data
    return data.encode() if isinstance(data, str) else data


def blocking(api_client: ApiClient, work: Callable[[RestClient], Coroutine[Any, Any, R]]) -> R:
    """Run `work` with an engine's client, and return its result. Works in a thread with and without an event loop.

    Raises the official client's ApiException for an error of the API server.
    """
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work(RestClient(OfficialTransport(api_client)))))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="sluice-client", daemon=True)
    thread.start()
    thread.join()
    for error in errors:
        raise _official(error) if isinstance(error, ApiError) else error
    return results[0]


def _official(error: ApiError) -> ApiException:
    from kubernetes.client import ApiException

    official = ApiException(status=error.status, reason=f"{error.reason}: {error.message}")
    official.body = json.dumps(dict(error.body)) if error.body else error.message
    return official
