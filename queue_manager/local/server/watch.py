"""The watch verb: report the changes of a collection as they are committed.

A watch starts from a state or from a revision, then follows the change log of the resource:

    initial state (ADDED ...) -> [bookmark: initial events end] -> changes -> ... -> end

With a resourceVersion there is no initial state, unless sendInitialEvents requests one. The watch ends at its time
limit, when the server closes, when the definition of its kind changes, or with an ERROR event 410 when the change log
no longer contains its position: at the start (the client's revision is too old) or later (the client reads too slowly).
A client that reads nothing at all is disconnected by `http_server`.
Selectors apply to changes: an object that starts to match is ADDED, one that no longer matches is DELETED.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable

import orjson

from queue_manager.local import status_errors
from queue_manager.local.server.event_loop_turns import in_turns
from queue_manager.local.server.http_messages import flag
from queue_manager.local.server.listing import Selection, check_watch_options, number, version
from queue_manager.local.server.request_info import Call
from queue_manager.local.server.response_encoding import error_event
from queue_manager.local.storage.store import Compacted, Store, Stored, StoredChange

BOOKMARK_SECONDS = 60.0
DEFAULT_SECONDS = 3000.0  # limit of a watch without timeoutSeconds
# Changes and bytes per chunk (a larger change is a chunk of its own); bounds the memory of a slow connection.
BATCH = 500
BATCH_WEIGHT = 1 << 20


class Watch:
    """One watch, ready to send. Creating it raises all errors that reject the request."""

    def __init__(self, store: Store, call: Call, closing: Callable[[], bool], served: Callable[[], bool]) -> None:
        check_watch_options(call)
        self._store = store
        self._call = call
        self._closing = closing
        self._served = served
        self._selection = Selection(call)
        self._history = store.history(call.table)
        self._seconds = float(number(call, "timeoutSeconds")) or DEFAULT_SECONDS
        self._bookmarks = flag(call.request.query, "allowWatchBookmarks")
        self._send_end = flag(call.request.query, "sendInitialEvents")
        asked = version(call)
        if asked > store.revision:
            raise status_errors.resource_version_too_large(asked, store.revision)
        self._initial: list[Stored] = []
        no_state = "sendInitialEvents" in call.request.query and not self._send_end
        if self._send_end or (not asked and not no_state):
            self._initial = list(store.scan(call.table, call.namespace))
            asked = store.revision
        elif not asked:
            asked = store.revision
        self._revision = asked  # all changes up to this revision have been sent

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the response. Writes made before the watch was created must be settled."""
        view, store = self._call.view, self._store
        try:
            position = self._history.position(self._revision)
        except Compacted as forgotten:
            yield self._too_old(forgotten)
            return
        initial, self._initial = self._initial, []
        start = 0
        while batch := initial[start : start + BATCH]:
            del batch[_fitting(batch) :]
            start += len(batch)
            shown = [("ADDED", stored) async for stored in in_turns(batch) if self._selection(stored)]
            if shown:
                yield await view.events(shown, store.now())
        del initial
        if self._send_end and self._bookmarks:
            yield view.bookmark(self._revision, initial_events_end=True)
        async for chunk in self._follow(position):
            yield chunk

    async def _follow(self, position: int) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        bookmark_at = loop.time() + BOOKMARK_SECONDS
        while not self._closing():
            try:
                changes = self._history.read(position, BATCH)
            except Compacted as forgotten:
                yield self._too_old(forgotten)
                return
            if changes:
                del changes[_fitting([change.new for change in changes]) :]
                position += len(changes)
                chunk = await self._call.view.events(await self._seen(changes), self._store.now())
                if chunk:
                    self._revision = changes[-1].revision
                    yield chunk
                continue
            now = loop.time()
            if self._bookmarks and (now >= bookmark_at or now >= end):
                bookmark_at = now + BOOKMARK_SECONDS
                if self._store.committed > self._revision:
                    self._revision = self._store.committed
                    yield self._call.view.bookmark(self._revision)
                    continue
            if now >= end or not self._served():
                return
            await self._history.wait(min(end, bookmark_at if self._bookmarks else end) - now)

    async def _seen(self, changes: Iterable[StoredChange]) -> list[tuple[str, Stored]]:
        """Translate changes into events as seen through namespace and selectors."""
        namespace = self._call.namespace
        if namespace:
            changes = [change for change in changes if change.new.namespace == namespace]
        if not self._selection:
            return [(change.type, change.new) for change in changes]
        return [seen async for change in in_turns(changes) if (seen := self._through_selectors(change))]

    def _through_selectors(self, change: StoredChange) -> tuple[str, Stored] | None:
        before = change.old is not None and self._selection(change.old)
        after = change.type != "DELETED" and self._selection(change.new)
        match before, after:
            case False, True:
                return "ADDED", change.new
            case True, True:
                return "MODIFIED", change.new
            case True, False:
                return "DELETED", self._at(change.old or change.new, change.revision)
        return None

    def _at(self, stored: Stored, revision: int) -> Stored:
        """Return an old state in the form of this kind, with the revision at which it ceased to match."""
        tree = self._call.load(stored)
        tree["metadata"]["resourceVersion"] = str(revision)
        fields = (stored.key, stored.namespace, stored.name, stored.uid, revision, stored.labels, stored.fields)
        return Stored(*fields, orjson.dumps(tree))

    def _too_old(self, forgotten: Compacted) -> bytes:
        return error_event(
            status_errors.gone(f"too old resource version: {self._revision} ({forgotten.oldest})").status()
        )


def _fitting(stored: list[Stored]) -> int:
    """Return how many of the first changes fit into one chunk."""
    weight = 0
    for count, one in enumerate(stored):
        weight += len(one.data)
        if weight > BATCH_WEIGHT:
            return max(count, 1)
    return len(stored)
