"""The scheduler's view of a cluster, built from API objects as a starting scheduler builds it. Pure.

`judge` answers what the scheduler decides about one Workload at this moment: the queue's blockers are checked in the
order of the life cycle, then admission cycles run in memory until none achieves anything (`rehearsal`). A
Workload that the cycles have not reached waits behind the head of a StrictFIFO queue, or is held back by
blockAdmission; it is judged alone as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

from job_controller.model import Key
from job_controller.times import later
from queue_manager.api import messages, reasons
from queue_manager.api.types import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LimitRange,
    LocalQueue,
    Namespace,
    ResourceFlavor,
    RuntimeClass,
    Workload,
)
from queue_manager.lifecycle.queue_entry import configure, read, waits
from queue_manager.lifecycle.requeue_history import preemptions
from queue_manager.lifecycle.rules import blocker
from queue_manager.lifecycle.steps import WorkloadContext
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.queueing import outcomes
from queue_manager.queueing.queue_set import Queues
from queue_manager.queueing.rehearsal import Rehearsal, held_back
from queue_manager.scheduling.admission_evidence import (
    Evidence,
    evidence,
    that_is_kept_back,
    that_may_not_delay,
    that_waits_for_its_turn,
)
from queue_manager.scheduling.backfill import NEVER, Backfilling, Promise, fit_together, kept_back_by, promise
from queue_manager.scheduling.cycle import Admit, KeptFor, Outcome, Preempt, Refuse, Retry, kept_back_for, run_cycle
from queue_manager.scheduling.holdings import holding_of, reserves_quota
from queue_manager.scheduling.limits_and_overhead import pod_surroundings
from queue_manager.scheduling.planned_usage import borrows_from, can_always_reclaim, passes
from queue_manager.scheduling.preemption_advice import HIGHEST_PRIORITY, NO_WAYS, confirmed, with_priority
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.workload_info import Info, RequestReader

NEVER_REASONS = (*outcomes.NEVER_FITS_REASONS, reasons.MISCONFIGURED)


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """All objects on which the scheduler's decisions depend."""

    workloads: Collection[Workload] = ()
    local_queues: Iterable[LocalQueue] = ()
    cluster_queues: Iterable[ClusterQueue] = ()
    cohorts: Iterable[Cohort] = ()
    flavors: Iterable[ResourceFlavor] = ()
    checks: Iterable[AdmissionCheck] = ()
    namespaces: Iterable[Namespace] = ()
    limit_ranges: Iterable[LimitRange] = ()
    runtime_classes: Iterable[RuntimeClass] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a Workload among the pending ones of its ClusterQueue (1 is first), and those before it."""

    position: int
    of: int
    local_position: int  # in its LocalQueue
    ahead: Mapping[Key, int]  # by LocalQueue


class KeptForHead(NamedTuple):
    """The Workload for which quota is kept that the judged Workload needs: a head with backfilling or, if it `blocks`,
    the first of a StrictFIFO queue.

    `most_seconds`: the declared maximum execution time with which the other one would pass it, now or when enough is
    released for it; None: any one; 0: none, or not known. `both_fit`: at one time, if no others run. `yields`: whether
    the first of a StrictFIFO queue keeps nothing back from a Workload of higher priority.
    """

    head: Key
    cluster_queue: str
    most_seconds: int | None
    both_fit: bool
    blocks: bool = False
    yields: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the scheduler decides about a pending Workload.

    `reason`, `message`: of QuotaReserved=False; "" if the Workload is admitted.
    `head`: of one that was not tried, the first Workload of its ClusterQueue that was: it blocks a StrictFIFO queue, or
    blockAdmission holds both back; `head_is_never`: it can never be admitted.
    `twin`: the Workload of the same shape that was tried in its place.
    `evidence`: None if the Workload is not tried, because it backs off, or because of its queues.
    `closed`: whether its queues do not exist or do not admit.
    `inactive`: what keeps its ClusterQueue inactive, or "".
    `promise`: with backfilling, when the head of the queue for which quota is kept starts at the latest.
    `kept_for`: with backfilling, the head that it may not delay; or the first of a StrictFIFO queue, which keeps it.
    `release`: when enough quota is released for one that waits for quota, if all that run end as declared; None if what
    is released is kept for a preemptor or for such a head.
    `beside`: the StrictFIFO ClusterQueue for whose first Workload quota is withheld that this one waits for, or "".
    `unchecked`: how many others hold quota and wait for admission checks, while blockAdmission holds back this one.
    `rivals`: whether Workloads are pending in another ClusterQueue with which it shares quota.
    `by_usage`: whether past usage orders the LocalQueues of its ClusterQueue.
    """

    reason: str
    message: str
    cluster_queue: str
    info: Info | None = None
    outcome: Outcome | None = None
    place: Place | None = None
    head: Key | None = None
    head_is_never: bool = False
    twin: Key | None = None
    evidence: Evidence | None = None
    closed: bool = False
    inactive: str = ""
    promise: Promise | None = None
    kept_for: KeptForHead | None = None
    release: Promise | None = None
    beside: str = ""
    unchecked: int = 0
    rivals: bool = False
    by_usage: bool = False


