"""The parked shapes of one ClusterQueue, and which of them to try again: after a release of quota, or in their turn."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

from queue_manager.queueing.equal_workloads import EqualWorkloads, Refusal, ShapeId
from queue_manager.queueing.refresh_turns import turn_of
from queue_manager.scheduling.quota_tree import FlavorResource

Reach = Callable[[FlavorResource, int], float]  # by priority: the most that a Workload could use, now or by preemption


class ParkedShapes:
    """The parked shapes of one ClusterQueue, by what they demand and by the turn that refreshes their message."""

    def __init__(self, shapes: Mapping[ShapeId, EqualWorkloads]) -> None:
        """`shapes`: all of the ClusterQueue, parked or not."""
        self._shapes = shapes
        self._turns: dict[int, dict[ShapeId, EqualWorkloads]] = {}
        # Heaps of shapes by what they demand, and by priority. Entries may be dead: they stay when a shape is released.
        self._demands: dict[tuple[FlavorResource, int], list[tuple[int, ShapeId]]] = {}
        self._without_demand: dict[ShapeId, None] = {}  # those of which that is unknown; some may not be parked

    def add(self, shape: EqualWorkloads, refusal: Refusal) -> None:
        """Park a shape, or replace its refusal."""
        self.forget(shape)
        shape.is_parked, shape.refusal = True, refusal
        shape.reason, shape.refused_last = refusal.why.reason, refusal.info.key
        shape.turn = turn_of(refusal.info.uid)
        self._turns.setdefault(shape.turn, {})[shape.key] = shape
        if refusal.demands is None:
            self._without_demand[shape.key] = None
        for fr, amount in refusal.demands or ():
            if shape.demands.get(fr) != amount:
                shape.demands[fr] = amount
                self._push((fr, refusal.info.priority), amount, shape.key)

    def forget(self, shape: EqualWorkloads) -> None:
        """Forget the refusal of a shape: it is parked no longer."""
        self._turns.get(shape.turn, {}).pop(shape.key, None)
        shape.is_parked, shape.refusal = False, None

    def of_turn(self, turn: int) -> list[EqualWorkloads]:
        """The refused shapes whose messages are brought up to date in this turn of each period."""
        return list(self._turns.get(turn, {}).values())

    def within(self, reach: Reach) -> list[EqualWorkloads]:
        """The shapes of which one demand is within reach or unknown. That demand is forgotten: they are to be released.

        Its cost depends on their number, not on that of all parked ones.
        """
        found, self._without_demand = list(self._without_demand), {}
        for (fr, priority), heap in self._demands.items():
            most = reach(fr, priority) if heap else 0
            while heap and heap[0][0] <= most:
                amount, key = heapq.heappop(heap)
                demands = self._demands_of(key)
                if demands.get(fr) == amount:
                    del demands[fr]
                    found.append(key)
        shapes = (self._shapes[key] for key in dict.fromkeys(found) if key in self._shapes)
        return [shape for shape in shapes if shape.is_parked]

    def _push(self, key: tuple[FlavorResource, int], amount: int, shape: ShapeId) -> None:
        heap = self._demands.setdefault(key, [])
        if len(heap) > 64 and len(heap) > 2 * len(self._shapes):
            heap[:] = {entry for entry in heap if self._demands_of(entry[1]).get(key[0]) == entry[0]}
            heapq.heapify(heap)
        heapq.heappush(heap, (amount, shape))

    def _demands_of(self, key: ShapeId) -> dict[FlavorResource, int]:
        shape = self._shapes.get(key)
        return shape.demands if shape is not None else {}
