"""Prepare writes of large objects in a thread, and store them on the event loop.

Decoding, merging, field managers and validation of 50 000 values take up to half a second. On the event loop, all other
clients would wait that long; beside a thread they wait a few milliseconds at a time.

The thread reads the store through a StoreSnapshot, which keeps the objects that were read and the one write that they
lead to. On the loop, the write is stored if the store still has exactly these objects; otherwise it is prepared again.
So a large write is decided against the state in which it is stored, as any other. The thread changes nothing that the
loop uses. Admission rules and kinds, which it calls, read caches by key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from functools import partial

from job_controller.json_tree import Json
from queue_manager.local.schema.cpu_time_limits import NeedsWorkerProcess
from queue_manager.local.server.admission_plugin_protocol import AdmissionPlugin
from queue_manager.local.server.request_info import Call
from queue_manager.local.server.writing import Writer
from queue_manager.local.status_errors import StatusError
from queue_manager.local.storage.store import NO_FIELDS, Store, Stored

log = logging.getLogger(__name__)

LARGE = 3_000  # values of the body and of the stored object: less takes about 20 ms
SHORT = 6_000  # bytes that have fewer values in any case
VERBS: Mapping[str, Callable[[Writer, Call], bytes]] = {
    "POST": Writer.create,
    "PUT": Writer.update,
    "PATCH": Writer.patch,
}


class LargeWrites:
    """Creates, updates and patches large objects, one after the other."""

    def __init__(self, store: Store, admission: Sequence[AdmissionPlugin]) -> None:
        self._store = store
        self._admission = admission
        self._turns = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "large-writes")  # its thread starts with the first large write

    def close(self) -> None:
        """End the thread after the write that it prepares."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def covers(self, call: Call) -> bool:
        """Whether the call writes a large object, or its status."""
        posted = call.request.method == "POST"
        if call.request.method not in VERBS or posted is bool(call.name) or call.subresource not in ("", "status"):
            return False
        if (call.subresource and not call.kind.has_status) or call.kind.resource.namespaced is not bool(call.namespace):
            return False
        stored = self._store.get(call.table, call.namespace, call.name) if call.name else None
        return _values(call.request.body) + (_values(stored.data) if stored is not None else 0) > LARGE

    async def write(self, call: Call) -> bytes | None:
        """Return the stored object; None if the write must be prepared again. Raises as the Writer does."""
        async with self._turns:
            snapshot = StoreSnapshot(self._store)
            prepare = partial(VERBS[call.request.method], Writer(snapshot, self._admission), call)
            loop = asyncio.get_running_loop()
            try:
                answer = await loop.run_in_executor(self._thread, copy_context().run, prepare)
            except (StatusError, NeedsWorkerProcess):
                raise
            except Exception:  # a cache changed while it was read; an error that persists is raised on the loop
                log.debug("a large write is prepared again", exc_info=True)
                return None
            return snapshot.commit(answer) if snapshot.is_current() else None


class StoreSnapshot:
    """The store as a Writer in a thread uses it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[tuple[str, str, str], Stored | None] = {}
        self._write: Callable[[], bytes | None] | None = None

    def is_current(self) -> bool:
        """Whether the store has exactly the objects that were read."""
        return all(self._store.get(*key) is stored for key, stored in self._read.items())

    def commit(self, answer: bytes) -> bytes:
        """Store the write, if there is one. Returns the stored object; `answer` if nothing was put."""
        return (self._write() if self._write is not None else None) or answer

    def get(self, resource: str, namespace: str, name: str) -> Stored | None:
        """Return the object, the same one each time."""
        key = resource, namespace, name
        if key not in self._read:
            self._read[key] = self._store.get(*key)
        return self._read[key]

    def put(self, resource: str, obj: Json, fields: Mapping[str, str] = NO_FIELDS) -> Stored:
        """Keep the write. The object returned has no data yet: its resourceVersion is not known."""
        self._write = lambda: self._store.put(resource, obj, fields).data
        meta = obj["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        return Stored(f"{namespace}/{name}", namespace, name, meta["uid"], 0, NO_FIELDS, fields, b"")

    def remove(self, resource: str, obj: Json) -> None:
        """Remember the deletion, which is carried out on the event loop."""

        def write() -> None:
            self._store.remove(resource, obj)

        self._write = write

    def now(self) -> datetime:
        """See `Store.now`."""
        return self._store.now()

    def new_uid(self) -> str:
        """See `Store.new_uid`."""
        return self._store.new_uid()

    def new_name(self, prefix: str) -> str:
        """See `Store.new_name`."""
        return self._store.new_name(prefix)


def _values(data: bytes) -> int:
    """Estimate the number of values in a JSON or YAML text by its commas and line breaks; 0 for a short text."""
    return data.count(b",") + data.count(b"\n") if len(data) > SHORT else 0
