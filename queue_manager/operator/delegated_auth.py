"""Asks the API server who makes a request, and whether that is allowed, as aggregated API servers do.

    through the API server   the client certificate is that of its front proxy, and headers name the user
    directly                 a bearer token, checked by a TokenReview

Then a SubjectAccessReview decides. CA and names of the front proxy are in the ConfigMap
kube-system/extension-apiserver-authentication; without it only tokens are accepted. Kubernetes:
DelegatingAuthenticationOptions of k8s.io/apiserver.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from queue_manager.api.api_resources import CONFIG_MAPS, Resource
from queue_manager.engine.json_codec import UNDECODABLE
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError

log = logging.getLogger(__name__)

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
NAMESPACE, CONFIG_MAP = "kube-system", "extension-apiserver-authentication"
BEARER = "bearer "
ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
EVERYBODY = frozenset((AUTHENTICATED, "system:unauthenticated"))


class Headers(Protocol):
    """Headers of a request: names in upper or lower case, each with one or more values."""

    def get(self, name: str, default: str, /) -> str:
        """Return the first value, or `default`."""
        ...

    def getall(self, name: str, default: list[str], /) -> list[str]:
        """Return all values, or `default`."""
        ...

    def keys(self) -> Any:
        """Return the names, as an iterable of str."""
        ...


class Identity(NamedTuple):
    """A user, as a SubjectAccessReview names it."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = {}


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """The API server as a client. `names`: allowed common names, () for any that the CA has signed."""

    authority: str  # PEM
    names: tuple[str, ...]
    user_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    @classmethod
    def read(cls, data: Mapping[str, str]) -> FrontProxy | None:
        """Return the settings in the data of the ConfigMap; None if the API server does not aggregate.

        Raises ValueError for a field that is not a list of strings: names that cannot be read allow no client.
        """
        authority = data.get("requestheader-client-ca-file", "")
        if not authority:
            return None
        names, *headers = (
            _strings(f"requestheader-{key}", data)
            for key in ("allowed-names", "username-headers", "group-headers", "extra-headers-prefix")
        )
        return cls(authority, names, *headers)

    def identity(self, headers: Headers, peer: Mapping[str, Any] | None) -> Identity | None:
        """The user that the headers name, if the peer's verified certificate is that of the front proxy."""
        if not peer or (self.names and not set(self.names).intersection(_common_names(peer))):
            return None
        user = next((value for name in self.user_headers if (value := headers.get(name, ""))), "")
        groups = [value for name in self.group_headers for value in headers.getall(name, [])]
        return Identity(user, tuple(groups), extra=self._extra(headers)) if user else None

    def _extra(self, headers: Headers) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for prefix in self.extra_prefixes:
            for name in {name for name in headers.keys() if name.lower().startswith(prefix.lower())}:  # noqa: SIM118
                found[name[len(prefix) :].lower()] = headers.getall(name, [])
        return found


