"""Which flavor provides which resource of a Workload.

Resources of one resource group share a flavor. The flavors of a group are tried in order; the first in which the pod
set fits is taken, unless the ClusterQueue prefers the next flavor over borrowing (whenCanBorrow: TryNextFlavor). Each
flavor that does not fit has a reason: the mildest reason over the flavors of a group is that of the group, the most
severe over groups and pod sets is that of the Workload. Kueue: pkg/scheduler/flavorassigner,
BEHAVIOUR.md#q13-flavor-assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from queue_manager.api import messages, reasons
from queue_manager.api.types import ClusterQueueSpec, ResourceFlavor, ResourceGroup
from queue_manager.scheduling.amounts import Amounts, text
from queue_manager.scheduling.flavor_matching import refusal
from queue_manager.scheduling.quota_tree import FlavorResource, QuotaNode
from queue_manager.scheduling.workload_info import PODS, Info, PodSetInfo


class Mode(IntEnum):
    """How well a flavor fits, from worst to best."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # would fit after preemption, which is not implemented
    FIT = 2


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


@dataclass(slots=True)
class FlavorAttempt:
    """One flavor tried for one resource group."""

    flavor: str
    mode: Mode
    borrow: int = 0
    reason: str = ""  # one of SEVERITY
    texts: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kind = "NoFit" if self.mode is Mode.NO_FIT else "preemptionMode=NoCandidates"
        parts = ["Fit" if self.mode is Mode.FIT else kind]
        parts += [f"borrow={self.borrow}"] if self.borrow else []
        return f"{self.flavor}({';'.join(parts + self.texts)})"


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

    def blame(self, mode: Mode, reason: str, texts: Sequence[str]) -> None:
        """Lower the mode, and replace the reason by a more severe one."""
        self.mode = min(self.mode, mode)
        if not self.reason or SEVERITY[reason] > SEVERITY[self.reason]:
            self.reason = reason
        self.texts += texts


@dataclass(slots=True)
class Assignment:
    """The result for a whole Workload; its mode is that of the worst pod set. `usage`: of resources with a flavor."""

    pod_sets: list[PodSetResult]
    usage: dict[FlavorResource, int]

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
            f"couldn't assign flavors to pod set {p.name}: {', '.join(sorted(set(p.texts)))}"
            for p in self.pod_sets
            if p.mode is not Mode.FIT
        )

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
    *,
    ignore_undeclared: bool = False,
) -> Assignment:
    """The best flavors for a Workload in this ClusterQueue, given the usage in the quota tree.

    `ignore_undeclared`: resources without quota in the ClusterQueue do not count.
    """
    groups = {resource: group for group in queue.resource_groups for resource in group.covered_resources}
    assumed: dict[FlavorResource, int] = {}
    results = []
    for pod_set in info.pod_sets:
        requests = requests_of(pod_set, PODS in groups)
        if ignore_undeclared:
            requests = {resource: amount for resource, amount in requests.items() if resource in groups}
        result = PodSetResult(pod_set.name, pod_set.count, requests)
        _assign_pod_set(result, pod_set, queue, node, flavors, groups, assumed)
        results.append(result)
        if result.mode is Mode.NO_FIT:
            break
    return Assignment(results, assumed)


def _assign_pod_set(
    result: PodSetResult,
    pod_set: PodSetInfo,
    queue: ClusterQueueSpec,
    node: QuotaNode,
    flavors: Mapping[str, ResourceFlavor],
    groups: Mapping[str, ResourceGroup],
    assumed: dict[FlavorResource, int],
) -> None:
    for resource in sorted(result.requests):
        if resource not in groups and result.requests[resource] != 0:
            result.blame(Mode.NO_FIT, reasons.NO_MATCHING_FLAVOR, [f"resource {resource} unavailable in ClusterQueue"])
            return
    for group in queue.resource_groups:
        wanted = [resource for resource in group.covered_resources if resource in result.requests]
        if not wanted:
            continue
        best = _try_flavors(result, pod_set, queue, node, flavors, group, wanted, assumed)
        if best.mode is Mode.NO_FIT:
            return
        result.borrow = max(result.borrow, best.borrow)
        for resource in wanted:
            result.flavors[resource] = best.flavor
            fr = FlavorResource(best.flavor, resource)
            assumed[fr] = assumed.get(fr, 0) + result.requests[resource]


def _try_flavors(
    result: PodSetResult,
    pod_set: PodSetInfo,
    queue: ClusterQueueSpec,
    node: QuotaNode,
    flavors: Mapping[str, ResourceFlavor],
    group: ResourceGroup,
    wanted: Sequence[str],
    assumed: Mapping[FlavorResource, int],
) -> FlavorAttempt:
    tried: list[FlavorAttempt] = []
    for quotas in group.flavors:
        attempt = _try(quotas.name, result, pod_set, node, flavors, wanted, assumed)
        tried.append(attempt)
        if attempt.mode is Mode.FIT and not (
            attempt.borrow and queue.flavor_fungibility.when_can_borrow == "TryNextFlavor"
        ):
            break
    result.attempts += tried
    best = max(tried, key=lambda a: (a.mode, -a.borrow))
    if best.mode is not Mode.FIT:
        mildest = min((a.reason for a in tried), key=SEVERITY.__getitem__)
        result.blame(best.mode, mildest, [t for a in tried for t in a.texts])
    return best


def _try(
    flavor: str,
    result: PodSetResult,
    pod_set: PodSetInfo,
    node: QuotaNode,
    flavors: Mapping[str, ResourceFlavor],
    wanted: Sequence[str],
    assumed: Mapping[FlavorResource, int],
) -> FlavorAttempt:
    known = flavors.get(flavor)
    why = f"flavor {flavor} not found" if known is None else refusal(known, pod_set.placement)
    if why:
        return FlavorAttempt(flavor, Mode.NO_FIT, reason=reasons.NO_MATCHING_FLAVOR, texts=[why])
    attempt = FlavorAttempt(flavor, Mode.FIT)
    for resource in wanted:
        fr = FlavorResource(flavor, resource)
        _weigh(attempt, node, fr, result.requests[resource], assumed.get(fr, 0))
    return attempt


def _weigh(attempt: FlavorAttempt, node: QuotaNode, fr: FlavorResource, request: int, before: int) -> None:
    value = request + before
    most = node.potential(fr)
    free = node.available(fr)
    if value > most:
        shown = (text(fr.resource, n) for n in (before, request, most))
        message = messages.insufficient_capacity(fr.resource, fr.flavor, *shown)
        _worsen(attempt, Mode.NO_FIT, reasons.EXCEEDS_MAX_QUOTA, message)
    elif value > free:
        mode = Mode.NO_CANDIDATES if node.quota(fr).nominal >= value else Mode.NO_FIT
        message = messages.insufficient_unused(fr.resource, fr.flavor, text(fr.resource, value - free))
        _worsen(attempt, mode, reasons.WAITING_FOR_QUOTA, message)
    else:
        attempt.borrow = max(attempt.borrow, node.borrow_level(fr, value))


def _worsen(attempt: FlavorAttempt, mode: Mode, reason: str, message: str) -> None:
    attempt.mode = min(attempt.mode, mode)
    if not attempt.reason or SEVERITY[reason] > SEVERITY[attempt.reason]:
        attempt.reason = reason
    attempt.texts.append(message)
