"""Which Workloads are candidates for preemption by a pending one, and where they are (KEP-83, KEP-1337). Pure.

Where a candidate is decides by which policy it may be chosen (table in `victim_search`).

The smallest subtree whose own quota suffices for the preemptor may have lent quota to the rest of the cohort; the
preemptor is entitled to that. In other ClusterQueues only Workloads of subtrees that use more than their quota count.

A preemptor may reclaim quota from Workloads of higher priority (Any), which may preempt it in turn, as may others. So
policies can contradict each other, and Workloads would evict each other in turn forever (KEP-83, Guarantees). Every
such circle has a step in which quota is reclaimed from an equal or higher priority. Therefore a Workload reclaims from
the same other Workload at most MOST_RECLAIMS times, and then waits. To take own quota that is kept for a preemptor
counts as to reclaim it from that one. What was before it stopped for another reason than a preemption does not count:
that belongs to no circle (`SchedulerState.release`).

A Workload is not a candidate before its minimum runtime is over (`Holding.protected_until`).

Which of them are chosen is decided by `victim_search` and, under fair sharing, by `fair_preemption`.
Kueue: pkg/scheduler/preemption, BEHAVIOUR.md#q44-preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from itertools import chain
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from queue_manager.api import policy_values
from queue_manager.api.types import Preemption
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import MOST_RECLAIMS, QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import NOTHING, FlavorResource, QuotaNode, Usage, is_within_quota
from queue_manager.scheduling.workload_info import Info

NO_VICTIMS: Mapping[str, int] = MappingProxyType({})
NOTHING_RESERVED: Mapping[QuotaNode, Usage] = MappingProxyType({})


class Preemptor(NamedTuple):
    """A pending Workload with the flavors that it would use."""

    info: Info
    queue: QueueState
    usage: Usage  # all that it would use
    needs: frozenset[FlavorResource]  # where quota is short
    taken_victims: AbstractSet[str] = frozenset()  # uids of other preemptors' victims; the tree is without them
    preempted: Mapping[str, int] = NO_VICTIMS  # by uid, how often by this preemptor
    # By subtree, the part of its usage in the tree that is kept for other preemptors: nothing runs there yet. Only of
    # what is short.
    reserved: Mapping[QuotaNode, Usage] = NOTHING_RESERVED

    @property
    def node(self) -> QuotaNode:
        """The node of its ClusterQueue."""
        return self.queue.node

    def finds_within_quota(self, node: QuotaNode) -> bool:
        """Whether what runs in this subtree uses no more than its own quota of what is short."""
        return is_within_quota(node, self.needs, self.reserved.get(node, NOTHING))


def protected_candidates(state: SchedulerState, preemptor: Preemptor, now: datetime) -> list[Holding]:
    """The Workloads that are candidates as soon as their minimum runtime is over, in the order of that time."""
    found = (
        holding
        for source in sources_of(state, preemptor)
        for holding in filter(
            candidate_rule(preemptor, policy_for(source, preemptor), None), source.queue.holdings.values()
        )
        if holding.is_protected(now)
    )
    return sorted(found, key=lambda holding: (holding.protected_until or now, holding.ranking))


def candidate_rule(preemptor: Preemptor, policy: str, now: datetime | None) -> Callable[[Holding], bool]:
    """Return the predicate whether this policy allows to preempt a Workload, which is not protected at `now`.

    None: whether or not it is protected. The predicate reads the preemptor only once. BEHAVIOUR.md#q53-minimum-runtime.
    """
    priority, queued_at = preemptor.info.priority, preemptor.info.queued_at
    taken, needs, preempted = preemptor.taken_victims, preemptor.needs, preemptor.preempted

    def is_allowed(holding: Holding) -> bool:
        if holding.uid in taken or needs.isdisjoint(holding.usage):
            return False
        if now is not None and holding.protected_until is not None and holding.is_protected(now):
            return False
        if holding.priority < priority:
            return True
        if policy == policy_values.ANY:
            return holding.evicted or preempted.get(holding.uid, 0) < MOST_RECLAIMS
        newer = holding.priority == priority and queued_at < holding.queued_at
        return newer and policy == policy_values.LOWER_OR_NEWER_EQUAL

    return is_allowed


def with_new_candidates(state: SchedulerState, cluster_queue: str, admitted: Usage) -> list[str]:
    """The ClusterQueues whose refused Workloads may find victims, since this one now holds `admitted` too.

    If the admission raises the usage of a subtree above its quota, every Workload in the subtree becomes a candidate.
    Any other admission helps no preemptor: it adds one victim at most, and takes as much quota.
    """
    node: QuotaNode = state.queues[cluster_queue].node
    while node.parent is not None:
        over = {fr: node.usage.get(fr, 0) - node.subtree.get(fr, 0) for fr in admitted}
        if any(0 < above <= admitted[fr] for fr, above in over.items()):
            return [name for name in able_to_stop(state, cluster_queue) if name != cluster_queue]
        node = node.parent
    return []


def able_to_stop(state: SchedulerState, cluster_queue: str) -> list[str]:
    """The ClusterQueues whose policy allows victims in this one, perhaps itself among them."""
    return [name for name in state.relatives(cluster_queue) if _may_stop(_policy(state, name), name == cluster_queue)]


def _may_stop(policy: Preemption, own: bool) -> bool:
    allowed = policy.within_cluster_queue if own else policy.reclaim_within_cohort
    return allowed != policy_values.NEVER


def _policy(state: SchedulerState, cluster_queue: str) -> Preemption:
    return state.queues[cluster_queue].queue.spec.preemption


def is_hopeless(state: SchedulerState, preemptor: Preemptor) -> bool:
    """Whether a cheap check shows that no search can find sufficient victims, as for most heads of a full cohort.

    False means that a search has to decide. The check applies to a preemptor that may not preempt while it borrows and
    is not entitled to quota outside its ClusterQueue. Its candidates are the Workloads of its own ClusterQueue:

        the ClusterQueue has used up its nominal quota   hopeless if all candidates together use less than is missing
        it has not                                       hopeless if there is no candidate: once some are preempted,
                                                         Workloads of other ClusterQueues may become candidates too
    """
    queue, node = preemptor.queue, preemptor.node
    if may_borrow_and_preempt(queue) or _is_entitled(preemptor):
        return False
    missing = {fr: short for fr, v in preemptor.usage.items() if (short := v - node.available(fr)) > 0}
    policy = queue.queue.spec.preemption.within_cluster_queue
    if policy == policy_values.NEVER or not missing:
        return bool(missing)
    below = priority_bound(policy, preemptor.info.priority)
    if is_below_nominal(preemptor):
        own = (state.ranked(queue, evicted=evicted, below=below) for evicted in (True, False))
        return next(chain.from_iterable(own), None) is None
    return any(queue.by_priority.below(below, fr) < short for fr, short in missing.items())


@contextmanager
def without_all(sources: Iterable[tuple[QueueState, float]], relevant: Collection[FlavorResource]) -> Iterator[None]:
    """Context in which the quota tree is without the usage of all Workloads of these ClusterQueues.

    `sources`: each with the bound below which the priority of its candidates is. Workloads that are no candidates for
    other reasons count too, so a preemptor that does not fit in this context finds no victims.
    """
    amounts = [
        (q.node, fr, min(q.by_priority.below(b, fr), q.node.usage.get(fr, 0))) for q, b in sources for fr in relevant
    ]
    removed = [(node, fr, amount) for node, fr, amount in amounts if amount > 0]
    for node, fr, amount in removed:
        node.remove(fr, amount)
    try:
        yield
    finally:
        for node, fr, amount in reversed(removed):
            node.add(fr, amount)


def is_below_nominal(preemptor: Preemptor) -> bool:
    """Whether the preemptor's ClusterQueue is below its nominal quota for every flavor and resource that is short."""
    node = preemptor.node
    return all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in preemptor.needs)


