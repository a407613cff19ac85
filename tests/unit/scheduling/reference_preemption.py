"""Which Workloads are preempted, computed naively (see `reference`). Kueue: pkg/scheduler/preemption."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

from tests.unit.scheduling.reference import (
    FR,
    Held,
    Usage,
    World,
    above,
    borrows_with,
    children,
    fits,
    is_queue,
    limits,
    local_available,
    meeting,
    share,
    used,
)

IN_QUEUE, RECLAMATION = "InClusterQueue", "InCohortReclamation"
WHILE_BORROWING, FAIR = "InCohortReclaimWhileBorrowing", "InCohortFairSharing"
FINAL_SHARE, INITIAL_SHARE = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
SEARCHES = 8
MOST_RECLAIMS = 2  # from one Workload of no lower priority

Victims = list[tuple[str, str]]  # uid and reason


class Preemptor(NamedTuple):
    """A pending Workload: all that it would use, where quota is short, and how often it has preempted which uid."""

    queue: str
    priority: int
    queued: int
    usage: Usage
    needs: frozenset[FR]
    preempted: Mapping[str, int] = MappingProxyType({})


class Candidate(NamedTuple):
    held: Held
    kind: str  # "entitled", "other" or "own"
    reason: str
    only_without_borrowing: bool = False
    top: str = ""  # the lowest cohort above both ClusterQueues


def find_victims(w: World, preemptor: Preemptor) -> Victims:
    return fair(w, preemptor) if w.strategies else classical(w, preemptor)


def may(policy: str, preemptor: Preemptor, held: Held) -> bool:
    """Whether a policy lets the Workload be preempted, and whether that helps."""
    lower = held.priority < preemptor.priority
    newer = held.priority == preemptor.priority and held.queued > preemptor.queued
    again = held.priority >= preemptor.priority and preemptor.preempted.get(held.uid, 0) >= MOST_RECLAIMS
    some = held.evicted or not again
    allowed = {"Never": False, "LowerPriority": lower, "LowerOrNewerEqualPriority": lower or newer, "Any": some}
    return allowed[policy] and any(fr in preemptor.needs for fr in held.usage)


def is_within_quota(w: World, name: str, needs: frozenset[FR]) -> bool:
    """Without what is only claimed there by other preemptors."""
    return not any(borrows_with(w, name, fr, -claimed(w, name, fr)) for fr in needs)


def claimed(w: World, name: str, fr: FR) -> int:
    return sum(usage.get(fr, 0) for queue, usage in w.added if name in (queue, *above(w, queue)))


def place(preemptor: Preemptor, held: Held) -> tuple:
    """The order of candidates."""
    late = (-held.reserved, -held.queued, -held.arrival)
    return not held.evicted, held.queue == preemptor.queue, held.priority, *late, held.uid


# --- classical ---------------------------------------------------------------------------------------------


def candidates(w: World, p: Preemptor) -> list[Candidate]:
    """All candidates in their order: evicted ones first, then the entitled, the others, the own."""
    policies = w.nodes[p.queue].policies
    found = [Candidate(h, "own", IN_QUEUE) for h in w.held if h.queue == p.queue and may(policies.within, p, h)]
    for queue, top, entitled in lenders(w, p):
        for held in w.held:
            if held.queue == queue and may(policies.reclaim, p, held):
                found.append(elsewhere(w, p, held, top, entitled))
    kinds = ["entitled", "other", "own"]
    return sorted(found, key=lambda c: (not c.held.evicted, kinds.index(c.kind), place(p, c.held)))


def elsewhere(w: World, p: Preemptor, held: Held, top: str, entitled: bool) -> Candidate:
    policies = w.nodes[p.queue].policies
    if entitled:
        return Candidate(held, "entitled", RECLAMATION, False, top)
    below = policies.threshold is None or held.priority <= policies.threshold
    if policies.borrow == "LowerPriority" and held.priority < p.priority and below:
        return Candidate(held, "other", WHILE_BORROWING, False, top)
    return Candidate(held, "other", RECLAMATION, True, top)


def lenders(w: World, p: Preemptor) -> list[tuple[str, str, bool]]:
    """The ClusterQueues above their quota, each with the cohort where it meets the preemptor, and who is entitled."""
    found, skip, rest = [], p.queue, dict(p.usage)
    entitled = within(w, p.queue, rest)
    for top in above(w, p.queue):
        rest = beyond(w, skip, rest)
        found += [(queue, top, entitled) for queue in over_quota(w, top, skip, p.needs)]
        entitled = entitled or within(w, top, rest)
        skip = top
    return found


def within(w: World, name: str, usage: Usage) -> bool:
    return not any(borrows_with(w, name, fr, amount) for fr, amount in usage.items())


def beyond(w: World, name: str, usage: Usage) -> Usage:
    """What a node passes on to its parent if this is used in addition."""
    return {fr: max(0, amount - local_available(w, name, fr)) for fr, amount in usage.items()}


def over_quota(w: World, top: str, skip: str, needs: frozenset[FR]) -> list[str]:
    found = []
    for child in children(w, top):
        if child != skip and not is_within_quota(w, child, needs):
            found += [child] if is_queue(w, child) else over_quota(w, child, skip, needs)
    return found


def attempts(w: World, p: Preemptor, found: Sequence[Candidate]) -> list[bool]:
    """Whether borrowing is allowed, for each attempt."""
    kinds = {c.kind for c in found}
    forbidden = w.nodes[p.queue].policies.borrow == "Never"
    under = all(used(w, p.queue, fr) < limits(w, p.queue, fr).nominal for fr in p.needs)
    if kinds <= {"own"} or (forbidden and not under):
        return [True]
    return [False, True] if forbidden and "entitled" not in kinds else [True, False]


def usable(w: World, p: Preemptor, c: Candidate, borrowing: bool) -> bool:
    """Whether the candidate may go now: its ClusterQueue and the cohorts below the common one are above their quota."""
    if c.kind == "own":
        return True
    if borrowing and c.only_without_borrowing:
        return False
    way = [c.held.queue, *above(w, c.held.queue)]
    return not any(is_within_quota(w, name, p.needs) for name in way[: way.index(c.top)])


def classical(w: World, p: Preemptor) -> Victims:
    found = candidates(w, p)
    for borrowing in attempts(w, p, found):
        removed = removed_in_order(w, p, found, borrowing)
        if fits(w.without(removed), p.queue, p.usage, borrowing):
            kept = fill_back(w, p, [c.held.uid for c in found if c.held.uid in removed], borrowing)
            return [(c.held.uid, c.reason) for c in found if c.held.uid in kept]
    return []


def removed_in_order(w: World, p: Preemptor, found: Sequence[Candidate], borrowing: bool) -> set[str]:
    """The candidates that go, each if it may then, until the preemptor fits."""
    removed: set[str] = set()
    for candidate in found:
        rest = w.without(removed)
        if fits(rest, p.queue, p.usage, borrowing):
            break
        if usable(rest, p, candidate, borrowing):
            removed.add(candidate.held.uid)
    return removed


def fill_back(w: World, p: Preemptor, uids: list[str], borrowing: bool = True) -> list[str]:
    """Those without whom the preemptor would not fit; tried from the last one to the first."""
    kept = list(uids)
    for uid in reversed(uids):
        fewer = [other for other in kept if other != uid]
        if fits(w.without(fewer), p.queue, p.usage, borrowing):
            kept = fewer
    return kept


# --- every subset ------------------------------------------------------------------------------------------


def allowed_sets(w: World, p: Preemptor, borrowing: bool) -> list[frozenset[str]]:
    """All sets of candidates that suffice and that some order of removal allows."""
    found = candidates(w, p)
    return [
        frozenset(c.held.uid for c in some)
        for size in range(1, len(found) + 1)
        for some in combinations(found, size)
        if fits(w.without(c.held.uid for c in some), p.queue, p.usage, borrowing)
        and can_be_removed(w, p, some, borrowing)
    ]


def can_be_removed(w: World, p: Preemptor, some: Sequence[Candidate], borrowing: bool) -> bool:
    """Whether an order exists in which each may go when it is its turn."""
    return not some or any(
        usable(w, p, c, borrowing)
        and can_be_removed(w.without([c.held.uid]), p, [o for o in some if o is not c], borrowing)
        for c in some
    )


# --- fair sharing ------------------------------------------------------------------------------------------


def fair(w: World, p: Preemptor, ties: Sequence[str] = ()) -> Victims:
    """`ties`: the cohorts in the order in which equal ones are chosen, which Kueue leaves to chance."""
    excluded: set[str] = set()
    for _ in range(SEARCHES):
        found = FairSearch(w, p, excluded, ties).victims()
        unfair = {uid for uid, reason in found if reason != IN_QUEUE and not is_fair(w, p, found, uid, reason)}
        if not unfair:
            return found
        excluded |= unfair
    return []


def allows(strategy: str, preemptor: tuple, before: tuple, after: tuple) -> bool:
    """The preemptor's share is below the victim's in any case, so the preemptor is not preempted in turn."""
    return preemptor < before and (strategy == INITIAL_SHARE or preemptor <= after)


def is_open(w: World, p: Preemptor, name: str) -> bool:
    """Whether a node, and each cohort up to the common one, borrows what is needed. The preemptor's own are open."""
    if name == p.queue or name in above(w, p.queue):
        return True
    return not is_within_quota(w, name, p.needs) and is_open(w, p, w.nodes[name].parent)


