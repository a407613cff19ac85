"""The pending Workloads of one ClusterQueue.

A Workload that cannot be admitted now cannot be admitted later unless something changes, and neither can any other
with the same requests. So there is one heap per *shape* (requests, priority, namespace), and a heap of the shapes by
their first member. A refusal parks a whole shape in O(1), and 100 000 equal Workloads cost as much as one. Released
quota releases those parked shapes whose demand is within its reach (`scheduling/reachable_quota.py`): their refusal
stands if that is so no longer when they are the first (`park_beyond`). Any other change releases all of them. Each
Workload is in one of these places:

    active       in the heap of its shape, which is not parked          counts as active
    parked       in the heap of its shape, which is parked              counts as inadmissible
    delayed      alone: in backoff, or its LocalQueue is on hold        counts as inadmissible
    refused      alone: namespace not selected, or invalid              counts as inadmissible
    preempting   alone: its victims are being stopped                   counts as active

A preempting Workload is tried again after the next change, and before all others of its priority if it has victims of
its own: quota is kept for it. Equal Workloads have no claim to that quota, so its shape is not parked.

StrictFIFO never parks: its first Workload blocks all others until something changes or another one becomes first. Only
delayed and refused Workloads are passed over. Removal is lazy: a heap entry is dead once its Workload is gone or has
another rank.

The order is that of Rank alone, so it is total, and the same after a restart. Under admission fair sharing the past
usage of the LocalQueue comes before the rank. Usage changes with every admission; so each LocalQueue has a heap of
shapes of its own, in which the order is that of Rank, and the heaps are compared when a head is requested. See
BEHAVIOUR.md#q7-queue-order to BEHAVIOUR.md#q10-equivalent-workloads.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from datetime import datetime
from math import inf
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api.policy_values import STRICT_FIFO
from queue_manager.queueing.equal_workloads import EqualWorkloads, PendingReason, QueueKey, Refusal, ShapeId
from queue_manager.queueing.parked_shapes import ParkedShapes, Reach
from queue_manager.queueing.preemptors import Preemptors
from queue_manager.queueing.refresh_turns import turn_of
from queue_manager.scheduling.backfill import HeadOrder, WaitingHead
from queue_manager.scheduling.cycle import Retry
from queue_manager.scheduling.flavor_assignment import Demand
from queue_manager.scheduling.nomination import Nomination
from queue_manager.scheduling.queue_order import Rank
from queue_manager.scheduling.usage_decay import WeightedUsage
from queue_manager.scheduling.workload_info import Info

Order = tuple[int, float, Rank]  # of shapes by their first member, see PendingWorkloads._order


class RefusedHead(NamedTuple):
    """The first Workload of a StrictFIFO queue, which was refused. `preempts`: it waits for its victims. `never`: it
    can never fit.
    """

    key: Key
    why: PendingReason
    preempts: bool
    never: bool


class PendingWorkloads:
    """Pending Workloads of one ClusterQueue. Trying, parking and releasing cost O(log n) per shape; only changed
    settings and what is displayed scan all.
    """

    def __init__(self, strategy: str, *, pass_by: bool = False) -> None:
        """`strategy`: StrictFIFO or BestEffortFIFO. `pass_by`: a StrictFIFO head that can never fit does not block."""
        self.strategy = strategy
        self.pass_by = pass_by
        self._shapes: dict[ShapeId, EqualWorkloads] = {}
        self._usage: Callable[[Key], WeightedUsage] | None = None
        # Heaps of the shapes by their first member; entries may be dead.
        self._shape_heads: dict[QueueKey, list[tuple[Order, ShapeId]]] = {}
        self._where: dict[Key, Info] = {}
        self._delayed: dict[Key, bool] = {}  # True: on hold until put again; False: in backoff
        self._backoff_ends: list[tuple[datetime, Key]] = []  # heap; entries may be dead
        self._refused: dict[Key, PendingReason] = {}
        self._preempting = Preemptors()
        self.preempts_newer = False  # withinClusterQueue: an earlier one of equal Workloads may have more victims
        self._parked = ParkedShapes(self._shapes)
        self._parked_workloads = 0  # how many are in parked shapes
        self._refused_head: RefusedHead | None = None  # StrictFIFO: the last one, while it is pending
        self._is_blocked = False  # by that one: nothing has changed since it was refused
        self._leader: Key | None = None  # StrictFIFO, past usage: first until a higher priority comes, see `_first`
        # BestEffortFIFO, backfilling: the first that found no quota, until it is admitted, refused otherwise or gone.
        self.waiting_head: Info | None = None
        # StrictFIFO: the head whose quota is kept from other queues, until it is admitted, refused otherwise or gone.
        self._withheld: tuple[Key, Nomination] | None = None  # with its quota
        self._kept_back: dict[Key, None] = {}  # those refused since quota is kept for a head; some may be tried again
        self.head_has_changed = False  # the head that may have kept others back is gone, or another one
        self._reclassified: list[Key] = []  # see `take_reclassified`
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
        return len(self._delayed) + len(self._refused) + self._parked_workloads

    @property
    def has_refused(self) -> bool:
        """Whether a Workload was refused and waits for a change."""
        return self.blocked_by is not None or bool(self._refused) or self._parked_workloads > 0

    @property
    def active(self) -> int:
        """How many Workloads can be tried without a change."""
        return len(self._where) - self.inadmissible

    def shapes(self) -> tuple[int, int]:
        """(number of shapes to try, number of parked shapes, of which one Workload was refused and none is tried)."""
        parked = sum(shape.is_parked for shape in self._shapes.values())
        return len(self._shapes) - parked, parked

    def bypassed(self, key: Key) -> PendingReason | None:
        """The refusal of another Workload for which the shape of this one is parked; None if it is not parked."""
        info = self._where.get(key)
        shape = self._shape_of(info) if info is not None and self._in_shape(key) else None
        refusal = shape.parked_for if shape is not None else None
        return refusal.why if refusal is not None and refusal.info.key != key else None

    def is_behind(self, key: Key) -> bool:
        """Whether another Workload, which was refused, blocks this one in a StrictFIFO queue."""
        return self.blocked_by not in (None, key)

    @property
    def blocked_by(self) -> Key | None:
        """The first Workload of a StrictFIFO queue, if it was refused and nothing has changed since."""
        return self._refused_head.key if self._is_blocked and self._refused_head is not None else None

    @property
    def never(self) -> PendingReason | None:
        """The refusal of a first Workload that can never fit, also while it is tried again."""
        head = self._refused_head
        return head.why if head is not None and head.never else None

    @property
    def _is_blocked_by_preemptor(self) -> bool:
        return self._is_blocked and self._refused_head is not None and self._refused_head.preempts

    def refusal(self, key: Key) -> PendingReason | None:
        """Why this Workload was refused, if nothing has changed since then. None for one that waits for victims."""
        head = self._refused_head
        if head is not None and key == self.blocked_by:
            return None if head.preempts else head.why
        info = self._where.get(key)
        shape = self._shape_of(info) if info is not None and self._in_shape(key) else None
        refusal = shape.parked_for if shape is not None else None
        return refusal.why if refusal is not None and refusal.info.key == key else self._refused.get(key)

    def take_reclassified(self) -> list[Key]:
        """Since this was asked before: the Workloads whose `bypassed` has another reason, and those that were refused
        themselves and for which another one is refused now, an equal one or the head of a StrictFIFO queue.
        """
        taken, self._reclassified = self._reclassified, []
        return taken

    def is_inadmissible(self, key: Key) -> bool:
        """Whether this Workload waits for a change (parked, delayed or refused)."""
        if key not in self._where or key in self._preempting:
            return False
        return not self._in_shape(key) or self._shape_of(self._where[key]).is_parked

    def _in_shape(self, key: Key) -> bool:
        return key not in self._delayed and key not in self._refused and key not in self._preempting

    def _id(self, info: Info) -> ShapeId:
        return (info.queue if self._usage is not None else None), info.shape

    def _shape_of(self, info: Info) -> EqualWorkloads:
        return self._shapes[self._id(info)]

    def in_order(self) -> Iterator[Info]:
        """All Workloads in order, delayed and refused ones included. O(n log n)."""
        places = {queue: self._place(queue) for queue in {info.queue for info in self._where.values()}}
        return iter(sorted(self._where.values(), key=lambda info: (places[info.queue], info.rank)))

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
            if not delayed and info.preempting and self.strategy != STRICT_FIFO:
                self._preempting.add_due(info)
            elif not delayed:
                self._enter(info)
                if info.preempting and (self._leader is None or info.rank < self._where[self._leader].rank):
                    self._leader = info.key
            elif info.requeue_at is not None:
                heapq.heappush(self._backoff_ends, (info.requeue_at, info.key))
        if delayed:
            self._delayed[info.key] = hold

    def _replace(self, known: Info, info: Info) -> None:
        """Store the newest state of a pending Workload; its place in the queue and its last refusal stay."""
        self._where[info.key] = info
        if info.key in self._preempting:
            self._preempting.take(info)
        elif self._in_shape(info.key):
            self._shape_of(known).take(info)

    def remove(self, key: Key) -> Info | None:
        """Remove a Workload and return it, or None if it was not pending."""
        info = self._where.pop(key, None)
        if info is None:
            return None
        self._kept_back.pop(key, None)
        self._leader = None if self._leader == key else self._leader
        if self._refused_head is not None and self._refused_head.key == key:
            self._refused_head, self._is_blocked = None, False
        if self._withheld is not None and self._withheld[0] == key:
            self._withhold(None)
        if self.waiting_head is not None and self.waiting_head.key == key:
            self._leave_head()
            self._release_all()
        if self._in_shape(key):
            shape = self._shape_of(info)
            shape.remove(key)
            self._parked_workloads -= shape.is_parked
            if not shape.live:
                self._parked.forget(shape)
                del self._shapes[shape.key]
            elif shape.is_refused_for(key):  # no other Workload's status carries the reason
                self._release(shape)
        self._delayed.pop(key, None)
        self._refused.pop(key, None)
        self._preempting.discard(key)
        return info

    def _enter(self, info: Info) -> None:
        key = self._id(info)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = EqualWorkloads(key, info)
        shape.push(info)
        is_first, was_parked = shape.first() is info, shape.is_parked
        self._parked_workloads += was_parked
        if is_first and self.preempts_newer:
            self._release(shape)
        if is_first and not was_parked:  # else the entry of the shape's first member stands
            self._push_shape(key, info)

    def _push_shape(self, key: ShapeId, first: Info) -> None:
        heapq.heappush(self._shape_heads.setdefault(key[0], []), (self._order(first), key))

    def _order(self, info: Info) -> Order:
        """Sort key: the rank; behind an aged head, within one priority, the shortest declared run first."""
        longest = inf if info.longest_run is None else info.longest_run
        return info.rank.minus_priority, longest if self._shortest_first else 0, info.rank

    def end_backoffs(self, now: datetime) -> bool:
        """Activate the Workloads whose backoff has ended at `now`. True if at least one was activated."""
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
        preemptor = self._preempting.first_due()
        if preemptor is not None and (first is None or self._is_tried_before(preemptor, first)):
            return preemptor
        return None if first is None or first.key == self.blocked_by else first

    def _is_tried_before(self, preemptor: Info, other: Info) -> bool:
        """Whether a preempting Workload is tried before one that is not. Only what its own victims free is its own."""
        if self._preempting.has_victims(preemptor.key):
            return other.priority <= preemptor.priority
        return self._rank_in_queue(preemptor) < self._rank_in_queue(other)

    def preempting(self) -> list[Info]:
        """The Workloads that may be tried and whose status says that they wait for their victims. O(n)."""
        if self.strategy == STRICT_FIFO:
            return [head for head in (self.head(),) if head is not None and head.preempting]
        return [info for key, info in self._where.items() if info.preempting and key not in self._delayed]

    @property
    def withholding_head(self) -> tuple[Info, Nomination] | None:
        """The first Workload of a StrictFIFO queue that waits for quota, and what is kept from other queues for it."""
        if self._withheld is None:
            return None
        key, nomination = self._withheld
        return self._where[key], nomination

    def first_without_quota(self) -> WaitingHead | None:
        """With backfilling: the waiting head, and whether it is ordered before the Workload to try next."""
        if self.waiting_head is None:
            return None
        tried = self.head()
        return WaitingHead(self.waiting_head, leads=tried is None or self.is_behind_head(tried))

    def is_behind_head(self, info: Info) -> bool:
        """With backfilling: whether the waiting head is another Workload, and ordered before this one."""
        return self.waiting_head is not None and self._rank_in_queue(self.waiting_head) < self._rank_in_queue(info)

    def _is_first_without_quota(self, info: Info) -> bool:
        first = self.waiting_head
        return first is None or self._rank_in_queue(info) < self._rank_in_queue(first)

    def _rank_in_queue(self, info: Info) -> tuple[WeightedUsage | None, Rank]:
        return self._place(info.queue), info.rank

    def _first(self) -> Info | None:
        """The first active Workload. In a StrictFIFO queue a preemptor stays the first, whatever the past usage is now:
        a victim that came before it would be admitted again and again, and stopped again.
        """
        firsts = [first for queue in list(self._shape_heads) if (first := self._first_in(queue)) is not None]
        first = min(firsts, key=lambda info: (self._place(info.queue), self._order(info)), default=None)
        leader = self._where[self._leader] if self._leader is not None and self._usage is not None else None
        return leader if leader is not None and first is not None and first.priority <= leader.priority else first

    def _place(self, queue: Key) -> WeightedUsage | None:
        return self._usage(queue) if self._usage is not None else None

    def _first_in(self, queue: QueueKey) -> Info | None:
        """The first active Workload in one heap; drops dead entries on the way."""
        heap = self._shape_heads[queue]
        while heap:
            order, key = heap[0]
            shape = self._shapes.get(key)
            first = shape.first() if shape and not shape.is_parked else None
            if first is not None and self._order(first) == order:
                return first
            heapq.heappop(heap)
            if first is not None:
                heapq.heappush(heap, (self._order(first), key))
        del self._shape_heads[queue]
        return None

    def refused(
        self,
        key: Key,
        retry: Retry,
        why: PendingReason,
        *,
        never: bool = False,
        behind: HeadOrder | None = None,
        kept_back: bool = False,
        withheld: Nomination | None = None,
        demands: tuple[Demand, ...] | None = None,
        has_victims: bool = True,
    ) -> None:
        """Record that the scheduler did not admit this head: park its shape, block the queue, or set it aside.

        `never`: it cannot fit unless quota or flavors change. `behind`: with backfilling, the order of the Workloads
        that may not delay it. `kept_back`: free quota is kept for the head of this ClusterQueue or of another one.
        `withheld`: what is kept from others while it is the first of a StrictFIFO queue. `demands`: of these one must
        come within reach before the answer can change; None: unknown. `has_victims`: of a preempting one.
        """
        info = self._where.get(key)
        if info is None or key in self._delayed or key in self._refused or retry is Retry.NEXT_CYCLE:
            return
        if kept_back:
            self._kept_back[key] = None
        passed = never and self.pass_by and self.strategy == STRICT_FIFO
        if passed or retry is Retry.NAMESPACE or (retry is Retry.EDIT and self.strategy != STRICT_FIFO):
            self.remove(key)
            self._where[key] = info
            self._refused[key] = why
        elif self.strategy == STRICT_FIFO:
            self._withhold((key, withheld) if withheld is not None else None)
            former, preempts = self._refused_head, retry is Retry.PREEMPTION
            if former is not None and former.key != key:
                self._reclassified.append(former.key)
            self._refused_head, self._is_blocked = RefusedHead(key, why, preempts, never), True
            self._leader = key if preempts else None
        elif retry is Retry.PREEMPTION:
            self.remove(key)
            self._where[key] = info
            self._preempting.add_tried(info, has_victims=has_victims)
        else:
            if self._preempting.discard(key):
                self._enter(info)
            self._park(self._shape_of(info), Refusal(info, why, demands))
            self._take_head(info, None if never or kept_back else behind)

    def _park(self, shape: EqualWorkloads, refusal: Refusal) -> None:
        if not shape.is_parked:
            self._parked_workloads += len(shape.live)
        former = shape.refused_last
        if shape.reason not in ("", refusal.why.reason):
            self._reclassified += shape.live
        elif former is not None and former != refusal.info.key and former in shape.live:
            self._reclassified.append(former)  # its message is not brought up to date any more
        self._parked.add(shape, refusal)

    def usage_changed(self) -> None:
        """Record that the past usage of a LocalQueue is another one: one that was kept back may be before the head."""
        usage, first = self._usage, self.waiting_head
        if usage is None or first is None or self.head_has_changed:
            return
        queues = {self._where[key].queue for key in self._kept_back}
        self.head_has_changed = any(usage(queue) < usage(first.queue) for queue in queues)

    def release_kept_back(self) -> bool:
        """Have those tried again that were refused since quota is kept for a head. True if there was one."""
        kept_back, self._kept_back = self._kept_back, {}
        released = self.blocked_by in kept_back
        if released:
            self._is_blocked = False
        for key in kept_back:
            shape = self._shape_of(self._where[key]) if self._in_shape(key) else None
            if shape is not None and shape.is_refused_for(key):
                self._release(shape)
                released = True
        return released

    def _set_shortest_first(self, shortest_first: bool) -> None:
        if shortest_first == self._shortest_first:
            return
        self._shortest_first, self._shape_heads = shortest_first, {}
        for shape in self._shapes.values():
            first = shape.first() if not shape.is_parked else None
            if first is not None:
                self._push_shape(shape.key, first)

    def _take_head(self, refused: Info, behind: HeadOrder | None) -> None:
        """Let the refused Workload be the waiting head, if it is the first one; without `behind` it is not."""
        is_head = self.waiting_head is not None and self.waiting_head.key == refused.key
        if is_head or (behind is not None and self._is_first_without_quota(refused)):
            if not is_head or behind is None:
                self._leave_head()
            if behind is not None:
                self.waiting_head = refused
                self._set_shortest_first(behind is HeadOrder.SHORTEST)

    def _withhold(self, kept: tuple[Key, Nomination] | None) -> None:
        """Keep this quota for a head from now on; None: nothing."""
        before, now = (
            (each[0], each[1].assignment.usage) if each is not None else None for each in (self._withheld, kept)
        )
        self.head_has_changed = self.head_has_changed or before not in (None, now)
        self._withheld = kept

    def _leave_head(self) -> None:
        self.head_has_changed = self.head_has_changed or self.waiting_head is not None
        self.waiting_head = None

    def _release_all(self) -> bool:
        """Have every parked shape tried again. True if a shape was parked."""
        self._set_shortest_first(False)
        released = self._parked_workloads > 0
        for shape in self._shapes.values():
            if shape.refusal is not None:
                self._release(shape)
        return released

    def _release_within(self, reach: Reach) -> bool:
        """Have the parked shapes tried again whose demands are within reach. True if there was one."""
        within = self._parked.within(reach)
        for shape in within:
            self._release(shape, stands=True)
        return bool(within)

    def standing_refusal(self, head: Info) -> Refusal | None:
        """The refusal of the Workload to try next, or of an equal one, if only the quota in use has changed since."""
        return self._shape_of(head).refusal if self._in_shape(head.key) else None

    def park_beyond(self, reach: Reach) -> bool:
        """Let the refusals stand of those to try next whose demands are beyond reach by now. True if there is one."""
        parked = False
        while (head := self.head()) is not None and (refusal := self.standing_refusal(head)) is not None:
            demands = refusal.demands
            if demands is None or any(one.amount <= reach(one.fr, head.priority) for one in demands):
                break
            self._park(self._shape_of(head), refusal)
            parked = True
        return parked

    def refresh(self, turn: int) -> None:
        """Have those of this turn tried again that were refused, so that their messages are brought up to date."""
        head = self._where.get(self.blocked_by) if self.blocked_by is not None else None
        if head is not None and turn_of(head.uid) == turn and not self._is_blocked_by_preemptor:
            self._is_blocked = False
        for shape in self._parked.of_turn(turn):
            self._release(shape)

    def _release(self, shape: EqualWorkloads, *, stands: bool = False) -> None:
        """Have the first Workload of a refused shape tried again. `stands`: unless its demands are beyond reach when
        its turn comes.
        """
        was_parked, shape.is_parked = shape.is_parked, False
        if not stands:
            self._parked.forget(shape)
        if was_parked:
            self._parked_workloads -= len(shape.live)
            first = shape.first()
            if first is not None:
                self._push_shape(shape.key, first)

    def requeue_inadmissible(self, now: datetime, reach: Reach | None = None, *, preemptors: bool = True) -> bool:
        """After a change, activate every Workload that is not delayed. True if at least one became active.

        `reach`: only quota was released: parked shapes that demand more than this stay parked, and those refused alone
        stay refused. `preemptors`: also those that wait for victims. Kueue: QueueInadmissibleWorkloads
        (pkg/cache/queue).
        """
        if self._is_blocked_by_preemptor and not preemptors:
            return False
        released = self.blocked_by is not None
        self._is_blocked = False
        released = (preemptors and self._preempting.retry()) or released
        if reach is None:
            released = self._release_all() or bool(self._refused) or released
            refused, self._refused = self._refused, {}
            for key in refused:
                self._enter(self._where[key])
        else:
            released = self._release_within(reach) or released
        return self.end_backoffs(now) or released

    def set_strategy(self, strategy: str, now: datetime, *, pass_by: bool = False) -> None:
        """Set the queueing strategy. If it changes, Workloads that were refused under the old one are tried again."""
        if (strategy, pass_by) != (self.strategy, self.pass_by):
            self.strategy, self.pass_by = strategy, pass_by
            self._leave_head()
            self._withhold(None)
            self._leader = self._refused_head = None
            preempting, self._preempting = self._preempting, Preemptors()
            for info in preempting:
                self._enter(info)
            self.requeue_inadmissible(now)

    def set_usage(self, usage: Callable[[Key], WeightedUsage] | None) -> None:
        """`usage`: orders the LocalQueues, before the rank; None: the rank alone decides.

        Switching it on or off releases what was refused.
        """
        if (usage is None) != (self._usage is None):
            members = [info for shape in self._shapes.values() for info in shape.live.values()]
            self._shapes, self._shape_heads = {}, {}
            self._parked, self._parked_workloads = ParkedShapes(self._shapes), 0
            self.waiting_head, self._shortest_first = None, False
            self._withhold(None)
            self._usage = usage
            self._is_blocked = False
            for info in members:
                self._enter(info)
        self._usage = usage


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
