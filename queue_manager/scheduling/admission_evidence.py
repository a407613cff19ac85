"""The evidence behind the decision about one pending Workload: quota per flavor, its holders, preemption. Pure.

The Workload is judged again by the code of the admission cycle (`nomination.nominate`), with the quota that is kept for
preemptors as the cycle sees it. Nothing is decided here. The quota tree is the same afterwards.

For each ClusterQueue with running Workloads a `PreemptionVerdict` says why they are not preempted, or that they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from typing import NamedTuple

from job_controller.model import Key
from queue_manager.api import policy_values, reasons
from queue_manager.api.types import ResourceGroup
from queue_manager.scheduling import fair_preemption, victim_search
from queue_manager.scheduling.flavor_assignment import NEEDS_PREEMPTION, FlavorAttempt, Mode, requests_of
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.nomination import Nomination, nominate, preemptor_of
from queue_manager.scheduling.partial_admission import with_counts, with_fewest_pods
from queue_manager.scheduling.planned_usage import PlannedUsage
from queue_manager.scheduling.preemption_advice import NO_WAYS, Ways, ways_to_preempt
from queue_manager.scheduling.preemption_candidates import Preemptor, candidate_rule, protected_candidates
from queue_manager.scheduling.quota_state import QueueState, SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode, blocking_limits, unlent
from queue_manager.scheduling.victim_search import may_reclaim
from queue_manager.scheduling.workload_info import PODS, Info, PodSetInfo


class FlavorEvidence(NamedTuple):
    """One resource of one pod set in one flavor. Amounts as in `amounts`; `flavor` "": no flavor provides it.

    `free`: what the ClusterQueue may use now. That includes what it would borrow (`borrowable`), and excludes what is
    kept for preemptors (`kept`). `limit`: the most that it could use if nothing else ran. `mode`: None if the scheduler
    has not tried the flavor. `reason`, `why`: why the flavor does not fit, as Kueue words it. `limited_by`: the
    ClusterQueue and Cohorts but for whose borrowing limits the request would fit now. `limited_unused`: those but for
    whose limits it would fit if nothing else ran, and `unlent` those but for whose lending limits. `over_nominal`: by
    how much the request exceeds the nominal quota of the ClusterQueue that is not in use; None: it exceeds all of it.
    """

    pod_set: str
    flavor: str
    resource: str
    requested: int
    free: int = 0
    borrowable: int = 0
    kept: int = 0
    limit: int = 0
    mode: Mode | None = None
    reason: str = ""
    why: tuple[str, ...] = ()
    limited_by: tuple[str, ...] = ()
    limited_unused: tuple[str, ...] = ()
    unlent: tuple[str, ...] = ()
    over_nominal: int | None = None

    @property
    def is_short(self) -> bool:
        """Whether quota of the flavor would help: the request fits into it, but not into what is free now."""
        return self.free < self.requested <= self.limit and self.reason != reasons.NO_MATCHING_FLAVOR


class HeldQuota(NamedTuple):
    """The quota of short flavors that the Workloads of one LocalQueue hold in one ClusterQueue; the largest first.
    ClusterQueues that use only quota which they do not lend are left out.

    `stopping`: those that are evicted or deleted.
    """

    cluster_queue: str
    queue: Key
    usage: dict[FlavorResource, int]
    workloads: tuple[Key, ...]
    stopping: tuple[Key, ...]


class PreemptionVerdict(StrEnum):
    """Why the Workloads of a ClusterQueue are not preempted, or that they are."""

    CHOSEN = "Chosen"  # some of them are victims
    ONCE_FIRST = "OnceFirst"  # some of them will be, once the Workload is the first of its StrictFIFO queue
    POLICY_NEVER = "PolicyNever"
    MUST_BORROW = "MustBorrow"  # the Workload would borrow even then, and may not preempt to borrow
    WITHIN_QUOTA = "WithinQuota"  # the ClusterQueue, or a cohort around it, uses no more than its own quota
    SPOKEN_FOR = "SpokenFor"  # they are victims of other preemptors
    NOT_LOWER = "NotLower"  # none has the priority that the policy requires
    RECLAIMED_BEFORE = "ReclaimedBefore"  # the Workload has preempted them as often as it may
    PROTECTED = "Protected"  # some have that priority, and are protected by their minimum runtime
    SPARED = "Spared"  # quota is released for the Workload without them
    ABOVE_THRESHOLD = "AboveThreshold"  # it would borrow even then, and they are above maxPriorityThreshold
    SHARES = "Shares"  # fair sharing: its ClusterQueue would have the larger share
    NOT_ENOUGH = "NotEnough"  # all that may be preempted do not suffice
    KEPT_FOR_HEAD = "KeptForHead"  # backfilling: the Workload may not delay one that is ordered before it
    KEPT_FOR_FIRST = "KeptForFirst"  # the first of a StrictFIFO queue would get what they release


class PreemptionCheck(NamedTuple):
    """The running Workloads of one ClusterQueue that use a flavor, as candidates. `policy`: field and value.

    `candidates`: how many of them a search may stop together with candidates of other ClusterQueues. `protected_until`:
    the earliest end of a minimum runtime that keeps one from being a candidate. `limited_by`: what else excludes some.
    """

    flavor: str
    cluster_queue: str
    policy: tuple[str, str]
    verdict: PreemptionVerdict
    running: int
    candidates: int
    protected_until: datetime | None = None
    limited_by: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the scheduler knows about one Workload in one ClusterQueue.

    `pods`: with partial admission, if it is judged with fewer pods: (their number, all of them).
    """

    nomination: Nomination
    flavors: tuple[FlavorEvidence, ...]
    held: tuple[HeldQuota, ...]
    preemptions: tuple[PreemptionCheck, ...]
    ways: Ways
    kept_for: tuple[Key, ...] = ()  # preemptors, for which quota that it needs is kept
    pods: tuple[int, int] | None = None


