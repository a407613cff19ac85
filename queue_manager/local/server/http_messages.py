"""Requests and responses of the API server, and the Warning header."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from queue_manager.engine.transport_protocol import Response
from queue_manager.local import status_errors

MAX_WARNINGS, MAX_WARNING = 4096, 256  # characters of all warnings, and of one warning if they exceed that

JSON_TYPE = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


class ServerRequest(NamedTuple):
    """An HTTP request. Header names are lower-case; `user` is the user that the HTTP server has authenticated."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: str = "admin"


@dataclass(slots=True)
class Stream:
    """A response sent in chunks. The receiver must close `chunks` (aclose) when it is done."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncGenerator[bytes, None]


def media_type(request: ServerRequest) -> str:
    """The content type of a request in lower case, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def respond(status: int, body: bytes, warnings: list[str] | None = None) -> Response:
    """A JSON response, with each distinct warning in the Warning header as far as they fit."""
    headers = {"Content-Type": JSON_TYPE}
    if warnings:
        headers["Warning"] = ", ".join(f"299 - {quote(text)}" for text in _fitting(list(dict.fromkeys(warnings))))
    return Response(status, headers, body)


def _fitting(warnings: list[str]) -> list[str]:
    """Return as many warnings as fit into the header. If all of them together are too long, each is truncated first."""
    if sum(map(len, warnings)) <= MAX_WARNINGS:
        return warnings
    kept, room = [], MAX_WARNINGS
    for text in warnings:
        short = text[:MAX_WARNING]
        room -= len(short)
        if room < 0:
            break
        kept.append(short)
    return kept


def refuse(error: status_errors.StatusError) -> Response:
    """Return the response for an error that ended a request."""
    response = respond(error.code, orjson.dumps(error.status()), error.warnings)
    seconds = (error.details or {}).get("retryAfterSeconds")
    if not seconds:
        return response
    return response._replace(headers={**response.headers, "Retry-After": str(seconds)})


def quote(text: str) -> str:
    """Return a quoted-string of RFC 7230, on one line."""
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def flag(query: Mapping[str, str], name: str) -> bool:
    """Read a boolean query parameter as the API server does: every value but "false" and "0" is true."""
    return query.get(name, "false").lower() not in ("false", "0", "")
