"""Reads and writes of API objects. The response to each write updates the attached caches immediately."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from job_controller.model import ObjectMeta
from job_controller.ports import Metrics
from queue_manager.api.api_resources import Resource
from queue_manager.engine.cache import Cache, T
from queue_manager.engine.json_codec import UNDECODABLE, complete, decoder, encode, revision
from queue_manager.engine.kept_loop import KeptLoop
from queue_manager.engine.selector_matching import matcher
from queue_manager.engine.transport_protocol import MERGE_PATCH, ApiError, Request, Response, Transport
from queue_manager.engine.write_trail import InFlight, Write

log = logging.getLogger(__name__)

PAGE_SIZE = 500  # objects per page of a list
# Statuses with which a busy server sends Retry-After. It has not executed the request, so any may be repeated.
BUSY_STATUSES = (429, 503)
BUSY_RETRIES = 3
MAX_RETRY_AFTER_SECONDS = 10.0

O = TypeVar("O", default=dict[str, Any])  # noqa: E741 - O as in object


class Head(msgspec.Struct, frozen=True):
    """The part of a response that identifies the object."""

    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def is_gone(self) -> bool:
        """Whether this write was the object's last: it is being deleted and nothing delays the deletion any more.

        The rule of the API server itself (`registry/generic` ShouldDeleteDuringUpdate).
        """
        meta = self.metadata
        return meta.deletion_timestamp is not None and not meta.finalizers and not meta.deletion_grace_period_seconds


class Page(msgspec.Struct, frozen=True):
    """One response of a paginated list; its items are not decoded yet."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_": "continue"}):
    """Revision and continuation token of a list."""

    resource_version: str = ""
    continue_: str = ""


