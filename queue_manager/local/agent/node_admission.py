"""Whether a pod that was bound to a node may start there, as a kubelet decides it (lifecycle/predicate.go and
preemption/preemption.go of Kubernetes 1.36). Pure.

Placement binds only what fits. A pod that names its node itself was never asked: what it wants and the node's other
pods do not leave is refused here, for good. A critical pod is not refused, others end for it: of the classes of service
the best is spared first, and within a class the fewest go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from queue_manager.local.placement.filters import Shortage, shortages
from queue_manager.scheduling.amounts import Amounts

# scheduling.SystemCriticalPriority: what system-cluster-critical and above have.
CRITICAL = 2_000_000_000
CLASSES = ("BestEffort", "Burstable", "Guaranteed")
REJECTED = "Pod was rejected: "


class Resident(NamedTuple):
    """A pod that could go for a critical one."""

    uid: str
    quality: str  # its QoS class
    requests: Amounts


@dataclass(frozen=True, slots=True)
class Admitted:
    """There is room."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod fails. `message` is that of the Event; the status says REJECTED before it."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class MakesRoom:
    """The pod starts when these are gone, and those that are leaving already."""

    victims: Sequence[str] = ()


# Of a node that is short of memory, to a pod that asks for nothing.
UNDER_PRESSURE = Rejected("Evicted", "The node had condition: [MemoryPressure]. ")

Answer = Admitted | Rejected | MakesRoom
Needs = Mapping[str, int]  # how much more of which resource


def is_critical(priority: int) -> bool:
    """Nothing on a node may be refused or ended before such a pod."""
    return priority >= CRITICAL


def admit(wanted: Amounts, allocatable: Amounts, used: Amounts) -> Admitted | Rejected:
    """Whether a node has room for what a pod requests. `used`: what its other pods request."""
    short = shortages(known_resources(wanted, allocatable), allocatable, used)
    return refusal(short[0]) if short else Admitted()


def admit_critical(
    wanted: Amounts, allocatable: Amounts, used: Amounts, leaving: Amounts, others: Sequence[Resident]
) -> Answer:
    """The same for a critical pod. `leaving`: what is used when those are gone that are leaving already."""
    wanted = known_resources(wanted, allocatable)
    if not shortages(wanted, allocatable, used):
        return Admitted()
    needs = {s.resource: s.requested - (s.capacity - s.used) for s in shortages(wanted, allocatable, leaving)}
    missing = _less(needs, others)
    if missing:
        return Rejected(
            "UnexpectedAdmissionError",
            "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of "
            f"pods to preempt: no set of running pods found to reclaim resources: {_listed(missing)}",
        )
    return MakesRoom([pod.uid for pod in victims(needs, others)])


def known_resources(wanted: Amounts, allocatable: Amounts) -> Amounts:
    """Without extended resources that the node does not have: they may belong to the cluster as a whole."""
    return {name: value for name, value in wanted.items() if name in allocatable or not _is_extended(name)}


def refusal(short: Shortage) -> Rejected:
    """Of several resources that are short the kubelet names the first. cpu is in thousandths."""
    return Rejected(
        f"OutOf{short.resource}",
        f"Node didn't have enough resource: {short.resource}, requested: {short.requested}, used: {short.used}, "
        f"capacity: {short.capacity}",
    )


def victims(needs: Needs, pods: Sequence[Resident]) -> list[Resident]:
    """Who has to go so that so much more is free; all of them together must be enough."""
    classes = [[pod for pod in pods if pod.quality == quality] for quality in CLASSES]
    chosen: list[Resident] = []
    for i in reversed(range(len(classes))):  # of the best only what all of the lesser ones could not give
        lesser = [pod for pods_of in classes[:i] for pod in pods_of]
        chosen = _nearest(_less(needs, [*lesser, *chosen]), classes[i]) + chosen
    return chosen


def _nearest(needs: Needs, pods: Sequence[Resident]) -> list[Resident]:
    """One after the other the pod that comes nearest to what is still needed; of equals the one that asks for less."""
    chosen: list[Resident] = []
    left = list(pods)
    while needs and left:
        best = min(left, key=lambda pod: (_distance(needs, pod), _given(pod, "memory"), _given(pod, "cpu")))
        left.remove(best)
        chosen.append(best)
        needs = _less(needs, [best])
    return chosen


def _distance(needs: Needs, pod: Resident) -> float:
    """How far from enough the pod's share is; every resource counts alike, whatever its unit."""
    return sum((max(0, need - _given(pod, resource)) / need) ** 2 for resource, need in needs.items())


def _less(needs: Needs, pods: Sequence[Resident]) -> dict[str, int]:
    """What is still needed when these pods are gone."""
    left = {resource: need - sum(_given(pod, resource) for pod in pods) for resource, need in needs.items()}
    return {resource: need for resource, need in left.items() if need > 0}


def _given(pod: Resident, resource: str) -> int:
    return 1 if resource == "pods" else pod.requests.get(resource, 0)


def _is_extended(resource: str) -> bool:
    """corev1helper.IsExtendedResourceName: of a domain that is not Kubernetes' own."""
    return "/" in resource and "kubernetes.io/" not in resource


def _listed(needs: Needs) -> str:
    return f"[{''.join(f'(res: {resource}, q: {need}), ' for resource, need in needs.items())}]"
