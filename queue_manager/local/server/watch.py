"""Watches: a list that goes on.

A watch starts from a state or from a revision, then follows the resource's history:

    initial state (ADDED ...) -> [bookmark: initial events end] -> changes -> ... -> end

With a resourceVersion there is no initial state (unless sendInitialEvents asks for it). It ends at its time limit,
when the server closes, when the definition of its kind changes, or with an ERROR event 410 when history no longer
reaches its position: at the start (the client was away too long) or later (it reads too slowly). A change is shown as
seen through the selectors: an object that starts to match is ADDED, one that stops to match is DELETED.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable

import orjson

from queue_manager.local import errors
from queue_manager.local.server.call import Call
from queue_manager.local.server.exchange import flag
from queue_manager.local.server.listing import Selection, check_watch_options, number, version
from queue_manager.local.server.turns import in_turns
from queue_manager.local.server.views import error_event
from queue_manager.local.storage.store import Forgotten, Store, Stored, StoredChange

BOOKMARK_SECONDS = 60.0
DEFAULT_SECONDS = 3000.0  # a client that gives no limit renews its watch after this long
# Changes per chunk, and bytes of them unless a single one has more: bounds the memory a slow connection holds.
BATCH = 500
BATCH_WEIGHT = 1 << 20


class Watch:
    """One watch, prepared: everything that can be refused has been by the time it is made."""

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
            raise errors.from_the_future(asked, store.revision)
        self._initial: list[Stored] = []
        no_state = "sendInitialEvents" in call.request.query and not self._send_end
        if self._send_end or (not asked and not no_state):
            self._initial = list(store.scan(call.table, call.namespace))
            asked = store.revision
        elif not asked:
            asked = store.revision
        self._revision = asked  # everything up to here has been shown

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The lines of the answer. Writes made before the watch was prepared must be settled."""
        view, store = self._call.view, self._store
        try:
            position = self._history.position(self._revision)
        except Forgotten as forgotten:
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
            except Forgotten as forgotten:
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
        """The changes as they look through namespace and selectors."""
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
        """An old state, as this kind shows it, under the revision at which it ceased to match."""
        tree = self._call.load(stored)
        tree["metadata"]["resourceVersion"] = str(revision)
        fields = (stored.key, stored.namespace, stored.name, stored.uid, revision, stored.labels, stored.fields)
        return Stored(*fields, orjson.dumps(tree))

    def _too_old(self, forgotten: Forgotten) -> bytes:
        return error_event(errors.gone(f"too old resource version: {self._revision} ({forgotten.oldest})").status())


def _fitting(stored: list[Stored]) -> int:
    """How many of the first make a chunk."""
    weight = 0
    for count, one in enumerate(stored):
        weight += len(one.data)
        if weight > BATCH_WEIGHT:
            return max(count, 1)
    return len(stored)
