"""Which Workloads are preempted so that a pending one fits (KEP-83, KEP-1337). Pure.

Victims are sought among the Workloads that hold a FlavorResource of which quota is short. Where they are decides by
which policy, and for which reason, they may be chosen:

    own ClusterQueue         withinClusterQueue                                    InClusterQueue
    elsewhere, *entitled*    reclaimWithinCohort                                   InCohortReclamation
    elsewhere, other         reclaimWithinCohort; only if the preemptor does not   InCohortReclamation
                             borrow, or by borrowWithinCohort                      InCohortReclaimWhileBorrowing

The preemptor is entitled to what the smallest subtree whose quota holds it has lent to the rest of the cohort. In other
ClusterQueues only those Workloads count that are in subtrees above their own quota.

The order is total: evicted ones first; then entitled, other, own ClusterQueue; then lower priority, later reservation
(whole seconds), uid. Workloads are removed in this order until the preemptor fits, and those without which it fits too
are put back, the last removed first. So no victim can be spared. The tree is the same afterwards.

Each ClusterQueue keeps its holdings sorted (`QueueState.ranking`), so a search reads little more than it removes.
Kueue: pkg/scheduler/preemption, BEHAVIOUR.md#q43-preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from heapq import merge
from itertools import chain
from math import inf
from typing import NamedTuple, TypeVar

from queue_manager.api import policies, reasons
from queue_manager.scheduling.flavor_assignment import Mode
from queue_manager.scheduling.quota_state import Holding, QueueState, Ranking, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, Usage
from queue_manager.scheduling.workload_info import Info

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pending Workload with the flavors that it would use."""

    info: Info
    queue: QueueState
    usage: Usage  # all that it would use
    needs: frozenset[FlavorResource]  # where quota is short
    spoken_for: AbstractSet[str] = frozenset()  # uids of other preemptors' victims; the tree is without them

    @property
    def node(self) -> QuotaNode:
        """The node of its ClusterQueue."""
        return self.queue.node


class Victim(NamedTuple):
    """A Workload to be preempted, and the reason of its Preempted condition."""

    holding: Holding
    reason: str


FindVictims = Callable[[SchedulerState, Preemptor, datetime], tuple[Victim, ...]]


def find_victims(state: SchedulerState, preemptor: Preemptor, now: datetime) -> tuple[Victim, ...]:
    """A minimal set of Workloads without which the preemptor fits, in the order of their choice; () if none suffices.

    The usage in the quota tree is that of `state`, possibly with planned changes. It is changed during the search.
    """
    search = _Search(state, preemptor, now)
    found = (search.attempt(borrowing=borrowing) for borrowing in search.attempts())
    return next((victims for victims in found if victims), ())


def give_back(
    taken: list[T], put_back: Callable[[T], None], take: Callable[[T], None], fits: Callable[[], bool]
) -> None:
    """Remove from `taken` what the preemptor does not need: the last one is needed, those before are tried backwards."""
    for i in reversed(range(len(taken) - 1)):
        put_back(taken[i])
        if fits():
            del taken[i]
        else:
            take(taken[i])


def may_be_preempted(holding: Holding, preemptor: Preemptor, policy: str, now: datetime) -> bool:
    """Whether a Workload is a candidate under a policy: withinClusterQueue or reclaimWithinCohort."""
    if holding.uid in preemptor.spoken_for or not any(holding.usage.get(fr) for fr in preemptor.needs):
        return False
    if policy == policies.ANY:
        return True
    if holding.priority == preemptor.info.priority:
        return policy == policies.LOWER_OR_NEWER_EQUAL and preemptor.info.queued_at < holding.queued_at
    return holding.priority < preemptor.info.priority


def prospect(
    state: SchedulerState, preemptor: Preemptor, now: datetime, victims_of: FindVictims
) -> tuple[Mode, int]:
    """How well the preemptor would fit after preemption, and the borrow level that it would have then.

    Kueue: PreemptionOracle.SimulatePreemption
    """
    [(fr, value)] = preemptor.usage.items()
    if not _may_fit_after_preemption(state, preemptor.queue, fr, value):
        return Mode.NO_FIT, 0
    victims = victims_of(state, preemptor, now)
    if not victims:
        return Mode.NO_CANDIDATES, preemptor.node.borrow_level(fr, value)
    own = any(victim.holding.cluster_queue == preemptor.queue.name for victim in victims)
    return (Mode.PREEMPT if own else Mode.RECLAIM), _level_without(state, victims, preemptor.node, fr, value)