def that_waits_for_its_turn(found: Evidence) -> Evidence:
    """The evidence about a Workload that is not the first of its StrictFIFO queue: nothing is stopped for it yet."""
    return _with_victims_as(found, PreemptionVerdict.ONCE_FIRST)


def that_may_not_delay(found: Evidence, *, later: bool) -> Evidence:
    """The evidence about a Workload that may not delay the head of a queue (backfilling): it stops no other ones, and
    only with a higher priority could it. `later`: or when no minimum runtime protects others any more.
    """
    ways = Ways(priority=found.ways.priority, protected_until=found.ways.protected_until if later else None)
    return replace(_with_victims_as(found, PreemptionVerdict.KEPT_FOR_HEAD), ways=ways)


def that_is_kept_back(found: Evidence) -> Evidence:
    """The evidence about a Workload from which the first of a StrictFIFO queue withholds quota: it stops no others."""
    return _with_victims_as(found, PreemptionVerdict.KEPT_FOR_FIRST)


def _with_victims_as(found: Evidence, verdict: PreemptionVerdict) -> Evidence:
    checks = (
        check._replace(verdict=verdict) if check.verdict is PreemptionVerdict.CHOSEN else check
        for check in found.preemptions
    )
    return replace(found, preemptions=tuple(checks))


def evidence(state: SchedulerState, cluster_queue: str, info: Info, now: datetime) -> Evidence:
    """Judge one Workload in an existing ClusterQueue, as if no other were pending. What is kept for preemptors that
    come after it is not counted against a preemptor.
    """
    queue, own = state.queues[cluster_queue], state.reservations.get(info.uid)
    later = (r.info.uid for r in state.reservations.values() if own is not None and r.retry_order > own.retry_order)
    with PlannedUsage(state) as planned, planned.without(planned.passed_by(info, queue).union(later)):
        nomination = nominate(state, planned, queue, info, now)
        judged = _judged(info, nomination)
        if judged is not info:
            nomination = nominate(state, planned, queue, judged, now)
        found = _Judge(state, planned, queue, judged, now).evidence(nomination)
        return found if judged is info else replace(found, pods=(_pods(judged), _pods(info)))


def _judged(info: Info, nomination: Nomination) -> Info:
    """The Workload with the pods that it would get by partial admission; if it is refused, with the fewest."""
    if not nomination.is_possible:
        return with_fewest_pods(info)
    return with_counts(info, {each.name: each.count for each in nomination.assignment.pod_sets})


def _pods(info: Info) -> int:
    return sum(pod_set.count for pod_set in info.pod_sets)


