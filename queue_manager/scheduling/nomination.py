"""What one head could get: flavors, and victims if it fits only without them. Pure.

Kueue remembers between cycles which flavors it has tried (LastAssignment). Here a head is judged from scratch in each
cycle, and excluded flavors are remembered only within one judgement: if the chosen flavors need preemption and no
victims suffice for all of them together, they are *ruled out*, and the flavors are assigned again. Each round rules out
at least one more flavor, so the search ends with flavors in which the head fits, or with none left. A pod set may have
the flavor of which a later pod set needs the quota: then pod sets continue with the flavors after those that they had,
at most as often as a resource group has flavors. Kueue does each of these steps in a further cycle. A head whose quota
or victims another head takes in the same cycle is judged again in the next cycle, with the usage of the other head
counted. Kueue: Scheduler.nominate, BEHAVIOUR.md#q13-flavor-assignment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import NamedTuple

from queue_manager.api import reasons
from queue_manager.scheduling import fair_preemption, victim_search
from queue_manager.scheduling.flavor_assignment import (
    NEEDS_PREEMPTION,
    SEVERITY,
    Assignment,
    AvailableQuota,
    Choice,
    GroupKey,
    Mode,
    assign,
    in_some_order,
)
from queue_manager.scheduling.holdings import Reservation
from queue_manager.scheduling.partial_admission import largest_fit, with_fewest_pods
from queue_manager.scheduling.planned_usage import PlannedUsage
from queue_manager.scheduling.preemption_candidates import NO_VICTIMS, Preemptor
from queue_manager.scheduling.quota_state import MOST_RECLAIMS, QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, Usage
from queue_manager.scheduling.victim_search import FindVictims, Victim, level_without, prospect
from queue_manager.scheduling.workload_info import Info

MOST_SPARED = 32  # victims of others without which a preemptor is tried to fit: each try adds up all of them


class Nomination(NamedTuple):
    """The flavors of a head. It fits now, or once its victims or planned preemptions have released quota."""

    assignment: Assignment
    victims: tuple[Victim, ...] = ()
    will_fit: bool = False  # after planned preemptions, without further victims

    @property
    def fits(self) -> bool:
        """Whether the head fits now."""
        return self.assignment.mode is Mode.FIT

    @property
    def is_possible(self) -> bool:
        """Whether the head fits now, or after preemptions."""
        return self.fits or bool(self.victims) or self.will_fit


def nominate(
    state: SchedulerState,
    planned: PlannedUsage,
    queue: QueueState,
    info: Info,
    now: datetime,
    excluded: frozenset[Choice] = frozenset(),
) -> Nomination:
    """Flavors for all pods, or with partial admission for as many as fit, now or after preemptions; with the mode that
    holds for all together. `excluded`: see `assign`.

    If not even the fewest pods fit, these give the reason if it is milder: the Workload can be admitted some day. One
    that has preempted others gets no more pods than planned, unless it borrows nothing with them: its victims could
    reclaim what it borrows beyond that, and then it in turn, and so on.
    """
    takes_own = not _has_reclaimed_often(state, info)
    reservation = state.reservations.get(info.uid)

    def judge(some: Info) -> Nomination:
        return _Judgement(state, planned, queue, some, now, excluded, takes_own).nomination()

    def is_as_planned(found: Nomination) -> bool:
        return reservation is None or found.assignment.borrow == 0 or not _exceeds(found.assignment, reservation)

    def attempt(some: Info) -> Nomination | None:
        found = judge(some)
        return found if found.is_possible and is_as_planned(found) else None

    full, fewest = judge(info), with_fewest_pods(info)
    if fewest is info or (full.is_possible and is_as_planned(full)):
        return full
    fewer = largest_fit(info, attempt)
    return fewer or (judge(fewest) if full.is_possible else min(full, judge(fewest), key=_severity))


def _exceeds(assignment: Assignment, planned: Reservation) -> bool:
    """Whether more of a resource would be used than is kept, in any flavors."""

    def by_resource(usage: Usage) -> Counter[str]:
        total = Counter[str]()
        for fr, amount in usage.items():
            total[fr.resource] += amount
        return total

    return not by_resource(assignment.usage) <= by_resource(planned.usage)


def _has_reclaimed_often(state: SchedulerState, info: Info) -> bool:
    """Whether a Workload has taken its own quota from a preemptor that waits now as often as it may."""
    before = state.preempted.get(info.uid, NO_VICTIMS)
    return any(count >= MOST_RECLAIMS and uid in state.reservations for uid, count in before.items())


def _severity(refused: Nomination) -> int:
    return SEVERITY[refused.assignment.reason]


def _mildness(refused: Nomination) -> tuple[Mode, int]:
    return refused.assignment.mode, -_severity(refused)


def preemptor_of(
    state: SchedulerState, planned: PlannedUsage, queue: QueueState, info: Info, usage: Usage
) -> Preemptor:
    """The head as a preemptor that would use this amount, in the planned usage."""
    needs = frozenset(fr for fr, amount in usage.items() if amount > queue.node.available(fr))
    before = state.preempted.get(info.uid) or NO_VICTIMS
    reserved = planned.reserved(queue.node.root, needs)
    return Preemptor(info, queue, usage, needs, planned.victims.keys(), before, reserved)


class _UnusedQuota(NamedTuple):
    """The quota available to a ClusterQueue if nothing ran. Implements `AvailableQuota`."""

    node: QuotaNode

    def free(self, fr: FlavorResource) -> int:
        """The most that the ClusterQueue can ever use."""
        return self.node.potential(fr)

    def after_preemption(self, fr: FlavorResource, value: int) -> tuple[Mode, int]:
        """Nothing runs that could be preempted."""
        return Mode.NO_CANDIDATES, self.node.borrow_level(fr, value)


@dataclass(slots=True)
class _Judgement:
    """Judges one head with one number of pods. Implements `AvailableQuota` for its flavor assignment."""

    state: SchedulerState
    planned: PlannedUsage
    queue: QueueState
    info: Info
    now: datetime
    excluded: frozenset[Choice]
    takes_own: bool  # it borrows nothing, as far as known: see `PlannedUsage.free`
    took_own: bool = False  # that has made more quota free

    def nomination(self) -> Nomination:
        """What the head could get. Only one that borrows nothing gets of its own quota what is kept for preemptors."""
        found = self._of_all_flavors()
        if not self.took_own or not self.planned.takes_what_is_kept(self.queue.node, found.assignment.usage):
            return found
        self.takes_own = False
        return self._of_all_flavors()

    def _of_all_flavors(self) -> Nomination:
        """What the head could get. The refusal of several pod sets says whether all together would fit if nothing ran.

        One that has no quota hides that a later one exceeds it; and one for which no flavor is free may have been given
        the flavor that a later one needs.
        """
        found = self._first_possible(self._with_flavors_from)
        if found.is_possible or len(self.info.pod_sets) == 1:
            return found
        unused = self._first_possible(self._with_unused_quota)
        if unused.fits:
            return Nomination(found.assignment.waiting())
        return unused if found.assignment.reason == reasons.WAITING_FOR_QUOTA else found

    def _first_possible(self, judge: Callable[[Mapping[GroupKey, int]], Nomination]) -> Nomination:
        """What `judge` finds with flavors from the first, or the next ones; else the refusal that says least: another
        one is not true of all flavors.
        """
        refused = []
        for found in in_some_order(self.info, self.queue.queue.spec, judge, lambda each: each.assignment):
            if found.is_possible:
                return found
            refused.append(found)
        return max(refused, key=_mildness)

    def _with_unused_quota(self, starts: Mapping[GroupKey, int]) -> Nomination:
        return Nomination(self._assign(_UnusedQuota(self.queue.node), frozenset(), starts))

    def _with_flavors_from(self, starts: Mapping[GroupKey, int]) -> Nomination:
        ruled_out: frozenset[Choice] = frozenset()
        while True:
            assignment = self._assign(self, ruled_out, starts)
            if assignment.mode not in NEEDS_PREEMPTION:
                return Nomination(assignment)
            earlier = self._earlier_victims(assignment.usage)
            if earlier:  # what they release is kept for this head
                return Nomination(assignment, earlier)
            if self.planned.will_fit(self.queue.node, assignment.usage):
                return Nomination(assignment, will_fit=True)
            victims = self._find_victims(self.state, self._preemptor(assignment.usage), self.now)
            if victims:
                return Nomination(assignment, victims)
            ruled_out |= assignment.preempting

    def _assign(
        self, available: AvailableQuota, ruled_out: frozenset[Choice], starts: Mapping[GroupKey, int]
    ) -> Assignment:
        return assign(
            self.info,
            self.queue.queue.spec,
            self.queue.node,
            self.state.flavors,
            available,
            ignore_undeclared=self.state.ignore_undeclared,
            ruled_out=ruled_out,
            excluded=self.excluded,
            starts=starts,
        )

    @property
    def _find_victims(self) -> FindVictims:
        return fair_preemption.find_victims if self.state.fair_sharing else victim_search.find_victims

    def _preemptor(self, usage: Usage) -> Preemptor:
        return preemptor_of(self.state, self.planned, self.queue, self.info, usage)

    def _earlier_victims(self, usage: Usage) -> tuple[Victim, ...]:
        """The victims of an earlier judgement that are being stopped, if they still suffice; without those evicted for
        others that it no longer needs.
        """

        def suffice(victims: tuple[Victim, ...]) -> bool:
            return self.planned.will_fit_without(self.queue.node, usage, (victim.holding.uid for victim in victims))

        stopping = self._stopping()
        if not suffice(stopping):
            return ()
        of_others = [v for v in stopping if (by := v.holding.preempted_for) and by.preemptor != self.info.uid]
        for victim in of_others[:MOST_SPARED]:
            rest = tuple(each for each in stopping if each is not victim)
            if suffice(rest):
                stopping = rest
        return stopping

    def _stopping(self) -> tuple[Victim, ...]:
        """The victims of an earlier judgement that are being stopped. After a restart their conditions name them."""
        reservation = self.state.reservations.get(self.info.uid)
        if reservation is None:
            return self._evicted_for_it() if self.info.preempting else ()
        victims = reservation.victims.items()
        return tuple(Victim(h, why) for uid, why in victims if (h := self.state.counted(uid)) and h.evicted)

    def _evicted_for_it(self) -> tuple[Victim, ...]:
        found = (
            holding
            for name in self.state.relatives(self.queue.name)
            for _, holding in self.state.ranked(self.state.queues[name], evicted=True, below=inf)
        )
        named = ((holding, holding.preempted_for) for holding in found)
        return tuple(Victim(holding, by.reason) for holding, by in named if by and by.preemptor == self.info.uid)

    # --- AvailableQuota ---

    def free(self, fr: FlavorResource) -> int:
        """The amount that is available now and stays available."""
        free = self.planned.free(self.queue.node, fr, own=False)
        own = self.planned.own_beside(self.queue.node, fr, free) if self.takes_own else free
        self.took_own = self.took_own or own > free
        return own

    def after_preemption(self, fr: FlavorResource, value: int) -> tuple[Mode, int]:
        """How well an amount that is not free would fit after preemption, and the borrow level then."""
        node = self.queue.node
        if value <= node.available(fr):  # when the planned preemptions are done
            return Mode.FREED, node.borrow_level(fr, value)
        if not self.info.may_preempt:
            return Mode.NO_CANDIDATES, node.borrow_level(fr, value)
        preemptor = self._preemptor({fr: value})
        earlier = self._earlier_victims(preemptor.usage)
        if earlier:
            return Mode.FREED, level_without(self.state, earlier, node, fr, value)
        return prospect(self.state, preemptor, self.now, self._find_victims)
