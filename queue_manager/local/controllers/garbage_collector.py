"""Garbage collection by ownerReferences, as an ordinary controller beside the API server.

Owners are identified by uid. The graph of owners and dependents is built from the store's committed changes.

    background  the owner does not exist; each dependent without another living owner is deleted
    foreground  the owner has a deletionTimestamp and the finalizer `foregroundDeletion`; its dependents are deleted
                (also in the foreground if they have dependents); the finalizer is removed when no dependent with
                blockOwnerDeletion is left
    orphan      the owner has a deletionTimestamp and the finalizer `orphan`; its dependents lose their reference to
                it, then the finalizer is removed

A dependent with several owners loses its references to owners that are gone or being deleted in the foreground, and is
kept while one owner lives. An owner in another namespace does not count. An owner of a kind that this server does not
serve counts as alive, as one without a REST mapping does in kube-controller-manager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from queue_manager.engine.transport_protocol import MERGE_PATCH
from queue_manager.local.controllers.server_calls import request
from queue_manager.local.server.deletion import FOREGROUND, ORPHAN
from queue_manager.local.storage.store import Store, Stored, StoredChange

if TYPE_CHECKING:
    from queue_manager.local.server.api_server import ApiServer

USER = "system:serviceaccount:kube-system:generic-garbage-collector"


class _Owner(msgspec.Struct, rename="camel", omit_defaults=True):
    uid: str = ""
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    finalizers: list[str] | None = None
    deletion_timestamp: str | None = None
    owner_references: list[_Owner] | None = None


class _Head(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Head)


@dataclass(slots=True)
class GraphNode:
    """An object in the graph."""

    resource: str
    namespace: str
    name: str
    uid: str
    owners: tuple[_Owner, ...]
    finalizers: tuple[str, ...]
    deleting: bool

    def waits_for(self, finalizer: str) -> bool:
        """Whether the object is being deleted and has the finalizer."""
        return self.deleting and finalizer in self.finalizers


class Graph:
    """All objects by uid, and the dependents of each owner, including owners that do not exist."""

    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> GraphNode | None:
        """Return the object; None if no object has this uid."""
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[GraphNode]:
        """Return the dependents of an owner in the order in which they were added."""
        return [self._nodes[child] for child in self._dependents.get(uid, ())]

    def blocked(self, uid: str) -> bool:
        """Return whether a dependent with blockOwnerDeletion is left."""
        for child in self._dependents.get(uid, ()):
            for owner in self._nodes[child].owners:
                if owner.uid == uid and owner.block_owner_deletion:
                    return True
        return False

    def has_dependents(self, uid: str) -> bool:
        """Return whether an object names this owner, whether or not the owner exists."""
        return bool(self._dependents.get(uid))

    def set(self, resource: str, stored: Stored) -> GraphNode:
        """Record the newest state of an object."""
        meta = _decoder.decode(stored.data).metadata
        owners, finalizers = tuple(meta.owner_references or ()), tuple(meta.finalizers or ())
        before = self._nodes.get(stored.uid)
        if before is not None and before.owners != owners:
            self._unlink(before)
        node = GraphNode(
            resource, stored.namespace, stored.name, stored.uid, owners, finalizers, meta.deletion_timestamp is not None
        )
        self._nodes[node.uid] = node
        for owner in owners:
            self._dependents.setdefault(owner.uid, {})[node.uid] = None
        return node

    def unset(self, uid: str) -> GraphNode | None:
        """Remove an object, but not its dependents. Returns its last state; None if it was unknown."""
        node = self._nodes.pop(uid, None)
        if node is not None:
            self._unlink(node)
        return node

    def _unlink(self, node: GraphNode) -> None:
        for owner in node.owners:
            children = self._dependents.get(owner.uid, {})
            children.pop(node.uid, None)
            if not children:
                self._dependents.pop(owner.uid, None)


class GarbageCollector:
    """Maintains the graph and deletes dependents. `run` until cancelled."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store: Store = server.store
        self._graph = Graph()
        self._work: dict[str, None] = {}  # work queue of uids
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        unsubscribe = self._store.subscribe(self._changed)
        try:
            for resource in self._store.resources():
                for stored in self._store.scan(resource):
                    self._add(self._graph.set(resource, stored))
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._work:
                    uid = next(iter(self._work))
                    del self._work[uid]
                    node = self._graph.get(uid)
                    if node is not None:
                        await self._sync(node)
        finally:
            unsubscribe()

    def _changed(self, change: StoredChange) -> None:
        if change.type != "DELETED":
            node = self._graph.set(change.resource, change.new)
            self._add(node)
            if node.deleting:  # its dependents may have to be deleted or released
                self._add_all(self._graph.dependents(node.uid))
            return
        gone = self._graph.unset(change.new.uid)
        self._add_all(self._graph.dependents(change.new.uid))
        for owner in gone.owners if gone else ():
            if (parent := self._graph.get(owner.uid)) is not None and parent.deleting:
                self._add(parent)

    def _add(self, node: GraphNode) -> None:
        if node.owners or node.deleting:
            self._work[node.uid] = None
            self._wake.set()

    def _add_all(self, nodes: Iterable[GraphNode]) -> None:
        for node in nodes:
            self._add(node)

    async def _sync(self, node: GraphNode) -> None:
        if node.waits_for(ORPHAN):
            await self._orphan_dependents(node)
        elif node.waits_for(FOREGROUND):
            await self._finish_foreground(node)
        if node.owners and not node.deleting:
            await self._judge(node)

    async def _judge(self, node: GraphNode) -> None:
        """Delete a dependent without a living owner. If only some owners are gone, remove the references to these."""
        living, dying, dead = [], [], []
        for owner in node.owners:
            parent = self._graph.get(owner.uid)
            if parent is None and not self._serves(owner):
                living.append(owner)
            elif parent is None or parent.namespace not in ("", node.namespace):
                dead.append(owner)
            elif parent.waits_for(FOREGROUND):
                dying.append(owner)
            else:
                living.append(owner)
        if living:
            if dead or dying:
                await self._patch(node, {"ownerReferences": [msgspec.to_builtins(owner) for owner in living]})
        elif dying and self._graph.has_dependents(node.uid):
            await self._delete(node, "Foreground")
        else:
            await self._delete(node, _inherited(node))

    def _serves(self, owner: _Owner) -> bool:
        """Return whether this server serves the kind of an owner. Otherwise it cannot know that the owner is gone."""
        kinds = (kind.resource for kind in self._server.registry.all())
        return any((kind.api_version, kind.kind) == (owner.api_version, owner.kind) for kind in kinds)

    async def _orphan_dependents(self, node: GraphNode) -> None:
        for child in self._graph.dependents(node.uid):
            kept = [msgspec.to_builtins(owner) for owner in child.owners if owner.uid != node.uid]
            await self._patch(child, {"ownerReferences": kept or None})
        if not self._graph.has_dependents(node.uid):
            await self._release(node, ORPHAN)

    async def _finish_foreground(self, node: GraphNode) -> None:
        if not self._graph.blocked(node.uid):
            await self._release(node, FOREGROUND)

    async def _release(self, node: GraphNode, finalizer: str) -> None:
        kept = [name for name in node.finalizers if name != finalizer]
        await self._patch(node, {"finalizers": kept or None})

    def _path(self, node: GraphNode) -> str | None:
        for kind in self._server.registry.all():
            if kind.table == node.resource and kind.stored_as is None:
                return kind.resource.path(node.namespace, node.name)
        return None

    async def _patch(self, node: GraphNode, meta: dict[str, Any]) -> None:
        """Patch exactly this object in its known state. After a conflict, the newer state triggers another sync."""
        stored = self._store.get(node.resource, node.namespace, node.name)
        path = self._path(node)
        if stored is None or stored.uid != node.uid or path is None:
            return
        guarded = {**meta, "uid": node.uid, "resourceVersion": str(stored.revision)}
        await request(self._server, USER, "PATCH", path, {"metadata": guarded}, MERGE_PATCH)

    async def _delete(self, node: GraphNode, policy: str) -> None:
        path = self._path(node)
        if path is not None:
            options = {"propagationPolicy": policy, "preconditions": {"uid": node.uid}}
            await request(self._server, USER, "DELETE", path, options)


def _inherited(node: GraphNode) -> str:
    """Return the propagation for deleting a dependent: as its own finalizers say, otherwise background."""
    if ORPHAN in node.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.finalizers else "Background"
