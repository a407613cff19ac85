"""The preempting Workloads of one ClusterQueue: they wait until their victims have stopped.

Each is tried again after the next change: it is *due* then, and *tried* once that is done. Within a *round* they are
tried in the order of their rank, and none twice: each try can be such a change, and so those behind would never be
tried, although what is kept for them may be what keeps the first ones from an end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from job_controller.model import Key
from queue_manager.scheduling.queue_order import Rank
from queue_manager.scheduling.workload_info import Info


class Preemptors:
    """The preempting Workloads of one ClusterQueue, by the round in which each is tried and by rank."""

    def __init__(self) -> None:
        self._members: dict[Key, Info] = {}
        self._due: dict[Key, int] = {}  # the round of each
        self._in_order: list[tuple[int, Rank, Key]] = []  # heap of those due, by round and rank; entries may be dead
        self._round = 0  # of the last one to be tried
        self._tried: list[Key] = []  # since the last change; some may be gone, or due
        self._without_victims: dict[Key, None] = {}  # those that wait for the victims of others

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: Key) -> bool:
        return key in self._members

    def __iter__(self) -> Iterator[Info]:
        return iter(self._members.values())

    def add_due(self, info: Info) -> None:
        """Add a Workload, which is tried in this round."""
        self._add_due(info, self._round)

    def _add_due(self, info: Info, in_round: int) -> None:
        self._members[info.key] = info
        self._due[info.key] = in_round
        if len(self._in_order) > 64 and len(self._in_order) > 2 * len(self._members):
            self._in_order = [(of, self._members[key].rank, key) for key, of in self._due.items()]
            heapq.heapify(self._in_order)
        else:
            heapq.heappush(self._in_order, (in_round, info.rank, info.key))

    def add_tried(self, info: Info, *, has_victims: bool) -> None:
        """Set a Workload aside until the next change. `has_victims`: of its own."""
        self.discard(info.key)
        self._members[info.key] = info
        if not has_victims:
            self._without_victims[info.key] = None
        self._tried.append(info.key)

    def take(self, info: Info) -> None:
        """Store the newest state of a Workload whose rank has not changed."""
        self._members[info.key] = info

    def discard(self, key: Key) -> bool:
        """Remove a Workload. True if it was there."""
        self._due.pop(key, None)
        self._without_victims.pop(key, None)
        return self._members.pop(key, None) is not None

    def has_victims(self, key: Key) -> bool:
        """Whether a Workload waits for victims of its own."""
        return key not in self._without_victims

    def first_due(self) -> Info | None:
        """The first Workload to try again, or None; drops dead entries on the way."""
        while self._in_order:
            of, rank, key = self._in_order[0]
            if self._due.get(key) == of and self._members[key].rank == rank:
                self._round = of
                return self._members[key]
            heapq.heappop(self._in_order)
        return None

    def retry(self) -> bool:
        """Have those tried again, in the next round, that were tried since the last change. True if there was one."""
        tried, self._tried = self._tried, []
        waiting = [key for key in dict.fromkeys(tried) if key in self._members and key not in self._due]
        for key in waiting:
            self._add_due(self._members[key], self._round + 1)
        return bool(waiting)
