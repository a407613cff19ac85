"""Which flavor provides which resource of a Workload.

Resources of one resource group share a flavor. The flavors of a group are tried in order. A flavor in which the pod set
fits is taken, unless it would borrow and the ClusterQueue prefers the next flavor (whenCanBorrow: TryNextFlavor); one
in which it fits after preemption is taken if whenCanPreempt is MayStopSearch. Otherwise all flavors are tried, and the
best is taken: by default the best mode and then the lowest borrow level, with preference PreemptionOverBorrowing the
lowest borrow level first.

Each flavor that does not fit has a reason. A resource group has the mildest reason of its flavors, and the Workload the
most severe reason of its groups and pod sets. Kueue: pkg/scheduler/flavorassigner, BEHAVIOUR.md#q13-flavor-assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from queue_manager.api import messages, policy_values, reasons
from queue_manager.api.types import ClusterQueueSpec, FlavorFungibility, ResourceFlavor, ResourceGroup
from queue_manager.scheduling.amounts import Amounts, text
from queue_manager.scheduling.flavor_matching import refusal
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode
from queue_manager.scheduling.workload_info import PODS, Info, PodSetInfo


class Mode(IntEnum):
    """How well a flavor fits, from worst to best."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # would fit after preemption, but no sufficient victims exist
    JOINTLY = 2  # no victims suffice for one resource alone, but those for another one may release enough of it, too
    PREEMPT = 3  # fits after preemption, also in the own ClusterQueue
    RECLAIM = 4  # fits after preemption in other ClusterQueues only
    FREED = 5  # fits once Workloads have stopped that are being stopped, without further victims
    FIT = 6


NEEDS_PREEMPTION = (Mode.JOINTLY, Mode.PREEMPT, Mode.RECLAIM, Mode.FREED)
MODE_TEXTS = {
    Mode.NO_FIT: "NoFit",
    Mode.NO_CANDIDATES: "preemptionMode=NoCandidates",
    Mode.JOINTLY: "preemptionMode=NoCandidates",
    Mode.PREEMPT: "preemptionMode=Preempt",
    Mode.RECLAIM: "preemptionMode=Reclaim",
    Mode.FREED: "preemptionMode=Reclaim",
    Mode.FIT: "Fit",
}


class AvailableQuota(Protocol):
    """Answers how much quota is free for the Workload's ClusterQueue, now and after preemption."""

    def free(self, fr: FlavorResource) -> int:
        """The amount that is available."""
        ...

    def after_preemption(self, fr: FlavorResource, value: int) -> tuple[Mode, int]:
        """How well an amount that is not free would fit after preemption, and the borrow level then."""
        ...


# Reasons of a flavor that does not fit, from mild to severe.
SEVERITY = {
    reason: i
    for i, reason in enumerate(
        (
            reasons.TOPOLOGY_PLACEMENT_FAILED,
            reasons.WAITING_FOR_QUOTA,
            reasons.EXCEEDS_MAX_QUOTA,
            reasons.NO_MATCHING_FLAVOR,
        )
    )
}


class Demand(NamedTuple):
    """A request for which quota must be free before a flavor can be assigned: of as few pods as are admitted."""

    fr: FlavorResource
    amount: int


@dataclass(slots=True)
class FlavorAttempt:
    """One flavor tried for one resource group."""

    flavor: str
    mode: Mode
    borrow: int = 0
    reason: str = ""  # one of SEVERITY
    texts: list[str] = field(default_factory=list)
    short: list[Demand] = field(default_factory=list)  # the requests that do not fit now

    def __str__(self) -> str:
        parts = [MODE_TEXTS[self.mode]]
        parts += [f"borrow={self.borrow}"] if self.borrow else []
        return f"{self.flavor}({';'.join(parts + sorted(self.texts))})"

    def worsen(self, mode: Mode, reason: str, message: str) -> None:
        """Lower the mode, and replace the reason by a more severe one."""
        self.mode = min(self.mode, mode)
        self.reason = _more_severe(self.reason, reason)
        self.texts.append(message)


@dataclass(slots=True)
class PodSetResult:
    """The flavors of one pod set, by resource; if it does not fit, the reason and texts."""

    name: str
    count: int
    requests: Amounts
    flavors: dict[str, str] = field(default_factory=dict)
    mode: Mode = Mode.FIT
    borrow: int = 0
    reason: str = ""
    texts: list[str] = field(default_factory=list)
    attempts: list[FlavorAttempt] = field(default_factory=list)
    chosen: list[FlavorAttempt] = field(default_factory=list)  # one for each resource group
    unfit: list[FlavorAttempt] | None = None  # the flavors of the first resource group that has none for it
    # Index of the flavor after the one that it could use; 0: that is the last, or there is no such flavor.
    following: dict[GroupKey, int] = field(default_factory=dict)

    def blame(self, mode: Mode, reason: str, texts: Sequence[str]) -> None:
        """Lower the mode, and replace the reason by a more severe one."""
        self.mode = min(self.mode, mode)
        self.reason = _more_severe(self.reason, reason)
        self.texts += texts


