"""The object store: every API object as encoded JSON, under one increasing resourceVersion.

A write changes memory immediately, so the next request reads it, but it is *published* (to watches and subscribers) and
may be *answered* only after it is committed. Without a journal both happen in the same call. With one, all writes of
one iteration of the event loop are committed together: a request awaits `settled()` before its response is sent. A
commit that fails (disk full) is undone in memory and fails all requests that wait for it, so that memory never contains
more than what was acknowledged.

The store never returns decoded objects. A caller that changes an object decodes its own copy, so nothing is copied
needlessly and nothing is changed by accident.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from random import Random
from typing import Any, NamedTuple, Protocol

import msgspec
import orjson

from job_controller.json_tree import Json
from job_controller.ports import Clock
from queue_manager.local.storage.change_log import ChangeLog, Compacted, Stored, StoredChange
from queue_manager.local.storage.id_generator import IdGenerator

log = logging.getLogger(__name__)

HISTORY = 10_000  # changes kept per resource for watches and consistent pagination

NO_FIELDS: Mapping[str, str] = {}


class JournalRow(NamedTuple):
    """An object as the journal stores it. Without data: the object was deleted."""

    resource: str
    key: str
    revision: int
    data: bytes | None


class StoreJournal(Protocol):
    """The interface of a store to its disk."""

    def load(self) -> tuple[int, Iterable[JournalRow]]:
        """Return the last revision and all objects."""
        ...

    def commit(self, revision: int, rows: list[JournalRow]) -> None:
        """Store all rows or none. Raises OSError."""
        ...

    def close(self) -> None:
        """Release the data on disk; nothing can be committed afterwards."""
        ...


class JournalUnusable(Exception):
    """The data on disk cannot be read or trusted: damaged, written by a newer version, or writable by other users."""


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct):
    metadata: _Metadata


_head = msgspec.json.Decoder(_Head)


def object_key(namespace: str, name: str) -> str:
    """The key of an object within its kind."""
    return f"{namespace}/{name}"


class Collection:
    """The objects of one resource by key, and the sorted keys."""

    __slots__ = ("history", "keys", "objects")

    def __init__(self, history: ChangeLog) -> None:
        self.objects: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.history = history

    def set(self, stored: Stored) -> None:
        if stored.key not in self.objects:
            insort(self.keys, stored.key)
        self.objects[stored.key] = stored

    def unset(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def range(self, namespace: str, after: str) -> tuple[int, int]:
        """Return the range in `keys` of a namespace (empty: all namespaces), starting after the key `after`."""
        low, high = 0, len(self.keys)
        if namespace:
            low = bisect_left(self.keys, f"{namespace}/")
            high = bisect_left(self.keys, f"{namespace}0")  # "0" follows "/"
        if after:
            low = max(low, bisect_left(self.keys, f"{after}\0"))
        return low, high


class WritableStore(Protocol):
    """The methods of the Store with which one object is created or changed."""

    def get(self, resource: str, namespace: str, name: str) -> Stored | None: ...

    def put(self, resource: str, obj: Json, fields: Mapping[str, str] = NO_FIELDS) -> Stored: ...

    def remove(self, resource: str, obj: Json) -> object: ...

    def now(self) -> datetime: ...

    def new_uid(self) -> str: ...

    def new_name(self, prefix: str) -> str: ...


class Store:
    """The object store. Resources are named as in error messages: "pods", "jobs.batch"."""

    def __init__(
        self, clock: Clock, rng: Random, journal: StoreJournal | None = None, *, history: int = HISTORY
    ) -> None:
        self._clock = clock
        self._identities = IdGenerator(rng)
        self._journal = journal
        self._history = history
        self._collections: dict[str, Collection] = {}
        self._subscribers: list[Callable[[StoredChange], None]] = []
        self._pending: list[StoredChange] = []
        self._due = False  # a flush is scheduled
        self._waiting: list[asyncio.Future[None]] = []  # one per request, so that cancelling one affects no other
        self.revision = 0  # of the last write
        self.committed = 0  # of the last write that was published
        self._started_at = 0
        if journal is not None:
            self._load(journal)  # raises JournalUnusable

    def _load(self, journal: StoreJournal) -> None:
        revision, rows = journal.load()
        self.revision = self.committed = self._started_at = revision
        newest = ""
        loaded: dict[str, list[str]] = {}
        for resource, key, at, data in rows:
            if data is None:
                continue
            try:
                meta = _head.decode(data).metadata
            except msgspec.DecodeError as error:
                raise JournalUnusable(f"{resource} {key} is damaged on disk: {error}") from error
            collection = self._collection(resource)
            collection.objects[key] = Stored(
                key, meta.namespace, meta.name, meta.uid, at, meta.labels or NO_FIELDS, None, data
            )
            loaded.setdefault(resource, []).append(key)
            newest = max(newest, meta.uid)
        for resource, keys in loaded.items():
            self._collections[resource].keys = sorted(keys)
        if newest:
            self._identities.seen(newest)

    # --- reading -------------------------------------------------------------------------------------------

    def get(self, resource: str, namespace: str, name: str) -> Stored | None:
        """Return the object; None if it does not exist."""
        collection = self._collections.get(resource)
        return collection.objects.get(object_key(namespace, name)) if collection else None

    def count(self, resource: str, namespace: str = "") -> int:
        """Return the number of objects in a namespace, or in all."""
        collection = self._collections.get(resource)
        if collection is None:
            return 0
        low, high = collection.range(namespace, "")
        return high - low

    def scan(self, resource: str, namespace: str = "", after: str = "") -> Iterator[Stored]:
        """Iterate over the objects in order of their keys. The store must not be written meanwhile."""
        collection = self._collections.get(resource)
        if collection is None:
            return
        low, high = collection.range(namespace, after)
        for index in range(low, high):
            yield collection.objects[collection.keys[index]]

    def scan_at(self, resource: str, revision: int, namespace: str = "", after: str = "") -> Iterator[Stored]:
        """Like `scan` at an older revision: the current objects with the later changes undone.

        Raises Compacted when the change log does not reach back that far.
        """
        collection = self._collection(resource)
        before: dict[str, Stored | None] = {}
        for change in collection.history.after(revision):
            before.setdefault(change.new.key, change.old)
        for change in self._pending:
            if change.resource == resource and change.revision > revision:
                before.setdefault(change.new.key, change.old)
        if not before:
            yield from self.scan(resource, namespace, after)
            return
        low, high = collection.range(namespace, after)
        prefix = f"{namespace}/" if namespace else ""
        keys = set(collection.keys[low:high])
        keys.update(key for key in before if key > after and key.startswith(prefix))
        for key in sorted(keys):
            stored = before[key] if key in before else collection.objects.get(key)
            if stored is not None:
                yield stored

    def resources(self) -> list[str]:
        """Return all resources that have or had objects, sorted."""
        return sorted(self._collections)

    def history(self, resource: str) -> ChangeLog:
        """Return the change log of a resource. It is created if the resource has none."""
        return self._collection(resource).history

    # --- writing -------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """Return the time of the store's clock, for timestamps of objects."""
        return self._clock.now()

    def new_uid(self) -> str:
        """Return a uid that sorts after all earlier ones."""
        return self._identities.uid(self._clock.now())

    def new_name(self, prefix: str) -> str:
        """Return a random name with this prefix, for generateName. The name may be taken."""
        return self._identities.name(prefix)

    def put(self, resource: str, obj: Json, fields: Mapping[str, str] = NO_FIELDS) -> Stored:
        """Create or replace an object; sets its metadata.resourceVersion. The caller has validated it."""
        meta = obj["metadata"]
        collection = self._collection(resource)
        self.revision += 1
        meta["resourceVersion"] = str(self.revision)
        namespace, name = meta.get("namespace", ""), meta["name"]
        stored = Stored(
            object_key(namespace, name),
            namespace,
            name,
            meta["uid"],
            self.revision,
            meta.get("labels") or NO_FIELDS,
            fields,
            _encoded(obj),
        )
        old = collection.objects.get(stored.key)
        collection.set(stored)
        self._written(StoredChange("MODIFIED" if old else "ADDED", resource, old, stored))
        return stored

    def remove(self, resource: str, obj: Json) -> Stored:
        """Delete an object permanently; its last state `obj` gets the revision of the deletion."""
        meta = obj["metadata"]
        collection = self._collection(resource)
        old = collection.objects[object_key(meta.get("namespace", ""), meta["name"])]
        self.revision += 1
        meta["resourceVersion"] = str(self.revision)
        labels = meta.get("labels") or NO_FIELDS
        last = Stored(old.key, old.namespace, old.name, old.uid, self.revision, labels, old.fields, _encoded(obj))
        collection.unset(old.key)
        self._written(StoredChange("DELETED", resource, old, last))
        return last

    async def settled(self) -> None:
        """Return when every write made so far is committed. Raises OSError if the commit failed."""
        if self._due:
            done = asyncio.get_running_loop().create_future()
            self._waiting.append(done)
            await done

    def subscribe(self, subscriber: Callable[[StoredChange], None]) -> Callable[[], None]:
        """Call `subscriber` for every committed change, in order. Returns a function that ends the subscription."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def _written(self, change: StoredChange) -> None:
        if self._journal is None:
            self._publish([change])
            return
        self._pending.append(change)
        if self._due:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no event loop runs yet, so commit immediately
            self.flush()
            return
        self._due = True
        loop.call_soon(self.flush)

    def flush(self) -> None:
        """Commit and publish what is pending."""
        pending, self._pending = self._pending, []
        waiting, self._waiting = self._waiting, []
        self._due = False
        if self._journal is None or not pending:
            return
        last = {(change.resource, change.new.key): change for change in pending}
        rows = [
            JournalRow(resource, key, change.revision, None if change.type == "DELETED" else change.new.data)
            for (resource, key), change in last.items()
        ]
        try:
            self._journal.commit(self.revision, rows)
        except OSError as error:
            self._undo(pending)
            for done in waiting:
                if not done.done():
                    done.set_exception(error)
            return
        self._publish(pending)
        for done in waiting:
            if not done.done():
                done.set_result(None)

    def _undo(self, changes: list[StoredChange]) -> None:
        for change in reversed(changes):
            collection = self._collections[change.resource]
            if change.old is None:
                collection.unset(change.new.key)
            else:
                collection.set(change.old)
        self.revision = self.committed  # undone revisions were never published; a restart continues here too

    def _publish(self, changes: list[StoredChange]) -> None:
        touched: dict[str, ChangeLog] = {}
        for change in changes:
            history = self._collections[change.resource].history
            history.append(change)
            touched[change.resource] = history
        self.committed = changes[-1].revision
        for history in touched.values():
            history.wake()
        for subscriber in tuple(self._subscribers):
            for change in changes:
                try:
                    subscriber(change)
                except Exception:  # the write is committed; an error of a subscriber must not fail its request
                    log.exception("a subscriber failed on %s %s %s", change.type, change.resource, change.new.key)

    def wake_all(self) -> None:
        """Wake every watch, even without new changes, so that it can end."""
        for resource in self.resources():
            self._collections[resource].history.wake()

    def _collection(self, resource: str) -> Collection:
        collection = self._collections.get(resource)
        if collection is None:
            collection = self._collections[resource] = Collection(ChangeLog(self._history, self._started_at))
        return collection

    def close(self) -> None:
        """Commit pending writes and close the journal."""
        self.flush()
        if self._journal is not None:
            self._journal.close()


def decode(stored: Stored) -> Json:
    """Return a new tree that the caller may change."""
    tree: Any = orjson.loads(stored.data)
    return tree


def _encoded(obj: Json) -> bytes:
    """Encode an object for storage in a buffer of its exact size.

    The result of orjson keeps its larger buffer: 4 KB for 200 bytes, 64 KB for 20 KB.
    """
    return bytes(memoryview(orjson.dumps(obj)))


__all__ = [
    "ChangeLog",
    "Compacted",
    "JournalRow",
    "JournalUnusable",
    "Store",
    "StoreJournal",
    "Stored",
    "StoredChange",
    "decode",
    "object_key",
]