class RestClient:
    """One API server, used by one identity. Calls raise ApiError on a status other than 2xx, OSError on no response."""

    def __init__(self, transport: Transport, metrics: Metrics | None = None, *, server: str = "") -> None:
        """`metrics` counts the durations of writes. `server`: the URL of the API server, for traces; "": none."""
        self.transport = transport
        self._metrics = metrics
        self._server = server
        self._loop = KeptLoop()
        self._in_flight: dict[Resource, InFlight] = {}  # of resources with attached caches
        self._attached: dict[Resource, list[_AttachedCache[Any]]] = {}

    def attach_cache(
        self, cache: Cache[T], resource: Resource, type: type[T], *, label_selector: str = "", field_selector: str = ""
    ) -> None:
        """From now on this cache receives each object of the resource in a response, if the selectors match it."""
        attached = _AttachedCache(cache, resource, type, label_selector, field_selector)
        self._attached.setdefault(resource, []).append(attached)
        cache.follow_writes(self._in_flight.setdefault(resource, {}))

    async def get(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        type: type[O] = dict,  # type: ignore[assignment]
    ) -> O:
        """The current object. Raises ApiError 404 if it does not exist."""
        return await self._object(resource, Request("GET", resource.path(namespace, name)), type)

    async def find(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        type: type[O] = dict,  # type: ignore[assignment]
    ) -> O | None:
        """The current object, None if it does not exist."""
        try:
            return await self.get(resource, namespace, name, type=type)
        except ApiError as error:
            if not error.is_not_found:
                raise
            return None

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        type: type[O] = dict,  # type: ignore[assignment]
    ) -> list[O]:
        """All current objects, of one namespace or ("") of all. Raises ApiError 410 if the pages expired meanwhile."""
        query = {"limit": str(PAGE_SIZE), "labelSelector": label_selector, "fieldSelector": field_selector}
        objects: list[O] = []
        while True:
            answer = await self._send(Request("GET", resource.path(namespace), query=_non_empty(query)))
            page = decoder(Page).decode(answer.body)
            for raw in page.items or ():
                obj = decoder(type).decode(raw)
                complete(obj, resource)
                objects.append(obj)
            if not page.metadata.continue_:
                return objects
            query["continue"] = page.metadata.continue_

    async def create(
        self,
        resource: Resource,
        namespace: str,
        obj: object,
        *,
        name: str = "",
        subresource: str = "",
        type: type[O] = dict,  # type: ignore[assignment]
    ) -> O:
        """Create a Struct or a JSON tree. Raises ApiError 409 (AlreadyExists) or 422 (Invalid).

        With `name` and `subresource`, post to an existing object: (pod, "binding"), (pod, "eviction").
        """
        body = encode(obj) if subresource else encode(obj, resource)
        request = Request("POST", resource.path(namespace, name, subresource), body=body)
        key = (namespace, name or _name_of(obj))
        return await self._written(self._write("create", resource, subresource, key, request), resource, type)

    async def replace(
        self,
        resource: Resource,
        obj: object,
        *,
        subresource: str = "",
        type: type[O] = dict,  # type: ignore[assignment]
    ) -> O:
        """Update the object (PUT). Raises ApiError 409 (Conflict) if its resourceVersion is not the latest."""
        body = encode(obj, resource)
        meta = decoder(Head).decode(body).metadata
        path = resource.path(meta.namespace, meta.name, subresource)
        key = (meta.namespace, meta.name)
        write = self._write("update", resource, subresource, key, Request("PUT", path, body=body))
        return await self._written(write, resource, type)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: object,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
        field_manager: str = "",
        dry_run: bool = False,
        type: type[O] = dict,  # type: ignore[assignment]
    ) -> O:
        """Patch an object. A resourceVersion or uid in the patch is a precondition (ApiError 409).

        With `dry_run` the API server validates and responds, but stores nothing.
        """
        query = {"fieldManager": field_manager, "dryRun": "All" if dry_run else ""}
        path = resource.path(namespace, name, subresource)
        request = Request("PATCH", path, query=_non_empty(query), body=encode(patch), content_type=content_type)
        write = self._write("patch", resource, subresource, (namespace, name), request)
        return await self._written(write, resource, type)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object; finalizers and its grace period (seconds) may keep it for a while.

        `uid` and `resource_version` are preconditions (ApiError 409); `propagation` is Foreground, Background or
        Orphan. With `dry_run` the API server validates and responds, but deletes nothing.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if any(preconditions.values()):
            options["preconditions"] = {name: value for name, value in preconditions.items() if value}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        if dry_run:
            options["dryRun"] = ["All"]
        request = Request("DELETE", resource.path(namespace, name), body=encode(options))
        with self._write("delete", resource, "", (namespace, name), request) as write:
            answer = await self._send(write.request)
            write.answered(answer)
            if resource in self._attached:
                self._apply_delete_to_caches(resource, answer.body)

    # --- requests ---

    async def _object(self, resource: Resource, request: Request, type: type[O]) -> O:
        return self._decoded(resource, await self._send(request), type)

    async def _written(self, started: Write, resource: Resource, type: type[O]) -> O:
        with started as write:
            answer = await self._send(write.request)
            write.answered(answer)
            return self._decoded(resource, answer, type)

    def _write(self, verb: str, resource: Resource, subresource: str, key: tuple[str, str], request: Request) -> Write:
        return Write(
            verb,
            resource,
            subresource,
            key,
            request,
            server=self._server,
            loop=self._loop,
            metrics=self._metrics,
            in_flight=self._in_flight.get(resource),
        )

    def _decoded(self, resource: Resource, answer: Response, type: type[O]) -> O:
        obj = decoder(type).decode(answer.body)
        if resource in self._attached:
            self._apply_to_caches(resource, answer.body, obj)
        return obj

    async def _send(self, request: Request) -> Response:
        """Send a request; repeat it after Retry-After while the server is too busy, at most BUSY_RETRIES times."""
        for attempt in range(BUSY_RETRIES + 1):
            answer = await self.transport.request(request)
            if answer.is_success:
                break
            error = ApiError.of(answer.status, answer.body, answer.headers)
            if answer.status not in BUSY_STATUSES or error.retry_after is None or attempt == BUSY_RETRIES:
                raise error
            await asyncio.sleep(min(error.retry_after, MAX_RETRY_AFTER_SECONDS))
        return answer

    # --- read your own writes ---

    def _apply_to_caches(self, resource: Resource, body: bytes, obj: object) -> None:
        head = decoder(Head).decode(body)
        if head.kind != resource.kind or not head.metadata.uid:
            return  # the response of a subresource is not always the object
        for attached in self._attached[resource]:
            if head.is_gone:
                attached.cache.forget_uid(head.metadata.uid, existed_at=revision(head))
            else:
                attached.apply_response(head, body, obj)

    def _apply_delete_to_caches(self, resource: Resource, body: bytes) -> None:
        """Apply the response to a DELETE to the caches: the object, if finalizers keep it for now, or a Status."""
        head = decoder(Head).decode(body)
        if head.kind == resource.kind and head.metadata.deletion_timestamp is not None and not head.is_gone:
            for attached in self._attached[resource]:
                attached.apply_response(head, body, None)
            return
        uid = head.metadata.uid if head.kind == resource.kind else decoder(Deleted).decode(body).details.uid
        if uid:
            for attached in self._attached[resource]:
                attached.cache.forget_uid(uid)


class Details(msgspec.Struct, frozen=True):
    """`details` of a Status."""

    uid: str = ""


class Deleted(msgspec.Struct, frozen=True):
    """The Status in the response to a DELETE that took effect immediately."""

    details: Details = Details()


def _name_of(obj: object) -> str:
    """The name of an object that is to be created; "" if the API server chooses it."""
    if isinstance(obj, Mapping):
        return str((obj.get("metadata") or {}).get("name") or "")
    meta = getattr(obj, "metadata", None)
    return meta.name if isinstance(meta, ObjectMeta) else ""


def _non_empty(query: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in query.items() if value}


class _AttachedCache(Generic[T]):
    """A cache, and the test for the responses that belong into it."""

    def __init__(
        self, cache: Cache[T], resource: Resource, type: type[T], label_selector: str, field_selector: str
    ) -> None:
        self.cache = cache
        self._resource = resource
        self._type = type
        self._matches: Callable[[Mapping[str, Any]], bool] | None = matcher(label_selector, field_selector)

    def apply_response(self, head: Head, body: bytes, decoded: object) -> None:
        if self._matches is not None and not self._matches(decoder(dict).decode(body)):
            self.cache.forget_uid(head.metadata.uid, revision(head))
            return
        if isinstance(decoded, self._type):
            self.cache.apply_response(decoded)
            return
        try:
            obj = decoder(self._type).decode(body)
        except UNDECODABLE:
            log.warning(
                "the response to a write cannot be decoded for the cache",
                extra={"resource": str(self._resource), "key": str(head.metadata.key), "uid": head.metadata.uid},
                exc_info=True,
            )
            return
        self.cache.apply_response(obj)