_AMONG_CANDIDATES = (PreemptionVerdict.NOT_ENOUGH, PreemptionVerdict.ABOVE_THRESHOLD, PreemptionVerdict.SHARES)


class _Group(NamedTuple):
    """The running Workloads of one ClusterQueue. `may`: those that the policy allows to preempt; `usable`: the victims
    that a search may take. `until`: the earliest end of a minimum runtime that protects one of the others.
    """

    cluster_queue: str
    running: list[Holding]
    may: list[Holding]
    usable: list[Holding]
    until: datetime | None


@dataclass(frozen=True, slots=True)
class _Judge:
    state: SchedulerState
    planned: PlannedUsage
    queue: QueueState
    info: Info
    now: datetime

    def evidence(self, nomination: Nomination) -> Evidence:
        tried = {(p.name, a.flavor): a for p in nomination.assignment.pod_sets for a in p.attempts}
        own = not self.planned.takes_what_is_kept(self.queue.node, nomination.assignment.usage)
        flavors = tuple(row for pod_set in self.info.pod_sets for row in self._flavors(pod_set, tried, own))
        checks = tuple(self._preemptions(nomination, flavors))
        ends = [check.protected_until for check in checks if check.protected_until is not None]
        ways = ways_to_preempt(self.state, self.planned, self.queue, self.info, self.now, ends) if checks else NO_WAYS
        return Evidence(nomination, flavors, self._held(flavors), checks, ways, self._kept_for(flavors))

    def _kept_for(self, flavors: Iterable[FlavorEvidence]) -> tuple[Key, ...]:
        wanted = {FlavorResource(row.flavor, row.resource) for row in flavors if row.is_short}
        around = self.state.relatives(self.queue.name)
        others = (r for r in self.planned.reservations if r.cluster_queue in around)
        return tuple(sorted(r.info.key for r in others if not wanted.isdisjoint(r.usage)))

    # --- flavors ---

    def _flavors(
        self, pod_set: PodSetInfo, tried: dict[tuple[str, str], FlavorAttempt], takes_own: bool
    ) -> Iterator[FlavorEvidence]:
        groups = self.queue.queue.spec.resource_groups
        covered = {resource for group in groups for resource in group.covered_resources}
        requests = requests_of(pod_set, PODS in covered)
        for resource in sorted(requests.keys() - covered):
            if requests[resource] and not self.state.ignore_undeclared:
                yield FlavorEvidence(pod_set.name, "", resource, requests[resource])
        for group in groups:
            for flavor, resource in _quotas(group):
                if resource in requests:
                    attempt = tried.get((pod_set.name, flavor))
                    fr = FlavorResource(flavor, resource)
                    yield self._flavor(pod_set.name, fr, requests[resource], attempt, takes_own)

    def _flavor(
        self, pod_set: str, fr: FlavorResource, requested: int, attempt: FlavorAttempt | None, takes_own: bool
    ) -> FlavorEvidence:
        node = self.queue.node
        free = self.planned.free(node, fr, own=takes_own)
        nominal, used = node.quota(fr).nominal, self.planned.used(node, fr)
        own = max(0, nominal - used)
        return FlavorEvidence(
            pod_set=pod_set,
            flavor=fr.flavor,
            resource=fr.resource,
            requested=requested,
            free=free,
            borrowable=max(0, free - own),
            kept=max(0, self.planned.free_now(node, fr) - free),
            limit=node.potential(fr),
            mode=attempt.mode if attempt is not None else None,
            reason=attempt.reason if attempt is not None else "",
            why=tuple(attempt.texts) if attempt is not None else (),
            limited_by=_names(self.planned.blocking_limits(node, fr, requested)),
            limited_unused=_names(blocking_limits(node, fr, requested, unused=True) or ()),
            unlent=_names(unlent(node, fr, requested)),
            over_nominal=max(0, requested + used - nominal) if requested <= nominal else None,
        )

    # --- who holds the quota ---

    def _held(self, flavors: Iterable[FlavorEvidence]) -> tuple[HeldQuota, ...]:
        short = {FlavorResource(row.flavor, row.resource) for row in flavors if row.is_short}
        rows: list[HeldQuota] = []
        for name in self.state.relatives(self.queue.name):
            taken, found = {fr for fr in short if self._is_taken(name, fr)}, dict[Key, list[Holding]]()
            for holding in self.state.queues[name].holdings.values():
                if _uses(holding, taken):
                    found.setdefault(holding.queue, []).append(holding)
            rows += (_held_by(name, queue, holdings, taken) for queue, holdings in found.items())
        return tuple(
            sorted(rows, key=lambda row: (row.cluster_queue != self.queue.name, -sum(row.usage.values()), row.queue))
        )

    def _is_taken(self, cluster_queue: str, fr: FlavorResource) -> bool:
        """Whether a ClusterQueue uses quota that this one could use: more than what is not lent (lendingLimit) by it
        and the cohorts around it that do not contain this one.
        """
        common = list(self.queue.node.path())
        apart = takewhile(lambda each: each not in common, self.state.queues[cluster_queue].node.path())
        return all(self.planned.used(each, fr) > each.local_quota(fr) for each in apart)

    # --- preemption ---

    def _preemptions(self, nomination: Nomination, flavors: Iterable[FlavorEvidence]) -> Iterator[PreemptionCheck]:
        for pod_set in nomination.assignment.pod_sets:
            for attempt in pod_set.attempts:
                wanted = {r.resource: r for r in flavors if (r.pod_set, r.flavor) == (pod_set.name, attempt.flavor)}
                usage = {FlavorResource(attempt.flavor, name): row.requested for name, row in wanted.items()}
                if _is_short_of_quota(attempt) and all(row.requested <= row.limit for row in wanted.values()):
                    preemptor = preemptor_of(self.state, self.planned, self.queue, self.info, usage)
                    yield from self._checks(attempt, preemptor, nomination)

    def _checks(self, attempt: FlavorAttempt, preemptor: Preemptor, found: Nomination) -> Iterator[PreemptionCheck]:
        protected, usable = self._protected(preemptor), self._usable(preemptor, found)
        for name in sorted(self.state.relatives(self.queue.name), key=lambda each: (each != self.queue.name, each)):
            running = [h for h in self.state.queues[name].holdings.values() if _uses(h, preemptor.needs)]
            if running:
                policy = self._policy(name)
                may = list(filter(candidate_rule(preemptor, policy[1], self.now), running))
                among = [h for h in may if h.uid in usable]
                group = _Group(name, running, may, among, protected.get(name))
                verdict = self._verdict(preemptor, group, found)
                shown = group.until if verdict in (PreemptionVerdict.PROTECTED, *_AMONG_CANDIDATES) else None
                count = len(may if verdict in (PreemptionVerdict.CHOSEN, PreemptionVerdict.SPARED) else group.usable)
                limit = self._limited_by(group) if verdict in _AMONG_CANDIDATES else ""
                yield PreemptionCheck(attempt.flavor, name, policy, verdict, len(running), count, shown, limit)

    def _usable(self, preemptor: Preemptor, found: Nomination) -> frozenset[str]:
        """Return the UIDs of the Workloads among which victims are searched; none if they are found or not needed."""
        if found.victims or found.will_fit:
            return frozenset()
        if self.state.fair_sharing:
            return fair_preemption.stoppable(self.state, preemptor, self.now)
        return victim_search.stoppable(self.state, preemptor, self.now)

    def _limited_by(self, group: _Group) -> str:
        """The rule that excludes candidates from the search; "" if none does."""
        excluded = [holding for holding in group.may if holding not in group.usable]
        if excluded and self.state.fair_sharing:
            return "fair sharing"
        threshold = self._threshold()
        is_above = threshold is not None and any(holding.priority > threshold for holding in excluded)
        return f"maxPriorityThreshold {threshold}" if is_above else ""

    def _threshold(self) -> int | None:
        """The maxPriorityThreshold of borrowWithinCohort if it applies, else None, as always under fair sharing."""
        borrowing = self.queue.queue.spec.preemption.borrow_within_cohort
        if self.state.fair_sharing or borrowing is None or borrowing.policy == policy_values.NEVER:
            return None
        return borrowing.max_priority_threshold

    def _protected(self, preemptor: Preemptor) -> dict[str, datetime | None]:
        """For each ClusterQueue with Workloads that only a minimum runtime protects: when the first of these ends."""
        found = protected_candidates(self.state, preemptor, self.now)
        return {holding.cluster_queue: holding.protected_until for holding in reversed(found)}

    def _policy(self, cluster_queue: str) -> tuple[str, str]:
        policy = self.queue.queue.spec.preemption
        if cluster_queue == self.queue.name:
            return "withinClusterQueue", policy.within_cluster_queue
        return "reclaimWithinCohort", policy.reclaim_within_cohort

    def _verdict(self, preemptor: Preemptor, group: _Group, found: Nomination) -> PreemptionVerdict:
        victims = {victim.holding.uid for victim in found.victims}
        policy = self._policy(group.cluster_queue)[1]
        is_other = group.cluster_queue != self.queue.name
        if any(holding.uid in victims for holding in group.running):
            return PreemptionVerdict.CHOSEN
        if policy == policy_values.NEVER:
            return PreemptionVerdict.POLICY_NEVER
        if is_other and not self._may_reclaim(preemptor):
            return PreemptionVerdict.MUST_BORROW
        if is_other and self._is_within_quota(group.cluster_queue, preemptor):
            return PreemptionVerdict.WITHIN_QUOTA
        if group.may:
            return self._among_candidates(preemptor, group, found)
        if all(holding.uid in preemptor.taken_victims for holding in group.running):
            return PreemptionVerdict.SPOKEN_FOR
        if group.until is not None:
            return PreemptionVerdict.PROTECTED
        return PreemptionVerdict.RECLAIMED_BEFORE if policy == policy_values.ANY else PreemptionVerdict.NOT_LOWER

    def _among_candidates(self, preemptor: Preemptor, group: _Group, found: Nomination) -> PreemptionVerdict:
        """Why the candidates of this group are not chosen as victims."""
        if found.victims or found.will_fit:
            return PreemptionVerdict.SPARED
        if group.usable or group.cluster_queue == self.queue.name:
            return PreemptionVerdict.NOT_ENOUGH
        if self.state.fair_sharing:
            return PreemptionVerdict.SHARES
        if self._limited_by(group):
            return PreemptionVerdict.ABOVE_THRESHOLD
        return PreemptionVerdict.MUST_BORROW if self._must_borrow(preemptor) else PreemptionVerdict.NOT_ENOUGH

    def _must_borrow(self, preemptor: Preemptor) -> bool:
        """Whether the preemptor would exceed the quota of its ClusterQueue if no Workload there were stopped."""
        node = self.queue.node
        return any(node.usage.get(fr, 0) + value > node.subtree.get(fr, 0) for fr, value in preemptor.usage.items())

    def _may_reclaim(self, preemptor: Preemptor) -> bool:
        return all(may_reclaim(self.state, self.queue, fr, preemptor.usage[fr]) for fr in preemptor.needs)

    def _is_within_quota(self, cluster_queue: str, preemptor: Preemptor) -> bool:
        """Whether the ClusterQueue, or a cohort between it and the first that it shares, uses only its own quota."""
        shared = set(self.queue.node.path())
        below = (node for node in self.state.queues[cluster_queue].node.path() if node not in shared)
        return any(map(preemptor.finds_within_quota, below))