def _more_severe(known: str, reason: str) -> str:
    return reason if not known or SEVERITY[reason] > SEVERITY[known] else known


Choice = tuple[str, str]  # pod set, flavor
GroupKey = tuple[str, str]  # pod set, first resource of a resource group
FROM_THE_FIRST: Mapping[GroupKey, int] = MappingProxyType({})
Found = TypeVar("Found")


@dataclass(slots=True)
class Assignment:
    """The result for a whole Workload; its mode is that of the worst pod set. `usage`: of resources with a flavor."""

    pod_sets: list[PodSetResult]
    usage: dict[FlavorResource, int]

    @property
    def flavors(self) -> set[str]:
        """The flavors of all pod sets."""
        return {flavor for pod_set in self.pod_sets for flavor in pod_set.flavors.values()}

    @property
    def mode(self) -> Mode:
        """The worst mode over the pod sets."""
        return min((p.mode for p in self.pod_sets), default=Mode.FIT)

    @property
    def borrow(self) -> int:
        """The highest borrow level over the pod sets; 0: nothing is borrowed."""
        return max((p.borrow for p in self.pod_sets), default=0)

    @property
    def reason(self) -> str:
        """The most severe reason over the pod sets, for QuotaReserved=False."""
        given = [p.reason for p in self.pod_sets if p.mode is not Mode.FIT]
        return max(given, key=SEVERITY.__getitem__, default=reasons.WAITING_FOR_QUOTA)

    @property
    def message(self) -> str:
        """Why the Workload does not fit: the message of QuotaReserved=False, as Kueue words it."""
        return "; ".join(
            f"{messages.COULD_NOT_ASSIGN} {p.name}: {', '.join(sorted(set(p.texts)))}"
            for p in self.pod_sets
            if p.mode is not Mode.FIT
        )

    @property
    def unfit(self) -> list[FlavorAttempt] | None:
        """The flavors of a resource group of which none fits, not even after preemption; None if each has one."""
        return next((p.unfit for p in self.pod_sets if p.unfit is not None), None)

    @property
    def following(self) -> Mapping[GroupKey, int]:
        """The index of the flavor after the one that a pod set could use; {} if it is the last of each. Pod sets that
        could use none begin again. Kueue: LastAssignment
        """
        found = {at: index for p in self.pod_sets if p.mode is not Mode.NO_FIT for at, index in p.following.items()}
        return found if any(found.values()) else {}

    def waiting(self) -> Assignment:
        """The same refusal, of a Workload that would fit in other flavors: WaitingForQuota for ExceedsMaxQuota."""
        pod_sets = [
            replace(p, reason=reasons.WAITING_FOR_QUOTA) if p.reason == reasons.EXCEEDS_MAX_QUOTA else p
            for p in self.pod_sets
        ]
        return replace(self, pod_sets=pod_sets)

    @property
    def choices(self) -> frozenset[Choice]:
        """The chosen flavors."""
        return frozenset((p.name, a.flavor) for p in self.pod_sets for a in p.chosen)

    @property
    def preempting(self) -> frozenset[Choice]:
        """The chosen flavors that need preemption."""
        return frozenset((p.name, a.flavor) for p in self.pod_sets for a in p.chosen if a.mode in NEEDS_PREEMPTION)

    @property
    def considered(self) -> str:
        """The flavors passed over, for the QuotaReserved Event; "" if the first flavor fit without borrowing."""
        parts = []
        for p in self.pod_sets:
            tried = [str(a) for a in p.attempts if a.mode is not Mode.FIT or a.borrow]
            if tried:
                parts.append(f"{p.name}: {', '.join(tried)}")
        return f"; Flavors considered: {' | '.join(parts)}" if parts else ""


def requests_of(pod_set: PodSetInfo, covers_pods: bool) -> Amounts:
    """The requests of all pods of the set; with the resource `pods` if the ClusterQueue covers it."""
    total = pod_set.total
    if covers_pods:
        total[PODS] = pod_set.count
    return total


