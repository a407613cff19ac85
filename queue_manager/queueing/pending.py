"""The Workloads of one ClusterQueue that wait for quota.

Theory. A Workload that cannot be admitted now will not be admitted later unless something changes, and
neither will any other that asks for exactly the same. So the queue keeps one small heap per *shape* (what is
asked for, priority, namespace) and a heap of the shapes by their first member. A refusal parks a whole shape
in O(1), a change of quota wakes the parked shapes in O(shapes); a hundred thousand equal Workloads cost as
much as one. Where each Workload is:

    in line   in the heap of its shape, which is not parked          counts as active
    parked    in the heap of its shape, which is parked              counts as inadmissible
    resting   alone: in backoff, or its LocalQueue is on hold        counts as inadmissible
    refused   alone: wrong namespace, invalid                        counts as inadmissible

StrictFIFO never parks: its first Workload blocks all others until something changes or another one becomes
first; only those resting or refused alone are passed by. Removal is lazy: a heap entry is dead once its
Workload is gone or has another rank.

Order is by Rank alone, so it is total, and the same after a restart.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api.policies import STRICT_FIFO
from queue_manager.scheduling.cycle import Retry
from queue_manager.scheduling.workload_info import Info, Rank


class PendingReason(NamedTuple):
    """What the scheduler said when it refused a Workload of some shape."""

    reason: str
    message: str


class _Shape:
    """The Workloads of one shape, first in line on top."""

    __slots__ = ("heap", "key", "live", "parked")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.heap: list[tuple[Rank, Key]] = []
        self.live: dict[Key, Info] = {}
        self.parked: PendingReason | None = None

    def push(self, info: Info) -> None:
        self.live[info.key] = info
        heapq.heappush(self.heap, (info.rank, info.key))

    def first(self) -> Info | None:
        while self.heap:
            rank, key = self.heap[0]
            info = self.live.get(key)
            if info is not None and info.rank == rank:
                return info
            heapq.heappop(self.heap)
        return None

    def remove(self, key: Key) -> None:
        del self.live[key]
        if len(self.heap) > 64 and len(self.heap) > 2 * len(self.live):
            self.heap = [(info.rank, k) for k, info in self.live.items()]
            heapq.heapify(self.heap)


class PendingWorkloads:
    """Pending Workloads of one ClusterQueue. Nothing here scans all of them, except positions for display."""

    def __init__(self, strategy: str, *, pass_by: bool = False) -> None:
        """`pass_by`: a StrictFIFO head that can never fit does not block those behind it."""
        self.strategy = strategy
        self.pass_by = pass_by
        self._shapes: dict[bytes, _Shape] = {}
        self._shape_heads: list[tuple[Rank, bytes]] = []  # shapes by their first member, lazily kept
        self._where: dict[Key, Info] = {}
        self._delayed: dict[Key, bool] = {}  # -> True: on hold until put again
        self._backoff_ends: list[tuple[datetime, Key]] = []  # heap; an entry of a Workload that changed since is dead
        self._refused: dict[Key, None] = {}
        self._parked = 0
        self._blocked: Key | None = None  # StrictFIFO: this head was refused and nothing has changed since
        self.never: PendingReason | None = None  # StrictFIFO: why the head can never fit

    # --- what is in it ---

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, key: Key) -> bool:
        return key in self._where

    def get(self, key: Key) -> Info | None:
        return self._where.get(key)

    @property
    def inadmissible(self) -> int:
        """Workloads that wait for some change, not for their turn."""
        return len(self._delayed) + len(self._refused) + self._parked

    @property
    def active(self) -> int:
        return len(self._where) - self.inadmissible

    def shapes(self) -> tuple[int, int]:
        """How many different requests stand in line, and how many are parked."""
        parked = sum(shape.parked is not None for shape in self._shapes.values())
        return len(self._shapes) - parked, parked

    def bypassed(self, key: Key) -> PendingReason | None:
        """Why the shape of this Workload is parked, if it is."""
        info = self._where.get(key)
        return self._shapes[info.shape].parked if info is not None and self._in_shape(key) else None

    def is_inadmissible(self, key: Key) -> bool:
        """It waits for some change, not for its turn."""
        return key in self._where and (
            not self._in_shape(key) or self._shapes[self._where[key].shape].parked is not None
        )

    def _in_shape(self, key: Key) -> bool:
        return key not in self._delayed and key not in self._refused

    def in_order(self) -> Iterator[Info]:
        """All of them as they stand in line, those resting or refused included."""
        return iter(sorted(self._where.values(), key=lambda info: info.rank))

    # --- coming and going ---

    def put(self, info: Info, now: datetime, *, hold: bool = False) -> None:
        """Add a Workload or take its newest state. One in backoff, or on hold, rests."""
        known = self._where.get(info.key)
        delayed = hold or info.in_backoff(now)
        if known is not None and delayed == (info.key in self._delayed) and _same_chances(known, info):
            self._replace(known, info)
        else:
            self.remove(info.key)
            self._where[info.key] = info
            if not delayed:
                self._enter(info)
            elif info.requeue_at is not None:
                heapq.heappush(self._backoff_ends, (info.requeue_at, info.key))
        if delayed:
            self._delayed[info.key] = hold

    def _replace(self, known: Info, info: Info) -> None:
        """Newer data about a Workload that keeps its place, and its refusal."""
        self._where[info.key] = info
        if self._in_shape(info.key):
            self._shapes[known.shape].live[info.key] = info

    def remove(self, key: Key) -> Info | None:
        info = self._where.pop(key, None)
        if info is None:
            return None
        if self._blocked == key:
            self._unblock()
        if self._in_shape(key):
            shape = self._shapes[info.shape]
            shape.remove(key)
            self._parked -= shape.parked is not None
            if not shape.live:
                del self._shapes[info.shape]
        self._delayed.pop(key, None)
        self._refused.pop(key, None)
        return info

    def _enter(self, info: Info) -> None:
        shape = self._shapes.get(info.shape)
        if shape is None:
            shape = self._shapes[info.shape] = _Shape(info.shape)
        shape.push(info)
        if shape.parked is not None:
            self._parked += 1
        elif shape.first() is info:  # others of its shape are behind it, and so is their entry
            heapq.heappush(self._shape_heads, (info.rank, info.shape))

    def end_backoffs(self, now: datetime) -> bool:
        """Enqueue the Workloads whose backoff is over at this time. True if there are any."""
        ended = False
        while self._backoff_ends and self._backoff_ends[0][0] <= now:
            _, key = heapq.heappop(self._backoff_ends)
            if self._delayed.get(key) is False and not self._where[key].in_backoff(now):
                del self._delayed[key]
                self._enter(self._where[key])
                ended = True
        return ended

    # --- the scheduler's view ---

    def head(self) -> Info | None:
        """The Workload to try next, or None while there is none worth trying. It stays pending."""
        first = self._first()
        return None if first is None or first.key == self._blocked else first

    def _first(self) -> Info | None:
        while self._shape_heads:
            rank, key = self._shape_heads[0]
            shape = self._shapes.get(key)
            first = shape.first() if shape and shape.parked is None else None
            if first is not None and first.rank == rank:
                return first
            heapq.heappop(self._shape_heads)
            if first is not None:
                heapq.heappush(self._shape_heads, (first.rank, key))
        return None

    def refused(self, key: Key, retry: Retry, why: PendingReason, *, never: bool = False) -> None:
        """What the scheduler decided about a head it did not admit."""
        info = self._where.get(key)
        if info is None or not self._in_shape(key) or retry is Retry.NEXT_CYCLE:
            return
        passed = never and self.pass_by and self.strategy == STRICT_FIFO
        if passed or retry is Retry.NAMESPACE or (retry is Retry.EDIT and self.strategy != STRICT_FIFO):
            self.remove(key)
            self._where[key] = info
            self._refused[key] = None
        elif self.strategy == STRICT_FIFO:
            self._blocked, self.never = key, why if never else None
        else:
            shape = self._shapes[info.shape]
            if shape.parked is None:
                self._parked += len(shape.live)
            shape.parked = why

    def _unblock(self) -> None:
        self._blocked = self.never = None

    def requeue_inadmissible(self, now: datetime) -> bool:
        """Something changed: every Workload that is not in backoff gets another chance. True if any does."""
        woken = self._blocked is not None
        self._unblock()
        for shape in self._shapes.values():
            if shape.parked is not None:
                shape.parked = None
                first = shape.first()
                if first is not None:
                    heapq.heappush(self._shape_heads, (first.rank, shape.key))
                woken = True
        self._parked = 0
        refused, self._refused = self._refused, {}
        for key in refused:
            self._enter(self._where[key])
        return self.end_backoffs(now) or bool(refused) or woken

    def set_strategy(self, strategy: str, now: datetime, *, pass_by: bool = False) -> None:
        if (strategy, pass_by) != (self.strategy, self.pass_by):
            self.strategy, self.pass_by = strategy, pass_by
            self.requeue_inadmissible(now)


def _same_chances(old: Info, new: Info) -> bool:
    """Nothing changed that could make the scheduler say something else."""
    return (old.shape, old.rank, old.error, old.held, old.requeue_at, old.queue, old.uid) == (
        new.shape,
        new.rank,
        new.error,
        new.held,
        new.requeue_at,
        new.queue,
        new.uid,
    )
