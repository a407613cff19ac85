"""Garbage collection by ownerReferences, as an ordinary controller beside the API server.

An owner is its uid. The graph (who has whom as owner) is kept from the store's committed changes. What happens:

    background  the owner is gone; a dependent none of whose owners live is deleted
    foreground  the owner is marked and carries `foregroundDeletion`; its dependents are deleted (in the
                foreground too where they have dependents of their own); the finalizer goes when no dependent with
                blockOwnerDeletion is left
    orphan      the owner is marked and carries `orphan`; dependents lose their reference to it, then the finalizer goes

A dependent with several owners loses its references to the dead (or dying in the foreground) ones and lives on while
one is alive. An owner in another namespace does not count as one. An owner of a kind that this server does not have
counts as alive (as where kube-controller-manager finds no REST mapping).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from queue_manager.engine.transport import MERGE_PATCH
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
    """An object of the graph."""

    resource: str
    namespace: str
    name: str
    uid: str
    owners: tuple[_Owner, ...]
    finalizers: tuple[str, ...]
    deleting: bool

    def waits_for(self, finalizer: str) -> bool:
        return self.deleting and finalizer in self.finalizers


class Graph:
    """All objects by uid, and who depends on whom (also on owners that are not there)."""

    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> GraphNode | None:
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[GraphNode]:
        """In the order in which they came to depend on it."""
        return [self._nodes[child] for child in self._dependents.get(uid, ())]

    def blocked(self, uid: str) -> bool:
        """Whether a dependent with blockOwnerDeletion is left."""
        for child in self._dependents.get(uid, ()):
            for owner in self._nodes[child].owners:
                if owner.uid == uid and owner.block_owner_deletion:
                    return True
        return False

    def has_dependents(self, uid: str) -> bool:
        return bool(self._dependents.get(uid))

    def set(self, resource: str, stored: Stored) -> GraphNode:
        """Learn an object's newest state."""
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
    """Keeps the graph and does the deleting. `run` until cancelled."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store: Store = server.store
        self._graph = Graph()
        self._work: dict[str, None] = {}  # uids, in order
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
            if node.deleting:  # those it waits for, or who wait for it to be decided on
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
        """Delete a dependent without a living owner; free one that has some of its dead ones."""
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
        """Whether this server has the kind of an owner. Of another kind nobody here can say that it is gone."""
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
        """Of this very object in the state we know it in; a conflict means that a newer state is on its way to us."""
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
    """How a dependent goes: as its own finalizers say, else in the background."""
    if ORPHAN in node.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.finalizers else "Background"
