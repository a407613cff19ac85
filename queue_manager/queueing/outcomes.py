"""What the outcome of a cycle changes in memory: the pending Workloads, and the quota in use. Pure.

The scheduler applies each outcome before it is written, so that the next cycle counts it; `explain` applies them to a
copy (`rehearsal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple, Protocol

from job_controller.times import later
from queue_manager.api import reasons
from queue_manager.queueing.queue_set import Queues
from queue_manager.scheduling import cycle
from queue_manager.scheduling.backfill import Backfilling, is_in_quota_of_others
from queue_manager.scheduling.cycle import (
    Admit,
    Preempt,
    Refuse,
    WithholdingHead,
    is_change,
    run_cycle,
)
from queue_manager.scheduling.holdings import Holding, Reservation
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.reachable_quota import least_demands, within_reach
from queue_manager.scheduling.victim_search import Victim
from queue_manager.scheduling.workload_info import Info

NEVER_FITS_REASONS = (reasons.EXCEEDS_MAX_QUOTA, reasons.NO_MATCHING_FLAVOR)  # hold until quota or flavors change


def is_active(state: SchedulerState, cluster_queue: str) -> bool:
    """Whether the ClusterQueue exists and can admit."""
    return cluster_queue in state.queues and state.inactive(cluster_queue) is None


def is_blocked_by_pods(state: SchedulerState, *, block_admission: bool) -> bool:
    """Whether blockAdmission holds back all admissions, because a Workload that holds quota is not PodsReady.

    BEHAVIOUR.md#q37-block-admission
    """
    return block_admission and not state.all_ready


def assume(
    state: SchedulerState, queues: Queues, decision: Admit, now: datetime, min_runtime: float | None = None
) -> None:
    """Apply an admission in memory: the Workload is no longer pending, and its usage counts.

    `min_runtime`: seconds from its admission for which it is not preempted.
    """
    _release_other_flavors(state, queues, decision)
    candidate, second = decision.info, now.replace(microsecond=0)  # as API times
    admitted = not state.checks_of(decision.cluster_queue, decision.assignment.flavors)
    longest = candidate.longest_run
    queues.charge(candidate.queue, decision.cluster_queue, decision.assignment.usage, now)
    queues.remove(candidate.key)
    queues.forget_tries()
    state.end_reservation(candidate.uid)
    state.count_reclaims(candidate.uid, cycle.reclaimed_from(state, decision))
    state.hold(
        Holding(
            uid=candidate.uid,
            key=candidate.key,
            cluster_queue=decision.cluster_queue,
            queue=candidate.queue,
            usage=decision.assignment.usage,
            admitted=admitted,
            priority=candidate.priority,
            queued_at=candidate.queued_at,
            arrival=candidate.rank.arrival,
            reserved_at=second,
            ends_by=later(second, longest) if admitted and longest is not None else None,
            protected_until=later(second, min_runtime) if admitted and min_runtime is not None else None,
        )
    )


def await_victims(state: SchedulerState, queues: Queues, decision: Preempt) -> list[Victim]:
    """Reserve quota for the preemptor and mark its victims as evicted. Returns the victims to be evicted now."""
    _release_other_flavors(state, queues, decision)
    state.reserve(decision.reservation)
    queues.refused(decision)
    running = [victim for victim in decision.victims if not victim.holding.evicted]
    if running:
        queues.forget_tries()
    for victim in running:
        state.mark_evicted(victim.holding.uid)
    return running


def _release_other_flavors(state: SchedulerState, queues: Queues, decision: Admit | Preempt) -> None:
    """Before a decision is applied, record that others are to be tried if it does not use what was kept for it."""
    before = state.reservations.get(decision.info.uid)
    if before is not None and before.usage != decision.assignment.usage:
        queues.retry_when_idle(state.relatives(decision.cluster_queue))


def restore_reservations(state: SchedulerState, queues: Queues, now: datetime) -> None:
    """Before the first cycle, keep quota again for the preemptors that still wait, or whose victims have stopped.

    Without that a Workload that is tried before them would be judged as if their victims released quota for it. Those
    that victims name come first; the others wait for what these leave over.
    """
    named = {by.preemptor for holding in state.holdings.values() if (by := holding.preempted_for) is not None}
    waiting = sorted(queues.preempting(), key=lambda each: (each[1].uid not in named, each[1].rank))
    for head in waiting:
        [outcome] = run_cycle(state, [head], now)
        match outcome:
            case Admit():
                used, borrow = outcome.assignment.usage, outcome.assignment.borrow
                state.reserve(Reservation(outcome.info, outcome.cluster_queue, used, borrow, {}))
            case Preempt() if all(_stops_for(victim.holding, outcome.info) for victim in outcome.victims):
                state.reserve(outcome.reservation)


def _stops_for(victim: Holding, preemptor: Info) -> bool:
    """Whether the victim is being stopped, and not for another Workload."""
    return victim.evicted and (victim.preempted_for is None or victim.preempted_for.preemptor == preemptor.uid)


class EndedReservations(NamedTuple):
    """What a refusal ends besides: its own reservation, and those of `behind`, which it blocks in its StrictFIFO queue.

    `cluster_queues`: to be tried again when all outcomes of the cycle are applied, since these found quota kept.
    """

    cluster_queues: list[str]
    behind: list[Info]


def refuse(
    state: SchedulerState, queues: Queues, refusal: Refuse, now: datetime, backfilling: Backfilling | None = None
) -> EndedReservations:
    """Park the refused Workload until the event that its refusal names (`Refuse.retry`), and end its reservation.

    If it blocks its StrictFIFO queue, the reservations of the Workloads behind it end too: they cannot be admitted, and
    the blocking Workload may need just that quota.
    """
    behind_head, queue = None, state.queues.get(refusal.cluster_queue)
    if backfilling is not None and queue is not None:
        policy = queue.queue.spec.preemption.within_cluster_queue
        behind_head = backfilling.order_behind(refusal.info, policy, now)
    demands = least_demands(state, refusal)
    queues.refused(refusal, never=refusal.reason in NEVER_FITS_REASONS, behind=behind_head, demands=demands)
    ended = state.end_reservation(refusal.info.uid)
    name, behind = refusal.cluster_queue, list[Info]()
    if queues.is_blocked_by(refusal.info.key, name):
        behind = [each.info for each in state.reservations.values() if each.cluster_queue == name]
    for info in behind:
        state.end_reservation(info.uid)
    return EndedReservations(state.relatives(name) if ended is not None or behind else [], behind)


def _retried_after(ended: Iterable[EndedReservations]) -> tuple[set[str], set[str]]:
    """The ClusterQueues to try again (with their preemptors, without these) after the refusals of a cycle.

    Where only the refused Workload's own reservation has ended, preemptors are not tried: two, each of which fits into
    the reservation of the other, would be tried in turn forever.
    """
    all_of_them = {name for each in ended if each.behind for name in each.cluster_queues}
    return all_of_them, {name for each in ended for name in each.cluster_queues} - all_of_them


def requeue_within_reach(
    state: SchedulerState, queues: Queues, names: Sequence[str], now: datetime, *, preemptors: bool = True
) -> list[str]:
    """After quota was released, or candidates were added, make the refused Workloads eligible that this may help.

    `names`: the ClusterQueues concerned. `preemptors`: those that wait for victims too. Returns the ClusterQueues in
    which other Workloads stay refused: their reasons are the same, but the numbers in their messages may have changed.
    BEHAVIOUR.md#q9-requeue-of-inadmissible-workloads
    """
    known = [queue for name in names if (queue := state.queues.get(name)) is not None]
    with within_reach(state, {queue.node.root for queue in known}) as reach:
        for queue in known:
            queues.requeue_inadmissible([queue.name], now, partial(reach, queue), preemptors=preemptors)
    queues.requeue_inadmissible([name for name in names if name not in state.queues], now)
    return [queue.name for queue in known if queues.has_refused(queue.name)]


class Requeue(Protocol):
    """`requeue_within_reach` of some ClusterQueues."""

    def __call__(self, cluster_queues: Sequence[str], *, preemptors: bool) -> None:
        """`preemptors`: make those eligible that wait for victims, too."""


def requeue_after_cycle(
    state: SchedulerState,
    queues: Queues,
    takers: Iterable[Admit | Preempt],
    ended: Iterable[EndedReservations],
    requeue: Requeue,
    *,
    backfills: bool,
) -> bool:
    """Make those eligible that the outcomes of a cycle, all of which are applied, may have helped.

    `takers`: its admissions and preemptions. `ended`: what its refusals ended. Returns whether the latter helps anyone.
    """
    again, without_preemptors = _retried_after(ended)
    requeue(sorted(again.union(*(cycle.concerned_by(state, each) for each in takers))), preemptors=True)
    requeue(sorted(without_preemptors), preemptors=False)
    _retry_when_idle(state, queues, takers, backfills=backfills)
    return bool(again or without_preemptors)


def _retry_when_idle(
    state: SchedulerState, queues: Queues, decided: Iterable[Admit | Preempt], *, backfills: bool
) -> None:
    """Record who is to be tried again because of the admissions and preemptions of a cycle, once no other head is left.

    Those that quota is kept from: if a head may have to wait longer now (backfilling), or they find another flavor. The
    first Workloads of StrictFIFO queues that withhold quota: they may do so in another flavor, or no more. Those that
    may stop others, if there are more victims or other shares now. BEHAVIOUR.md#q56-tries-after-a-preemption
    """
    for each in decided:
        if not is_change(each):
            continue
        withholding = {head.cluster_queue for head in queues.withholding_heads()}
        if backfills or withholding:
            around = state.relatives(each.cluster_queue)
            moved = backfills and any(_may_delay_head(state, queues, name, each) for name in around)
            several = list(filter(state.has_several_flavors, around))
            queues.retry_when_idle(around if moved else several, kept_back_only=True)
            queues.retry_when_idle(name for name in around if name in withholding and _may_withhold_less(state, name))
        queues.retry_when_idle(cycle.with_more_victims(state, each))


def _may_withhold_less(state: SchedulerState, name: str) -> bool:
    """Whether usage of others may change what the first Workload of this ClusterQueue would be assigned."""
    return state.has_several_flavors(name) or state.queues[name].node.root.height > 1


def _may_delay_head(state: SchedulerState, queues: Queues, name: str, decided: Admit | Preempt) -> bool:
    """Whether this decision may have delayed the head of the ClusterQueue `name`, which has quota in common with it."""
    head = queues.waiting_head(name)
    if head is None:
        return False
    if name == decided.cluster_queue:
        return not queues.is_behind_head(decided.info, name)
    queue, borrow = state.queues[decided.cluster_queue], decided.assignment.borrow
    return is_in_quota_of_others(queue, borrow, state.queues[name]) or decided.info.rank < head.rank


def heads(
    state: SchedulerState, queues: Queues, is_tried: Callable[[str], bool], now: datetime
) -> list[tuple[str, Info]]:
    """(ClusterQueue, head) for each ClusterQueue with a Workload to try. If none has one: for those that
    `Queues.retry_when_idle` has recorded, or in which Workloads were kept back for a head that has left.
    """
    found = _heads_within_reach(state, queues, is_tried, now)
    if found:
        return found
    queues.retry_when_idle(state.relatives_of_all(queues.take_changed_heads()), kept_back_only=True)
    again = queues.take_for_idle()
    if not again:
        return []
    requeue_within_reach(state, queues, [name for name, kept in again.items() if not kept], now, preemptors=False)
    queues.release_kept_back(again)
    return queues.heads(is_tried, now)


def _heads_within_reach(
    state: SchedulerState, queues: Queues, is_tried: Callable[[str], bool], now: datetime
) -> list[tuple[str, Info]]:
    """The heads, without those for which others have taken what was released: their refusals stand."""
    found = queues.heads(is_tried, now)
    refused = [state.queues[name] for name, head in found if queues.is_refused(head, name)]
    if not refused:
        return found
    with within_reach(state, {queue.node.root for queue in refused}) as reach:
        parked = [queues.park_beyond(queue.name, partial(reach, queue)) for queue in refused]
    return queues.heads(is_tried, now) if any(parked) else found


def withholding_heads(
    state: SchedulerState, queues: Queues, is_tried: Callable[[str], bool], heads: Iterable[tuple[str, Info]]
) -> list[WithholdingHead]:
    """The first Workload of each other StrictFIFO queue that withholds quota which these heads share."""
    withholding = queues.withholding_heads()
    if not withholding:
        return []
    tried = {name for name, _ in heads}
    roots = {state.queues[name].node.root for name in tried if name in state.queues}
    others = (head for head in withholding if head.cluster_queue not in tried and is_tried(head.cluster_queue))
    return [head for head in others if (queue := state.queues.get(head.cluster_queue)) and queue.node.root in roots]