def _may_fit_after_preemption(state: SchedulerState, queue: QueueState, fr: FlavorResource, value: int) -> bool:
    """Kueue: FlavorAssigner.fitsResourceQuota, canPreemptWhileBorrowing"""
    policy = queue.queue.spec.preemption
    return (
        queue.node.quota(fr).nominal >= value
        or smallest_subtree(queue.node, queue.node.borrow_level(fr, value)).parent is not None
        or _may_borrow_and_preempt(queue)
        or (bool(state.fair_sharing) and policy.reclaim_within_cohort != policies.NEVER)
    )


def smallest_subtree(node: QuotaNode, height: int) -> QuotaNode:
    """The lowest ancestor of `node`, or the node itself, of at least this height (see `QuotaNode.borrow_level`)."""
    while node.height < height and node.parent is not None:
        node = node.parent
    return node


def _level_without(
    state: SchedulerState, victims: tuple[Victim, ...], node: QuotaNode, fr: FlavorResource, value: int
) -> int:
    held = [(state.queues[v.holding.cluster_queue].node, v.holding.usage.get(fr, 0)) for v in victims]
    for where, amount in held:
        where.remove(fr, amount)
    level = node.borrow_level(fr, value)
    for where, amount in held:
        where.add(fr, amount)
    return level


def _may_borrow_and_preempt(queue: QueueState) -> bool:
    borrowing = queue.queue.spec.preemption.borrow_within_cohort
    return borrowing is not None and borrowing.policy != policies.NEVER


# --- where candidates are ----------------------------------------------------------------------------------


class _Kind(IntEnum):
    """Where a candidate is, in the order of choice."""

    ENTITLED = 0
    OTHER = 1
    OWN_QUEUE = 2


class _Source(NamedTuple):
    """A ClusterQueue with candidates. `top`: the smallest subtree with both it and the preemptor."""

    queue: QueueState
    kind: _Kind
    top: QuotaNode


def _sources(state: SchedulerState, preemptor: Preemptor) -> Iterator[_Source]:
    policy = preemptor.queue.queue.spec.preemption
    if policy.within_cluster_queue != policies.NEVER:
        yield _Source(preemptor.queue, _Kind.OWN_QUEUE, preemptor.node)
    if policy.reclaim_within_cohort == policies.NEVER:
        return
    node, remaining, entitled = preemptor.node, dict(preemptor.usage), False
    while node.parent is not None:
        entitled = entitled or all(v <= node.subtree.get(fr, 0) - node.usage.get(fr, 0) for fr, v in remaining.items())
        remaining = {fr: max(0, v - node.local_available(fr)) for fr, v in remaining.items()}
        kind = _Kind.ENTITLED if entitled else _Kind.OTHER
        for leaf in _borrowers(node.parent, node, preemptor.needs):
            queue = state.queues.get(leaf.name)
            if queue is not None and queue.node is leaf:  # else a Cohort without children
                yield _Source(queue, kind, node.parent)
        node = node.parent


def _borrowers(top: QuotaNode, without: QuotaNode, needs: frozenset[FlavorResource]) -> Iterator[QuotaNode]:
    """The leaves below `top` that are above their quota, as all subtrees around them are; without one subtree."""
    found = [top]
    while found:
        for child in found.pop().children:
            if child is not without and not is_within_quota(child, needs):
                if child.children:
                    found.append(child)
                else:
                    yield child


def is_within_quota(node: QuotaNode, needs: frozenset[FlavorResource]) -> bool:
    """Whether the subtree uses no more than its own quota of each of these."""
    return all(node.usage.get(fr, 0) <= node.subtree.get(fr, 0) for fr in needs)


# --- the search --------------------------------------------------------------------------------------------

Candidate = tuple[Ranking, _Source, Holding]


