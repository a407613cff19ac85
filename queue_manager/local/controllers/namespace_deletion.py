"""Namespace deletion.

    Active --DELETE--> Terminating --contents gone--> finalized --> gone

A namespace that is being deleted accepts no new objects. This controller deletes all objects in it, waits until the
last one is gone (their own finalizers may delay this), then removes the namespace's `spec.finalizers`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queue_manager.api.api_resources import NAMESPACES
from queue_manager.local.controllers.server_calls import request
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.storage.store import Store, StoredChange, decode

if TYPE_CHECKING:
    from queue_manager.local.server.api_server import ApiServer

USER = "system:serviceaccount:kube-system:namespace-controller"


class NamespaceController:
    """Empties and finalizes namespaces that are being deleted. `run` until cancelled."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store: Store = server.store
        self._work: dict[str, None] = {}  # work queue of namespace names
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        unsubscribe = self._store.subscribe(self._changed)
        try:
            for stored in self._store.scan(str(NAMESPACES)):
                self._add(stored.name)
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._work:
                    name = next(iter(self._work))
                    del self._work[name]
                    await self._sync(name)
        finally:
            unsubscribe()

    def _changed(self, change: StoredChange) -> None:
        if change.resource == str(NAMESPACES):
            self._add(change.new.name)
        elif change.type == "DELETED" and change.new.namespace:
            self._add(change.new.namespace)

    def _add(self, name: str) -> None:
        self._work[name] = None
        self._wake.set()

    async def _sync(self, name: str) -> None:
        stored = self._store.get(str(NAMESPACES), "", name)
        if stored is None or b'"deletionTimestamp"' not in stored.data:
            return
        namespace = decode(stored)
        if "deletionTimestamp" not in namespace["metadata"]:
            return
        left = 0
        for kind in self._namespaced_kinds():
            left += await self._empty(kind, name)
        if left:
            return  # the deletion of each object triggers another sync
        namespace["spec"] = {**(namespace.get("spec") or {}), "finalizers": []}
        await request(self._server, USER, "PUT", NAMESPACES.path(name=name, subresource="finalize"), namespace)

    def _namespaced_kinds(self) -> list[Kind]:
        served = [kind for kind in self._server.registry.all() if kind.resource.namespaced]
        kinds = {kind.table: kind for kind in served if kind.stored_as is None}
        return [kinds[name] for name in sorted(kinds)]

    async def _empty(self, kind: Kind, namespace: str) -> int:
        """Delete the objects that are not being deleted yet. Returns how many objects remain."""
        table = kind.table
        found = list(self._store.scan(table, namespace))
        for stored in found:
            if "deletionTimestamp" in decode(stored)["metadata"]:
                continue
            options = {"propagationPolicy": "Background", "preconditions": {"uid": stored.uid}}
            await request(self._server, USER, "DELETE", kind.resource.path(namespace, stored.name), options)
        return self._store.count(table, namespace)
