"""The pending Workloads of one ClusterQueue.

A Workload that cannot be admitted now cannot be admitted later unless something changes, and neither can any other
with the same requests. So there is one heap per *shape* (requests, priority, namespace), and a heap of the shapes by
their first member. A refusal parks a whole shape in O(1), a change of quota releases the parked shapes in O(shapes),
and 100 000 equal Workloads cost as much as one. Each Workload is in one of these places:

    active    in the heap of its shape, which is not parked          counts as active
    parked    in the heap of its shape, which is parked              counts as inadmissible
    delayed   alone: in backoff, or its LocalQueue is on hold        counts as inadmissible
    refused   alone: namespace not selected, or invalid              counts as inadmissible

StrictFIFO never parks: its first Workload blocks all others until something changes or another one becomes first. Only
delayed and refused Workloads are passed over. Removal is lazy: a heap entry is dead once its Workload is gone or has
another rank.

The order is that of Rank alone, so it is total, and the same after a restart. See BEHAVIOUR.md#q7-queue-order to
BEHAVIOUR.md#q10-equivalent-workloads.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from math import inf
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api.policies import STRICT_FIFO
from queue_manager.scheduling.cycle import Retry
from queue_manager.scheduling.workload_info import Info, Rank


class PendingReason(NamedTuple):
    """Reason and message of QuotaReserved=False."""

    reason: str
    message: str


class _Shape:
    """The Workloads of one shape, in a heap by rank."""

    __slots__ = ("heap", "key", "live", "parked", "refused")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.heap: list[tuple[Rank, Key]] = []
        self.live: dict[Key, Info] = {}
        self.parked: PendingReason | None = None
        self.refused: Key | None = None  # the Workload for which the shape is parked: its status carries the reason

    def push(self, info: Info) -> None:
        self.live[info.key] = info
        heapq.heappush(self.heap, (info.rank, info.key))

    def first(self) -> Info | None:
        """The Workload with the smallest rank, or None; drops dead entries on the way."""
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
    """Pending Workloads of one ClusterQueue. No operation scans all of them, except `in_order` for display."""

    def __init__(self, strategy: str, *, pass_by: bool = False) -> None:
        """`strategy`: StrictFIFO or BestEffortFIFO. `pass_by`: a StrictFIFO head that can never fit does not block."""
        self.strategy = strategy
        self.pass_by = pass_by
        self._shapes: dict[bytes, _Shape] = {}
        self._shape_heads: list[
            tuple[tuple[int, float, Rank], bytes]
        ] = []  # heap of the shapes by their first member; entries may be dead
        self._where: dict[Key, Info] = {}
        self._delayed: dict[Key, bool] = {}  # True: on hold until put again; False: in backoff
        self._backoff_ends: list[tuple[datetime, Key]] = []  # heap; entries may be dead
        self._refused: dict[Key, None] = {}
        self._parked = 0
        self._blocked: Key | None = None  # StrictFIFO: this head was refused, and nothing has changed
        self.never: PendingReason | None = None  # StrictFIFO: the refusal of a head that can never fit
        self.waiting_head: Info | None = None  # BestEffortFIFO: the first that found no quota since the last change
        self._shortest_first = False  # behind the waiting head, the shortest declared run is first

    # --- queries ---

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, key: Key) -> bool:
        return key in self._where

    def get(self, key: Key) -> Info | None:
        """The pending Workload, or None."""
        return self._where.get(key)

    @property
    def inadmissible(self) -> int:
        """How many Workloads wait for a change (parked, delayed or refused)."""
        return len(self._delayed) + len(self._refused) + self._parked

    @property
    def active(self) -> int:
        """How many Workloads can be tried without a change."""
        return len(self._where) - self.inadmissible

    def shapes(self) -> tuple[int, int]:
        """(number of active shapes, number of parked shapes)."""
        parked = sum(shape.parked is not None for shape in self._shapes.values())
        return len(self._shapes) - parked, parked

    def bypassed(self, key: Key) -> PendingReason | None:
        """The refusal for which the shape of this Workload is parked; None if it is not parked."""
        info = self._where.get(key)
        return self._shapes[info.shape].parked if info is not None and self._in_shape(key) else None

    def is_inadmissible(self, key: Key) -> bool:
        """Whether this Workload waits for a change (parked, delayed or refused)."""
        return key in self._where and (
            not self._in_shape(key) or self._shapes[self._where[key].shape].parked is not None
        )

    def _in_shape(self, key: Key) -> bool:
        return key not in self._delayed and key not in self._refused

    def in_order(self) -> Iterator[Info]:
        """All Workloads by rank, delayed and refused ones included. O(n log n)."""
        return iter(sorted(self._where.values(), key=lambda info: info.rank))

    # --- changes ---

    def put(self, info: Info, now: datetime, *, hold: bool = False) -> None:
        """Add a Workload or take its newest state. In backoff, or with `hold` (a stopped LocalQueue), it is delayed."""
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
        """Take newer data about a Workload that keeps its place, and its refusal."""
        self._where[info.key] = info
        if self._in_shape(info.key):
            self._shapes[known.shape].live[info.key] = info

    def remove(self, key: Key) -> Info | None:
        """Remove a Workload and return it, or None if it was not pending."""
        info = self._where.pop(key, None)
        if info is None:
            return None
        if self._blocked == key:
            self._unblock()
        if self.waiting_head is not None and self.waiting_head.key == key:
            self._forget_waiting_head()
        if self._in_shape(key):
            shape = self._shapes[info.shape]
            shape.remove(key)
            self._parked -= shape.parked is not None
            if not shape.live:
                del self._shapes[info.shape]
            elif shape.refused == key:  # no other Workload's status says why the shape is parked
                self._release(shape)
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
        elif shape.first() is info:  # else the entry of the shape's first member stands
            heapq.heappush(self._shape_heads, (self._order(info), info.shape))

    def end_backoffs(self, now: datetime) -> bool:
        """Activate the Workloads whose backoff has ended at `now`. True if there were any."""
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
        """The Workload to try next; it stays pending. None if nothing can be admitted without a change."""
        first = self._first()
        return None if first is None or first.key == self._blocked else first

    def _first(self) -> Info | None:
        while self._shape_heads:
            order, key = self._shape_heads[0]
            shape = self._shapes.get(key)
            first = shape.first() if shape and shape.parked is None else None
            if first is not None and self._order(first) == order:
                return first
            heapq.heappop(self._shape_heads)
            if first is not None:
                heapq.heappush(self._shape_heads, (self._order(first), key))
        return None

    def _order(self, info: Info) -> tuple[int, float, Rank]:
        """By rank; behind an aged head, within one priority, the shortest declared run first."""
        longest = inf if info.longest_run is None else info.longest_run
        return info.rank.minus_priority, longest if self._shortest_first else 0, info.rank

    def _set_shortest_first(self, shortest_first: bool) -> None:
        if shortest_first != self._shortest_first:
            self._shortest_first = shortest_first
            firsts = (shape.first() for shape in self._shapes.values() if shape.parked is None)
            self._shape_heads = [(self._order(first), first.shape) for first in firsts if first is not None]
            heapq.heapify(self._shape_heads)

    def _forget_waiting_head(self) -> None:
        """The head is admitted or gone: those that it kept waiting are tried again."""
        self.waiting_head = None
        self._set_shortest_first(False)
        for shape in self._shapes.values():
            if shape.parked is not None:
                self._release(shape)

    def refused(
        self,
        key: Key,
        retry: Retry,
        why: PendingReason,
        *,
        never: bool = False,
        promised: bool = False,
        shortest_first: bool = False,
    ) -> None:
        """Record that the scheduler did not admit this head: park its shape, block the queue, or set it aside.

        `never`: it cannot fit unless quota or flavors change. `promised`: with backfilling, those behind it may not
        delay it. `shortest_first`: their order.
        """
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
            shape.parked, shape.refused = why, key
            if promised and not never and (self.waiting_head is None or info.rank < self.waiting_head.rank):
                self.waiting_head = info
                self._set_shortest_first(shortest_first)

    def _release(self, shape: _Shape) -> None:
        """Have the first Workload of a parked shape tried again."""
        self._parked -= len(shape.live)
        shape.parked = shape.refused = None
        first = shape.first()
        if first is not None:
            heapq.heappush(self._shape_heads, (self._order(first), shape.key))

    def _unblock(self) -> None:
        self._blocked = self.never = None

    def requeue_inadmissible(self, now: datetime) -> bool:
        """Something changed: activate every Workload that is not delayed. True if there was any.

        Kueue: QueueInadmissibleWorkloads (pkg/cache/queue).
        """
        woken = self._blocked is not None
        self._unblock()
        self.waiting_head = None
        self._set_shortest_first(False)
        for shape in self._shapes.values():
            if shape.parked is not None:
                self._release(shape)
                woken = True
        refused, self._refused = self._refused, {}
        for key in refused:
            self._enter(self._where[key])
        return self.end_backoffs(now) or bool(refused) or woken

    def set_strategy(self, strategy: str, now: datetime, *, pass_by: bool = False) -> None:
        """Take a changed queueing strategy; a change releases what was refused under the old one."""
        if (strategy, pass_by) != (self.strategy, self.pass_by):
            self.strategy, self.pass_by = strategy, pass_by
            self.requeue_inadmissible(now)


def _same_chances(old: Info, new: Info) -> bool:
    """Whether nothing has changed on which the scheduler's answer depends."""
    return (old.shape, old.rank, old.error, old.held, old.requeue_at, old.queue, old.uid) == (
        new.shape,
        new.rank,
        new.error,
        new.held,
        new.requeue_at,
        new.queue,
        new.uid,
    )
