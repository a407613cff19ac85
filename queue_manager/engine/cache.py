"""A local copy of one collection of the API that reads its own writes and never goes back in time.

Two streams of knowledge meet here. The *watch* tells everything, in order, but late. The *answers* to our
own writes tell one object each, at once, but in any order. What makes them safe to mix is that
resourceVersions of one collection are ordered, and one number, the `progress` of the watch: everything
that happened up to that revision has been told. From it follow the rules:

- of two states of an object the one with the greater resourceVersion wins;
- an answer about an unknown object at or below `progress` is about an object the watch has already seen
  deleted (or never had): it is old news, and ignored;
- an object that we deleted ahead of the watch leaves a tombstone, so that older events still under way do
  not bring it back. The watch's own DELETED event takes the tombstone away, or a list without the object,
  if the list is not older than the object;
- a list at revision R deletes what it does not contain, except objects newer than R: those we wrote
  ourselves after the list was taken, and the watch from R on will tell about them.

Everything is keyed by uid where a name could be reused: a new object under an old name is told to
subscribers as the deletion of the old one and the addition of the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from job_controller.model import Key
from queue_manager.engine.codec import HasMetadata, revision

log = logging.getLogger(__name__)

T = TypeVar("T", bound=HasMetadata)

ALL_REVISIONS = 1 << 64
# Tombstones whose DELETED event came before the answer to our DELETE are never asked for again; the oldest
# give way. At worst one that was still needed lets a deleted object show until its DELETED event comes.
MAX_TOMBSTONES = 4096


class _Tombstone(NamedTuple):
    up_to: int  # states up to this revision stay out
    existed_at: int  # a list older than this cannot tell that the object is gone


class Cache(Generic[T]):
    """Objects of one collection, with indexes and subscribers. Reads are synchronous and never block."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.synced = False
        self.progress = 0  # resourceVersion up to which the watch has told everything
        self._objects: dict[tuple[str, str], T] = {}  # a plain tuple: Key is equal to it, but slow to make
        self._by_uid: dict[str, T] = {}
        self._tombstones: dict[str, _Tombstone] = {}  # by uid
        self._indexes: dict[str, _Index[T]] = {}
        self._subscribers: list[Callable[[T | None, T | None], None]] = []
        # Called with an object that is to be kept and the state before it: see sharing.py.
        self.share: Callable[[T, T | None], None] | None = None

    # --- reading ---

    def get(self, namespace: str, name: str) -> T | None:
        """The object of this name; the namespace of a cluster-scoped one is empty."""
        return self._objects.get((namespace, name))

    def by_uid(self, uid: str) -> T | None:
        """The object with this uid."""
        return self._by_uid.get(uid)

    def values(self) -> list[T]:
        """All objects, as of now: the list does not change when the cache does."""
        return list(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self.values())

    def index(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        """Keep the objects findable by the values that `values_of` computes from each."""
        if name in self._indexes:
            raise ValueError(f"the cache of {self.name} already has an index {name!r}")
        index = self._indexes[name] = _Index(values_of)
        for obj in self._objects.values():
            index.change(None, obj)

    def lookup(self, name: str, value: str) -> list[T]:
        """The objects that have this value in this index, in the order in which they got it."""
        return [self._by_uid[uid] for uid in self._indexes[name].uids.get(value, ())]

    def has(self, name: str, value: str) -> bool:
        """Whether any object has this value in this index; costs the same however many there are."""
        return value in self._indexes[name].uids

    def subscribe(self, changed: Callable[[T | None, T | None], None]) -> None:
        """Call `changed(old, new)` at every change from now on, and once for each object there is.

        An added object has no old state, a deleted one no new state. Calls are synchronous: the function
        should do no more than add keys to queues.
        """
        self._subscribers.append(changed)
        for obj in self._objects.values():
            self._notify(changed, None, obj)

    # --- answers to our own writes ---

    def apply_response(self, obj: T) -> None:
        """Take the answer to a write of ours. Old news is ignored."""
        at = revision(obj)
        if at > self.progress or obj.metadata.uid in self._by_uid:
            self._store(obj, at)

    def forget(self, obj: T) -> None:
        """Take it that we deleted this very object: no state of it comes back."""
        self.forget_uid(obj.metadata.uid, existed_at=revision(obj))

    def forget_uid(self, uid: str, up_to: int = ALL_REVISIONS, existed_at: int | None = None) -> None:
        """The object is gone, or left our selector at revision `up_to`: that and older states stay out.

        `existed_at` is a revision at which it existed, if one is known.
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
        """Take an ADDED or MODIFIED event."""
        at = revision(obj)
        self._store(obj, at)
        if at > self.progress:
            self.progress = at

    def observe_deleted(self, obj: HasMetadata) -> None:
        """Take a DELETED event: the object is gone, or no longer selected."""
        uid, up_to = obj.metadata.uid, revision(obj)
        current = self._by_uid.get(uid)
        if current is not None and revision(current) <= up_to:
            self._remove(current)
        tombstone = self._tombstones.get(uid)
        if tombstone is not None and tombstone.up_to in (ALL_REVISIONS, up_to):
            del self._tombstones[uid]
        self.advance(up_to)

    def advance(self, progress: int) -> None:
        """Take a BOOKMARK: the watch has told everything up to this revision."""
        if progress > self.progress:
            self.progress = progress

    def reset(self, objects: Collection[T], progress: int, undecodable: Collection[Key] = ()) -> None:
        """Take a complete list of revision `progress`. Objects named in `undecodable` exist, unreadably."""
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
        for obj in objects:
            self._store(obj, revision(obj))
        self.progress = progress
        self.synced = True

    def _start_over(self, progress: int) -> None:
        """A consistent list is older than what we have seen: the server was restored from a backup."""
        log.warning(
            "the API server went back in time, its state replaces the cache",
            extra={"cache": self.name, "seen": self.progress, "listed": progress},
        )
        self._tombstones.clear()
        for old in self.values():
            self._remove(old)

    # --- changes ---

    def _store(self, new: T, at: int) -> None:
        """Keep a state of revision `at` if it is the newest of its name."""
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
        self._changed(old, new)

    def _remove(self, old: T) -> None:
        del self._objects[old.metadata.namespace, old.metadata.name]
        del self._by_uid[old.metadata.uid]
        self._changed(old, None)

    def _changed(self, old: T | None, new: T | None) -> None:
        for index in self._indexes.values():
            index.change(old, new)
        for subscriber in self._subscribers:  # as _notify, once per event and subscriber
            try:
                subscriber(old, new)
            except Exception:
                self._failed(old, new)

    def _notify(self, subscriber: Callable[[T | None, T | None], None], old: T | None, new: T | None) -> None:
        """A subscriber that fails must not keep the others from hearing, nor end the watch."""
        try:
            subscriber(old, new)
        except Exception:
            self._failed(old, new)

    def _failed(self, old: T | None, new: T | None) -> None:
        obj = new if new is not None else old
        key = "" if obj is None else str(obj.metadata.key)
        log.exception("a cache subscriber failed", extra={"cache": self.name, "key": key})


def controller_uid(obj: HasMetadata) -> tuple[str, ...]:
    """For an index by who manages an object: the uid of its controller, if it has one."""
    owner = obj.metadata.controller
    return () if owner is None else (owner.uid,)


class _Index(Generic[T]):
    """uids by value, each set in order of arrival (a dict, so that iteration is deterministic)."""

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
