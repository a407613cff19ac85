"""Backfilling: which Workloads may pass the head of a queue that waits for quota (EASY, Lifka 1995).

BestEffortFIFO admits whatever fits, so a stream of small Workloads can starve a large head forever. With backfilling
on, a head that has waited for `head_age` gets a *promise*: the time at which it can start at the latest (with its
fewest pods, under partial admission) if every running Workload ends at its declared maximum, and what is left of the
quota at that time. Another Workload passes the head if it

    ends before the promised start, by its own declared maximum, or
    uses only quota that is left beside the head at that time, or
    needs no more than the quota of another ClusterQueue, or of a cohort to which the head's does not belong, or
    is in another ClusterQueue and fair sharing is on: then the shares decide between the two.

The same holds for a Workload that has to preempt others first, so none is evicted for quota that is kept for a head.
So a Workload that passes in its queue never moves the promised start back. A higher priority, and one in the quota of
others, may; then those are tried again that were kept back, since they may end before that.

A running Workload without a declared maximum counts as running forever: if the head needs its quota, the promised
start is unknown, and only Workloads with a declared maximum pass; each delays the head by at most that maximum once
the quota is free. See BEHAVIOUR.md#q50-backfilling.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from job_controller.times import LATEST, later
from queue_manager.api import policy_values
from queue_manager.scheduling.flavor_assignment import Assignment, GroupKey, Mode, assign, in_some_order
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.partial_admission import with_fewest_pods
from queue_manager.scheduling.quota_state import QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, Usage, smallest_subtree
from queue_manager.scheduling.workload_info import Info

NEVER = LATEST  # no start can be promised


class HeadOrder(Enum):
    """The order in which the Workloads behind a waiting head are tried, none of which may delay the head."""

    RANK = "Queue"
    SHORTEST = "ShortestFirst"


@dataclass(frozen=True, slots=True)
class BackfillRules:
    """The configuration's `backfill`. `shortest_first`: of those behind the head, and of one priority, the shortest is
    tried first.
    """

    head_age: timedelta  # since its queue time; then it has a promise
    shortest_first: bool = False


class WaitingHead(NamedTuple):
    """The first Workload of a ClusterQueue that found no quota.

    `leads`: in its ClusterQueue it is ordered before the Workload that is tried now.
    """

    info: Info
    leads: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Workload that fits as soon as its victims are gone, with its ClusterQueue and flavor assignment."""

    queue: QueueState
    info: Info
    assignment: Assignment
    victims: tuple[Holding, ...] = ()


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised to the head of a ClusterQueue: it starts at `starts_by` or before, and uses `usage` then.

    `starts_by` NEVER: unknown. `borrow`: the borrow level then, 0 within its own nominal quota.
    """

    head: Info
    queue: QueueState
    starts_by: datetime
    usage: Usage
    ended: tuple[Holding, ...] = field(repr=False)  # the Workloads that have ended by then
    borrow: int = 0


class Backfilling:
    """Decides which Workloads may pass waiting heads; keeps one promise per ClusterQueue until the usage changes."""

    def __init__(self, rules: BackfillRules) -> None:
        self.rules = rules
        # By ClusterQueue, for one moment: the change of the state, and the Workloads that were counted as gone.
        self._promises: dict[str, tuple[tuple[int, frozenset[str]], Promise]] = {}

    def is_aged(self, head: Info, now: datetime) -> bool:
        """Whether a head has waited so long that others may not delay it."""
        return now - head.queued_at >= self.rules.head_age

    def order_behind(self, head: Info, within_cluster_queue: str, now: datetime) -> HeadOrder:
        """The order in which the Workloads behind a head that waits are tried. `within_cluster_queue`: the policy.

        With LowerOrNewerEqualPriority an older Workload would preempt a shorter one that was admitted before it.
        """
        is_by_age = within_cluster_queue == policy_values.LOWER_OR_NEWER_EQUAL or not self.is_aged(head, now)
        return HeadOrder.SHORTEST if self.rules.shortest_first and not is_by_age else HeadOrder.RANK

    def delays_a_head(
        self,
        state: SchedulerState,
        waiting: Mapping[str, WaitingHead],
        candidate: Candidate,
        now: datetime,
        gone: Collection[str] = (),
    ) -> bool:
        """Whether the admission of this Workload, now or after its preemption, would break a promise.

        `waiting`: by ClusterQueue. Of these only heads count that are ordered before the candidate and share quota
        with it. With fair sharing the shares order the ClusterQueues, so a head keeps back its own only. `gone`: uids
        of the Workloads without whose usage the quota tree is now.
        """
        for name in kept_back_by(state, candidate.queue.name) if waiting else ():
            first = waiting.get(name)
            if first is None or not self.is_aged(first.info, now) or state.inactive(name) is not None:
                continue
            is_before = first.leads if name == candidate.queue.name else first.info.rank < candidate.info.rank
            if is_before and not may_pass(state, self._promise(state, name, first.info, now, gone), candidate, now):
                return True
        return False

    def _promise(self, state: SchedulerState, name: str, head: Info, now: datetime, gone: Collection[str]) -> Promise:
        moment, (before, known) = (state.changes, frozenset(gone)), self._promises.get(name, (None, None))
        if known is None or before != moment or known.head is not head:
            known = promise(state, state.queues[name], head, now, gone)
            self._promises[name] = (moment, known)
        return known


def promise(
    state: SchedulerState,
    queue: QueueState,
    head: Info,
    now: datetime,
    gone: Collection[str] = (),
    *,
    fits_later: bool = False,
) -> Promise:
    """The promise to a head. The quota tree is unchanged afterwards.

    `gone`: uids of the Workloads without whose usage the quota tree is now. `fits_later`: what is free now is not for
    this Workload.
    """
    ending = (h for h in _sharing(state, queue) if (h.ends_by is not None or h.evicted) and h.uid not in gone)
    running = sorted(ending, key=lambda h: _end(h, now))
    least, most, found = int(fits_later), len(running), None
    while least <= most:  # what fits after n ends fits after more; of several pod sets, in another order of flavors
        middle = (least + most) // 2
        with state.without(running[:middle]):
            assignment = _assign(state, queue, head)
        if assignment.mode is Mode.FIT:
            found, most = (middle, assignment), middle - 1
        else:
            least = middle + 1
    if found is None:
        return Promise(head, queue, NEVER, {}, tuple(running))
    count, assignment = found
    start = _end(running[count - 1], now) if count else now
    ended = tuple(h for h in running if _end(h, now) <= start)
    return Promise(head, queue, start, assignment.usage, ended, assignment.borrow)


def may_pass(state: SchedulerState, promised: Promise, candidate: Candidate, now: datetime) -> bool:
    """Whether the Workload may pass the head: it does not delay the promised start, or uses quota that others lend."""
    queue, longest, assignment = candidate.queue, candidate.info.longest_run, candidate.assignment
    if is_in_quota_of_others(queue, assignment.borrow, promised.queue):
        return True
    stopped = (holding for holding in candidate.victims if not holding.evicted)
    first = {holding.uid for holding in stopped if holding.rank < promised.head.rank}
    if any(holding.uid in first for holding in promised.ended):
        return False  # such a victim starts again before the head, and ends later than it would have
    if longest is not None and later(now, longest) <= promised.starts_by:
        return True
    if promised.starts_by is NEVER:
        return False
    ended = {holding.uid: holding for holding in (*promised.ended, *candidate.victims) if holding.uid not in first}
    with state.without(ended.values()), _added(promised.queue.node, promised.usage):
        return all(amount <= queue.node.available(fr) for fr, amount in assignment.usage.items())


def is_in_quota_of_others(queue: QueueState, borrow: int, head_queue: QueueState) -> bool:
    """Whether a Workload with this borrow level stays within the quota of its ClusterQueue, or of a cohort around that,
    to which the ClusterQueue of the head does not belong.
    """
    holds = smallest_subtree(queue.node, borrow)
    return all(each is not holds for each in head_queue.node.path())


def fit_together(state: SchedulerState, head: tuple[QueueState, Info], other: tuple[QueueState, Info]) -> bool:
    """Whether the quota is enough for both Workloads at the same time, if no other one of these cohorts runs.

    Each is given with its ClusterQueue. The quota tree is unchanged afterwards.
    """
    with state.without(list(_sharing(state, head[0]))):
        found = _assign(state, *head)
        if found.mode is not Mode.FIT:
            return False
        with _added(head[0].node, found.usage):
            return _assign(state, *other).mode is Mode.FIT


def kept_back_by(state: SchedulerState, cluster_queue: str) -> list[str]:
    """The ClusterQueues whose heads may keep back the Workloads of this one, itself included."""
    return [cluster_queue] if state.fair_sharing else state.relatives(cluster_queue)


@dataclass(frozen=True, slots=True)
class _FreeQuota:
    """The `AvailableQuota` of a flavor assignment without preemption."""

    node: QuotaNode

    def free(self, fr: FlavorResource) -> int:
        return self.node.available(fr)

    def after_preemption(self, fr: FlavorResource, value: int) -> tuple[Mode, int]:
        return Mode.NO_FIT, 0


def _assign(state: SchedulerState, queue: QueueState, info: Info) -> Assignment:
    """Flavors for the fewest pods with which the Workload may start; those of the last refusal if it does not fit."""
    ignore, spec = state.ignore_undeclared, queue.queue.spec
    room = _FreeQuota(queue.node)
    fewest = with_fewest_pods(info)

    def judge(starts: Mapping[GroupKey, int]) -> Assignment:
        return assign(fewest, spec, queue.node, state.flavors, room, ignore_undeclared=ignore, starts=starts)

    tried = in_some_order(fewest, spec, judge, lambda each: each)
    found = next(tried)
    while found.mode is not Mode.FIT and (another := next(tried, None)) is not None:
        found = another
    return found


def _sharing(state: SchedulerState, queue: QueueState) -> Iterator[Holding]:
    """Yield the holdings of all Workloads that share quota with this ClusterQueue."""
    for name in state.relatives(queue.name):
        yield from state.queues[name].holdings.values()


def _end(holding: Holding, now: datetime) -> datetime:
    """When the quota is free at the latest; a Workload that is being stopped, or is overdue, ends now."""
    return now if holding.evicted or holding.ends_by is None else max(now, holding.ends_by)


@contextmanager
def _added(node: QuotaNode, usage: Usage) -> Iterator[None]:
    """Context in which this usage is added to the quota tree."""
    node.add_all(usage)
    try:
        yield
    finally:
        node.remove_all(usage)
