"""A local copy of one API collection that reads its own writes and never shows an older state after a newer one.

A cache has two sources. The *watch* delivers every change, in order, but late. The *responses* to our own writes
deliver single objects immediately, in any order. They can be merged because the resourceVersions of one collection are
ordered, and because `progress` records the revision up to which the watch has delivered every change:

- Of two states of an object the one with the greater resourceVersion wins.
- A response about an unknown object at or below `progress` is ignored: the watch has already delivered the
  deletion of that object.
- An object that we deleted before the watch delivered its deletion leaves a tombstone, so that older events that
  are still in transit do not restore it. The DELETED event of the watch removes the tombstone. So does a list
  without the object, unless that list is older than the object.
- A list at revision R removes the objects that it does not contain, except those newer than R: we wrote them after
  the list was taken, and the watch from R on delivers them.

Objects are identified by uid, because a name can be reused. Subscribers see a new object under an old name as the
deletion of the old object and the addition of the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from job_controller.model import Key, ObjectMeta
from job_controller.times import EARLIEST
from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.engine.json_codec import HasMetadata, revision

log = logging.getLogger(__name__)

T = TypeVar("T", bound=HasMetadata)

ALL_REVISIONS = 1 << 64  # greater than any resourceVersion
# A tombstone stays unused when the DELETED event arrives before the response to our DELETE. Beyond this number the
# oldest is dropped; if it was still needed, the deleted object shows until its DELETED event arrives.
MAX_TOMBSTONES = 4096  # entries per cache

WritesInFlight = Mapping[tuple[str, str], CauseId]
"""The causes of our own writes whose response has not arrived yet, by namespace and name."""


class _Tombstone(NamedTuple):
    up_to: int  # states up to this revision are ignored
    existed_at: int  # a list older than this revision does not prove the deletion


class Cache(Generic[T]):
    """Objects of one collection, with indexes and subscribers. Reads are synchronous and never block."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.synced = False
        self.progress = 0  # resourceVersion up to which the watch has delivered every change
        self._objects: dict[tuple[str, str], T] = {}  # plain tuples: equal to a Key, and faster to build
        self._by_uid: dict[str, T] = {}
        self._tombstones: dict[str, _Tombstone] = {}  # by uid
        self._indexes: dict[str, _Index[T]] = {}
        self._subscribers: list[Callable[[T | None, T | None], None]] = []
        # Called with a new object and its previous state before it is stored: see `interning`.
        self.share: Callable[[T, T | None], None] | None = None
        # Called with the revision of a response to one of our writes that the watch has not delivered yet.
        self.await_revision: Callable[[int], None] | None = None
        self._in_flight: WritesInFlight = {}

    # --- reading ---

    def get(self, namespace: str, name: str) -> T | None:
        """The object of this name, or None. The namespace of a cluster-scoped object is ""."""
        return self._objects.get((namespace, name))

    def by_uid(self, uid: str) -> T | None:
        """The object with this uid, or None."""
        return self._by_uid.get(uid)

    def values(self) -> list[T]:
        """A new list of all objects; later changes of the cache do not change it."""
        return list(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self.values())

    def index(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        """Add an index over the values that `values_of` returns for each object. ValueError if `name` is taken."""
        if name in self._indexes:
            raise ValueError(f"the cache of {self.name} already has an index {name!r}")
        index = self._indexes[name] = _Index(values_of)
        for obj in self._objects.values():
            index.change(None, obj)

    def lookup(self, name: str, value: str) -> list[T]:
        """The objects that have this value in this index, in the order in which they were indexed under it."""
        return [self._by_uid[uid] for uid in self._indexes[name].uids.get(value, ())]

    def has(self, name: str, value: str) -> bool:
        """Whether any object has this value in this index. O(1)."""
        return value in self._indexes[name].uids

    def subscribe(self, changed: Callable[[T | None, T | None], None]) -> None:
        """Call `changed(old, new)` once for each present object, and from now on for each change.

        `old` is None for an added object, `new` is None for a deleted one. The call is synchronous and part of the
        watch: `changed` should only enqueue keys. An exception in it is logged and does not reach other subscribers.
        """
        self._subscribers.append(changed)
        for obj in self._objects.values():
            self._notify(changed, None, obj)

    # --- responses to our own writes ---

    def follow_writes(self, in_flight: WritesInFlight) -> None:
        """Give each change that the watch delivers the cause of the write that made it, even before its response."""
        self._in_flight = in_flight

    def apply_response(self, obj: T) -> None:
        """Store the object in the response to one of our writes, unless the watch has delivered a newer state."""
        at = revision(obj)
        if at > self.progress:
            if self.await_revision is not None:
                self.await_revision(at)
            self._store(obj, at)
        elif obj.metadata.uid in self._by_uid:
            self._store(obj, at)

    def forget(self, obj: T) -> None:
        """Remove an object that we deleted; later states with this uid are ignored."""
        self.forget_uid(obj.metadata.uid, existed_at=revision(obj))

    def forget_uid(self, uid: str, up_to: int = ALL_REVISIONS, existed_at: int | None = None) -> None:
        """Remove the object with this uid and ignore its states up to revision `up_to`.

        For an object that is deleted, or no longer matches our selector since `up_to`. `existed_at` is a revision at
        which it existed, if one is known: a list older than that does not prove the deletion.
        """
        current = self._by_uid.get(uid)
        if current is not None and revision(current) <= up_to:
            existed_at = max(existed_at or 0, revision(current))
            self._remove(current)
        if up_to > self.progress:
            self._tombstones[uid] = _Tombstone(up_to, ALL_REVISIONS if existed_at is None else existed_at)
            if len(self._tombstones) > MAX_TOMBSTONES:
                del self._tombstones[next(iter(self._tombstones))]

    # --- the watch ---

    def observe(self, obj: T) -> None:
        """Apply an ADDED or MODIFIED event of the watch."""
        at = revision(obj)
        self._store(obj, at)
        if at > self.progress:
            self.progress = at

    def observe_deleted(self, obj: HasMetadata) -> None:
        """Apply a DELETED event of the watch: the object is deleted, or no longer matches the selector."""
        uid, up_to = obj.metadata.uid, revision(obj)
        current = self._by_uid.get(uid)
        if current is not None and revision(current) <= up_to:
            self._remove(current, obj.metadata)
        tombstone = self._tombstones.get(uid)
        if tombstone is not None and tombstone.up_to in (ALL_REVISIONS, up_to):
            del self._tombstones[uid]
        self.advance(up_to)

    def advance(self, progress: int) -> None:
        """Apply a BOOKMARK: the watch has delivered every change up to the revision `progress`."""
        if progress > self.progress:
            self.progress = progress

    def reset(self, objects: Collection[T], progress: int, undecodable: Collection[Key] = ()) -> None:
        """Apply a complete list of revision `progress`.

        Objects are added in the order of their creation, not of their names, in which they are listed: what subscribers
        do for an earlier one comes first.

        `undecodable` names listed objects that could not be decoded: their last readable state stays in the cache.
        """
        if progress < self.progress:
            self._start_over(progress)
        listed = {obj.metadata.uid for obj in objects}
        for old in self.values():
            meta = old.metadata
            if meta.uid not in listed and revision(old) <= progress and meta.key not in undecodable:
                self._remove(old)
        self._tombstones = {
            uid: tombstone
            for uid, tombstone in self._tombstones.items()
            if uid in listed or tombstone.existed_at > progress
        }
        for obj in sorted(objects, key=_created):
            self._store(obj, revision(obj))
        self.progress = progress
        self.synced = True

    def _start_over(self, progress: int) -> None:
        """Drop everything: a consistent list is older than the cache, so the server was restored from a backup."""
        log.warning(
            "the resourceVersion of the API server went back, its state replaces the cache",
            extra={"cache": self.name, "seen": self.progress, "listed": progress},
        )
        self._tombstones.clear()
        for old in self.values():
            self._remove(old)

    # --- changes ---

    def _store(self, new: T, at: int) -> None:
        """Store a state of revision `at`, unless a newer one or a tombstone is known."""
        meta, objects = new.metadata, self._objects
        uid, key = meta.uid, (meta.namespace, meta.name)
        if self._tombstones and uid in self._tombstones and at <= self._tombstones[uid].up_to:
            return
        old = objects.get(key)
        if old is not None:
            if at <= revision(old):
                return
            if old.metadata.uid != uid:
                self.forget_uid(old.metadata.uid)
                old = None
        if self.share is not None:
            self.share(new, old)
        objects[key] = self._by_uid[uid] = new
        self._changed(old, new, meta)

    def _remove(self, old: T, deleted: ObjectMeta | None = None) -> None:
        """Remove an object and notify subscribers. `deleted`: the metadata in the watch event of the deletion."""
        del self._objects[old.metadata.namespace, old.metadata.name]
        del self._by_uid[old.metadata.uid]
        self._changed(old, None, deleted or old.metadata)

    def _changed(self, old: T | None, new: T | None, meta: ObjectMeta) -> None:
        """Update indexes and call subscribers, as work that follows from this change or from our write that made it."""
        if CURRENT.get() is not None:  # the response to a write
            self._pass_on(old, new)
            return
        ours = self._in_flight.get((meta.namespace, meta.name)) if self._in_flight else None
        token = CURRENT.set(CauseId(meta.uid, meta.resource_version) if ours is None else ours)
        if ours is None and log.isEnabledFor(logging.DEBUG):
            kind = "added" if old is None else "deleted" if new is None else "changed"
            log.debug(kind, extra={"resource": self.name, "key": str(meta.key), "uid": meta.uid})
        try:
            self._pass_on(old, new)
        finally:
            CURRENT.reset(token)

    def _pass_on(self, old: T | None, new: T | None) -> None:
        for index in self._indexes.values():
            index.change(old, new)
        for subscriber in self._subscribers:  # inlined _notify: runs once per event and subscriber
            try:
                subscriber(old, new)
            except Exception:
                self._failed(old, new)

    def _notify(self, subscriber: Callable[[T | None, T | None], None], old: T | None, new: T | None) -> None:
        """Call one subscriber; its exception neither reaches the other subscribers nor ends the watch."""
        try:
            subscriber(old, new)
        except Exception:
            self._failed(old, new)

    def _failed(self, old: T | None, new: T | None) -> None:
        obj = new if new is not None else old
        named = {} if obj is None else {"key": str(obj.metadata.key), "uid": obj.metadata.uid}
        log.exception("a cache subscriber failed", extra={"cache": self.name, **named})


def _created(obj: HasMetadata) -> tuple[datetime, int]:
    return obj.metadata.creation_timestamp or EARLIEST, revision(obj)


def controller_uid(obj: HasMetadata) -> tuple[str, ...]:
    """Index function: the uid of the object's controller (owner reference with controller: true), if it has one."""
    owner = obj.metadata.controller
    return () if owner is None else (owner.uid,)


class _Index(Generic[T]):
    """uids by value, in order of insertion (dicts, so that iteration is deterministic)."""

    def __init__(self, values_of: Callable[[T], Iterable[str]]) -> None:
        self._values_of = values_of
        self.uids: dict[str, dict[str, None]] = {}

    def change(self, old: T | None, new: T | None) -> None:
        before = self._values_of(old) if old is not None else ()
        after = self._values_of(new) if new is not None else ()
        if before == after:
            return
        if old is not None:
            after = tuple(after)
            for value in before:
                if value not in after:
                    self._discard(value, old.metadata.uid)
        if new is not None:
            for value in after:
                self.uids.setdefault(value, {})[new.metadata.uid] = None

    def _discard(self, value: str, uid: str) -> None:
        uids = self.uids.get(value, {})
        uids.pop(uid, None)
        if not uids:
            self.uids.pop(value, None)
