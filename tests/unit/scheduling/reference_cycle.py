"""Flavors and admission cycles, computed naively (see `reference`). Kueue: pkg/scheduler and flavorassigner there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

from tests.unit.scheduling.reference import (
    FR,
    Head,
    Kept,
    Policies,
    Usage,
    World,
    above,
    available,
    children,
    fits,
    height,
    is_queue,
    limits,
    potential,
    resources_of_all,
    share,
    smallest_subtree,
    subtree,
    used,
)
from tests.unit.scheduling.reference_preemption import MOST_RECLAIMS, Preemptor, Victims, find_victims

NO_FIT, NO_CANDIDATES, JOINTLY, PREEMPT, RECLAIM, FREED, FIT = range(7)
ADMIT, REFUSE = "Admit", "Refuse"

Choice = tuple[int, str, str]  # pod set, resource, flavor
Lost = frozenset[tuple[int, str]]  # pod sets with a flavor
Starts = Mapping[tuple[int, tuple[str, ...]], int]  # by pod set and resource group: how many flavors are passed over


class Way(NamedTuple):
    """How well an amount or a flavor fits."""

    mode: int
    borrow: int


@dataclass(frozen=True)
class Assigned:
    """Flavors by pod set and resource, all that is used, and how well the worst part fits."""

    mode: int
    borrow: int
    flavors: tuple[dict[str, str], ...]
    usage: Usage
    needs: frozenset[FR]
    preempting: Lost
    following: Starts


# --- flavors -----------------------------------------------------------------------------------------------


def assign(w: World, planned: World, head: Head, lost: Lost, starts: Starts) -> Assigned:
    """Flavors for all pod sets in order; those of an earlier one count for the next."""
    usage: dict[FR, int] = {}
    flavors: list[dict[str, str]] = []
    ways: dict[Choice, Way] = {}
    following: dict[tuple[int, tuple[str, ...]], int] = {}
    for index, requests in enumerate(head.pod_sets):
        stops: dict[tuple[int, tuple[str, ...]], int] = {}
        chosen = choose(w, planned, head, index, requests, usage, lost, starts, stops)
        if chosen is None:
            return Assigned(
                NO_FIT, 0, (), usage, frozenset(), frozenset(), following
            )  # that of earlier pod sets counts for its turn
        following |= stops
        flavors.append({resource: flavor for (_, resource, flavor) in chosen})
        ways |= chosen
        for _, resource, flavor in chosen:
            usage[flavor, resource] = usage.get((flavor, resource), 0) + requests[resource]
    return Assigned(
        mode=min((way.mode for way in ways.values()), default=FIT),
        borrow=max((way.borrow for way in ways.values()), default=0),
        flavors=tuple(flavors),
        usage=usage,
        needs=frozenset((flavor, resource) for (_, resource, flavor), way in ways.items() if way.mode < FIT),
        preempting=frozenset((index, f) for (index, _, f), way in ways.items() if JOINTLY <= way.mode < FIT),
        following=following,
    )


def choose(w, planned, head, index, requests, usage, lost, starts, stops) -> dict[Choice, Way] | None:
    """The flavors of one pod set; None if a resource has none. `stops`: gets the number of each, counted from 1."""
    chosen: dict[Choice, Way] = {}
    for resources, flavors in w.nodes[head.queue].groups:
        wanted = {resource: requests[resource] for resource in resources if resource in requests}
        if wanted:
            at = index, tuple(resources)
            skipped = starts.get(at, 0)
            found, number = choose_in_group(w, planned, head, index, wanted, flavors[skipped:], usage, lost)
            stops[at] = (skipped + number) % len(flavors)
            if found is None:
                return None
            chosen |= found
    return chosen if len(chosen) == len(requests) else None


def choose_in_group(w, planned, head, index, wanted, flavors, usage, lost) -> tuple[dict[Choice, Way] | None, int]:
    """The best flavor, and its number, counted from 1; the last number if it cannot be used."""
    policies = w.nodes[head.queue].policies
    best, best_way, best_number = None, Way(NO_FIT, 0), 0
    for number, flavor in enumerate(flavors, 1):
        if flavor in head.refused:
            continue
        ways = {
            (index, resource, flavor): way_of(
                w, planned, head, (flavor, resource), amount + usage.get((flavor, resource), 0)
            )
            for resource, amount in wanted.items()
        }
        worst = Way(min(way.mode for way in ways.values()), max(way.borrow for way in ways.values()))
        if (index, flavor) in lost and worst.mode in (PREEMPT, RECLAIM, FREED):
            ways = {choice: Way(min(way.mode, NO_CANDIDATES), way.borrow) for choice, way in ways.items()}
            worst = Way(NO_CANDIDATES, worst.borrow)
        elif worst.mode == NO_CANDIDATES and (index, flavor) not in lost:
            ways = {choice: Way(max(way.mode, JOINTLY), way.borrow) for choice, way in ways.items()}
            worst = Way(JOINTLY, worst.borrow)
        if not tries_next(policies, worst):
            return ways, number
        if preference(policies, worst) > preference(policies, best_way):
            best, best_way, best_number = ways, worst, number
    return best, best_number if best_way.mode >= PREEMPT else len(flavors)


def preference(policies: Policies, way: Way) -> tuple:
    """The higher, the better. A flavor in which nothing can be done is worst, whatever its borrow level."""
    if way.mode == NO_FIT:
        return (0,)
    if way.mode in (NO_CANDIDATES, JOINTLY):
        return way.mode, -way.borrow
    if policies.preference == "PreemptionOverBorrowing":
        return PREEMPT, -way.borrow, way.mode
    return PREEMPT, way.mode, -way.borrow


def tries_next(policies: Policies, way: Way) -> bool:
    if way.mode in (NO_FIT, NO_CANDIDATES, JOINTLY):
        return True
    if way.mode in (PREEMPT, RECLAIM, FREED) and policies.when_can_preempt == "TryNextFlavor":
        return True
    return way.borrow > 0 and policies.when_can_borrow == "TryNextFlavor"


def level(w: World, queue: str, fr: FR, amount: int) -> int:
    return height(w, smallest_subtree(w, queue, fr, amount))


def way_of(w: World, planned: World, head: Head, fr: FR, amount: int) -> Way:
    """How well this amount in all fits into one flavor: now, and when the preemptions of others are done."""
    queue = head.queue
    if amount > potential(w, queue, fr):
        return Way(NO_FIT, 0)
    kept = [each for each in w.kept if not passes(w, head, each)]
    if amount <= free(w, w, kept, queue, fr):
        return Way(FIT, level(planned, queue, fr, amount))
    if amount <= available(planned, queue, fr):
        return Way(FREED, level(planned, queue, fr, amount))
    preemptor = as_preemptor(w, head, {fr: amount}, frozenset([fr]))
    victims = [uid for uid, _ in earlier_victims(w, head)]
    if victims and fits(planned.without(victims), queue, {fr: amount}):
        return Way(FREED, level(planned.without(victims), queue, fr, amount))
    if not may_help(planned, queue, fr, amount):
        return Way(NO_FIT, level(planned, queue, fr, amount))
    victims = [uid for uid, _ in find_victims(planned, preemptor)]
    if not victims:
        return Way(NO_CANDIDATES, level(planned, queue, fr, amount))
    own = any(h.uid in victims and h.queue == queue for h in w.held)
    return Way(PREEMPT if own else RECLAIM, level(planned.without(victims), queue, fr, amount))


def as_preemptor(w: World, head: Head, usage: Usage, needs: frozenset[FR]) -> Preemptor:
    return Preemptor(head.queue, head.priority, head.queued, usage, needs, w.preempted.get(head.uid, {}))


def may_help(w: World, queue: str, fr: FR, amount: int) -> bool:
    """Whether preemption is worth a search: in the own queue, within a smaller tree than the whole, or borrowing."""
    policies, parent = w.nodes[queue].policies, w.nodes[queue].parent
    lowest = smallest_subtree(w, queue, fr, amount)
    below_the_root = bool(parent) and bool(w.nodes[lowest].parent)
    borrowing = policies.borrow != "Never" or (bool(w.strategies) and policies.reclaim != "Never")
    own = policies.within != "Never"
    return own or amount <= limits(w, queue, fr).nominal or below_the_root or borrowing


# --- cycles ------------------------------------------------------------------------------------------------


class Nominated(NamedTuple):
    assigned: Assigned
    victims: Victims | tuple = ()
    will_fit: bool = False  # when the preemptions of others are done


def nominate(w: World, head: Head) -> Nominated:
    """Flavors, and victims if needed: as Kueue finds them when nothing changes between its cycles.

    If there are none, pod sets continue with the flavor after the one they had, and those that had the last one begin
    again. As often as there are flavors: Kueue may continue forever, and only where flavors were left untried.
    """
    found = nominate_with(w, head)
    kept = [kept for kept in w.kept if not passes(w, head, kept)]
    if any(amount > left_of_own(w, w, kept, head.queue, fr) for fr, amount in found.assigned.usage.items()):
        return nominate_with(replace(w, takes_own=False), head)
    return found


def nominate_with(w: World, head: Head) -> Nominated:
    best = found = nominate_from(w, head, {})
    rounds = max((len(flavors) for _, flavors in w.nodes[head.queue].groups), default=0)
    while rounds and len(head.pod_sets) > 1 and is_refused(found) and any(found.assigned.following.values()):
        found, rounds = nominate_from(w, head, found.assigned.following), rounds - 1
        best = max(best, found, key=lambda nominated: nominated.assigned.mode)
    return best if is_refused(found) else found


def is_refused(nominated: Nominated) -> bool:
    return nominated.assigned.mode in (NO_FIT, NO_CANDIDATES)


def nominate_from(w: World, head: Head, starts: Starts) -> Nominated:
    """Flavors from these on. Flavors for which no victims suffice are lost, and others are tried."""
    planned = plan(w, [kept for kept in w.kept if not passes(w, head, kept)])
    lost: Lost = frozenset()
    while True:
        assigned = assign(w, planned, head, lost, starts)
        if assigned.mode in (NO_FIT, NO_CANDIDATES, FIT):
            return Nominated(assigned)
        stopping = earlier_victims(w, head)
        if stopping and fits(planned.without(uid for uid, _ in stopping), head.queue, assigned.usage):
            return Nominated(assigned, stopping)
        if fits(planned, head.queue, assigned.usage):
            return Nominated(assigned, will_fit=True)
        needs = frozenset(fr for fr, amount in assigned.usage.items() if amount > available(planned, head.queue, fr))
        victims = find_victims(planned, as_preemptor(w, head, assigned.usage, needs))
        if victims:
            return Nominated(assigned, victims)
        lost |= assigned.preempting


def plan(w: World, kept: Iterable[Kept]) -> World:
    """The world in which these preemptions are done."""
    for each in kept:
        w = w.without(each.victims).plus(each.queue, each.usage)
    return w


def free(now: World, later: World, kept: list[Kept], queue: str, fr: FR) -> int:
    """What is available now, and after any preemptions; of the own quota also what borrowing preemptors would get."""
    least = min(available(plan(later, kept), queue, fr), spared(now, kept, queue, fr))
    others = [each for each in kept if not yields(now, each, queue)]
    if len(others) == len(kept) or not now.takes_own:
        return least
    own = left_of_own(now, later, kept, queue, fr)
    return max(least, min(own, available(plan(later, others), queue, fr), spared(now, others, queue, fr)))


def left_of_own(now: World, later: World, kept: list[Kept], queue: str, fr: FR) -> int:
    return limits(now, queue, fr).nominal - max(used(world, queue, fr) for world in (now, plan(later, kept)))


def fits_now(now: World, later: World, kept: list[Kept], queue: str, usage: Usage) -> bool:
    """Whether all of this is free: its own quota counts only for one that borrows nothing."""
    takes_own = all(amount <= left_of_own(now, later, kept, queue, fr) for fr, amount in usage.items())
    now = replace(now, takes_own=takes_own)
    return all(amount <= free(now, later, kept, queue, fr) for fr, amount in usage.items())


def yields(w: World, kept: Kept, queue: str) -> bool:
    """Whether the preemptor would borrow what this ClusterQueue could reclaim from it at once."""
    if kept.queue == queue or not kept.borrow or w.nodes[queue].policies.reclaim != "Any":
        return False
    around = [kept.queue, *above(w, kept.queue)]
    return next(name for name in around if height(w, name) >= kept.borrow) in above(w, queue)


def spared(w: World, kept: Iterable[Kept], queue: str, fr: FR) -> int:
    """What is available now, and also whichever preemptors are admitted whose own victims suffice for them."""
    preemptors = [each for each in kept if each.victims]
    some = (chosen for size in range(len(preemptors) + 1) for chosen in combinations(preemptors, size))
    possible = ((chosen, plan(w, chosen)) for chosen in some)
    return min(
        available(done, queue, fr)
        for chosen, done in possible
        if all(available(done, each.queue, fr) >= 0 for each in chosen)
    )


def passes(w: World, head: Head, kept: Kept) -> bool:
    """Whether what is kept for a preemptor does not concern this head: its own, or that of a lower priority.

    But if the preemptor could reclaim from the head, the two would evict each other in turn. By policy Any it can
    outside of the smallest subtree that holds it; with fair sharing, outside of its own ClusterQueue. And where none
    preempts another in its own ClusterQueue, no other there takes what the preemptor could not reclaim again.
    """
    if head.uid == kept.uid or head.priority <= kept.priority:
        return head.uid == kept.uid
    before = w.preempted.get(kept.uid, {})
    is_last_time = any(before.get(uid, 0) >= MOST_RECLAIMS for uid in kept.victims)
    if is_last_time and head.queue == kept.queue and w.nodes[kept.queue].policies.within == "Never":
        return False
    if w.nodes[kept.queue].policies.reclaim != "Any":
        return True
    around = [kept.queue, *above(w, kept.queue)]
    high_enough = [name for name in around if height(w, name) >= (0 if w.strategies else kept.borrow)]
    return high_enough[0] in (head.queue, *above(w, head.queue))


def earlier_victims(w: World, head: Head) -> Victims:
    """The victims of the head that are still being stopped."""
    evicted = {held.uid for held in w.held if held.evicted}
    own = [kept.victims for kept in w.kept if kept.uid == head.uid]
    return [(uid, reason) for victims in own for uid, reason in victims.items() if uid in evicted]


class Decided(NamedTuple):
    """Admit, or the victims of a preemptor, or Refuse; with flavors, usage and borrow level of the first two."""

    outcome: str | frozenset[tuple[str, str]]
    flavors: tuple[dict[str, str], ...] = ()
    usage: Usage = MappingProxyType({})
    borrow: int = 0


def run_cycle(w: World) -> dict[str, Decided]:
    """What happens to each head, by uid."""
    nominated = {head.uid: nominate(w, head) for head in w.heads}
    # With what was admitted; and with what is kept from others until the cycle ends, or just with its owners' part.
    admitted = withholding = withholding_own = w
    plans = {kept.uid: kept for kept in w.kept}
    taken: set[str] = set()
    decided: dict[str, Decided] = {}

    def planned(but: Iterable[str] = ()) -> World:
        return plan(withholding, [kept for uid, kept in plans.items() if uid not in but])

    def withheld_from(head: Head, usage: Usage, passed: list[str]) -> World:
        """What others would borrow is not withheld from one that takes its own quota, and can always reclaim it."""
        kept = [each for uid, each in plans.items() if uid not in passed]
        own = all(n <= left_of_own(admitted, withholding, kept, head.queue, fr) for fr, n in usage.items())
        return withholding_own if own and w.nodes[head.queue].policies.reclaim == "Any" else withholding

    while left := [head for head in w.heads if head.uid not in decided]:
        head = next_head(planned(), left, nominated)
        assigned, victims, will_fit = nominated[head.uid]
        passed = [kept.uid for kept in w.kept if passes(w, head, kept)]
        promised = assigned.flavors, assigned.usage, assigned.borrow
        decided[head.uid] = Decided(REFUSE)
        if assigned.mode == FIT:
            kept = [each for uid, each in plans.items() if uid not in passed]
            if fits_now(admitted, withheld_from(head, assigned.usage, passed), kept, head.queue, assigned.usage):
                decided[head.uid] = Decided(ADMIT, *promised)
                plans.pop(head.uid, None)
                admitted, withholding, withholding_own = (
                    each.plus(head.queue, assigned.usage) for each in (admitted, withholding, withholding_own)
                )
        elif victims or will_fit:
            uids = {uid for uid, _ in victims}
            kept = [each for uid, each in plans.items() if uid not in passed]
            later = plan(withheld_from(head, assigned.usage, passed), kept).without(uids)
            if not uids & taken and fits(later, head.queue, assigned.usage):
                decided[head.uid] = Decided(frozenset(victims), *promised)
                plans[head.uid] = Kept(
                    head.uid, head.queue, head.priority, assigned.usage, assigned.borrow, dict(victims)
                )
                taken |= uids
        else:
            plans.pop(head.uid, None)
            if assigned.mode == NO_CANDIDATES and w.nodes[head.queue].policies.reclaim != "Any":
                kept_back = withheld(planned(), head.queue, assigned)
                own = {
                    fr: min(n, max(0, limits(w, head.queue, fr).nominal - used(planned(), head.queue, fr)))
                    for fr, n in kept_back.items()
                }
                withholding = withholding.plus(head.queue, kept_back)
                withholding_own = withholding_own.plus(head.queue, own)
    return decided


def withheld(w: World, queue: str, assigned: Assigned) -> Usage:
    """What a head without candidates keeps from others: up to its quota, or what it may borrow if it borrows."""
    kept = {}
    for fr, amount in assigned.usage.items():
        quota = limits(w, queue, fr)
        most = amount
        if not assigned.borrow:
            most = quota.nominal - used(w, queue, fr)
        elif quota.borrowing is not None:
            most = quota.nominal + quota.borrowing - used(w, queue, fr)
        kept[fr] = max(0, min(amount, most))
    return kept


def next_head(w: World, left: list[Head], nominated: dict[str, Nominated]) -> Head:
    """The first head of those left; fair sharing decides it anew each time."""
    waiting = [head for head in left if any(kept.uid == head.uid for kept in w.kept)]
    if waiting:
        return min(waiting, key=lambda head: (-head.priority, nominated[head.uid].assigned.borrow, *rank(head)))
    if not w.strategies:
        return min(left, key=lambda head: (nominated[head.uid].assigned.borrow, *rank(head)))
    roots = sorted({[head.queue, *above(w, head.queue)][-1] for head in left})
    return tournament(w, roots[0], {head.queue: head for head in left}, nominated)


def rank(head: Head) -> tuple:
    return -head.priority, head.queued, head.uid


def tournament(w: World, name: str, heads: dict[str, Head], nominated: dict[str, Nominated]) -> Head | None:
    """The head that a cohort nominates: of its children, the one that borrows least with its own head counted."""
    if is_queue(w, name):
        return heads.get(name)
    winners = {child: tournament(w, child, heads, nominated) for child in children(w, name)}

    def place(child: str) -> tuple:
        head = winners[child]
        usage = nominated[head.uid].assigned.usage
        counted = w.plus(head.queue, usage)
        requested = [fr for fr in resources_of_all(w) if usage.get(fr, 0) > 0]
        borrows = any(used(counted, child, fr) > subtree(counted, child, fr) for fr in requested)
        return borrows, share(counted, child), rank(head)

    return winners[min((child for child in winners if winners[child]), key=place)] if any(winners.values()) else None
