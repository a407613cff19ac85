"""The recent changes of one resource, from which watches read.

Changes have absolute positions in the log. A watcher owns no buffer, only a position, so a change costs the same for
one watcher and for a hundred, and memory is bounded however slowly a client reads. The log drops its oldest changes; a
reader behind that point gets `Compacted` (410 Gone) and has to list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

WEIGHT = 64 << 20  # bytes of objects kept in one log; it is trimmed at twice as much


@dataclass(slots=True, eq=False)
class Stored:
    """One version of one object: its JSON as sent, and the fields needed for selectors and garbage collection.

    `fields` is None for an object loaded from disk until its field-selector values are first needed.
    """

    key: str  # "<namespace>/<name>": the order of lists
    namespace: str
    name: str
    uid: str
    revision: int
    labels: Mapping[str, str]
    fields: Mapping[str, str] | None
    data: bytes


class StoredChange(NamedTuple):
    """A committed write. For a deletion `new` is the last state, with the revision of the deletion."""

    type: str  # ADDED, MODIFIED, DELETED
    resource: str
    old: Stored | None
    new: Stored

    @property
    def revision(self) -> int:
        """The resourceVersion of the change."""
        return self.new.revision


class Compacted(Exception):
    """The log no longer contains the requested position. `oldest` is the first revision from which it can be read."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history begins after revision {oldest}")
        self.oldest = oldest


class ChangeLog:
    """The changes of one resource, bounded by their number and by the size of their objects."""

    def __init__(self, limit: int, since: int, weight: int = WEIGHT) -> None:
        self._limit = limit
        self._weight_limit = weight
        self._weight = 0  # bytes of the objects of _changes
        self._changes: list[StoredChange] = []
        self._first = 0  # absolute position of _changes[0]
        self._since = since  # every change after this revision is in the log
        self._sleepers: list[asyncio.Future[None]] = []

    @property
    def end(self) -> int:
        """Return the position after the newest change."""
        return self._first + len(self._changes)

    def append(self, change: StoredChange) -> None:
        """Add the newest change; at twice a limit, drop the oldest down to it. Readers are woken by `wake` alone."""
        self._changes.append(change)
        self._weight += len(change.new.data)
        # Trim in bulk, because deleting the head of a list moves all other items.
        if len(self._changes) >= self._limit * 2 or self._weight >= self._weight_limit * 2:
            self._trim()

    def _trim(self) -> None:
        """Drop the oldest changes. The newest one is kept, whatever its size."""
        drop = max(0, len(self._changes) - self._limit)
        self._weight -= sum(len(change.new.data) for change in self._changes[:drop])
        while self._weight > self._weight_limit and drop < len(self._changes) - 1:
            self._weight -= len(self._changes[drop].new.data)
            drop += 1
        if drop:
            self._since = self._changes[drop - 1].revision
            self._first += drop
            del self._changes[:drop]

    def position(self, revision: int) -> int:
        """Return the position of the first change after a revision. Raises Compacted."""
        if revision < self._since:
            raise Compacted(self._since)
        low, high = 0, len(self._changes)
        while low < high:
            middle = (low + high) // 2
            if self._changes[middle].revision <= revision:
                low = middle + 1
            else:
                high = middle
        return self._first + low

    def read(self, position: int, limit: int) -> list[StoredChange]:
        """Return up to `limit` changes from a position on. Raises Compacted."""
        start = position - self._first
        if start < 0:
            raise Compacted(self._since)
        return self._changes[start : start + limit]

    def after(self, revision: int) -> Iterator[StoredChange]:
        """Return all changes after a revision, oldest first. Raises Compacted."""
        start = self.position(revision) - self._first
        for index in range(start, len(self._changes)):
            yield self._changes[index]

    def wake(self) -> None:
        """Wake all readers that wait at the end of the log."""
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            _wake(sleeper)

    async def wait(self, seconds: float) -> None:
        """Wait until `wake` is called, or for so many seconds of loop time."""
        loop = asyncio.get_running_loop()
        sleeper = loop.create_future()
        timer = loop.call_later(seconds, _wake, sleeper)
        self._sleepers.append(sleeper)
        try:
            await sleeper
        finally:
            timer.cancel()
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