def assign(
    info: Info,
    queue: ClusterQueueSpec,
    node: QuotaNode,
    flavors: Mapping[str, ResourceFlavor],
    room: AvailableQuota,
    *,
    ignore_undeclared: bool = False,
    ruled_out: AbstractSet[Choice] = frozenset(),
    excluded: AbstractSet[Choice] = frozenset(),
    starts: Mapping[GroupKey, int] = FROM_THE_FIRST,
) -> Assignment:
    """The best flavors for a Workload in this ClusterQueue.

    `ignore_undeclared`: resources without quota in the ClusterQueue do not count. `ruled_out`: flavors for which no
    victims suffice for all resources together. `excluded`: flavors of which the free quota is kept for others.
    `starts`: the index of the first flavor to try, 0 if absent.
    """
    return _Assigner(queue, node, flavors, room, ruled_out, excluded, starts, ignore_undeclared).assign(info)


def in_some_order(
    info: Info,
    queue: ClusterQueueSpec,
    judge: Callable[[Mapping[GroupKey, int]], Found],
    assignment_of: Callable[[Found], Assignment],
) -> Iterator[Found]:
    """Yield what `judge` finds with flavors from the first, then, of several pod sets, from the next ones: an earlier
    pod set may have been given the flavor that a later one needs.
    """
    found = judge(FROM_THE_FIRST)
    yield found
    groups = queue.resource_groups if len(info.pod_sets) > 1 else ()
    for _ in range(max((len(group.flavors) for group in groups), default=0)):
        following = assignment_of(found).following
        if not following:
            return
        found = judge(following)
        yield found