def _strings(key: str, data: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(data.get(key) or "[]", type=tuple[str, ...])
    except UNDECODABLE as error:
        raise ValueError(f"{key}: {error}") from None


class Authorizer(Protocol):
    """Says who makes a request, and what that user may do. Raises ApiError or OSError if it cannot say."""

    async def identify(self, headers: Headers, peer: Mapping[str, Any] | None) -> Identity | None:
        """Return the user of a request, by its bearer token or by the client certificate of `peer`; None: unknown."""
        ...

    async def allows(self, identity: Identity, attributes: Mapping[str, Any]) -> bool:
        """Whether the user may do this. `attributes`: as in the spec of a SubjectAccessReview."""
        ...


NO_ANSWER = "the API server cannot be asked whether this is allowed"
MAY_NOT_ASK = (
    "this manager may not ask the API server whether this is allowed: bind the ClusterRole system:auth-delegator to "
    "its service account"
)


class AccessDecision(NamedTuple):
    """The HTTP status (200, 401, 403 or 503), the user if known, and with 503 the error that prevented a decision."""

    status: int
    identity: Identity | None
    problem: str = ""


async def judge(
    auth: Authorizer, headers: Headers, peer: Mapping[str, Any] | None, attributes: Mapping[str, Any]
) -> AccessDecision:
    """Whether a request may be answered: 200; 401 without a known user, 403 without permission, 503 if it is unknown.

    `peer`: the verified certificate of the client. `attributes`: resourceAttributes or nonResourceAttributes.
    """
    identity = None
    try:
        identity = await auth.identify(headers, peer)
        if identity is None:
            return AccessDecision(401, None)
        return AccessDecision(200 if await auth.allows(identity, attributes) else 403, identity)
    except (ApiError, OSError, *UNDECODABLE) as error:
        log.warning("a request could not be authorized: %s", error)
        return AccessDecision(
            503, identity, MAY_NOT_ASK if isinstance(error, ApiError) and error.is_forbidden else NO_ANSWER
        )


def bearer_token(headers: Headers) -> str:
    """The token of a request, "" without one."""
    authorization = headers.get("Authorization", "")
    return authorization[len(BEARER) :].strip() if authorization.lower().startswith(BEARER) else ""


def _common_names(peer: Mapping[str, Any]) -> list[str]:
    return [value for names in peer.get("subject", ()) for key, value in names if key == "commonName"]


async def read_front_proxy(client: RestClient) -> FrontProxy | None:
    """Read the ConfigMap; None if it does not exist, may not be read, or names no front proxy."""
    try:
        found = await client.get(CONFIG_MAPS, NAMESPACE, CONFIG_MAP)
        return FrontProxy.read(found.get("data") or {})
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        why = error.message
    except ValueError as error:
        why = str(error)
    log.warning("requests through the API server are refused: %s/%s: %s", NAMESPACE, CONFIG_MAP, why)
    return None


def authenticated(identity: Identity) -> Identity:
    """Add the group of all authenticated users, as every API server does (AuthenticatedGroupAdder of k8s.io/apiserver).

    The front proxy names itself without any group when it asks which resources are served. If that is refused, the
    whole cluster lacks complete discovery, and then the deletion of no namespace ends.
    """
    if identity.user == ANONYMOUS or not EVERYBODY.isdisjoint(identity.groups):
        return identity
    return identity._replace(groups=(*identity.groups, AUTHENTICATED))


class _User(msgspec.Struct):
    username: str = ""
    groups: tuple[str, ...] | None = None
    uid: str = ""
    extra: dict[str, list[str]] | None = None


class _Verdict(msgspec.Struct):
    authenticated: bool = False
    allowed: bool = False
    user: _User | None = None


class _Answer(msgspec.Struct):
    """The status of a TokenReview or SubjectAccessReview in the API server's response."""

    status: _Verdict | None = None


class DelegatedAuth:
    """Asks the API server. Raises ApiError if it refuses the question, OSError without a response, and what
    `json_codec.UNDECODABLE` names if the answer has another shape.
    """

    def __init__(self, client: RestClient, front_proxy: FrontProxy | None) -> None:
        self._client = client
        self._front_proxy = front_proxy

    async def identify(self, headers: Headers, peer: Mapping[str, Any] | None) -> Identity | None:
        """The user of a request; None if nothing proves who it is. `peer`: the verified certificate of the client."""
        if self._front_proxy is not None:
            found = self._front_proxy.identity(headers, peer)
            if found is not None:
                return authenticated(found)
        token = bearer_token(headers)
        return await self._review_token(token) if token else None

    async def _review_token(self, token: str) -> Identity | None:
        question = {"metadata": {}, "spec": {"token": token}}
        status = (await self._client.create(TOKEN_REVIEWS, "", question, type=_Answer)).status
        if status is None or not status.authenticated:
            return None
        user = status.user or _User()
        return Identity(user.username, user.groups or (), user.uid, user.extra or {})

    async def allows(self, identity: Identity, attributes: Mapping[str, Any]) -> bool:
        """Whether the user may do this. `attributes`: resourceAttributes or nonResourceAttributes of the review."""
        subject = {"user": identity.user, "groups": list(identity.groups), "extra": dict(identity.extra)}
        spec = {**subject, "uid": identity.uid, **attributes}
        answer = await self._client.create(ACCESS_REVIEWS, "", {"metadata": {}, "spec": spec}, type=_Answer)
        return answer.status is not None and answer.status.allowed
