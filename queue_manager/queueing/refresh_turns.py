"""When the messages of refused Workloads are brought up to date: once per period, evenly spread over their uids. Pure.

A period has TURNS turns. BEHAVIOUR.md#q6-pending-reasons.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from math import floor

TURNS = 64
AHEAD = 2  # turns by which a Workload is tried before its message is due


def phase_of(uid: str) -> float:
    """The place of a Workload in each period, from 0 to 1."""
    return zlib.crc32(uid.encode()) / 2**32


def turn_of(uid: str) -> int:
    """The turn of a Workload in each period."""
    return int(phase_of(uid) * TURNS)


class StaleMessages:
    """The ClusterQueues whose quota in use has changed since refused Workloads were tried. Times are in seconds."""

    def __init__(self, period: float) -> None:
        self.period = period
        self._until: dict[str, float] = {}  # by ClusterQueue: then each of its Workloads has had its turn
        self._done = 0  # turns since time 0

    def __bool__(self) -> bool:
        return bool(self._until)

    @property
    def turn_seconds(self) -> float:
        """The length of a turn."""
        return self.period / TURNS

    def add(self, cluster_queues: Iterable[str], now: float) -> None:
        """Record a change."""
        if not self._until:
            self._done = self._turn_at(now) - 1
        self._until |= dict.fromkeys(cluster_queues, now + self.period + 2 * self.turn_seconds)

    def take(self, now: float) -> tuple[list[str], list[int]]:
        """Return the ClusterQueues, and the turns of the Workloads that are to be tried now."""
        last, queues = self._turn_at(now), list(self._until)
        turns = [turn % TURNS for turn in range(max(self._done, last - TURNS) + 1, last + 1)]
        self._done = last
        self._until = {name: until for name, until in self._until.items() if until > now}
        return queues, turns

    def _turn_at(self, now: float) -> int:
        return floor(now / self.turn_seconds) + AHEAD
