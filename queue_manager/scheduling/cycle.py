"""One admission cycle: the heads of the ClusterQueues against the quota that is free now.

At most one Workload per ClusterQueue is tried. Each is *nominated*: assigned flavors, and victims if it fits only
without them. Then they are processed in order: preemptors whose victims are being stopped first, of these the higher
priorities, then those that need not borrow, then by priority, then by queue time; each must still fit after those
before it.

    fits                                                   Admit
    fits once its own victims have stopped                 Preempt
    fits when the preemptions of others are done           Preempt, without victims of its own
    another head took its quota or victims in this cycle   Refuse; tried again in the next cycle, from scratch
    would fit after preemption, but no victims suffice     Refuse; its own quota is not lent to others in this cycle,
                                                           unless it can always reclaim it
    fits without what is not lent for the sake of one      judged once more beside that: in other flavors, or with
    that blocks its StrictFIFO queue                       more victims, or fewer pods; else Refuse; tried again when
                                                           that one is admitted or gone, or quota is freed
    fits, but would delay a head that waits (backfilling)  judged once more in other flavors, then with fewer pods
                                                           (partial admission); else Refuse, likewise
    does not fit                                           Refuse

What a preemptor waits for is kept for it (`planned_usage`): with its victims gone and the preemptor admitted, all
others must still fit. The quota tree is left unchanged: the caller counts what it admits. Each cycle settles its first
entry for good, so cycles without a change end. Kueue: pkg/scheduler, BEHAVIOUR.md#q11-admission-cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from queue_manager.api import messages, reasons
from queue_manager.api.policy_values import STRICT_FIFO
from queue_manager.scheduling.backfill import Backfilling, Candidate, WaitingHead
from queue_manager.scheduling.fair_sharing import Contender, fair_order
from queue_manager.scheduling.flavor_assignment import Assignment, Choice, FlavorAttempt, Mode
from queue_manager.scheduling.holdings import Reservation, retry_order
from queue_manager.scheduling.nomination import Nomination, nominate
from queue_manager.scheduling.partial_admission import largest_fit, with_fewest_pods
from queue_manager.scheduling.planned_usage import PlannedUsage, borrows_from, can_always_reclaim, passes
from queue_manager.scheduling.preemption_candidates import able_to_stop, with_new_candidates
from queue_manager.scheduling.queue_order import Rank
from queue_manager.scheduling.quota_state import QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, Usage
from queue_manager.scheduling.victim_search import Victim
from queue_manager.scheduling.workload_info import Info


class Retry(Enum):
    """When a refused Workload may be tried again."""

    NEXT_CYCLE = "next cycle"  # in the next cycle: another head took the quota, or blockAdmission holds it back
    CHANGE = "change"  # when quota is freed or raised; applies to every Workload of the shape
    NAMESPACE = "namespace"  # when the namespace's labels or the selector change; does not block StrictFIFO
    EDIT = "edit"  # when the Workload or its queue changes
    PREEMPTION = "preemption"  # when quota is released; applies to this Workload only


class KeptFor(Enum):
    """For whom quota is kept that a Workload could use else. The value is the message of its refusal."""

    HEAD = messages.KEPT_FOR_HEAD_MESSAGE  # one that is ordered before it (backfilling)
    FIRST = messages.KEPT_FOR_FIRST_MESSAGE  # the first one of a StrictFIFO queue


class Admit(NamedTuple):
    """The Workload fits. The caller counts the assignment and writes it. `was_kept`: whether its quota was kept for it,
    which preempted others.
    """

    info: Info
    cluster_queue: str
    assignment: Assignment
    was_kept: bool = False


class Refuse(NamedTuple):
    """The Workload stays pending; reason and message are for its QuotaReserved condition."""

    info: Info
    cluster_queue: str
    reason: str
    message: str
    retry: Retry
    skips_preemption: bool = False  # it could preempt, had others of this cycle not taken quota or victims
    unfit: Sequence[FlavorAttempt] | None = None  # flavors of which one must fit before it can start; None: unknown
    withheld: Nomination | None = None  # of one that blocks its StrictFIFO queue: the quota to keep from others
    kept_for: KeptFor | None = None


class Preempt(NamedTuple):
    """The Workload fits as soon as its victims, or those of others, have released their quota.

    The caller evicts those that are not evicted yet, keeps the `reservation` and writes reason and message into the
    QuotaReserved condition. The Workload is tried again when quota is released.
    """

    info: Info
    cluster_queue: str
    assignment: Assignment
    victims: tuple[Victim, ...]
    reason: str
    message: str
    is_new: bool  # nothing was kept for it before this cycle
    retry: Retry = Retry.PREEMPTION

    @property
    def reservation(self) -> Reservation:
        """The quota to keep for this Workload: `SchedulerState.reserve`."""
        victims = {victim.holding.uid: victim.reason for victim in self.victims}
        return Reservation(self.info, self.cluster_queue, self.assignment.usage, self.assignment.borrow, victims)


Outcome = Admit | Preempt | Refuse


class WithholdingHead(NamedTuple):
    """The first Workload of a StrictFIFO queue that was refused, and for which nothing has changed since then.

    It is not tried again, but the quota of its `nomination` is kept from others in each cycle.
    """

    cluster_queue: str
    info: Info
    nomination: Nomination


NO_HEADS: Mapping[str, WaitingHead] = MappingProxyType({})


class _Entry(NamedTuple):
    """A nominated head. `passed`: uids of the preemptors whose reserved quota it may use; its own if it has some."""

    info: Info
    queue: QueueState
    nomination: Nomination
    passed: frozenset[str] = frozenset()

    @property
    def assignment(self) -> Assignment:
        return self.nomination.assignment


def run_cycle(
    state: SchedulerState,
    heads: Iterable[tuple[str, Info]],
    now: datetime,
    backfilling: Backfilling | None = None,
    waiting: Mapping[str, WaitingHead] = NO_HEADS,
    withholding: Iterable[WithholdingHead] = (),
) -> list[Outcome]:
    """Decide about one head per ClusterQueue. `heads` are (ClusterQueue name, Workload).

    `waiting`: the first Workload of each ClusterQueue that found no quota and still waits. With `backfilling`
    others pass it, and a head that finds none in this cycle, only if they do not delay it. `withholding`: those of
    other ClusterQueues; they have no outcome.
    """
    outcomes: list[Outcome] = []
    entries: list[_Entry] = []
    admissible: list[tuple[str, Info]] = []
    for name, info in heads:
        refused = _inadmissible(state, name, info, now)
        if refused is not None:
            outcomes.append(refused)
        else:
            admissible.append((name, info))
    with PlannedUsage(state, (name for name, _ in admissible)) as planned:
        entries += (_entry(state, planned, state.queues[name], info, now) for name, info in admissible)
        tried = {entry.info.uid for entry in entries}
        entries += (_Entry(info, state.queues[name], nomination) for name, info, nomination in withholding)
        guard = None
        if backfilling is not None and (without_quota := _without_quota(waiting, entries)):
            guard = _HeadGuard(state, now, backfilling, without_quota)
        taken: set[str] = set()  # victims of this cycle
        freed: list[QuotaNode] = []  # their ClusterQueues

        def process(entry: _Entry) -> Outcome:
            return _process(planned, entry, taken, guard)

        for entry in _in_order(state, entries, freed):
            outcome = process(entry)
            if kept_back_for(outcome) and _has_other_ways(state, entry):
                judge = partial(_entry, state, planned, entry.queue, now=now)
                outcome = _judged_again(entry, outcome, judge, process)
                if guard is not None and kept_back_for(outcome):
                    fewer = _with_fewer_pods(entry, judge, partial(guard.delays, planned=planned))
                    outcome = process(fewer) if fewer is not None else outcome
            if isinstance(outcome, Preempt):
                taken.update(outcome.reservation.victims)
                freed += (state.queues[victim.holding.cluster_queue].node for victim in outcome.victims)
            if entry.info.uid in tried:
                outcomes.append(outcome)
    return outcomes


def _entry(
    state: SchedulerState,
    planned: PlannedUsage,
    queue: QueueState,
    info: Info,
    now: datetime,
    excluded: frozenset[Choice] = frozenset(),
) -> _Entry:
    """Nominate a head, in flavors that are not `excluded`.

    A preemptor that does not fit any more is nominated again with what is kept for preemptors behind it. Quota that
    others withhold to borrow it is free for a head that takes its own nominal quota and can always reclaim that.
    """

    def nominated(passed: frozenset[str]) -> _Entry:
        with planned.without(passed):
            found = nominate(state, planned, queue, info, now, excluded)
            usage = found.assignment.usage
            if not found.is_possible and planned.gives_way_to(queue, usage):
                with planned.beside_withheld(queue, usage):
                    found = nominate(state, planned, queue, info, now, excluded)
            return _Entry(info, queue, found, passed)

    passed = planned.passed_by(info, queue)
    found = nominated(passed)
    behind = frozenset() if found.nomination.is_possible else planned.kept_behind(info, queue)
    again = nominated(passed | behind) if behind else found
    return again if again.nomination.is_possible else found


def _without_quota(waiting: Mapping[str, WaitingHead], entries: Iterable[_Entry]) -> dict[str, WaitingHead]:
    """Return the first Workload of each BestEffortFIFO ClusterQueue that found no quota, in this cycle or before it.

    One that exceeds the limits, or finds no flavor, does not wait for quota.
    """
    first = dict(waiting)
    for entry in entries:
        waits = not entry.nomination.is_possible and entry.assignment.reason == reasons.WAITING_FOR_QUOTA
        before = first.get(entry.queue.name)
        is_first = before is None or not before.leads
        if waits and is_first and entry.queue.queue.spec.queueing_strategy != STRICT_FIFO:
            first[entry.queue.name] = WaitingHead(entry.info)
    return first


def _in_order(state: SchedulerState, entries: list[_Entry], freed: list[QuotaNode]) -> Iterator[_Entry]:
    """Yield the entries in processing order, which under fair sharing depends on the usage of earlier entries."""

    def waits(entry: _Entry) -> bool:
        return entry.info.uid in state.reservations

    def place(entry: _Entry) -> tuple[int, Rank]:
        return entry.assignment.borrow, entry.info.rank

    yield from sorted(filter(waits, entries), key=lambda entry: retry_order(entry.info.rank, entry.assignment.borrow))
    others = [entry for entry in entries if not waits(entry)]
    yield from fair_order(others, _contender, freed) if state.fair_sharing else sorted(others, key=place)


def _contender(entry: _Entry) -> Contender:
    return Contender(entry.queue.node, entry.assignment.usage, entry.info.rank)


def _inadmissible(state: SchedulerState, name: str, info: Info, now: datetime) -> Refuse | None:
    if name not in state.queues:
        message = f"ClusterQueue {name} not found"
        return Refuse(info, name, reasons.MISCONFIGURED, message, Retry.EDIT)
    if state.inactive(name) is not None:
        return Refuse(info, name, reasons.SUSPENDED, messages.is_inactive("ClusterQueue", name), Retry.EDIT)
    if info.in_backoff(now):
        return Refuse(info, name, reasons.PENDING_EVALUATION, messages.PENDING_EVALUATION_MESSAGE, Retry.EDIT)
    if not state.selects_namespace(name, info.key.namespace):
        message = messages.NAMESPACE_MISMATCH_MESSAGE
        return Refuse(info, name, reasons.MISCONFIGURED, message, Retry.NAMESPACE)
    if info.error:
        return Refuse(info, name, reasons.MISCONFIGURED, info.error, Retry.EDIT)
    return None


def is_change(decided: Admit | Preempt) -> bool:
    """False for a preemptor that waits as before."""
    return isinstance(decided, Admit) or decided.is_new


def concerned_by(state: SchedulerState, decided: Admit | Preempt) -> set[str]:
    """Return the ClusterQueues to try again because of an admission or a preemption.

    In some of them a preemptor waits for quota which was kept for it, and which this Workload has taken or will take;
    in others Workloads may preempt the admitted one. To be called when all outcomes of the cycle are carried out.
    """
    queue = state.queues.get(decided.cluster_queue)
    if queue is None or not is_change(decided):
        return set()
    others = (r for r in state.reservations.values() if r.info.uid != decided.info.uid)
    around = (r for r in others if _shares_quota(state, r, queue))
    overtaken = {r.cluster_queue for r in around if _overtakes(state, decided, queue, r)}
    if isinstance(decided, Preempt):
        return overtaken
    return overtaken.union(with_new_candidates(state, queue.name, decided.assignment.usage))


def reclaimed_from(state: SchedulerState, admitted: Admit) -> list[str]:
    """The uids of preemptors of no lower priority whose claim on its own quota the admitted Workload does not respect.

    It is as if it reclaimed that from them (`quota_state.MOST_RECLAIMS`). To be called before it is counted.
    """
    queue = state.queues.get(admitted.cluster_queue)
    if queue is None or admitted.assignment.borrow or not can_always_reclaim(queue):
        return []
    claims = (r for r in state.reservations.values() if r.info.priority >= admitted.info.priority)
    return [r.info.uid for r in claims if borrows_from(state, r, queue.node)]


def with_more_victims(state: SchedulerState, decided: Admit | Preempt) -> list[str]:
    """The ClusterQueues whose refused Workloads may find victims because of an admission.

    With fair sharing it changes the shares. One for which quota was kept is a candidate only now, and others had to do
    without that quota before.
    """
    is_such = isinstance(decided, Admit) and (decided.was_kept or bool(state.fair_sharing))
    return able_to_stop(state, decided.cluster_queue) if is_such and decided.cluster_queue in state.queues else []


def _overtakes(state: SchedulerState, decided: Admit | Preempt, queue: QueueState, reservation: Reservation) -> bool:
    if passes(state, decided.info, queue, reservation):
        return True
    is_own = not decided.assignment.borrow and can_always_reclaim(queue)
    return is_own and borrows_from(state, reservation, queue.node)


def _shares_quota(state: SchedulerState, reservation: Reservation, queue: QueueState) -> bool:
    preemptor = state.queues.get(reservation.cluster_queue)
    return preemptor is not None and preemptor.node.root is queue.node.root


# --- processing --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _HeadGuard:
    """Decides with backfilling whether an admission, or a preemption for it, would delay a head that waits."""

    state: SchedulerState
    now: datetime
    backfilling: Backfilling
    waiting: Mapping[str, WaitingHead]

    def delays(self, entry: _Entry, planned: PlannedUsage) -> bool:
        victims = tuple(victim.holding for victim in entry.nomination.victims)
        reservation = self.state.reservations.get(entry.info.uid)
        own = reservation.victims if reservation is not None else ()
        if own and all(victim.uid in own for victim in victims):
            return False  # what its own victims release is not for the head
        candidate = Candidate(entry.queue, entry.info, entry.assignment, victims)
        with planned.without(frozenset((entry.info.uid,))), planned.without_withheld():
            gone = planned.victims.keys()
            return self.backfilling.delays_a_head(self.state, self.waiting, candidate, self.now, gone)


def _process(planned: PlannedUsage, entry: _Entry, taken: set[str], guard: _HeadGuard | None) -> Outcome:
    """Decide one entry, given the outcomes of the entries before it. Its usage or reservation counts for later ones."""
    if entry.nomination.fits:
        return _admit(planned, entry, guard)
    if entry.nomination.victims or entry.nomination.will_fit:
        return _preempt(planned, entry, taken, guard)
    planned.forget(entry.info.uid)
    assignment, blocks = entry.assignment, entry.queue.queue.spec.queueing_strategy == STRICT_FIFO
    withholds = assignment.mode is Mode.NO_CANDIDATES and not can_always_reclaim(entry.queue)
    if withholds:
        planned.withhold(entry.queue.node, _reservable(entry), blocks=blocks)
    refusal = _refuse(entry, assignment.reason, assignment.message, Retry.CHANGE, assignment.unfit)
    return refusal._replace(withheld=entry.nomination if withholds and blocks else None)


def _admit(planned: PlannedUsage, entry: _Entry, guard: _HeadGuard | None) -> Admit | Refuse:
    usage = entry.assignment.usage

    def fits() -> bool:
        with planned.without(entry.passed), planned.beside_withheld(entry.queue, usage):
            return planned.fits(entry.queue.node, usage)

    if not fits():
        return _no_longer_fits(planned, entry, fits)
    if guard is not None and guard.delays(entry, planned):
        return _keep_back(planned, entry, KeptFor.HEAD)
    planned.forget(entry.info.uid)
    planned.count(entry.queue.node, usage)
    return Admit(entry.info, entry.queue.name, entry.assignment, was_kept=entry.info.uid in entry.passed)


def _preempt(planned: PlannedUsage, entry: _Entry, taken: set[str], guard: _HeadGuard | None) -> Preempt | Refuse:
    victims = entry.nomination.victims
    message = messages.WILL_FIT_MESSAGE
    if victims:
        message = messages.pending_preemption(entry.assignment.message, len(victims))
    reason, is_new = reasons.WAITING_FOR_PREEMPTED, entry.info.uid not in entry.passed
    outcome = Preempt(entry.info, entry.queue.name, entry.assignment, victims, reason, message, is_new)
    if not taken.isdisjoint(victim.holding.uid for victim in victims):
        return _lost(entry, messages.OVERLAPPING_TARGETS_MESSAGE)

    usage = entry.assignment.usage

    def fits() -> bool:
        with planned.without(entry.passed), planned.beside_withheld(entry.queue, usage):
            return planned.will_fit_without(entry.queue.node, usage, outcome.reservation.victims)

    if not fits():
        return _no_longer_fits(planned, entry, fits)
    if guard is not None and guard.delays(entry, planned):
        return _keep_back(planned, entry, KeptFor.HEAD)
    planned.plan(outcome.reservation)
    return outcome


def _no_longer_fits(planned: PlannedUsage, entry: _Entry, fits: Callable[[], bool]) -> Refuse:
    """Return the refusal of a nominated Workload that does not fit beside the decisions before it in this cycle.

    It is tried in the next one, unless it `fits` without what the first of a StrictFIFO queue withholds then, too.
    """
    with planned.without_withheld(by_blocking_only=True):
        is_kept_back = fits()
    if is_kept_back:
        return _keep_back(planned, entry, KeptFor.FIRST)
    return _lost(entry, messages.NO_LONGER_FITS_MESSAGE)


def _keep_back(planned: PlannedUsage, entry: _Entry, kept_for: KeptFor) -> Refuse:
    planned.forget(entry.info.uid)
    waits = reasons.WAITING_FOR_QUOTA
    return Refuse(entry.info, entry.queue.name, waits, kept_for.value, Retry.CHANGE, kept_for=kept_for)


def kept_back_for(outcome: Outcome) -> KeptFor | None:
    """For whom quota is kept that this Workload could use; None if that is not why it waits."""
    return outcome.kept_for if isinstance(outcome, Refuse) else None


def _has_other_ways(state: SchedulerState, entry: _Entry) -> bool:
    """Whether a Workload that is kept back may get another flavor, further victims for its own quota, or fewer pods."""
    several = state.has_several_flavors(entry.queue.name)
    return several or can_always_reclaim(entry.queue) or with_fewest_pods(entry.info) is not entry.info


def _judged_again(
    entry: _Entry, refusal: Outcome, judge: Callable[..., _Entry], process: Callable[[_Entry], Outcome]
) -> Outcome:
    """The outcome of a Workload that is kept back, in other flavors or with further victims; else its `refusal`.

    `judge`: nominates it beside what is withheld, in flavors that are not excluded.
    """
    outcome, excluded = refusal, frozenset[Choice]()
    while keeper := kept_back_for(outcome):
        before = entry
        if keeper is KeptFor.HEAD:  # what is kept for a head is not withheld
            excluded |= entry.assignment.choices
        entry = judge(entry.info, excluded=excluded)
        if not entry.nomination.is_possible or _is_same(entry, before):
            return refusal
        outcome = process(entry)
    return outcome


def _is_same(one: _Entry, other: _Entry) -> bool:
    """Whether a Workload gets the same flavors and victims, for as many pods."""
    victims = ({victim.holding.uid for victim in each.nomination.victims} for each in (one, other))
    same_flavors = one.assignment.choices == other.assignment.choices
    return same_flavors and one.assignment.usage == other.assignment.usage and next(victims) == next(victims)


def _with_fewer_pods(entry: _Entry, judge: Callable[..., _Entry], delays: Callable[[_Entry], bool]) -> _Entry | None:
    """With partial admission, a Workload that would delay a head with as many of its pods as do not; None if all do."""

    def attempt(some: Info) -> _Entry | None:
        found = judge(some)
        return found if found.nomination.is_possible and not delays(found) else None

    found = largest_fit(entry.info, attempt)
    return found._replace(info=entry.info) if found is not None else None


def _reservable(entry: _Entry) -> Usage:
    """The quota that a refused Workload withholds from its cohort until the cycle ends.

    It is the request of the Workload, at most the unused nominal quota of its ClusterQueue. If the Workload would
    borrow, the borrowing limit is added to that; without such a limit the request is withheld whole.
    """
    node = entry.queue.node

    def most(fr: FlavorResource, amount: int) -> int:
        quota = node.quota(fr)
        if entry.assignment.borrow and quota.borrowing_limit is None:
            return amount
        limit = quota.borrowing_limit if entry.assignment.borrow else 0
        return max(0, min(amount, quota.nominal + (limit or 0) - node.usage.get(fr, 0)))

    return {fr: most(fr, amount) for fr, amount in entry.assignment.usage.items()}


def _lost(entry: _Entry, message: str) -> Refuse:
    """Return the refusal of a nominated Workload whose quota or victims another Workload took in this cycle."""
    skips_preemption = not entry.nomination.fits
    waits = reasons.WAITING_FOR_QUOTA
    return Refuse(entry.info, entry.queue.name, waits, message, Retry.NEXT_CYCLE, skips_preemption)


def _refuse(
    entry: _Entry, reason: str, message: str, retry: Retry, unfit: Sequence[FlavorAttempt] | None = None
) -> Refuse:
    return Refuse(entry.info, entry.queue.name, reason, message, retry, unfit=unfit)