class _Assigner:
    """Assigns flavors to the pod sets of one Workload; the usage of earlier pod sets counts for later ones."""

    def __init__(
        self,
        queue: ClusterQueueSpec,
        node: QuotaNode,
        flavors: Mapping[str, ResourceFlavor],
        room: AvailableQuota,
        ruled_out: AbstractSet[Choice],
        excluded: AbstractSet[Choice],
        starts: Mapping[GroupKey, int],
        ignore_undeclared: bool,
    ) -> None:
        self._queue = queue
        self._node = node
        self._flavors = flavors
        self._room = room
        self._ruled_out = ruled_out
        self._excluded = excluded
        self._starts = starts
        self._ignore_undeclared = ignore_undeclared
        self._groups = {resource: group for group in queue.resource_groups for resource in group.covered_resources}
        self._assumed: dict[FlavorResource, int] = {}
        self._is_composed = False  # of several pod sets or resource groups, which are assigned one after the other

    def assign(self, info: Info) -> Assignment:
        self._is_composed = len(info.pod_sets) > 1 or len(self._queue.resource_groups) > 1
        results = []
        for pod_set in info.pod_sets:
            requests = requests_of(pod_set, PODS in self._groups)
            if self._ignore_undeclared:
                requests = {resource: amount for resource, amount in requests.items() if resource in self._groups}
            result = PodSetResult(pod_set.name, pod_set.count, requests)
            self._assign_pod_set(result, pod_set)
            results.append(result)
            if result.mode is Mode.NO_FIT:
                break  # it uses nothing, as in Kueue: its place by fair sharing depends on that
            for resource, flavor in result.flavors.items():
                if request := result.requests[resource]:  # a request of 0 fits even if more than the quota is in use
                    fr = FlavorResource(flavor, resource)
                    self._assumed[fr] = self._assumed.get(fr, 0) + request
        return Assignment(results, self._assumed)

    def _assign_pod_set(self, result: PodSetResult, pod_set: PodSetInfo) -> None:
        for resource in sorted(result.requests):
            if resource not in self._groups and result.requests[resource] != 0:
                text = f"resource {resource} unavailable in ClusterQueue"
                result.blame(Mode.NO_FIT, reasons.NO_MATCHING_FLAVOR, [text])
                return
        for group in self._queue.resource_groups:
            wanted = [resource for resource in group.covered_resources if resource in result.requests]
            if not wanted:
                continue
            best = self._try_flavors(result, pod_set, group, wanted)
            if result.mode is Mode.NO_FIT:
                continue  # the other groups count only if their reason is more severe
            result.chosen.append(best)
            result.borrow = max(result.borrow, best.borrow)
            result.flavors |= dict.fromkeys(wanted, best.flavor)

    def _try_flavors(
        self, result: PodSetResult, pod_set: PodSetInfo, group: ResourceGroup, wanted: Sequence[str]
    ) -> FlavorAttempt:
        tried: list[FlavorAttempt] = []
        at = result.name, group.covered_resources[0]
        start = self._starts.get(at, 0)
        for quotas in group.flavors[start:]:
            tried.append(self._try(quotas.name, result, pod_set, wanted))
            if not _tries_next(self._queue.flavor_fungibility, tried[-1]):
                best = tried[-1]
                break
        else:
            best = _best(self._queue.flavor_fungibility, tried)
        is_usable = best.mode >= Mode.PREEMPT
        result.following[at] = (start + tried.index(best) + 1) % len(group.flavors) if is_usable else 0
        result.attempts += tried
        if best.mode < Mode.PREEMPT and result.unfit is None:
            result.unfit = tried
        if best.mode is not Mode.FIT:
            mildest = min((a.reason for a in tried if a.reason), key=SEVERITY.__getitem__)
            if result.mode is not Mode.NO_FIT or SEVERITY[mildest] > SEVERITY[result.reason]:
                result.blame(best.mode, mildest, [t for a in tried for t in a.texts])
        return best

    def _try(self, flavor: str, result: PodSetResult, pod_set: PodSetInfo, wanted: Sequence[str]) -> FlavorAttempt:
        known = self._flavors.get(flavor)
        why = f"flavor {flavor} not found" if known is None else refusal(known, pod_set.placement)
        if why:
            return FlavorAttempt(flavor, Mode.NO_FIT, reason=reasons.NO_MATCHING_FLAVOR, texts=[why])
        attempt = FlavorAttempt(flavor, Mode.FIT)
        if (pod_set.name, flavor) in self._excluded:
            attempt.worsen(Mode.NO_CANDIDATES, reasons.WAITING_FOR_QUOTA, messages.kept_in_flavor(flavor))
            return attempt
        for resource in wanted:
            fr, request = FlavorResource(flavor, resource), result.requests[resource]
            if request and not self._weigh(attempt, fr, request):
                attempt.short.append(Demand(fr, _least(request, pod_set)))
        is_ruled_out = (pod_set.name, flavor) in self._ruled_out
        if is_ruled_out and attempt.mode in NEEDS_PREEMPTION:
            attempt.mode = Mode.NO_CANDIDATES
        elif not is_ruled_out and attempt.mode is Mode.NO_CANDIDATES and (self._is_composed or len(attempt.short) > 1):
            attempt.mode = Mode.JOINTLY
        return attempt

    def _weigh(self, attempt: FlavorAttempt, fr: FlavorResource, request: int) -> bool:
        """Lower the mode of the attempt if the request does not fit; whether it fits now."""
        before = self._assumed.get(fr, 0)
        value = request + before
        most = self._node.potential(fr)
        free = self._room.free(fr)
        if value > most:
            shown = (text(fr.resource, n) for n in (before, request, most))
            message = messages.insufficient_capacity(fr.resource, fr.flavor, *shown)
            attempt.worsen(Mode.NO_FIT, reasons.EXCEEDS_MAX_QUOTA, message)
        elif value > free:
            message = messages.insufficient_unused(fr.resource, fr.flavor, text(fr.resource, value - free))
            mode, borrow = self._room.after_preemption(fr, value) if attempt.mode > Mode.NO_FIT else (Mode.NO_FIT, 0)
            attempt.worsen(mode, reasons.WAITING_FOR_QUOTA, message)
            attempt.borrow = max(attempt.borrow, borrow)
        else:
            attempt.borrow = max(attempt.borrow, self._node.borrow_level(fr, value))
        return value <= min(most, free)


def _least(request: int, pod_set: PodSetInfo) -> int:
    """The part of a pod set's request that it has with the fewest pods of a partial admission."""
    if pod_set.minimum is None or pod_set.count == 0:
        return request
    return request // pod_set.count * min(pod_set.minimum, pod_set.count)


def _tries_next(fungibility: FlavorFungibility, attempt: FlavorAttempt) -> bool:
    """Whether the search continues after this flavor. Kueue: shouldTryNextFlavor"""
    if attempt.mode in NEEDS_PREEMPTION and fungibility.when_can_preempt == policy_values.TRY_NEXT_FLAVOR:
        return True
    borrows = attempt.borrow > 0 and fungibility.when_can_borrow == policy_values.TRY_NEXT_FLAVOR
    return borrows or attempt.mode < Mode.PREEMPT


def _best(fungibility: FlavorFungibility, tried: Sequence[FlavorAttempt]) -> FlavorAttempt:
    """The first of the best flavors. Kueue: isPreferred"""

    def preference(attempt: FlavorAttempt) -> tuple[int, int, int]:
        usable = min(attempt.mode, Mode.PREEMPT)
        if fungibility.preference == policy_values.PREEMPTION_OVER_BORROWING:
            return usable, -attempt.borrow, attempt.mode
        return usable, attempt.mode, -attempt.borrow

    return max(tried, key=preference)
