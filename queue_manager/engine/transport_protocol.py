"""The protocol by which everything else reaches an API server: over HTTP, or by a call into the embedded one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

import msgspec

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Request(NamedTuple):
    """One HTTP request, without server address and credentials."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    timeout: float = 30  # seconds for the whole answer
    headers: tuple[tuple[str, str], ...] = ()  # further ones


class Response(NamedTuple):
    """The complete response. Header names are in upper or lower case; a repeated header may be joined to one value."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """The value of the header `name`, in lower case; "" without it."""
        return next((value for key, value in self.headers.items() if key.lower() == name), "")

    @property
    def is_ok(self) -> bool:
        """200: the body is the object or text that was requested."""
        return self.status == HTTPStatus.OK

    @property
    def is_success(self) -> bool:
        """2xx: the server has done what the request says."""
        return is_success(self.status)


def is_success(status: int) -> bool:
    """Whether the HTTP status is neither a redirection nor an error."""
    return status < HTTPStatus.MULTIPLE_CHOICES


class Transport(Protocol):
    """One API server, used by one identity."""

    async def request(self, request: Request) -> Response:
        """Send a request. Any HTTP status is a Response; a broken connection or a timeout raises OSError."""
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A GET whose response arrives in chunks (watch, log -f). Raises ApiError if the status is not 200, OSError."""
        ...

    async def close(self) -> None:
        """Release the connections. No call is made afterwards."""
        ...


class Relay:
    """Passes every call on to another transport: base class of transports that wrap one."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: Request) -> Response:
        """See `Transport.request`."""
        return await self._inner.request(request)

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        return self._inner.stream(path, query=query)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


UNSERVED_VERSION = "the server could not find the requested resource"  # of a group that is served


class ApiError(Exception):
    """A response that is not a success: HTTP status, and reason, message and tree of its Status object."""

    def __init__(self, status: int, reason: str, message: str, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.body = body or {}
        # Seconds after which the server wants the request repeated (Retry-After); None if it names none.
        details = self.body.get("details")
        self.retry_after: float | None = _seconds(
            details.get("retryAfterSeconds") if isinstance(details, dict) else None
        )

    @classmethod
    def of(cls, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> ApiError:
        """From a response; a body that is not a Status object becomes the message."""
        try:
            tree = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            tree = {}
        message = str(tree.get("message") or body[:500].decode("utf-8", "replace") or f"HTTP {status}")
        error = cls(status, str(tree.get("reason") or ""), message, tree)
        header = next((value for name, value in (headers or {}).items() if name.lower() == "retry-after"), None)
        error.retry_after = error.retry_after if header is None else _seconds(header)
        return error

    @property
    def is_not_found(self) -> bool:
        """404: the object does not exist."""
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """409: the object has changed since it was read, or its name is taken."""
        return self.status == 409

    @property
    def is_name_taken(self) -> bool:
        """AlreadyExists: another object has the name."""
        return self.reason == "AlreadyExists"

    @property
    def is_unserved(self) -> bool:
        """404 without a Status of reason NotFound, or with that of an API server for a version that it does not serve:
        the path is not served, rather than an object absent.
        """
        return self.is_not_found and (self.reason != "NotFound" or self.message == UNSERVED_VERSION)

    @property
    def is_passing(self) -> bool:
        """429 or 5xx: the server cannot answer now, and may answer later."""
        return self.status == HTTPStatus.TOO_MANY_REQUESTS or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def is_unauthorized(self) -> bool:
        """401: the credentials are missing or not accepted."""
        return self.status == 401

    @property
    def is_forbidden(self) -> bool:
        """403: the user lacks a permission, or admission rejects the request."""
        return self.status == 403

    @property
    def is_expired(self) -> bool:
        """410: the resourceVersion or the continue token is too old."""
        return self.status == 410

    @property
    def is_rejected(self) -> bool:
        """400, 403, 413 or 422: the server rejects the request itself, and would reject it again."""
        return self.status in (400, 403, 413, 422)


def _seconds(value: object) -> float | None:
    """The seconds of a Retry-After header. Its other form, a date, is not used by Kubernetes and counts as absent."""
    try:
        return None if value is None else max(0.0, float(str(value)))
    except ValueError:
        return None
