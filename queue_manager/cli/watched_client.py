"""A client that answers lists of some resources from caches that watches keep current.

A command that follows changes reads through it with the same code as a command that reads once. All other requests go
to the API server.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

from queue_manager.api.api_resources import Resource
from queue_manager.cli.connection import NoResponse
from queue_manager.cli.connection_errors import plain_reason
from queue_manager.engine.cache import Cache
from queue_manager.engine.json_codec import HasMetadata
from queue_manager.engine.reflector import Reflector
from queue_manager.engine.rest_client import O, RestClient
from queue_manager.engine.selector_matching import matcher
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport

# Field selectors that a cache answers: all that commands use for lists of a watched kind.
_FIELDS = re.compile(r"(status\.phase!?=\w+)?", re.ASCII)
REFLECTOR_LOG = "queue_manager.engine.reflector"


class WatchingTransport(Relay):
    """Records why the last watch failed, until one is established. `changed` is set when that changes.

    `refused`: the response 401, after which no repetition helps.
    """

    def __init__(self, inner: Transport, changed: asyncio.Event) -> None:
        super().__init__(inner)
        self.failure = ""
        self.refused: ApiError | None = None
        self._changed = changed

    async def request(self, request: Request) -> Response:
        """Send a request of a reflector, which repeats it after an OSError."""
        try:
            return await super().request(request)
        except NoResponse as error:
            self._report(str(error))
            raise ConnectionError(str(error)) from error

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[AsyncIterator[bytes]]:
        """Watch; a reflector repeats what fails."""
        try:
            async with self._inner.stream(path, query=query) as chunks:
                self._report("")
                yield chunks
        except ApiError as error:
            self.refused = error if error.is_unauthorized else None
            self._report("" if error.is_expired else f"{error.status} {error.reason}: {error.message}")
            raise
        except OSError as error:
            self._report(plain_reason(error))
            raise

    def _report(self, failure: str) -> None:
        if failure != self.failure:
            self.failure = failure
            self._changed.set()


class WatchedClient(RestClient):
    """Lists the resources in `caches` from these caches, for one namespace, "" for all.

    `kinds`: the types of the objects in the caches.
    """

    def __init__(
        self,
        transport: Transport,
        caches: Mapping[Resource, Cache[Any]],
        kinds: Mapping[Resource, type[HasMetadata]],
        namespace: str,
        watches: WatchingTransport,
    ) -> None:
        super().__init__(transport)
        self._caches = caches
        self._kinds = kinds
        self._namespace = namespace
        self._watches = watches

    @property
    def failure(self) -> str:
        """Why the watches are interrupted; "" if they are not."""
        return self._watches.failure

    def check_credentials(self) -> None:
        """Raise the ApiError 401 if a watch got it."""
        if self._watches.refused is not None:
            raise self._watches.refused

    def cache(self, resource: Resource) -> Cache[Any]:
        """Return the cache of a watched resource."""
        return self._caches[resource]

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        type: type[O] = dict,  # type: ignore[assignment]
    ) -> list[O]:
        """See `RestClient.list`. Objects of a cache are shared, and must not be changed."""
        is_watched = self._kinds.get(resource) is type and namespace == self._namespace
        if not is_watched or _FIELDS.fullmatch(field_selector) is None:
            return await super().list(
                resource, namespace, label_selector=label_selector, field_selector=field_selector, type=type
            )
        is_chosen = matcher(label_selector, field_selector) or (lambda _: True)
        return cast("list[O]", [each for each in self._caches[resource].values() if is_chosen(_selectable(each))])


def _selectable(obj: Any) -> dict[str, Any]:
    """Return the fields of an object that selectors test."""
    return {"metadata": {"labels": obj.metadata.labels}, "status": {"phase": getattr(obj.status, "phase", "")}}


@asynccontextmanager
async def watching(
    client: RestClient, kinds: Mapping[Resource, type[HasMetadata]], namespace: str, changed: asyncio.Event
) -> AsyncIterator[WatchedClient]:
    """Watch these kinds; yield a client once all caches are filled. `changed` is set by each change of an object."""
    log = logging.getLogger(REFLECTOR_LOG)
    level = log.level
    log.setLevel(logging.CRITICAL)  # failures are shown below the list instead
    watches = WatchingTransport(client.transport, changed)
    caches: dict[Resource, Cache[Any]] = {resource: Cache(str(resource)) for resource in kinds}
    reflectors = [
        Reflector(watches, resource, kinds[resource], cache, rng=Random(), namespace=namespace)
        for resource, cache in caches.items()
    ]
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    try:
        for reflector in reflectors:
            await reflector.synced.wait()
        for cache in caches.values():
            cache.subscribe(lambda _old, _new: changed.set())
        yield WatchedClient(client.transport, caches, kinds, namespace, watches)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        log.setLevel(level)
