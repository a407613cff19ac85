"""Who makes a request, and whether that is allowed: both are asked of the API server, as aggregated API servers do.

    through the API server   the client certificate is that of its front proxy, and headers name the user
    directly                 a bearer token, checked by a TokenReview

Then a SubjectAccessReview decides. CA and names of the front proxy are in the ConfigMap
kube-system/extension-apiserver-authentication; without it only tokens are accepted. Kubernetes:
DelegatingAuthenticationOptions of k8s.io/apiserver.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from queue_manager.api.resources import CONFIG_MAPS, Resource
from queue_manager.engine.client import Client
from queue_manager.engine.transport import ApiError

log = logging.getLogger(__name__)

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
NAMESPACE, CONFIG_MAP = "kube-system", "extension-apiserver-authentication"
BEARER = "bearer "


class Headers(Protocol):
    """Headers of a request; names in any case, each with one or more values."""

    def get(self, name: str, default: str, /) -> str: ...

    def getall(self, name: str, default: list[str], /) -> list[str]: ...

    def keys(self) -> Any: ...


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
        """From the data of the ConfigMap; None if the API server does not aggregate."""
        authority = data.get("requestheader-client-ca-file", "")
        if not authority:
            return None
        names, *headers = (
            tuple(json.loads(data.get(f"requestheader-{key}") or "[]"))
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


def _common_names(peer: Mapping[str, Any]) -> list[str]:
    return [value for names in peer.get("subject", ()) for key, value in names if key == "commonName"]


async def read_front_proxy(client: Client) -> FrontProxy | None:
    """Read the ConfigMap; None if it does not exist, may not be read, or names no front proxy."""
    try:
        found = await client.get(CONFIG_MAPS, NAMESPACE, CONFIG_MAP)
        return FrontProxy.read(found.get("data") or {})
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        log.warning("requests through the API server are refused: %s/%s: %s", NAMESPACE, CONFIG_MAP, error.message)
        return None


class DelegatedAuth:
    """Asks the API server. Raises ApiError if it does not answer the question, OSError without a response."""

    def __init__(self, client: Client, front_proxy: FrontProxy | None) -> None:
        self._client = client
        self._front_proxy = front_proxy

    async def identify(self, headers: Headers, peer: Mapping[str, Any] | None) -> Identity | None:
        """The user of a request; None if nothing proves who it is. `peer`: the verified certificate of the client."""
        if self._front_proxy is not None:
            found = self._front_proxy.identity(headers, peer)
            if found is not None:
                return found
        authorization = headers.get("Authorization", "")
        if not authorization.lower().startswith(BEARER):
            return None
        return await self._review_token(authorization[len(BEARER) :].strip())

    async def _review_token(self, token: str) -> Identity | None:
        review = await self._client.create(TOKEN_REVIEWS, "", {"metadata": {}, "spec": {"token": token}})
        status = review.get("status") or {}
        if not status.get("authenticated"):
            return None
        user = status.get("user") or {}
        groups, extra = tuple(user.get("groups") or ()), user.get("extra") or {}
        return Identity(user.get("username", ""), groups, user.get("uid", ""), extra)

    async def allows(self, identity: Identity, attributes: Mapping[str, Any]) -> bool:
        """Whether the user may do this. `attributes`: resourceAttributes or nonResourceAttributes of the review."""
        subject = {"user": identity.user, "groups": list(identity.groups), "extra": dict(identity.extra)}
        spec = {**subject, "uid": identity.uid, **attributes}
        review = await self._client.create(ACCESS_REVIEWS, "", {"metadata": {}, "spec": spec})
        return bool((review.get("status") or {}).get("allowed"))
