"""Preemption under fair sharing: which Workloads stop so that a queue with a lower share gets its part (KEP-1714).

The search takes victims one by one until the preemptor fits. It descends from the root of the quota tree to the child
with the highest dominant resource share that has candidates, down to a ClusterQueue:

    its own ClusterQueue     the next candidate is taken, as preemption.withinClusterQueue allows
    another one              if the preemptor's ClusterQueue stays within its nominal quota, the next candidate is taken;
                             else the first candidate that satisfies the strategy

A strategy compares shares of the two children, on the way to the two ClusterQueues, of their lowest common cohort,
with the preemptor counted:

    LessThanOrEqualToFinalShare   (S2-a)  preemptor's <= victim's after it has stopped
    LessThanInitialShare          (S2-b)  preemptor's <  victim's before

The first configured strategy is applied to all candidates; S2-b, if it is the second, to those left, once per
ClusterQueue. Then victims that are not needed are given back, the last taken first.

Two rules are Sluice's own, so that no two queues preempt each other in turn. S2-a, too, requires that the preemptor's
share is below the victim's before it stops. And each victim must satisfy a strategy in the state that results, with
the other victims that were given back; one that does not is no candidate in a further search. So each preemption
lowers the higher of two shares below its former value. A node is only taken from while it, and each cohort between it
and the common one, borrows a resource that the preemptor needs.

Kueue: fairPreemptions in pkg/scheduler/preemption, pkg/scheduler/preemption/fairsharing;
BEHAVIOUR.md#q61-fair-preemption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from queue_manager.api import reasons
from queue_manager.scheduling.fair_sharing import Share, Shares, borrows
from queue_manager.scheduling.preemption import Preemptor, Victim
from queue_manager.scheduling.quota_state import Holding, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, Usage

FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"
MAX_SEARCHES = 8  # each excludes the victims that turned out unfair in the result of the one before


def find_victims(state: SchedulerState, preemptor: Preemptor, now: datetime) -> tuple[Victim, ...]:
    """The Workloads to preempt so that the preemptor fits; () if none suffice. The quota tree is left unchanged."""
    node = preemptor.queue.node
    candidates = sorted(_candidates(state, preemptor), key=candidate_order(preemptor))
    node.add_all(preemptor.usage)
    try:
        for _ in range(MAX_SEARCHES):
            search = _Search(state, preemptor)
            try:
                if not search.run(candidates):
                    return ()
                unfair = search.unfair()
                if not unfair:
                    return tuple(search.victims)
            finally:
                search.restore()
            candidates = [holding for holding in candidates if holding.uid not in unfair]
        return ()
    finally:
        node.remove_all(preemptor.usage)


def _candidates(state: SchedulerState, preemptor: Preemptor) -> Iterable[Holding]:
    """The holdings that use what the preemptor needs and that the policies of its ClusterQueue allow to preempt."""
    policies, own = preemptor.queue.queue.spec.preemption, preemptor.queue
    for name in state.relatives(own.name):
        queue = state.queues[name]
        policy = policies.within_cluster_queue if queue is own else policies.reclaim_within_cohort
        if policy == "Never" or not (queue is own or borrows(queue.node, preemptor.needs)):
            continue
        for holding in queue.holdings.values():
            if any(holding.usage.get(fr) for fr in preemptor.needs) and allows(policy, preemptor.info, holding):
                yield holding


class _Comparison(NamedTuple):
    """The shares of the two children, below the lowest common cohort, of preemptor and victim."""

    preemptor: Share
    before: Share  # the victim's, while it runs
    after: Share  # when it has stopped

    def satisfies(self, strategy: str) -> bool:
        if not self.preemptor < self.before:  # its return would preempt the preemptor in turn
            return False
        return strategy == INITIAL_SHARE or self.preemptor <= self.after


class _Search:
    """One search for victims. The preemptor is counted in the quota tree, and `victims` are not."""

    def __init__(self, state: SchedulerState, preemptor: Preemptor) -> None:
        self.victims: list[Victim] = []
        self._state = state
        self._preemptor = preemptor
        self._own = preemptor.queue.node
        self._shares = Shares()
        self._known: dict[QuotaNode, Share] = {}
        self.ancestors = list(self._own.path())
        self._nominal = not borrows(self._own, preemptor.needs)

    # --- the quota tree ---

    def node(self, holding: Holding) -> QuotaNode:
        """The ClusterQueue of a holding."""
        return self._state.queues[holding.cluster_queue].node

    def share(self, node: QuotaNode) -> Share:
        """The share of a node now."""
        share = self._known.get(node)
        if share is None:
            share = self._known[node] = self._shares.of(node)
        return share

    def is_open(self, node: QuotaNode) -> bool:
        """Whether victims may be taken below this node: it borrows what is needed, or the preemptor is there too."""
        return node in self.ancestors or borrows(node, self._preemptor.needs)

    def fits(self) -> bool:
        """Whether the preemptor fits now."""
        return all(self._own.available(fr) >= 0 for fr in self._preemptor.usage)

    def stop(self, holding: Holding) -> None:
        """Remove the usage of a holding from the tree."""
        self._forget(holding)
        self.node(holding).remove_all(holding.usage)

    def resume(self, holding: Holding) -> None:
        """Add the usage of a holding to the tree again."""
        self._forget(holding)
        self.node(holding).add_all(holding.usage)

    def _forget(self, holding: Holding) -> None:
        for node in self.node(holding).path():
            self._known.pop(node, None)

    def restore(self) -> None:
        """Count all victims again."""
        for victim in self.victims:
            self.resume(victim.holding)
        self.victims = []

    # --- the search ---

    def run(self, candidates: list[Holding]) -> bool:
        """Take victims until the preemptor fits; False if it does not fit after all."""
        first, *second = self._state.fair_sharing
        evicted = [holding for holding in candidates if holding.evicted]
        found = self._take_evicted(evicted)
        if not found:
            left = self._by_first_strategy([h for h in candidates if not h.evicted], first)
            found = left is None or (bool(second) and self._by_initial_share(left))
        if found:
            self.victims = fill_back(self.victims, self.stop, self.resume, self.fits)
        return found

    def _take_evicted(self, evicted: list[Holding]) -> bool:
        """Those that are stopping anyway come first: no further Workload stops while they suffice."""
        return any(self._take(h, self._reason(h)) for h in evicted)

    def _take(self, holding: Holding, reason: str) -> bool:
        self.stop(holding)
        self.victims.append(Victim(holding, reason))
        return self.fits()

    def _reason(self, holding: Holding) -> str:
        if self.node(holding) is self._own:
            return reasons.IN_CLUSTER_QUEUE
        return reasons.IN_COHORT_RECLAMATION if self._nominal else reasons.IN_COHORT_FAIR_SHARING

    def _by_first_strategy(self, candidates: list[Holding], strategy: str) -> list[Holding] | None:
        """None if the preemptor fits; else the candidates that did not satisfy the strategy."""
        targets = _Targets(self, candidates)
        left: list[Holding] = []
        while (queue := targets.next()) is not None:
            if queue is self._own or self._nominal:
                chosen = targets.pop(queue)
            else:
                chosen, passed = self._first_satisfying(targets, queue, strategy)
                left += passed
            if chosen is not None and self._take(chosen, self._reason(chosen)):
                return None
        return left

    def _first_satisfying(
        self, targets: _Targets, queue: QuotaNode, strategy: str
    ) -> tuple[Holding | None, list[Holding]]:
        """(the first candidate of this ClusterQueue that satisfies the strategy or None, those passed over)."""
        passed: list[Holding] = []
        refused: set[frozenset[tuple[FlavorResource, int]]] = set()
        while (holding := targets.pop(queue)) is not None:
            usage = frozenset(holding.usage.items())
            if usage not in refused and self._compare(holding).satisfies(strategy):
                return holding, passed
            refused.add(usage)
            passed.append(holding)
        return None, passed

    def _by_initial_share(self, candidates: list[Holding]) -> bool:
        """Apply S2-b to the first candidate of each ClusterQueue. True if the preemptor fits."""
        targets = _Targets(self, candidates)
        while (queue := targets.next()) is not None:
            holding = targets.drop(queue)
            if self._compare(holding).satisfies(INITIAL_SHARE) and self._take(holding, self._reason(holding)):
                return True
        return False

    def _compare(self, holding: Holding) -> _Comparison:
        """The shares that decide about a holding that runs."""
        mine, theirs, freed = self._branches(holding)
        return _Comparison(self.share(mine), self.share(theirs), self._shares.of(theirs, without=freed))

    def _branches(self, holding: Holding) -> tuple[QuotaNode, QuotaNode, Usage]:
        """(the two children of the lowest common cohort, the usage of the holding that counts in its own)."""
        theirs, freed = self.node(holding), holding.usage
        while theirs.parent is not None and theirs.parent not in self.ancestors:
            freed = _counted_above(theirs, freed)
            theirs = theirs.parent
        common = theirs.parent
        mine = next(node for node in self.ancestors if node.parent is common)
        return mine, theirs, freed

    def unfair(self) -> set[str]:
        """The victims that no strategy allows in the state that results. They must not be candidates again."""
        return {v.holding.uid for v in self.victims if not v.holding.evicted and not self._is_fair(v)}

    def _is_fair(self, victim: Victim) -> bool:
        if victim.reason == reasons.IN_CLUSTER_QUEUE:
            return True
        self.resume(victim.holding)
        try:
            if not all(self.is_open(node) for node in self.node(victim.holding).path()):
                return False
            if victim.reason == reasons.IN_COHORT_RECLAMATION:
                return True
            comparison = self._compare(victim.holding)
            return any(comparison.satisfies(strategy) for strategy in self._state.fair_sharing)
        finally:
            self.stop(victim.holding)


class _Targets:
    """The candidates of a search by ClusterQueue, and the part of the quota tree above them."""

    def __init__(self, search: _Search, candidates: Iterable[Holding]) -> None:
        self._search = search
        self._candidates: dict[QuotaNode, deque[Holding]] = {}  # by ClusterQueue, in order
        self._children: dict[QuotaNode, list[QuotaNode]] = {}
        self._places: dict[str, int] = {}  # by uid: the order over all ClusterQueues
        for place, holding in enumerate(candidates):
            self._places[holding.uid] = place
            node = search.node(holding)
            if node not in self._candidates:
                self._candidates[node] = deque()
                self._link(node)
            self._candidates[node].append(holding)

    def _link(self, queue: QuotaNode) -> None:
        for node in queue.path():
            if node.parent is None:
                return
            if node.parent in self._children:
                self._children[node.parent].append(node)
                return
            self._children[node.parent] = [node]

    def next(self) -> QuotaNode | None:
        """The ClusterQueue to take from: the way from the root with the highest share at each step. None: none left."""
        root = self._search.ancestors[-1]
        while self._is_left(root):
            found = self._descend(root)
            if found is not None:
                return found
        return None

    def _is_left(self, node: QuotaNode) -> bool:
        return bool(self._candidates.get(node) or self._children.get(node))

    def _descend(self, node: QuotaNode) -> QuotaNode | None:
        """None if a cohort on the way has no candidates left; then the way has to be chosen again."""
        while node in self._children:
            left = [child for child in self._children[node] if self._is_left(child) and self._search.is_open(child)]
            self._children[node] = left
            if not left:
                return None
            node = self._highest(left)
        return node

    def _highest(self, nodes: list[QuotaNode]) -> QuotaNode:
        """The node with the highest share; among equal ones a cohort, then the queue of the first candidate."""
        highest = max(map(self._search.share, nodes))
        equal = [node for node in nodes if self._search.share(node) == highest]
        cohorts = [node for node in equal if node in self._children]
        if cohorts:
            return min(cohorts, key=lambda node: node.name)
        return min(equal, key=lambda node: self._places[self._candidates[node][0].uid])

    def pop(self, queue: QuotaNode) -> Holding | None:
        """Remove the next candidate of a ClusterQueue and return it; None if it has none left."""
        left = self._candidates[queue]
        return left.popleft() if left else None

    def drop(self, queue: QuotaNode) -> Holding:
        """Remove all candidates of a ClusterQueue that has some, and return the first."""
        return self._candidates.pop(queue)[0]


def _counted_above(node: QuotaNode, usage: Usage) -> Usage:
    """The part of the node's `usage` that counts in its parent too."""
    beyond = {fr: max(0, node.usage.get(fr, 0) - node.local_quota(fr)) for fr in usage}
    return {fr: min(amount, beyond[fr]) for fr, amount in usage.items()}


# --- TEMPORARY until shared with preemption


def allows(policy: str, info, holding) -> bool:
    if policy == "Any":
        return True
    if holding.priority < info.priority:
        return True
    return policy == "LowerOrNewerEqualPriority" and holding.priority == info.priority and info.queued_at < holding.queued_at


def candidate_order(preemptor):
    return lambda h: (not h.evicted, h.cluster_queue == preemptor.queue.name, h.priority, -h.reserved_at.timestamp(), h.uid)


def fill_back(victims, stop, resume, fits):
    kept = victims[-1:]
    for victim in reversed(victims[:-1]):
        resume(victim.holding)
        if not fits():
            stop(victim.holding)
            kept.append(victim)
    return kept[::-1]
