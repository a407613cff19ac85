"""Expiry of Events: an API server deletes each Event one hour after its last change.

A sweep runs every few minutes. It costs almost nothing while no Event is stored. The hour of an Event whose last change
lies in the future, because the clock was set back, counts from the first sweep that observes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

from job_controller.json_tree import Json
from job_controller.ports import Clock
from job_controller.times import WaitStart, wait_start
from queue_manager.api.api_resources import EVENTS
from queue_manager.local.storage.store import Store, decode

LIFETIME = timedelta(hours=1)
SWEEP_SECONDS = 300.0
_BATCH = 500  # Events removed before the event loop runs other tasks


class EventExpiry:
    """Removes expired Events. `run` until cancelled."""

    def __init__(self, store: Store, clock: Clock, lifetime: timedelta = LIFETIME) -> None:
        self._store = store
        self._clock = clock
        self._lifetime = lifetime
        self._starts: dict[str, WaitStart] = {}  # by uid; only of Events that changed in the future

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        """Remove all expired Events."""
        table, now, before = str(EVENTS), self._clock.now(), self._starts
        self._starts = {}
        for count, stored in enumerate(list(self._store.scan(table)), start=1):
            if self._store.get(table, stored.namespace, stored.name) is stored:
                self._expire(table, decode(stored), before, now)
            if count % _BATCH == 0:
                await self._store.settled()
                await asyncio.sleep(0)
        await self._store.settled()

    def _expire(self, table: str, event: Json, before: Mapping[str, WaitStart], now: datetime) -> None:
        uid = event["metadata"]["uid"]
        start = wait_start(last_change(event), before.get(uid), now)
        if start.effective < now - self._lifetime:
            self._store.remove(table, event)
        elif start.effective != start.time:
            self._starts[uid] = start


def last_change(tree: Json) -> datetime:
    """Return the latest of the times at which an Event was last observed and created."""
    series = tree.get("series") or {}
    times = (series.get("lastObservedTime"), tree.get("lastTimestamp"), tree["metadata"].get("creationTimestamp"))
    return max(datetime.fromisoformat(time) for time in times if time)