def may_borrow_and_preempt(queue: QueueState) -> bool:
    """Whether borrowWithinCohort lets a Workload of this ClusterQueue preempt others although it borrows."""
    borrowing = queue.queue.spec.preemption.borrow_within_cohort
    return borrowing is not None and borrowing.policy != policy_values.NEVER


def priority_bound(policy: str, priority: int) -> float:
    """Return the bound below which the priority of each candidate is, for a preemptor of this priority."""
    match policy:
        case policy_values.ANY:
            return inf
        case policy_values.LOWER_OR_NEWER_EQUAL:
            return priority + 1
        case _:
            return priority


def _is_entitled(preemptor: Preemptor) -> bool:
    """Whether the quota that is unused in some subtree around the preemptor is enough for it: see `sources_of`."""
    return any(is_enough for _, _, is_enough in _subtrees_around(preemptor))


def _subtrees_around(preemptor: Preemptor) -> Iterator[tuple[QuotaNode, QuotaNode, bool]]:
    """The ClusterQueue of the preemptor and each cohort above it but the root, with the cohort above, and whether the
    unused quota of this subtree is enough for what the smaller ones have left over.
    """
    node, remaining = preemptor.node, preemptor.usage
    while node.parent is not None:
        yield (
            node,
            node.parent,
            all(v <= node.subtree.get(fr, 0) - node.usage.get(fr, 0) for fr, v in remaining.items()),
        )
        remaining = {fr: max(0, v - node.local_available(fr)) for fr, v in remaining.items()}
        node = node.parent


# --- where candidates are ----------------------------------------------------------------------------------


class CandidateKind(IntEnum):
    """Where a candidate is, in the order of choice."""

    ENTITLED = 0
    OTHER = 1
    OWN_QUEUE = 2


class Source(NamedTuple):
    """A ClusterQueue with candidates. `top`: the smallest subtree with both it and the preemptor."""

    queue: QueueState
    kind: CandidateKind
    top: QuotaNode


def sources_of(state: SchedulerState, preemptor: Preemptor) -> Iterator[Source]:
    """The ClusterQueues whose Workloads may be candidates by the policies of the preemptor's ClusterQueue."""
    policy = preemptor.queue.queue.spec.preemption
    if policy.within_cluster_queue != policy_values.NEVER:
        yield Source(preemptor.queue, CandidateKind.OWN_QUEUE, preemptor.node)
    if policy.reclaim_within_cohort == policy_values.NEVER:
        return
    kind = CandidateKind.OTHER
    for node, top, is_enough in _subtrees_around(preemptor):
        if is_enough:
            kind = CandidateKind.ENTITLED
        for leaf in _borrowers(top, node, preemptor):
            yield Source(state.queues[leaf.name], kind, top)


def policy_for(source: Source, preemptor: Preemptor) -> str:
    """Return withinClusterQueue for the preemptor's own ClusterQueue, reclaimWithinCohort for any other."""
    policy = preemptor.queue.queue.spec.preemption
    return policy.within_cluster_queue if source.kind is CandidateKind.OWN_QUEUE else policy.reclaim_within_cohort


def _borrowers(top: QuotaNode, without: QuotaNode, preemptor: Preemptor) -> Iterator[QuotaNode]:
    """The ClusterQueues below `top` that use more than their quota, as does each cohort between `top` and them. The
    subtree `without` is left out.
    """
    found = [top]
    while found:
        for child in found.pop().children:
            if child is not without and not preemptor.finds_within_quota(child):
                if child.is_cohort:
                    found.append(child)
                else:
                    yield child
