"""Requests and responses of the API server, content negotiation (Accept, 406), and the Warning header."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import orjson

from queue_manager.engine.transport_protocol import Response
from queue_manager.local import errors

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


Form = Literal["json", "table", "partial"]


def negotiate(accept: str) -> Form:
    """Return the response format: the first in the Accept header that the server supports. Raises 406."""
    if not accept or accept == JSON_TYPE:
        return "json"
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        if media not in (JSON_TYPE, "*/*", "application/*"):
            continue
        match options.get("as", ""):
            case "":
                return "json"
            case "Table" if options.get("v", "v1") == "v1":
                return "table"
            case "PartialObjectMetadata" | "PartialObjectMetadataList" if options.get("v", "v1") == "v1":
                return "partial"
            case _:
                continue
    raise errors.not_acceptable(
        [
            JSON_TYPE,
            f"{JSON_TYPE};as=Table;v=v1;g=meta.k8s.io",
            f"{JSON_TYPE};as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ]
    )


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


def refuse(error: errors.StatusError) -> Response:
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