def is_fair(w: World, p: Preemptor, victims: Victims, uid: str, reason: str) -> bool:
    """Whether this victim could be taken, and a strategy allows it, in the state that results."""
    held = next(h for h in w.held if h.uid == uid)
    if held.evicted:
        return True
    others = w.plus(p.queue, p.usage).without(other for other, _ in victims if other != uid)
    if reason == RECLAMATION or not is_open(others, p, held.queue):
        return is_open(others, p, held.queue)
    one, other = meeting(w, p.queue, held.queue)
    before, after = share(others, other), share(others.without([uid]), other)
    return any(allows(strategy, share(others, one), before, after) for strategy in w.strategies)


class FairSearch:
    """Takes candidates where the share is highest until the preemptor fits."""

    def __init__(self, w: World, p: Preemptor, excluded: set[str], ties: Sequence[str]) -> None:
        self.w, self.p, self.ties = w, p, list(ties)
        self.counted = w.plus(p.queue, p.usage)
        self.entitled = not any(borrows_with(self.counted, p.queue, fr, 0) for fr in p.needs)
        self.found: Victims = []
        policies = w.nodes[p.queue].policies
        relatives = {q for q in w.nodes if above(w, q)[-1:] == above(w, p.queue)[-1:]} if above(w, p.queue) else set()
        open_queues = {q for q in relatives if not is_within_quota(w, q, p.needs)}
        self.left = sorted(
            (
                h
                for h in w.held
                if h.uid not in excluded
                and (
                    may(policies.within, p, h)
                    if h.queue == p.queue
                    else h.queue in open_queues and may(policies.reclaim, p, h)
                )
            ),
            key=lambda h: place(p, h),
        )

    @property
    def now(self) -> World:
        """Without the victims found so far, and with the preemptor."""
        return self.counted.without(uid for uid, _ in self.found)

    def victims(self) -> Victims:
        steps: list[Callable[[], bool]] = [self.evicted, self.first]
        if len(self.w.strategies) > 1:
            steps.append(self.second)
        if not any(step() for step in steps):
            return []
        kept = fill_back(self.w, self.p, [uid for uid, _ in self.found])
        return [(uid, reason) for uid, reason in self.found if uid in kept]

    def take(self, held: Held, reason: str) -> bool:
        """Whether the preemptor fits then."""
        self.found.append((held.uid, reason))
        return fits(self.w.without(uid for uid, _ in self.found), self.p.queue, self.p.usage)

    def reason(self, held: Held) -> str:
        if held.queue == self.p.queue:
            return IN_QUEUE
        return RECLAMATION if self.entitled else FAIR

    def evicted(self) -> bool:
        for held in [h for h in self.left if h.evicted]:
            self.left.remove(held)
            if self.take(held, self.reason(held)):
                return True
        return False

    def first(self) -> bool:
        """The first strategy. What it refuses is left to the second."""
        refused: list[Held] = []
        while queue := self.next():
            for held in [h for h in self.left if h.queue == queue]:
                self.left.remove(held)
                reason = self.reason(held)
                if reason != FAIR or self.is_allowed(self.w.strategies[0], held):
                    if self.take(held, reason):
                        return True
                    break
                refused.append(held)
        self.left = refused
        return False

    def second(self) -> bool:
        """LessThanInitialShare, once for each ClusterQueue."""
        while queue := self.next():
            held = next(h for h in self.left if h.queue == queue)
            self.left = [h for h in self.left if h.queue != queue]
            if self.is_allowed(INITIAL_SHARE, held) and self.take(held, self.reason(held)):
                return True
        return False

    def is_allowed(self, strategy: str, held: Held) -> bool:
        one, other = meeting(self.w, self.p.queue, held.queue)
        now = self.now
        return allows(strategy, share(now, one), share(now, other), share(now.without([held.uid]), other))

    def next(self) -> str:
        """The ClusterQueue to take from: from the root down to the child with the highest share; "" if none is left."""
        name = ([self.p.queue, *above(self.w, self.p.queue)])[-1]
        if not self.is_left(name):
            return ""
        while not is_queue(self.w, name):
            name = min((child for child in children(self.w, name) if self.is_left(child)), key=self.preference)
        return name

    def is_left(self, name: str) -> bool:
        here = [h for h in self.left if name in (h.queue, *above(self.w, h.queue))]
        return any(is_open(self.now, self.p, h.queue) for h in here)

    def preference(self, name: str) -> tuple:
        infinite, per_mille = share(self.now, name)
        first = next((place(self.p, h) for h in self.left if h.queue == name), ())
        tie = self.ties.index(name) if name in self.ties else 0
        return not infinite, -per_mille, is_queue(self.w, name), tie, first
