"""Who may read /metrics over TLS: those with `get` on the nonResourceURL /metrics, as controller-runtime has it.

    no token, or one that the API server does not know    401
    the user may not get /metrics                         403
    the API server cannot be asked, or may not be         503

A scrape every few seconds must not cost two requests to the API server each time. So the answers are kept, for as long
as controller-runtime keeps them: an identity TOKEN_SECONDS, a permission ALLOWED_SECONDS, a refusal DENIED_SECONDS. A
token that is revoked can read metrics for a minute more. Tokens are kept as their SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from aiohttp import web

from queue_manager.operator.delegated_auth import Authorizer, Headers, Identity, bearer_token, judge
from queue_manager.operator.probes import Answer

TOKEN_SECONDS = 60.0
ALLOWED_SECONDS = 300.0
DENIED_SECONDS = 30.0
MAX_ENTRIES = 1024

K = TypeVar("K")
V = TypeVar("V")


class _Expiring(Generic[K, V]):
    """A cache whose entries expire, each at a time of its own. Beyond MAX_ENTRIES the oldest entry is dropped."""

    def __init__(self) -> None:
        self._entries: dict[K, tuple[float, V]] = {}

    def get(self, key: K, now: float) -> tuple[V] | None:
        """The value, which may itself be None, in a tuple; None if it is unknown or expired."""
        entry = self._entries.get(key)
        return (entry[1],) if entry is not None and now < entry[0] else None

    def put(self, key: K, value: V, until: float) -> None:
        self._entries.pop(key, None)
        self._entries[key] = until, value
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]


class CachedAuth:
    """Caches the answers of another Authorizer, which must identify users by their tokens only.

    `now` returns seconds of a clock that never goes back.
    """

    def __init__(self, auth: Authorizer, now: Callable[[], float]) -> None:
        self._auth = auth
        self._now = now
        self._identities: _Expiring[bytes, Identity | None] = _Expiring()
        self._verdicts: _Expiring[tuple[object, ...], bool] = _Expiring()

    async def identify(self, headers: Headers, peer: Mapping[str, Any] | None) -> Identity | None:
        """See `DelegatedAuth.identify`."""
        token = bearer_token(headers)
        if not token:
            return None
        key = hashlib.sha256(token.encode()).digest()
        known = self._identities.get(key, self._now())
        if known is not None:
            return known[0]
        identity = await self._auth.identify(headers, peer)
        self._identities.put(key, identity, self._now() + TOKEN_SECONDS)
        return identity

    async def allows(self, identity: Identity, attributes: Mapping[str, Any]) -> bool:
        """See `DelegatedAuth.allows`."""
        key = (repr(identity), repr(attributes))
        known = self._verdicts.get(key, self._now())
        if known is not None:
            return known[0]
        allowed = await self._auth.allows(identity, attributes)
        self._verdicts.put(key, allowed, self._now() + (ALLOWED_SECONDS if allowed else DENIED_SECONDS))
        return allowed


def guarded(answer: Answer, auth: Authorizer) -> Answer:
    """Return the handler, restricted to users who may request its path."""

    async def handle(request: web.Request) -> web.Response:
        attributes = {"nonResourceAttributes": {"path": request.path, "verb": request.method.lower()}}
        status, identity, problem = await judge(auth, request.headers, None, attributes)
        if status == HTTPStatus.OK:
            return await answer(request)
        refusals = {401: "Unauthorized", 503: problem}
        denied = f"Authorization denied for user {identity.user}" if identity is not None else "Unauthorized"
        return web.Response(status=status, text=f"{refusals.get(status, denied)}\n")

    return handle
