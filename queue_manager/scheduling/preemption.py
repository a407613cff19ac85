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

A preemptor may reclaim from higher priorities (Any), and may be preempted by the same or by third ones. So policies can
contradict each other, and Workloads would evict each other in turn for ever (KEP-83, Guarantees). Every such circle has
a step in which quota is reclaimed from an equal or higher priority, so one Workload does that to another one
MOST_RECLAIMS times and then waits.

A Workload is no candidate before its minimum runtime is over (`Holding.protected_until`).

Each ClusterQueue keeps its holdings sorted (`QueueState.ranking`), so a search reads little more than it removes.
Kueue: pkg/scheduler/preemption, BEHAVIOUR.md#q44-preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from heapq import merge
from math import inf
from typing import NamedTuple

from queue_manager.api import policies, reasons
from queue_manager.api.types import Preemption
from queue_manager.scheduling.flavor_assignment import Mode
from queue_manager.scheduling.quota_state import Holding, QueueState, Ranking, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, Usage
from queue_manager.scheduling.workload_info import Info

MOST_RECLAIMS = 2  # of one Workload from another one that has no lower priority


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A pending Workload with the flavors that it would use."""

    info: Info
    queue: QueueState
    usage: Usage  # all that it would use
    needs: frozenset[FlavorResource]  # where quota is short
    spoken_for: AbstractSet[str] = frozenset()  # uids of other preemptors' victims; the tree is without them
    preempted: Mapping[str, int] = field(default_factory=dict)  # by uid, how often by this preemptor

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


def with_new_candidates(state: SchedulerState, cluster_queue: str, admitted: Usage) -> list[str]:
    """The ClusterQueues whose refused Workloads may find victims, since this one now holds `admitted` too.

    Other admissions give a preemptor nothing: without its victims it would be where it was before. But the first usage
    above the quota of a subtree makes a candidate of every Workload there.
    """
    node: QuotaNode = state.queues[cluster_queue].node
    while node.parent is not None:
        over = {fr: node.usage.get(fr, 0) - node.subtree.get(fr, 0) for fr in admitted}
        if any(0 < above <= admitted[fr] for fr, above in over.items()):
            names = (name for name in state.relatives(cluster_queue) if name != cluster_queue)
            return [n for n in names if _policy(state, n).reclaim_within_cohort != policies.NEVER]
        node = node.parent
    return []


def _policy(state: SchedulerState, cluster_queue: str) -> Preemption:
    return state.queues[cluster_queue].queue.spec.preemption


def may_be_preempted(holding: Holding, preemptor: Preemptor, policy: str, now: datetime) -> bool:
    """Whether a Workload is a candidate under a policy, withinClusterQueue or reclaimWithinCohort, and not protected.

    BEHAVIOUR.md#q53-minimum-runtime
    """
    return not holding.is_protected(now) and _is_allowed(holding, preemptor, policy)


def protected_candidates(state: SchedulerState, preemptor: Preemptor, now: datetime) -> list[Holding]:
    """The Workloads that are candidates as soon as their minimum runtime is over, in the order of that time."""
    found = (
        holding
        for source in _sources(state, preemptor)
        for holding in source.queue.holdings.values()
        if holding.is_protected(now) and _is_allowed(holding, preemptor, _policy_for(source, preemptor))
    )
    return sorted(found, key=lambda holding: (holding.protected_until or now, holding.ranking))


def _is_allowed(holding: Holding, preemptor: Preemptor, policy: str) -> bool:
    if holding.uid in preemptor.spoken_for or preemptor.needs.isdisjoint(holding.usage):
        return False
    if policy == policies.ANY and holding.priority >= preemptor.info.priority:
        return holding.evicted or preemptor.preempted.get(holding.uid, 0) < MOST_RECLAIMS
    if holding.priority == preemptor.info.priority:
        return policy == policies.LOWER_OR_NEWER_EQUAL and preemptor.info.queued_at < holding.queued_at
    return holding.priority < preemptor.info.priority


def prospect(state: SchedulerState, preemptor: Preemptor, now: datetime, victims_of: FindVictims) -> tuple[Mode, int]:
    """How well the preemptor would fit after preemption, and the borrow level that it would have then.

    Kueue: PreemptionOracle.SimulatePreemption
    """
    [(fr, value)] = preemptor.usage.items()
    if not _may_fit_after_preemption(state, preemptor.queue, fr, value):
        return Mode.NO_FIT, 0
    return after(state, victims_of(state, preemptor, now), preemptor)


def after(state: SchedulerState, victims: tuple[Victim, ...], preemptor: Preemptor) -> tuple[Mode, int]:
    """The mode and the borrow level of a preemptor of one FlavorResource without these victims; (): none suffice."""
    [(fr, value)] = preemptor.usage.items()
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
            yield _Source(state.queues[leaf.name], kind, node.parent)
        node = node.parent


def _policy_for(source: _Source, preemptor: Preemptor) -> str:
    policy = preemptor.queue.queue.spec.preemption
    return policy.within_cluster_queue if source.kind is _Kind.OWN_QUEUE else policy.reclaim_within_cohort


def _borrowers(top: QuotaNode, without: QuotaNode, needs: frozenset[FlavorResource]) -> Iterator[QuotaNode]:
    """The ClusterQueues below `top` that are above their quota, and all subtrees around them; without one subtree."""
    found = [top]
    while found:
        for child in found.pop().children:
            if child is not without and not is_within_quota(child, needs):
                if child.is_cohort:
                    found.append(child)
                else:
                    yield child


def is_within_quota(node: QuotaNode, needs: frozenset[FlavorResource]) -> bool:
    """Whether the subtree uses no more than its own quota of each of these."""
    return all(node.usage.get(fr, 0) <= node.subtree.get(fr, 0) for fr in needs)


# --- the search --------------------------------------------------------------------------------------------


class _Candidate(NamedTuple):
    """Ordered by `ranking`, which no two share."""

    ranking: Ranking
    source: _Source
    holding: Holding


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
        sources = [source for source in self._sources if source.kind is kind]
        return any(True for evicted in (False, True) for s in sources for _ in self._ranked(s, evicted=evicted))

    def _is_below_nominal(self) -> bool:
        node = self._preemptor.node
        return all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in self._preemptor.needs)

    # --- candidates in order ---

    def _candidates(self) -> Iterator[_Candidate]:
        for evicted in (True, False):
            for kind in _Kind:
                yield from self._of_kind(kind, evicted=evicted)

    def _of_kind(self, kind: _Kind, *, evicted: bool) -> Iterator[_Candidate]:
        return merge(*(self._ranked(source, evicted=evicted) for source in self._sources if source.kind is kind))

    def _ranked(self, source: _Source, *, evicted: bool) -> Iterator[_Candidate]:
        """The candidates of one ClusterQueue, in order; read as far as the caller wants."""
        policy = _policy_for(source, self._preemptor)
        most = inf if policy == policies.ANY else self._preemptor.info.priority + 1
        for holding in self._state.ranked(source.queue, evicted=evicted, below=most):
            if may_be_preempted(holding, self._preemptor, policy, self._now):
                yield _Candidate(holding.ranking, source, holding)

    def _reason(self, source: _Source, holding: Holding) -> str:
        if source.kind is _Kind.OWN_QUEUE:
            return reasons.IN_CLUSTER_QUEUE
        borrowing = self._policy.borrow_within_cohort
        if source.kind is _Kind.ENTITLED or borrowing is None or borrowing.policy == policies.NEVER:
            return reasons.IN_COHORT_RECLAMATION
        threshold = borrowing.max_priority_threshold
        most = self._preemptor.info.priority - 1 if threshold is None else threshold
        below = holding.priority <= most and holding.priority < self._preemptor.info.priority
        return reasons.IN_COHORT_RECLAIM_WHILE_BORROWING if below else reasons.IN_COHORT_RECLAMATION

    def _only_without_borrowing(self, source: _Source, holding: Holding) -> bool:
        return source.kind is _Kind.OTHER and self._reason(source, holding) == reasons.IN_COHORT_RECLAMATION

    # --- one attempt ---

    def attempt(self, *, borrowing: bool) -> tuple[Victim, ...]:
        """The victims, if the preemptor may borrow or not; () if they do not suffice."""
        removal = _Removal(self._preemptor.usage)
        try:
            chosen = self._remove_until_it_fits(removal, borrowing)
            kept = self._put_back(removal, chosen, borrowing)
        finally:
            removal.undo()
        return tuple(Victim(c.holding, self._reason(c.source, c.holding)) for c in kept)

    def _remove_until_it_fits(self, removal: _Removal, borrowing: bool) -> list[_Candidate]:
        """The candidates without which the preemptor fits; [] if it does not fit without all of them."""
        node = self._preemptor.node
        missing = {fr: v - node.available(fr) for fr, v in self._preemptor.usage.items()}  # what must go at least
        chosen = []
        for candidate in self._candidates():
            if not self._is_usable(removal, candidate, borrowing):
                continue
            removal.remove(candidate)
            chosen.append(candidate)
            usage = candidate.holding.usage
            for fr in missing:
                missing[fr] -= usage.get(fr, 0)
            if max(missing.values()) <= 0 and self._slack(removal, borrowing) is not None:
                return chosen
        return []

    def _is_usable(self, removal: _Removal, candidate: _Candidate, borrowing: bool) -> bool:
        """Whether the candidate still borrows, and all subtrees around it, and may go to a preemptor that borrows."""
        source = candidate.source
        if source.kind is _Kind.OWN_QUEUE:
            return True
        if borrowing and self._only_without_borrowing(source, candidate.holding):
            return False
        return removal.is_above_quota(source, self._preemptor.needs)

    def _put_back(self, removal: _Removal, chosen: list[_Candidate], borrowing: bool) -> list[_Candidate]:
        """The candidates that cannot be spared, tried from the last but one to the first."""
        kept = chosen[-1:]
        slack = self._slack(removal, borrowing)
        for candidate in reversed(chosen[:-1]):
            if slack is None or self._is_too_much(candidate, slack):
                kept.append(candidate)
                continue
            removal.put_back(candidate)
            left = self._slack(removal, borrowing)
            if left is None:
                removal.remove(candidate)
                kept.append(candidate)
            else:
                slack = left
        return kept[::-1]

    def _is_too_much(self, candidate: _Candidate, slack: Usage) -> bool:
        """Whether it is certain, without reading the tree, that the preemptor does not fit beside this candidate."""
        usage, source = candidate.holding.usage, candidate.source
        for fr, free in slack.items():
            if usage.get(fr, 0) > free and _shares_all(source, self._preemptor.node, fr):
                return True
        return False

    def _slack(self, removal: _Removal, borrowing: bool) -> dict[FlavorResource, int] | None:
        """What is free beside the preemptor; None if it does not fit."""
        removal.apply()
        node = self._preemptor.node
        slack = {}
        for fr, value in self._preemptor.usage.items():
            slack[fr] = node.available(fr) - value
            if slack[fr] < 0 or not (borrowing or node.usage.get(fr, 0) + value <= node.subtree.get(fr, 0)):
                return None
        return slack


def _shares_all(source: _Source, preemptor: QuotaNode, fr: FlavorResource) -> bool:
    """Whether what a Workload uses there is missing for the preemptor in full: no limit is between them."""
    if source.kind is _Kind.OWN_QUEUE:
        return True
    lender: QuotaNode | None = source.queue.node
    while lender is not None and lender is not source.top:
        if lender.quota(fr).lending_limit is not None:
            return False
        lender = lender.parent
    borrower: QuotaNode | None = preemptor
    while borrower is not None and borrower is not source.top:
        if borrower.quota(fr).borrowing_limit is not None:
            return False
        borrower = borrower.parent
    return True


class _Removal:
    """Workloads taken out of the quota tree. Their usage is added up per node, and applied when the tree is read."""

    def __init__(self, relevant: Usage) -> None:
        self._relevant = tuple(relevant)  # what the preemptor does not use does not matter to it
        self._due: dict[QuotaNode, dict[FlavorResource, int]] = {}
        self._applied: list[tuple[QuotaNode, FlavorResource, int]] = []

    def remove(self, candidate: _Candidate) -> None:
        """Take a Workload out."""
        self._change(candidate, 1)

    def put_back(self, candidate: _Candidate) -> None:
        """Put a Workload back that was taken out."""
        self._change(candidate, -1)

    def _change(self, candidate: _Candidate, sign: int) -> None:
        node, usage = candidate.source.queue.node, candidate.holding.usage
        due = self._due.get(node)
        if due is None:
            due = self._due[node] = dict.fromkeys(self._relevant, 0)
        for fr in due:
            due[fr] += sign * usage.get(fr, 0)

    def apply(self) -> None:
        """Bring the tree up to date."""
        for node, amounts in self._due.items():
            for fr, amount in amounts.items():
                self._applied.append((node, fr, amount))
                _remove(node, fr, amount)
        self._due.clear()

    def undo(self) -> None:
        """Restore the tree."""
        self._due.clear()
        for node, fr, amount in reversed(self._applied):
            _remove(node, fr, -amount)

    def is_above_quota(self, source: _Source, needs: frozenset[FlavorResource]) -> bool:
        """Whether a ClusterQueue and all subtrees around it, below `top`, use more than their own quota."""
        node = source.queue.node
        due = self._due.get(node, {})
        if not any(node.usage.get(fr, 0) - due.get(fr, 0) > node.subtree.get(fr, 0) for fr in needs):
            return False
        if node.parent is source.top:
            return True
        self.apply()
        around = node.parent
        while around is not None and around is not source.top:
            if is_within_quota(around, needs):
                return False
            around = around.parent
        return True


def _remove(node: QuotaNode, fr: FlavorResource, amount: int) -> None:
    """Remove this much, or add it if it is negative."""
    if amount > 0:
        node.remove(fr, amount)
    elif amount < 0:
        node.add(fr, -amount)