class ClusterState:
    """Quota in use, pending Workloads and queues at one time."""

    def __init__(self, objects: ClusterObjects, settings: WorkloadSettings, now: datetime) -> None:
        self.state = SchedulerState()
        self.queues = Queues()
        configure(self.state, self.queues, settings)
        self._settings = settings
        self._now = now
        self._ranges: dict[str, list[LimitRange]] = {}
        self._classes = tuple(objects.runtime_classes)
        self._readers: dict[str, RequestReader] = {}  # by namespace
        backfilling = Backfilling(settings.backfill) if settings.backfill is not None else None
        self._rehearsal = Rehearsal(
            self.state, self.queues, now, settings.block_admission, backfilling, settings.tries_all
        )
        self._load(objects)

    def _load(self, objects: ClusterObjects) -> None:
        state = self.state
        state.namespaces = {each.metadata.name: each.metadata.labels for each in objects.namespaces}
        state.flavors = {each.metadata.name: each for each in objects.flavors}
        state.checks = {each.metadata.name: each for each in objects.checks}
        for limit_range in objects.limit_ranges:
            self._ranges.setdefault(limit_range.metadata.namespace, []).append(limit_range)
        for cohort in objects.cohorts:
            state.set_cohort(cohort)
        for queue in objects.cluster_queues:
            state.set_queue(queue)
            self.queues.set_cluster_queue(queue, self._now)
        for local in objects.local_queues:
            self.queues.set_local_queue(local, self._now)
            self.queues.restore_usage(local)
        for workload in objects.workloads:
            self._add(workload)
        state.preempted = preemptions(objects.workloads)
        outcomes.restore_reservations(state, self.queues, self._now)

    def _add(self, workload: Workload) -> None:
        if reserves_quota(workload):
            holding = holding_of(workload, self._read(workload), self._settings.max_min_runtime)
            if holding is not None:
                self.state.hold(holding)
        elif waits(workload):
            self.queues.put(self._read(workload), self._now)

    def _read(self, workload: Workload) -> Info:
        namespace = workload.metadata.namespace
        if namespace not in self._readers:
            surroundings = pod_surroundings(self._ranges.get(namespace, ()), self._classes)
            self._readers[namespace] = RequestReader(self._settings.resources, surroundings)
        return read(workload, self._settings, self._readers[namespace])

    # --- one Workload ---

    def judge(self, workload: Workload) -> Judgement:
        """What the scheduler decides about this Workload, which is pending.

        It runs admission cycles, which change this ClusterState: call it once.
        """
        local = self.queues.local_queues.get(workload.local_queue)
        name = local.spec.cluster_queue if local is not None else ""
        blocked = blocker(workload, self._context(local, name))
        info = self.queues.get(workload.metadata.key)
        place = self._place(name, info) if info is not None else None
        if blocked is not None:
            inactive = self.state.inactive(name) if name in self.state.queues else None
            text = inactive[1] if inactive is not None else ""
            return Judgement(*blocked, name, info, place=place, closed=True, inactive=text)
        if info is None or info.in_backoff(self._now):
            return Judgement(reasons.PENDING_EVALUATION, messages.PENDING_EVALUATION_MESSAGE, name, info, place=place)
        return self._settle(name, info, place)

    def refusals(self, workloads: Iterable[Workload]) -> dict[str, str]:
        """Why the scheduler does not admit these pending Workloads now, by uid; "" for one that it admits.

        It runs admission cycles, which change this ClusterState: call it once.
        """
        decided = self._rehearsal.settle()
        return {workload.metadata.uid: self._refusal(workload, decided) for workload in workloads}

    def _refusal(self, workload: Workload, decided: Mapping[str, Outcome]) -> str:
        local = self.queues.local_queues.get(workload.local_queue)
        name = local.spec.cluster_queue if local is not None else ""
        blocked = blocker(workload, self._context(local, name))
        if blocked is not None:
            return blocked[1]
        outcome = decided.get(workload.metadata.uid)
        if outcome is None and (info := self.queues.get(workload.metadata.key)) is not None:
            outcome = self._alone(name, info)
        if outcome is None:
            return messages.PENDING_EVALUATION_MESSAGE
        return "" if isinstance(outcome, Admit) and workload.metadata.uid in decided else _why_not(outcome)

    def _context(self, local: LocalQueue | None, name: str) -> WorkloadContext:
        return WorkloadContext(
            local_queue_exists=local is not None,
            local_queue_stop=local.spec.stop_policy if local is not None else "",
            cluster_queue=name,
            cluster_queue_exists=name in self.state.queues,
            cluster_queue_active=outcomes.is_active(self.state, name),
        )

    def _place(self, cluster_queue: str, info: Info) -> Place | None:
        pending = self.queues.cluster_queues.get(cluster_queue)
        if pending is None:
            return None
        before = [each.queue for each in takewhile(lambda each: each.key != info.key, pending.in_order())]
        return Place(len(before) + 1, len(pending), before.count(info.queue) + 1, Counter(before))

    def _settle(self, name: str, info: Info, place: Place | None) -> Judgement:
        decided = self._rehearsal.settle()
        outcome, head, twin = decided.get(info.uid), None, None
        if outcome is None and self.queues.bypassed(info.key) is not None:
            outcome = next((each for each in decided.values() if _is_refusal_of_twin(each, info, name)), None)
            twin = outcome.info.key if outcome is not None else None
        if outcome is None:
            outcome, head = self._alone(name, info), self._head(name, decided)
        if isinstance(outcome, Admit) and head is None:
            self.state.release(info.uid)
        reason, message = ("", "") if isinstance(outcome, Admit) else (outcome.reason, outcome.message)
        shown = evidence(self.state, name, info, self._now)
        promised = self._promise(name, info)
        is_short = reason == reasons.WAITING_FOR_QUOTA
        release, kept_for = self._release(name, info, message, shown) if is_short else (None, None)
        if head is not None:
            shown = that_waits_for_its_turn(shown)
        if kept_for is not None and kept_for.blocks:
            shown = that_is_kept_back(shown)
        elif kept_for is not None:
            shown = that_may_not_delay(shown, later=self._passes_without_protection(name, info))
        elif is_short:
            shown = self._with_confirmed_ways(name, info, shown)
        return Judgement(
            reason,
            message,
            name,
            info,
            outcome,
            place,
            head,
            head is not None and self._is_never(head, decided),
            twin,
            shown,
            promise=promised,
            kept_for=kept_for,
            release=release,
            beside=self._beside(name, info, shown) if is_short else "",
            unchecked=self.state.unchecked if reason == reasons.WAITING_FOR_PODS_READY else 0,
            rivals=self._has_rivals(name),
            by_usage=self.queues.is_ordered_by_usage(name),
        )

    def _has_rivals(self, name: str) -> bool:
        others = (self.queues.cluster_queues.get(other) for other in self.state.relatives(name) if other != name)
        return any(pending is not None and len(pending) > 0 for pending in others)

    def _is_never(self, head: Key, decided: Mapping[str, Outcome]) -> bool:
        info = self.queues.get(head)
        outcome = decided.get(info.uid) if info is not None else None
        return isinstance(outcome, Refuse) and outcome.reason in NEVER_REASONS

    def _beside(self, name: str, info: Info, shown: Evidence) -> str:
        """The StrictFIFO ClusterQueue whose first Workload, tried before this one, withholds what it lacks; or ""."""
        lacking = {FlavorResource(row.flavor, row.resource) for row in shown.flavors if row.is_short}
        place, around = (shown.nomination.assignment.borrow, info.rank), self.state.relatives(name)
        for head in self.queues.withholding_heads():
            assignment = head.nomination.assignment
            is_before = bool(self.state.fair_sharing) or (assignment.borrow, head.info.rank) < place
            if (
                head.cluster_queue in around
                and head.cluster_queue != name
                and is_before
                and lacking & assignment.usage.keys()
            ):
                return head.cluster_queue
        return ""

    def _release(
        self, name: str, info: Info, message: str, shown: Evidence
    ) -> tuple[Promise | None, KeptForHead | None]:
        """When enough quota is released for this Workload, or the head for which it is kept instead."""
        if message == messages.KEPT_FOR_FIRST_MESSAGE:
            return None, self._kept_for_first(name, info)
        if self._is_behind_a_preemptor(name, info, shown):
            return None, None
        release = promise(self.state, self.state.queues[name], info, self._now, fits_later=True)
        before = self._head_before(name, info, release)
        if before is None:
            return release, None
        both_fit = fit_together(self.state, (before.queue, before.head), (self.state.queues[name], info))
        is_free, is_known = message == messages.KEPT_FOR_HEAD_MESSAGE, release.starts_by < NEVER
        longest = info.longest_run
        if is_known and not is_free and longest is not None and later(release.starts_by, longest) <= before.starts_by:
            return release, None
        if not is_free and not is_known:  # the head may take what is released before that is enough for this one
            return None, KeptForHead(before.head.key, before.queue.name, 0, both_fit)
        seconds = int((before.starts_by - (self._now if is_free else release.starts_by)).total_seconds())
        most = max(0, seconds) if before.starts_by < NEVER else None
        return None, KeptForHead(before.head.key, before.queue.name, most, both_fit)

    def _passes_without_protection(self, name: str, info: Info) -> bool:
        """Whether this Workload may preempt others, in spite of a head, when the last minimum runtime is over."""
        ends = [until for each in self.state.holdings.values() if (until := each.protected_until) is not None]
        if not ends:
            return False
        waiting = {other: head for other, head in self.queues.waiting_heads().items() if head.info.uid != info.uid}
        [outcome] = run_cycle(self.state, [(name, info)], max(ends), self._rehearsal.backfilling, waiting)
        return not isinstance(outcome, Refuse)

    def _with_confirmed_ways(self, name: str, info: Info, shown: Evidence) -> Evidence:
        """The evidence without those ways to preempt that fail because of the first Workloads of StrictFIFO queues."""
        others = {each for each in self.state.relatives(name) if each != name}
        heads = [head for head in self.queues.withholding_heads() if head.cluster_queue in others]
        if not heads or shown.ways == NO_WAYS:
            return shown

        def starts(some: Info, at: datetime) -> bool:
            return not isinstance(run_cycle(self.state, [(name, some)], at, withholding=heads)[0], Refuse)

        queue, infos = self.state.queues[name], [head.info for head in heads]
        return replace(shown, ways=confirmed(shown.ways, self.state, queue, info, self._now, starts, infos))

    def _kept_for_first(self, name: str, info: Info) -> KeptForHead | None:
        """The first Workload of a StrictFIFO queue that withholds quota from this one. Of several the first by rank
        that would do so alone.
        """
        around = self.state.relatives(name)
        heads = ((each.cluster_queue, each.info) for each in self.queues.withholding_heads())
        found = [(head.rank, other, head) for other, head in heads if other in around]
        found.sort()
        alone = (each for each in found if self._keeps_back(each[1:], (name, info)))
        first = next(alone, found[0] if found else None)
        if first is None:
            return None
        both_fit = fit_together(self.state, (self.state.queues[first[1]], first[2]), (self.state.queues[name], info))
        yields = not self._keeps_back(first[1:], (name, with_priority(info, HIGHEST_PRIORITY)))
        return KeptForHead(first[2].key, first[1], 0, both_fit, blocks=True, yields=yields)

    def _keeps_back(self, first: tuple[str, Info], other: tuple[str, Info]) -> bool:
        """Whether the first Workload of a StrictFIFO queue keeps back another one if only these two are tried."""
        decided = run_cycle(self.state, [first, other], self._now)
        return any(kept_back_for(each) is KeptFor.FIRST for each in decided if each.info.uid == other[1].uid)

    def _head_before(self, name: str, info: Info, release: Promise) -> Promise | None:
        """With backfilling, the promise to an aged head that this Workload may not delay; of several the one with the
        earliest start, since who does not delay it delays none. In another ClusterQueue the Workload may use its own
        nominal quota all the same.
        """
        backfilling, pending = self._rehearsal.backfilling, self.queues.cluster_queues[name]
        if backfilling is None:
            return None
        found = [
            promise(self.state, self.state.queues[other], head, self._now)
            for other in kept_back_by(self.state, name)
            if (head := self.queues.waiting_head(other)) is not None
            and (pending.is_behind_head(info) if other == name else head.rank < info.rank)
            and backfilling.is_aged(head, self._now)
            and (other == name or release.starts_by >= NEVER or release.borrow)
        ]
        return min(found, key=lambda each: (each.starts_by, each.head.rank), default=None)

    def _promise(self, name: str, info: Info) -> Promise | None:
        """Return backfilling's promise to this Workload; None unless it is a head that found no quota, and the first
        of those that share quota: heads that are ordered before it need not keep it. With fair sharing others need not
        at all.
        """
        backfilling, head = self._rehearsal.backfilling, self.queues.waiting_head(name)
        if backfilling is None or head is not info or not backfilling.is_aged(info, self._now):
            return None
        if self._is_behind_a_preemptor(name, info) or self._is_behind_another_head(name, info):
            return None
        if kept_back_by(self.state, name) != self.state.relatives(name):
            return None
        return promise(self.state, self.state.queues[name], info, self._now)

    def _is_behind_another_head(self, name: str, info: Info) -> bool:
        """Whether the head of another ClusterQueue is ordered before this one, and may take what is released."""
        others = (self.queues.waiting_head(other) for other in self.state.relatives(name) if other != name)
        return any(head.rank < info.rank for head in others if head is not None)

    def _is_behind_a_preemptor(self, name: str, info: Info, shown: Evidence | None = None) -> bool:
        """Whether quota in the cohort is kept from this Workload for a preemptor. `shown`: if it stays within its own
        quota, which can always be reclaimed, none is kept for preemptors that would borrow that.
        """
        queue, around = self.state.queues[name], set(self.state.relatives(name))
        others = (r for r in self.state.reservations.values() if r.info.uid != info.uid and r.cluster_queue in around)
        behind = [r for r in others if not passes(self.state, info, queue, r)]
        if (
            shown is not None
            and can_always_reclaim(queue)
            and all(r.over_nominal == 0 for r in shown.flavors if r.is_short)
        ):
            behind = [r for r in behind if not borrows_from(self.state, r, queue.node)]
        return bool(behind)

    def _alone(self, name: str, info: Info) -> Outcome:
        """Return the decision of a cycle with this Workload alone; while blockAdmission holds admissions back, that it
        waits, unless it can never fit.
        """
        outcome = self._rehearsal.decide([(name, info)])[0]
        if not self._rehearsal.is_blocked:
            return outcome
        never = isinstance(outcome, Refuse) and outcome.reason in NEVER_REASONS
        return outcome if never else held_back(info, name)

    def _head(self, name: str, decided: Mapping[str, Outcome]) -> Key | None:
        """The Workload that blocks the queue; else the first one that was tried and is still pending."""
        pending = self.queues.cluster_queues[name]
        tried = (info.key for info in pending.in_order() if info.uid in decided)
        return pending.blocked_by or next(tried, None)


def _why_not(outcome: Outcome) -> str:
    return "others wait before it" if isinstance(outcome, Admit) else outcome.message


def _is_refusal_of_twin(outcome: Outcome, info: Info, cluster_queue: str) -> bool:
    same = outcome.cluster_queue == cluster_queue and outcome.info.shape == info.shape
    return same and isinstance(outcome, Refuse) and outcome.retry is Retry.CHANGE


def victims_of(judgement: Judgement) -> int:
    """The number of Workloads that are preempted for the judged Workload."""
    return len(judgement.outcome.victims) if isinstance(judgement.outcome, Preempt) else 0