class _Search:
    def __init__(self, state: SchedulerState, preemptor: Preemptor, now: datetime) -> None:
        self._state = state
        self._preemptor = preemptor
        self._now = now
        self._policy = preemptor.queue.queue.spec.preemption
        self._sources = list(_sources(state, preemptor))

    def attempts(self) -> tuple[bool, ...]:
        """Whether the preemptor may borrow: one or two attempts, the first that succeeds counts."""
        entitled, other = self._exists(_Kind.ENTITLED), self._exists(_Kind.OTHER)
        only_within_quota = not _may_borrow_and_preempt(self._preemptor.queue)
        if not (entitled or other) or (only_within_quota and not self._is_below_nominal()):
            return (True,)
        return (False, True) if only_within_quota and not entitled else (True, False)

    def _exists(self, kind: _Kind) -> bool:
        return any(True for _ in chain(self._of_kind(kind, evicted=True), self._of_kind(kind, evicted=False)))

    def _is_below_nominal(self) -> bool:
        node = self._preemptor.node
        return all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in self._preemptor.needs)

    def _candidates(self) -> Iterator[Candidate]:
        for evicted in (True, False):
            for kind in _Kind:
                yield from self._of_kind(kind, evicted=evicted)

    def _of_kind(self, kind: _Kind, *, evicted: bool) -> Iterator[Candidate]:
        return merge(*(self._ranked(source, evicted=evicted) for source in self._sources if source.kind is kind))

    def _ranked(self, source: _Source, *, evicted: bool) -> Iterator[Candidate]:
        """The candidates of one ClusterQueue, in order; read as far as the caller wants."""
        own = source.kind is _Kind.OWN_QUEUE
        policy = self._policy.within_cluster_queue if own else self._policy.reclaim_within_cohort
        most = inf if policy == policies.ANY else self._preemptor.info.priority + 1
        for holding in self._state.ranked(source.queue, evicted=evicted, below=most):
            if may_be_preempted(holding, self._preemptor, policy, self._now):
                yield holding.ranking, source, holding

    # --- one attempt ---

    def attempt(self, *, borrowing: bool) -> tuple[Victim, ...]:
        """The victims, if the preemptor may borrow or not; () if they do not suffice."""
        removed: list[tuple[QueueState, Victim]] = []
        try:
            if not self._remove_until_it_fits(removed, borrowing):
                return ()
            give_back(
                removed,
                lambda one: self._add(one[0], one[1].holding),
                lambda one: self._remove(one[0], one[1].holding),
                lambda: self._fits(borrowing),
            )
            return tuple(victim for _, victim in removed)
        finally:
            for queue, victim in removed:
                self._add(queue, victim.holding)

    def _remove_until_it_fits(self, removed: list[tuple[QueueState, Victim]], borrowing: bool) -> bool:
        usage, node = self._preemptor.usage, self._preemptor.node
        missing = {fr: v - node.available(fr) for fr, v in usage.items()}  # at least so much must be removed
        for _, source, holding in self._candidates():
            reason = self._reason(source, holding)
            if not self._is_usable(source, reason, borrowing):
                continue
            self._remove(source.queue, holding)
            removed.append((source.queue, Victim(holding, reason)))
            for fr in missing:
                missing[fr] -= holding.usage.get(fr, 0)
            if all(amount <= 0 for amount in missing.values()) and self._fits(borrowing):
                return True
        return False

    def _fits(self, borrowing: bool) -> bool:
        node = self._preemptor.node
        return all(
            v <= node.available(fr) and (borrowing or node.usage.get(fr, 0) + v <= node.subtree.get(fr, 0))
            for fr, v in self._preemptor.usage.items()
        )

    def _is_usable(self, source: _Source, reason: str, borrowing: bool) -> bool:
        if source.kind is _Kind.OWN_QUEUE:
            return True
        if borrowing and source.kind is _Kind.OTHER and reason == reasons.IN_COHORT_RECLAMATION:
            return False
        node: QuotaNode | None = source.queue.node
        while node is not None and node is not source.top:
            if is_within_quota(node, self._preemptor.needs):
                return False
            node = node.parent
        return True

    def _reason(self, source: _Source, holding: Holding) -> str:
        if source.kind is _Kind.OWN_QUEUE:
            return reasons.IN_CLUSTER_QUEUE
        borrowing = self._policy.borrow_within_cohort
        if source.kind is _Kind.ENTITLED or borrowing is None or borrowing.policy == policies.NEVER:
            return reasons.IN_COHORT_RECLAMATION
        threshold = borrowing.max_priority_threshold
        below = holding.priority < self._preemptor.info.priority and (
            threshold is None or holding.priority <= threshold
        )
        return reasons.IN_COHORT_RECLAIM_WHILE_BORROWING if below else reasons.IN_COHORT_RECLAMATION

    def _remove(self, queue: QueueState, holding: Holding) -> None:
        """Remove what matters to the preemptor."""
        for fr in self._preemptor.usage:
            queue.node.remove(fr, holding.usage.get(fr, 0))

    def _add(self, queue: QueueState, holding: Holding) -> None:
        for fr in self._preemptor.usage:
            queue.node.add(fr, holding.usage.get(fr, 0))
