"""The pending Workloads of one shape (`workload_info`). The scheduler gives them one answer."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from msgspec.structs import force_setattr

from job_controller.model import Key
from queue_manager.scheduling.flavor_assignment import Demand
from queue_manager.scheduling.queue_order import Rank
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import Info

QueueKey = Key | None  # a LocalQueue, where past usage orders them; else None
ShapeId = tuple[QueueKey, bytes]


class PendingReason(NamedTuple):
    """Reason and message of QuotaReserved=False."""

    reason: str
    message: str


class Refusal(NamedTuple):
    """Of a Workload, on behalf of all of its shape."""

    info: Info  # its status carries the reason
    why: PendingReason
    demands: tuple[Demand, ...] | None  # one must come within reach before the answer can change; None: unknown


class EqualWorkloads:
    """The Workloads of one shape, in a heap by rank."""

    __slots__ = (
        "demands",
        "heap",
        "is_parked",
        "key",
        "live",
        "pod_sets",
        "reason",
        "refusal",
        "refused_last",
        "shape",
        "turn",
    )

    def __init__(self, key: ShapeId, first: Info) -> None:
        self.key = key
        self.shape, self.pod_sets = first.shape, first.pod_sets
        self.heap: list[tuple[Rank, Key]] = []
        self.live: dict[Key, Info] = {}
        self.is_parked = False
        self.refusal: Refusal | None = None  # while it is parked, and as long as only the quota in use has changed
        self.reason = ""  # of the last refusal
        self.refused_last: Key | None = None  # its Workload
        self.turn = 0  # of the refused Workload
        self.demands: dict[FlavorResource, int] = {}  # by which it is found in `ParkedShapes`

    @property
    def parked_for(self) -> Refusal | None:
        """The refusal for which the shape is parked; None if it is not parked."""
        return self.refusal if self.is_parked else None

    def is_refused_for(self, key: Key) -> bool:
        """Whether this is the Workload of `refusal`."""
        return self.refusal is not None and self.refusal.info.key == key

    def push(self, info: Info) -> None:
        """Add a Workload."""
        self.take(info)
        heapq.heappush(self.heap, (info.rank, info.key))

    def take(self, info: Info) -> None:
        """Store the newest state of a Workload. It shares its pod sets with those of this shape, to save memory."""
        force_setattr(info, "shape", self.shape)
        force_setattr(info, "pod_sets", self.pod_sets)
        self.live[info.key] = info

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
        """Remove a Workload."""
        del self.live[key]
        if len(self.heap) > 64 and len(self.heap) > 2 * len(self.live):
            self.heap = [(info.rank, k) for k, info in self.live.items()]
            heapq.heapify(self.heap)
