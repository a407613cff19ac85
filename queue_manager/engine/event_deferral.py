"""Decides when the Events of a runtime may be written: after the writes that let work run.

All recorders of a runtime share one pace, because they share the connections to the API server. At most IN_FLIGHT
Events are written at a time, so half of the connections are left for other writes. During a backlog of those, BATCH
Events are written every BATCH_SECONDS: readers see them late but in order, with the times at which they were recorded.
They are written together, because a write that comes alone costs the API server and etcd up to twice as much as one
among others: each wakes threads, and etcd has a transaction for whatever has arrived. If more than MAX_DEFERRED are
pending, they are no longer deferred, so that none is dropped in a backlog that lasts.
BEHAVIOUR.md#q60-pending-events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

IN_FLIGHT = 8  # Events that are written at the same time
BATCH = 50  # Events, during a backlog
BATCH_SECONDS = 1.0  # from the start of a batch to that of the next
MAX_DEFERRED = 30_000  # pending Events


class EventDeferral:
    """The pace at which the recorders of a runtime write Events. They count their Events in `pending`."""

    def __init__(self, is_backlogged: Callable[[], bool] = lambda: False) -> None:
        """`is_backlogged`: whether more urgent work is waiting for the API server."""
        self.pending = 0  # Events that are recorded and not written
        self._is_backlogged = is_backlogged
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._batch_at = float("-inf")  # loop time at which the current batch starts
        self._left = 0  # Events that it still takes

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Enter the block when one Event may be written; the caller writes it inside."""
        async with self._slots:
            if self.pending <= MAX_DEFERRED and self._is_backlogged():
                now = asyncio.get_running_loop().time()
                await asyncio.sleep(self._start(now) - now)
            yield

    def _start(self, now: float) -> float:
        """Reserve a place in a batch of Events; return the time at which the batch starts, `now` or later."""
        if now >= self._batch_at + BATCH_SECONDS:
            self._batch_at, self._left = now, BATCH
        elif not self._left:
            self._batch_at, self._left = self._batch_at + BATCH_SECONDS, BATCH
        self._left -= 1
        return max(now, self._batch_at)
