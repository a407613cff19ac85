"""Preemption under fair sharing: which Workloads stop so that a queue with a lower share gets its part (KEP-1714).

The search takes victims one by one until the preemptor fits. It descends from the root of the quota tree to the child
with the highest dominant resource share that has candidates, down to a ClusterQueue:

    its own ClusterQueue     the next candidate is taken, as preemption.withinClusterQueue allows
    another one              the next candidate is taken, if the preemptor's ClusterQueue stays within its nominal
                             quota; else the first candidate that satisfies the strategy

A strategy applies to the lowest cohort above both ClusterQueues. It compares the shares of two children of this cohort,
the one towards the preemptor and the one towards the victim, with the preemptor counted:

    LessThanOrEqualToFinalShare   preemptor's <= victim's after it has stopped
    LessThanInitialShare          preemptor's <  victim's before

The first configured strategy is applied to all candidates; LessThanInitialShare, if it is the second, to those left,
once per ClusterQueue. Workloads that are evicted already are taken before all others, whatever their share. At the end
the victims that are not needed are given back, the last taken first.

Two rules are Sluice's own, so that no two queues preempt each other in turn. Both strategies require that the
preemptor's share is below the victim's before the victim stops. And each victim must also satisfy a strategy at the
end, when victims were given back; one that does not is excluded, and the search starts again. Victims are taken from a
ClusterQueue only while it, and each cohort between it and the common one, borrows a resource that the preemptor needs.

Three or more Workloads of different sizes can still preempt each other in a circle over two levels of cohorts: within a
cohort a larger Workload replaces a smaller one, which raises the share of the cohort above that of another one. Such a
circle ends as in classical preemption (`quota_state.MOST_RECLAIMS`).

Kueue: fairPreemptions in pkg/scheduler/preemption, pkg/scheduler/preemption/fairsharing;
BEHAVIOUR.md#q47-fair-preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import datetime
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from queue_manager.api import policy_values, reasons
from queue_manager.scheduling.fair_sharing import ShareKey, Shares
from queue_manager.scheduling.holdings import Holding, Ranking
from queue_manager.scheduling.preemption_candidates import Preemptor, candidate_rule, priority_bound, without_all
from queue_manager.scheduling.quota_state import QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import QuotaNode, Usage, is_within_quota
from queue_manager.scheduling.victim_search import MOST_READ, Victim

FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"
NO_RANKING: Ranking = (False, 0, 0, 0, 0, "")
Ranked = tuple[Ranking, Holding]  # with its `Holding.ranking`
MAX_SEARCHES = 8  # each excludes the victims that turned out unfair in the result of the one before


def find_victims(state: SchedulerState, preemptor: Preemptor, now: datetime) -> tuple[Victim, ...]:
    """The Workloads to preempt so that the preemptor fits; () if none suffice.

    The usage in the quota tree is that of `state`, possibly with planned changes. It is changed during the search.
    """
    unfair: set[str] = set()
    preemptor.node.add_all(preemptor.usage)
    try:
        for _ in range(MAX_SEARCHES):
            search = _Search(state, preemptor, _Candidates(state, preemptor, unfair, now))
            try:
                if not search.run():
                    return ()
                found = search.unfair()
                if not found:
                    return tuple(search.victims)
                unfair |= found
            finally:
                search.restore()
        return ()
    finally:
        preemptor.node.remove_all(preemptor.usage)


def stoppable(state: SchedulerState, preemptor: Preemptor, now: datetime) -> frozenset[str]:
    """For a preemptor that finds no victims: the uids of the candidates that it may stop, which together do not
    suffice.

    The other candidates are protected by the rule about shares.
    """
    preemptor.node.add_all(preemptor.usage)
    try:
        search = _Search(state, preemptor, _Candidates(state, preemptor, set(), now), most_read=inf)
        found = search.run()
        taken = frozenset() if found else frozenset(victim.holding.uid for victim in search.victims)
        search.restore()
        return taken
    finally:
        preemptor.node.remove_all(preemptor.usage)


class _Candidates:
    """The holdings that use what the preemptor needs, and that the policies of its ClusterQueue allow to preempt."""

    def __init__(self, state: SchedulerState, preemptor: Preemptor, excluded: set[str], now: datetime) -> None:
        self._state = state
        self._preemptor = preemptor
        self._excluded = excluded
        self._now = now

    def bounds(self) -> list[tuple[QueueState, float]]:
        """The ClusterQueues to take from, each with the bound below which the priority of its candidates is."""
        priority = self._preemptor.info.priority
        return [(queue, priority_bound(policy, priority)) for queue, policy in self._sources()]

    def evicted(self) -> list[Holding]:
        """The candidates that are being stopped already, those of other ClusterQueues first."""
        own = self._preemptor.queue.name
        found = (ranked for queue, policy in self._sources() for ranked in self._of(queue, policy, evicted=True))
        return [holding for _, holding in sorted(found, key=lambda each: (each[1].cluster_queue == own, each[0]))]

    def running(self) -> dict[QuotaNode, Iterator[Ranked]]:
        """The candidates that are not being stopped, by ClusterQueue, in the order in which they may be preempted."""
        return {queue.node: self._of(queue, policy, evicted=False) for queue, policy in self._sources()}

    def _sources(self) -> Iterator[tuple[QueueState, str]]:
        """The ClusterQueues to take from, with the policy that decides."""
        own = self._preemptor.queue
        policy = own.queue.spec.preemption
        if policy.within_cluster_queue != policy_values.NEVER:
            yield own, policy.within_cluster_queue
        if policy.reclaim_within_cohort == policy_values.NEVER:
            return
        for name in self._state.relatives(own.name):
            queue = self._state.queues[name]
            if queue is not own and not self._preemptor.finds_within_quota(queue.node):
                yield queue, policy.reclaim_within_cohort

    def _of(self, queue: QueueState, policy: str, *, evicted: bool) -> Iterator[Ranked]:
        is_candidate = candidate_rule(self._preemptor, policy, self._now)
        below = priority_bound(policy, self._preemptor.info.priority)
        for ranked in self._state.ranked(queue, evicted=evicted, below=below):
            if ranked[1].uid not in self._excluded and is_candidate(ranked[1]):
                yield ranked


class _Rivals(NamedTuple):
    """The two children of the lowest common cohort whose shares decide whether the preemptor may stop a Workload: the
    one towards the preemptor, and the one towards the Workload.
    """

    mine: QuotaNode
    theirs: QuotaNode


class _Search:
    """One search. The preemptor is counted in the quota tree, and `victims` are not.

    `most_read`: victims, before it is asked whether all candidates together suffice.
    """

    def __init__(
        self, state: SchedulerState, preemptor: Preemptor, candidates: _Candidates, most_read: float = MOST_READ
    ) -> None:
        self.victims: list[Victim] = []
        self.ancestors = list(preemptor.node.path())
        self._state = state
        self._preemptor = preemptor
        self._candidates = candidates
        self._most_read = most_read
        self._own = preemptor.node
        self._within_nominal = is_within_quota(preemptor.node, preemptor.needs)
        self._shares = Shares()
        self._known: dict[QuotaNode, ShareKey] = {}
        self._rivals: dict[QuotaNode, _Rivals] = {}  # by ClusterQueue of a candidate
        self._missing = {fr: -self._own.available(fr) for fr in preemptor.usage}  # what must be released at least

    # --- the quota tree ---

    def node(self, holding: Holding) -> QuotaNode:
        """The ClusterQueue of a holding."""
        return self._state.queues[holding.cluster_queue].node

    def share(self, node: QuotaNode) -> ShareKey:
        """The share of a node now, comparable with those of its siblings."""
        share = self._known.get(node)
        if share is None:
            share = self._known[node] = self._shares.key_of(node)
        return share

    def is_open(self, node: QuotaNode) -> bool:
        """Whether victims may be taken below this node: it borrows what is needed, or the preemptor is below it too."""
        return node in self.ancestors or not self._preemptor.finds_within_quota(node)

    def fits(self) -> bool:
        """Whether the preemptor fits; its usage is counted in the quota tree already."""
        return all(self._own.available(fr) >= 0 for fr in self._preemptor.usage)

    def _stop(self, victim: Victim) -> None:
        self._change(self.node(victim.holding), victim.holding, QuotaNode.remove_all)

    def _resume(self, victim: Victim) -> None:
        self._change(self.node(victim.holding), victim.holding, QuotaNode.add_all)

    def _change(self, queue: QuotaNode, holding: Holding, change: Callable[[QuotaNode, Usage], None]) -> None:
        change(queue, holding.usage)
        for node in queue.path():
            self._known.pop(node, None)

    def restore(self) -> None:
        """Put the usage of all victims back into the quota tree, and forget the victims."""
        for node, usage in self._state.usage_by_node(victim.holding for victim in self.victims):
            node.add_all(usage)
        self._known.clear()
        self.victims = []

    # --- the search ---

    def _all_suffice(self) -> bool:
        """Whether the preemptor would fit without all Workloads that may be candidates."""
        for victim in self.victims:
            self._resume(victim)
        with without_all(self._candidates.bounds(), self._preemptor.usage):
            suffice = self.fits()
        for victim in self.victims:
            self._stop(victim)
        return suffice

    def run(self) -> bool:
        """Take victims until the preemptor fits; False if it does not fit without any candidate that may be taken."""
        first, *second = self._state.fair_sharing
        found = any(self._take(self.node(holding), holding) for holding in self._candidates.evicted())
        if not found:
            left = self._by_first_strategy(first)
            found = left is None or (bool(second) and self._by_initial_share(left))
        if found:
            self._give_back()
        return found

    def _give_back(self) -> None:
        """Put back victims that the preemptor does not need, from the last but one to the first."""
        needed: set[Hashable] = set()  # usage only grows here, so what did not fit once does not fit later
        for i in reversed(range(len(self.victims) - 1)):
            victim = self.victims[i]
            kind = _kind(victim)
            if kind in needed:
                continue
            self._resume(victim)
            if self.fits():
                del self.victims[i]
            else:
                self._stop(victim)
                needed.add(kind)

    def _take(self, queue: QuotaNode, holding: Holding) -> bool:
        """Take a victim of this ClusterQueue. True if the preemptor fits then."""
        self._change(queue, holding, QuotaNode.remove_all)
        return self._keep(queue, holding)

    def _keep(self, queue: QuotaNode, holding: Holding) -> bool:
        """Keep a Workload that is stopped as a victim. True if the preemptor fits now."""
        self.victims.append(Victim(holding, self._preemption_reason(queue)))
        released, enough = holding.usage, True
        for fr in self._missing:
            self._missing[fr] -= released.get(fr, 0)
            enough = enough and self._missing[fr] <= 0
        return enough and self.fits()

    def _preemption_reason(self, queue: QuotaNode) -> str:
        if queue is self._own:
            return reasons.IN_CLUSTER_QUEUE
        return reasons.IN_COHORT_RECLAMATION if self._within_nominal else reasons.IN_COHORT_FAIR_SHARING

    def _by_first_strategy(self, strategy: str) -> dict[QuotaNode, Ranked] | None:
        """Take victims by the first strategy. None if the preemptor then fits; else the first candidate of each
        ClusterQueue that did not satisfy the strategy.
        """
        targets = _Targets(self, self._candidates.running())
        left: dict[QuotaNode, Ranked] = {}
        while (queue := targets.next()) is not None:
            if queue is self._own or self._within_nominal:
                ranked = targets.pop(queue)
                fits, has_taken = ranked is not None and self._take(queue, ranked[1]), ranked is not None
            else:
                stopped, passed = self._stop_first_satisfying(targets, queue, strategy)
                if passed is not None:
                    left.setdefault(queue, passed)
                fits, has_taken = stopped is not None and self._keep(queue, stopped), stopped is not None
            if fits:
                return None
            if has_taken and len(self.victims) == self._most_read and not self._all_suffice():
                return {}
        return left

    def _stop_first_satisfying(
        self, targets: _Targets, queue: QuotaNode, strategy: str
    ) -> tuple[Holding | None, Ranked | None]:
        """Stop the next candidate of this ClusterQueue that satisfies the strategy.

        Return that one, and the first one that was passed over.
        """
        first = ranked = targets.pop(queue)
        if first is None or not self._has_lower_share(queue):  # nor has it with the other candidates
            targets.drop(queue)
            return None, first
        refused: set[Hashable] = set()  # amounts: the shares depend on nothing else
        while ranked is not None:
            amounts = tuple(ranked[1].usage.items())
            if amounts not in refused:
                self._change(queue, ranked[1], QuotaNode.remove_all)
                if strategy == INITIAL_SHARE or self._has_no_higher_share(queue):
                    return ranked[1], first if ranked is not first else None
                self._change(queue, ranked[1], QuotaNode.add_all)
                refused.add(amounts)
            ranked = targets.pop(queue)
        return None, first

    def _by_initial_share(self, left: Mapping[QuotaNode, Ranked]) -> bool:
        """Take victims from `left` (one candidate by ClusterQueue) by LessThanInitialShare.

        Return whether the preemptor then fits.
        """
        targets = _Targets(self, {queue: iter([ranked]) for queue, ranked in left.items()})
        while (queue := targets.next()) is not None:
            ranked = targets.pop(queue)
            if ranked and self._has_lower_share(queue) and self._take(queue, ranked[1]):
                return True
        return False

    def _has_lower_share(self, queue: QuotaNode) -> bool:
        """Whether the preemptor's share is below that of a ClusterQueue: it may stop a Workload there at all, and could
        not be preempted for it in turn. All that LessThanInitialShare requires.
        """
        mine, theirs = self._rivals_of(queue)
        return self.share(mine) < self.share(theirs)

    def _has_no_higher_share(self, queue: QuotaNode) -> bool:
        """Whether the preemptor's share is not above that of a ClusterQueue, of which a Workload has been stopped."""
        mine, theirs = self._rivals_of(queue)
        return self.share(mine) <= self.share(theirs)

    def _rivals_of(self, queue: QuotaNode) -> _Rivals:
        rivals = self._rivals.get(queue)
        if rivals is None:
            theirs = next(node for node in queue.path() if node.parent is None or node.parent in self.ancestors)
            mine = next(node for node in self.ancestors if node.parent is theirs.parent)
            rivals = self._rivals[queue] = _Rivals(mine, theirs)
        return rivals

    # --- the result ---

    def unfair(self) -> set[str]:
        """The victims that no strategy allows in the state that results."""
        running, verdicts = [victim for victim in self.victims if not victim.holding.evicted], dict[Hashable, bool]()
        found = set()
        for victim in running:
            kind = _kind(victim)
            if kind not in verdicts:
                verdicts[kind] = self._is_fair(victim)
            if not verdicts[kind]:
                found.add(victim.holding.uid)
        return found

    def _is_fair(self, victim: Victim) -> bool:
        if victim.reason == reasons.IN_CLUSTER_QUEUE:
            return True
        queue = self.node(victim.holding)
        self._resume(victim)
        is_allowed = all(self.is_open(node) for node in queue.path())
        has_lower_share = is_allowed and self._has_lower_share(queue)
        self._stop(victim)
        if not is_allowed or victim.reason == reasons.IN_COHORT_RECLAMATION:
            return is_allowed
        return has_lower_share and (INITIAL_SHARE in self._state.fair_sharing or self._has_no_higher_share(queue))


