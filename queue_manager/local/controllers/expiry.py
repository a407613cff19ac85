"""Expiry of Events: an API server deletes each Event one hour after its last change.

A sweep runs every few minutes. It costs almost nothing while no Event is stored.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from job_controller.ports import Clock
from queue_manager.api.resources import EVENTS
from queue_manager.local.storage.store import Store, Stored, decode

LIFETIME = timedelta(hours=1)
SWEEP_SECONDS = 300.0
_BATCH = 500  # Events removed before the event loop runs other tasks


class EventExpiry:
    """Removes expired Events. `run` until cancelled."""

    def __init__(self, store: Store, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._store = store
        self._clock = clock
        self._lifetime = lifetime

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        """Remove all expired Events."""
        table, limit = str(EVENTS), self._clock.now() - self._lifetime
        for count, stored in enumerate(list(self._store.scan(table)), start=1):
            current = self._store.get(table, stored.namespace, stored.name)
            if current is stored and last_change(stored) < limit:
                self._store.remove(table, decode(stored))
            if count % _BATCH == 0:
                await self._store.settled()
                await asyncio.sleep(0)
        await self._store.settled()


def last_change(event: Stored) -> datetime:
    """Return the latest of the times at which an Event was last observed and created."""
    tree = decode(event)
    series = tree.get("series") or {}
    times = (series.get("lastObservedTime"), tree.get("lastTimestamp"), tree["metadata"].get("creationTimestamp"))
    return max(datetime.fromisoformat(time) for time in times if time)
