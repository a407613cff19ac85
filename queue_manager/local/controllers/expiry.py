"""Events do not live for ever: an API server forgets each an hour after its last change.

A sweep every few minutes, cheap when there is nothing to do: events are looked at only if any is stored.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from job_controller.ports import Clock
from queue_manager.api.resources import EVENTS
from queue_manager.local.storage.store import Store, Stored, decode

LIFETIME = timedelta(hours=1)
SWEEP_SECONDS = 300.0
_BATCH = 500  # removed before others get their turn


class EventExpiry:
    """Removes old events. `run` until cancelled."""

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
        """Remove what is too old now."""
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
    """When an event last happened, as far as it says."""
    tree = decode(event)
    series = tree.get("series") or {}
    times = (series.get("lastObservedTime"), tree.get("lastTimestamp"), tree["metadata"].get("creationTimestamp"))
    return max(datetime.fromisoformat(time) for time in times if time)