class _Targets:
    """The candidates that are left, by ClusterQueue, and the part of the quota tree above them.

    Each cohort has a heap of its children, the one with the highest share first. A child's place depends on its own
    usage only, so after a victim was taken only those on the way to its ClusterQueue get a new place.
    """

    def __init__(self, search: _Search, candidates: Mapping[QuotaNode, Iterator[Ranked]]) -> None:
        self._search = search
        self._candidates = candidates
        self._next: dict[QuotaNode, Ranked] = {}  # by ClusterQueue
        self._children: dict[QuotaNode, list[tuple[_Place, QuotaNode]]] = {}  # heaps, by cohort
        self._without_place: list[QuotaNode] = []  # the deepest first
        for queue in candidates:
            self._advance(queue)
        depths = {node: depth for queue in self._next for depth, node in enumerate(reversed(list(queue.path())))}
        self._without_place = sorted((node for node in depths if node.parent is not None), key=lambda n: -depths[n])
        self._children = {node.parent: [] for node in self._without_place if node.parent is not None}

    def _advance(self, queue: QuotaNode) -> None:
        found = next(self._candidates[queue], None)
        if found is None:
            self._next.pop(queue, None)
        else:
            self._next[queue] = found

    def pop(self, queue: QuotaNode) -> Ranked | None:
        """Remove the next candidate of a ClusterQueue and return it; None if it has none left."""
        found = self._next.get(queue)
        if found is not None:
            self._advance(queue)
        return found

    def drop(self, queue: QuotaNode) -> None:
        """Remove all candidates of a ClusterQueue."""
        self._next.pop(queue, None)

    def next(self) -> QuotaNode | None:
        """The ClusterQueue to take from: below the root, the child with the highest share at each step.

        None if no ClusterQueue has candidates left. The caller pops a candidate before it calls again.
        """
        for node in self._without_place:
            if node.parent is not None and self._is_left(node) and self._search.is_open(node):
                heappush(self._children[node.parent], (self._place(node), node))
        node = self._search.ancestors[-1]
        if not self._is_left(node):
            return None
        way: list[QuotaNode] = []
        while node in self._children:
            node = heappop(self._children[node])[1]
            way.append(node)
        self._without_place = way[::-1]
        return node

    def _is_left(self, node: QuotaNode) -> bool:
        return node in self._next or bool(self._children.get(node))

    def _place(self, node: QuotaNode) -> _Place:
        """The sort key of `node`: the highest share first; at equal shares cohorts, then ClusterQueues, of which that
        of the preemptor is last; then by the next candidate, then by name.
        """
        (infinite, share), candidate = self._search.share(node), self._next.get(node)
        own = node is self._search.ancestors[0]
        return _Place(
            not infinite,
            -share,
            candidate is not None,
            own,
            candidate[0] if candidate is not None else NO_RANKING,
            node.name,
        )


class _Place(NamedTuple):
    """Sort key of the children of a cohort; no two children have equal keys."""

    finite: bool
    minus_share: int
    is_queue: bool
    is_own: bool
    candidate: Ranking
    name: str


def _kind(victim: Victim) -> Hashable:
    """The same for victims of one ClusterQueue with equal usage and reason: putting one back changes as much."""
    return victim.holding.cluster_queue, victim.reason, tuple(victim.holding.usage.items())