def _names(nodes: Iterable[QuotaNode]) -> tuple[str, ...]:
    return tuple(f"{'Cohort' if node.is_cohort else 'ClusterQueue'} {node.name}" for node in nodes)


def _quotas(group: ResourceGroup) -> Iterator[tuple[str, str]]:
    return ((flavor.name, resource) for flavor in group.flavors for resource in group.covered_resources)


def _uses(holding: Holding, wanted: Iterable[FlavorResource]) -> bool:
    return any(holding.usage.get(fr) for fr in wanted)


def _is_short_of_quota(attempt: FlavorAttempt) -> bool:
    return attempt.mode in NEEDS_PREEMPTION or attempt.reason == reasons.WAITING_FOR_QUOTA


def _held_by(name: str, queue: Key, holdings: list[Holding], short: set[FlavorResource]) -> HeldQuota:
    def amount(holding: Holding) -> int:
        return sum(holding.usage.get(fr, 0) for fr in short)

    usage = {fr: sum(h.usage.get(fr, 0) for h in holdings) for fr in sorted(short)}
    largest = sorted(holdings, key=lambda h: (-amount(h), h.key))
    held = {fr: value for fr, value in usage.items() if value}
    return HeldQuota(name, queue, held, tuple(h.key for h in largest), tuple(h.key for h in largest if h.evicted))
