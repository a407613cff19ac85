"""Which of the candidates are preempted so that a pending Workload fits, and in which order they are tried (KEP-83,
KEP-1337). Pure.

Victims are sought among the Workloads that hold a FlavorResource of which quota is short. Where they are decides by
which policy (`preemption_candidates`), and for which reason, they may be chosen:

    own ClusterQueue         withinClusterQueue                                    InClusterQueue
    elsewhere, *entitled*    reclaimWithinCohort                                   InCohortReclamation
    elsewhere, other         reclaimWithinCohort; only if the preemptor does not   InCohortReclamation
                             borrow, or by borrowWithinCohort                      InCohortReclaimWhileBorrowing

The order is total: evicted ones first; then entitled, other, own ClusterQueue; then lower priority, later reservation,
later in the queue (BEHAVIOUR.md#q7-queue-order), uid. Workloads are removed in this order until the preemptor fits.
Then each is put back, the last removed first, if the preemptor still fits. So no victim that remains can be spared. The
tree is the same afterwards.

Each ClusterQueue keeps its holdings sorted (`QueueState.ranking`), so a search reads little more than it removes.
Kueue: pkg/scheduler/preemption, BEHAVIOUR.md#q44-preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from heapq import merge
from typing import NamedTuple

from queue_manager.api import policy_values, reasons
from queue_manager.scheduling.flavor_assignment import Mode
from queue_manager.scheduling.holdings import Holding, Ranking
from queue_manager.scheduling.preemption_candidates import (
    CandidateKind,
    Preemptor,
    Source,
    candidate_rule,
    is_below_nominal,
    is_hopeless,
    may_borrow_and_preempt,
    policy_for,
    priority_bound,
    sources_of,
    without_all,
)
from queue_manager.scheduling.quota_state import QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import NOTHING, FlavorResource, QuotaNode, Usage, smallest_subtree

MOST_READ = 100  # victims, before it is asked whether all candidates together suffice


class Victim(NamedTuple):
    """A Workload to be preempted, and the reason of its Preempted condition."""

    holding: Holding
    reason: str


FindVictims = Callable[[SchedulerState, Preemptor, datetime], tuple[Victim, ...]]


def find_victims(state: SchedulerState, preemptor: Preemptor, now: datetime) -> tuple[Victim, ...]:
    """A minimal set of Workloads without which the preemptor fits, in the order of their choice; () if none suffices.

    The usage in the quota tree is that of `state`, possibly with planned changes. It is changed during the search.
    """
    if is_hopeless(state, preemptor):
        return ()
    search = _Search(state, preemptor, now)
    for borrowing in search.attempts():
        victims = search.attempt(borrowing=borrowing)
        if victims:
            return victims
        if search.is_exhausted(borrowing=borrowing):
            break
    return ()


def stoppable(state: SchedulerState, preemptor: Preemptor, now: datetime) -> frozenset[str]:
    """For a preemptor that finds no victims: the uids of the candidates that it may stop, which together do not
    suffice.

    These candidates are the ones above the quota of their ClusterQueue and, if the preemptor has to borrow, not above
    maxPriorityThreshold.
    """
    search = _Search(state, preemptor, now)
    return frozenset(uid for borrowing in search.attempts() for uid in search.usable(borrowing=borrowing))


def prospect(state: SchedulerState, preemptor: Preemptor, now: datetime, victims_of: FindVictims) -> tuple[Mode, int]:
    """Return (how well the preemptor would fit after preemption, its borrow level then).

    Kueue: PreemptionOracle.SimulatePreemption
    """
    [(fr, value)] = preemptor.usage.items()
    if not _may_fit_after_preemption(state, preemptor.queue, fr, value):
        return Mode.NO_FIT, 0
    victims = victims_of(state, preemptor, now)
    if not victims:
        return Mode.NO_CANDIDATES, preemptor.node.borrow_level(fr, value)
    own = any(victim.holding.cluster_queue == preemptor.queue.name for victim in victims)
    return (Mode.PREEMPT if own else Mode.RECLAIM), level_without(state, victims, preemptor.node, fr, value)


def _may_fit_after_preemption(state: SchedulerState, queue: QueueState, fr: FlavorResource, value: int) -> bool:
    """Whether a preemption that the policies allow may help.

    Kueue: FlavorAssigner.fitsResourceQuota, canPreemptWithinClusterQueue
    """
    within = queue.queue.spec.preemption.within_cluster_queue
    return within != policy_values.NEVER or may_reclaim(state, queue, fr, value)


def may_reclaim(state: SchedulerState, queue: QueueState, fr: FlavorResource, value: int) -> bool:
    """Whether preemption in other ClusterQueues may help: the preemptor need not borrow then, or may preempt while it
    borrows.

    Kueue: FlavorAssigner.fitsResourceQuota, canPreemptWhileBorrowing
    """
    policy = queue.queue.spec.preemption
    return (
        queue.node.quota(fr).nominal >= value
        or smallest_subtree(queue.node, queue.node.borrow_level(fr, value)).parent is not None
        or may_borrow_and_preempt(queue)
        or (bool(state.fair_sharing) and policy.reclaim_within_cohort != policy_values.NEVER)
    )


def level_without(
    state: SchedulerState, victims: tuple[Victim, ...], node: QuotaNode, fr: FlavorResource, value: int
) -> int:
    """The borrow level of this amount once the victims are gone."""
    held = [(state.queues[v.holding.cluster_queue].node, v.holding.usage.get(fr, 0)) for v in victims]
    for where, amount in held:
        where.remove(fr, amount)
    level = node.borrow_level(fr, value)
    for where, amount in held:
        where.add(fr, amount)
    return level


# --- the search --------------------------------------------------------------------------------------------


_Candidate = tuple[Ranking, Source, Holding]  # ordered by the ranking, which no two share


class _Search:
    def __init__(self, state: SchedulerState, preemptor: Preemptor, now: datetime) -> None:
        self._state = state
        self._preemptor = preemptor
        self._now = now
        self._policy = preemptor.queue.queue.spec.preemption
        self._sources = list(sources_of(state, preemptor))
        self._found: dict[CandidateKind, bool] = {}
        self._sharing: dict[QuotaNode, list[FlavorResource]] = {}  # of the ClusterQueues with candidates
        self._closed: set[QuotaNode] = set()  # ClusterQueues of which the attempt may stop no further Workload
        self._is_too_few = (
            False  # the attempt has removed all that it may, and the preemptor would not even fit borrowing
        )

    def attempts(self) -> tuple[bool, ...]:
        """Whether the preemptor may borrow: one or two attempts, the first that succeeds counts."""
        entitled, other = self._exists(CandidateKind.ENTITLED), self._exists(CandidateKind.OTHER)
        only_within_quota = not may_borrow_and_preempt(self._preemptor.queue)
        if not (entitled or other) or (only_within_quota and not is_below_nominal(self._preemptor)):
            return (True,)
        return (False, True) if only_within_quota and not entitled else (True, False)

    def is_exhausted(self, *, borrowing: bool) -> bool:
        """After an attempt without victims: whether the other one cannot find any either.

        An attempt with borrowing may stop no more Workloads than that without, of other ClusterQueues at most the same.
        So it fails if all that the first one could stop do not suffice for a preemptor that borrows. One without
        borrowing fails after it, unless it may stop Workloads that the first one may not.
        """
        if borrowing:
            return self._is_too_few and not self._exists(CandidateKind.OTHER)
        return self._is_too_few and not may_borrow_and_preempt(self._preemptor.queue)

    def _exists(self, kind: CandidateKind) -> bool:
        """Whether there is a candidate of this kind, while none is removed."""
        if kind not in self._found:
            sources = [source for source in self._sources if source.kind is kind]
            candidates = (c for evicted in (False, True) for s in sources for c in self._ranked(s, evicted=evicted))
            self._found[kind] = next(candidates, None) is not None
        return self._found[kind]

    # --- candidates in order ---

    def _candidates(self) -> Iterator[_Candidate]:
        for evicted in (True, False):
            for kind in CandidateKind:
                yield from self._of_kind(kind, evicted=evicted)

    def _of_kind(self, kind: CandidateKind, *, evicted: bool) -> Iterator[_Candidate]:
        found = [self._ranked(source, evicted=evicted) for source in self._sources if source.kind is kind]
        return found[0] if len(found) == 1 else merge(*found)

    def _ranked(self, source: Source, *, evicted: bool) -> Iterator[_Candidate]:
        """The candidates of one ClusterQueue, in order; read as far as the caller wants."""
        policy = policy_for(source, self._preemptor)
        below = priority_bound(policy, self._preemptor.info.priority)
        is_candidate = candidate_rule(self._preemptor, policy, self._now)
        closed, node = self._closed, source.queue.node
        for rank, holding in self._state.ranked(source.queue, evicted=evicted, below=below):
            if node in closed:
                return
            if is_candidate(holding):
                yield rank, source, holding

    def _preemption_reason(self, source: Source, holding: Holding) -> str:
        if source.kind is CandidateKind.OWN_QUEUE:
            return reasons.IN_CLUSTER_QUEUE
        borrowing = self._policy.borrow_within_cohort
        if source.kind is CandidateKind.ENTITLED or borrowing is None or borrowing.policy == policy_values.NEVER:
            return reasons.IN_COHORT_RECLAMATION
        threshold = borrowing.max_priority_threshold
        most = self._preemptor.info.priority - 1 if threshold is None else threshold
        below = holding.priority <= most and holding.priority < self._preemptor.info.priority
        return reasons.IN_COHORT_RECLAIM_WHILE_BORROWING if below else reasons.IN_COHORT_RECLAMATION

    def _only_without_borrowing(self, source: Source, holding: Holding) -> bool:
        return (
            source.kind is CandidateKind.OTHER
            and self._preemption_reason(source, holding) == reasons.IN_COHORT_RECLAMATION
        )

    # --- one attempt ---

    def attempt(self, *, borrowing: bool) -> tuple[Victim, ...]:
        """The victims, if the preemptor may borrow or not; () if they do not suffice."""
        self._closed.clear()
        self._is_too_few = False
        if not self._may_suffice(borrowing):
            return ()
        removal = _Removal(self._preemptor.usage)
        try:
            chosen = self._remove_until_it_fits(removal, borrowing)
            kept = self._put_back(removal, chosen, borrowing)
        finally:
            removal.undo()
        return tuple(Victim(holding, self._preemption_reason(source, holding)) for _, source, holding in kept)

    def usable(self, *, borrowing: bool) -> list[str]:
        """The uids of all that this attempt may stop; [] if the preemptor may not borrow and would have to."""
        self._closed.clear()
        removal = _Removal(self._preemptor.usage)
        found = []
        try:
            for candidate in self._candidates():
                if self._is_usable(removal, candidate, borrowing):
                    removal.remove(candidate)
                    found.append(candidate[2].uid)
            removal.apply()
            return found if borrowing or self._is_within_quota else []
        finally:
            removal.undo()

    def _may_suffice(self, borrowing: bool) -> bool:
        """Whether any candidate may be preempted with or without borrowing; if not, the search is skipped.

        Most heads of a full cohort have no such candidate.
        """
        if self._exists(CandidateKind.OWN_QUEUE):
            return True
        if borrowing:
            others_count = may_borrow_and_preempt(self._preemptor.queue)
            return self._exists(CandidateKind.ENTITLED) or (others_count and self._exists(CandidateKind.OTHER))
        return self._is_within_quota and (self._exists(CandidateKind.ENTITLED) or self._exists(CandidateKind.OTHER))

    @property
    def _is_within_quota(self) -> bool:
        """Whether the preemptor would not borrow although no Workload of its own ClusterQueue is preempted."""
        node = self._preemptor.node
        usage = self._preemptor.usage.items()
        return all(node.usage.get(fr, 0) + value <= node.subtree.get(fr, 0) for fr, value in usage)

    def _remove_until_it_fits(self, removal: _Removal, borrowing: bool) -> list[_Candidate]:
        """The candidates without which the preemptor fits; [] if it does not fit even when all of them are removed."""
        node = self._preemptor.node
        missing = {fr: v - node.available(fr) for fr, v in self._preemptor.usage.items()}  # what must go at least
        chosen: list[_Candidate] = []
        own = CandidateKind.OWN_QUEUE
        for candidate in self._candidates():
            if candidate[1].kind is not own and not self._is_usable(removal, candidate, borrowing):
                continue
            chosen.append(candidate)
            if removal.remove_of(candidate, missing) and self._slack(removal, borrowing) is not None:
                return chosen
            if len(chosen) == MOST_READ and not self._all_suffice(removal, chosen, borrowing):
                return []
        self._is_too_few = self._slack(removal, borrowing=True) is None
        return []

    def _all_suffice(self, removal: _Removal, chosen: list[_Candidate], borrowing: bool) -> bool:
        """Whether the preemptor would fit without all Workloads that may be candidates; `chosen` are removed now."""
        removal.undo()
        priority = self._preemptor.info.priority
        bounds = [(s.queue, priority_bound(policy_for(s, self._preemptor), priority)) for s in self._sources]
        with without_all(bounds, self._preemptor.usage):
            self._is_too_few = self._slack(removal, borrowing=True) is None
            suffice = self._slack(removal, borrowing) is not None
        for candidate in chosen:
            removal.remove(candidate)
        return suffice

    def _is_usable(self, removal: _Removal, candidate: _Candidate, borrowing: bool) -> bool:
        """Whether the candidate may be preempted after those that `removal` has removed.

        A candidate of another ClusterQueue may be preempted only while its ClusterQueue and the subtrees around it use
        more than their quota. With `borrowing`, borrowWithinCohort must allow it too.
        """
        _, source, holding = candidate
        if source.kind is CandidateKind.OWN_QUEUE:
            return True
        if borrowing and self._only_without_borrowing(source, holding):
            return False
        if removal.is_above_quota(source, self._preemptor):
            return True
        self._closed.add(source.queue.node)  # it gets no new usage during the attempt
        return False

    def _put_back(self, removal: _Removal, chosen: list[_Candidate], borrowing: bool) -> list[_Candidate]:
        """The candidates that cannot be spared, tried from the last but one to the first."""
        kept = chosen[-1:]
        slack = self._slack(removal, borrowing)
        for candidate in reversed(chosen[:-1]):
            if slack is None or self._is_too_much(candidate[1], candidate[2].usage, slack):
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

    def _is_too_much(self, source: Source, usage: Usage, slack: Usage) -> bool:
        """Whether it is certain, without reading the tree, that the preemptor does not fit beside this candidate."""
        node = source.queue.node
        sharing = self._sharing.get(node)
        if sharing is None:
            sharing = [fr for fr in self._preemptor.usage if _shares_all(source, self._preemptor.node, fr)]
            self._sharing[node] = sharing
        for fr in sharing:  # runs once per candidate, as `is_above_quota`
            if usage.get(fr, 0) > slack[fr]:
                break
        else:
            return False
        return True

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


def _shares_all(source: Source, preemptor: QuotaNode, fr: FlavorResource) -> bool:
    """Whether every unit of `fr` that a Workload of `source` uses reduces what the preemptor may use: between the two
    ClusterQueues is no lending or borrowing limit.
    """
    if source.kind is CandidateKind.OWN_QUEUE:
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
        """Remove the usage of a candidate; `apply` writes that to the tree."""
        self._change(candidate, 1)

    def remove_of(self, candidate: _Candidate, missing: dict[FlavorResource, int]) -> bool:
        """Remove the usage of a candidate, also from `missing`; whether nothing is missing then."""
        _, source, holding = candidate  # runs once per candidate, as `is_above_quota`
        node, usage, enough = source.queue.node, holding.usage, True
        due = self._due.get(node)
        if due is None:
            due = self._due[node] = dict.fromkeys(self._relevant, 0)
        for fr, left in missing.items():
            if amount := usage.get(fr):
                due[fr] += amount
                missing[fr] = left = left - amount
            if left > 0:
                enough = False
        return enough

    def put_back(self, candidate: _Candidate) -> None:
        """Add the usage of a removed candidate again; `apply` writes that to the tree."""
        self._change(candidate, -1)

    def _change(self, candidate: _Candidate, sign: int) -> None:
        node, usage = candidate[1].queue.node, candidate[2].usage
        due = self._due.get(node)
        if due is None:
            due = self._due[node] = dict.fromkeys(self._relevant, 0)
        for fr in due:
            due[fr] += sign * usage.get(fr, 0)

    def apply(self) -> None:
        """Write the removals since the last call to the tree."""
        for node, amounts in self._due.items():
            for fr, amount in amounts.items():
                self._applied.append((node, fr, amount))
                _remove(node, fr, amount)
        self._due.clear()

    def undo(self) -> None:
        """Give the tree the usage that it had before the first removal."""
        self._due.clear()
        for node, fr, amount in reversed(self._applied):
            _remove(node, fr, -amount)
        self._applied.clear()

    def is_above_quota(self, source: Source, preemptor: Preemptor) -> bool:
        """Whether what runs in a ClusterQueue, and in all subtrees around it below `top`, is above their quota."""
        node = source.queue.node
        due, used, own = self._due.get(node, NOTHING), node.usage, node.subtree
        reserved = preemptor.reserved.get(node, NOTHING)
        for fr in preemptor.needs:  # runs once per candidate: any() of a generator takes twice as long
            if used.get(fr, 0) - due.get(fr, 0) - reserved.get(fr, 0) > own.get(fr, 0):
                break
        else:
            return False
        if node.parent is source.top:
            return True
        self.apply()
        around = node.parent
        while around is not None and around is not source.top:
            if preemptor.finds_within_quota(around):
                return False
            around = around.parent
        return True


def _remove(node: QuotaNode, fr: FlavorResource, amount: int) -> None:
    """Remove this much, or add it if it is negative."""
    if amount > 0:
        node.remove(fr, amount)
    elif amount < 0:
        node.add(fr, -amount)
