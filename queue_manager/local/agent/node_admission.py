"""Whether a pod that was bound to a node may start there, as the kubelet decides it (lifecycle/predicate.go and
preemption/preemption.go of Kubernetes 1.36). Pure.

Placement binds only pods that fit. A pod that sets spec.nodeName itself bypasses placement: if the other pods of the
node leave too little for its requests, it is rejected for good. For a critical pod other pods are preempted instead:
lower QoS classes first, and within a class as few pods as possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from queue_manager.local.placement.node_choice import Shortage, shortages
from queue_manager.scheduling.amounts import Amounts

# scheduling.SystemCriticalPriority: the lowest priority of a critical pod.
CRITICAL = 2_000_000_000
CLASSES = ("BestEffort", "Burstable", "Guaranteed")
REJECTED = "Pod was rejected: "


class Resident(NamedTuple):
    """A pod that could be preempted for a critical one."""

    uid: str
    quality: str  # its QoS class
    requests: Amounts


@dataclass(frozen=True, slots=True)
class Admitted:
    """The node has room for the pod."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod fails. `message` is that of the Event; in the status it is prefixed with REJECTED."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Preempting:
    """The pod starts when these pods and those already terminating are gone."""

    victims: Sequence[str] = ()


# The answer to a BestEffort pod on a node under memory pressure.
UNDER_PRESSURE = Rejected("Evicted", "The node had condition: [MemoryPressure]. ")

NodeDecision = Admitted | Rejected | Preempting
Needs = Mapping[str, int]  # missing amount by resource


def is_critical(priority: int) -> bool:
    """Whether a pod of this priority is critical, so that it is never evicted and preempts others on its node."""
    return priority >= CRITICAL


def admit(wanted: Amounts, allocatable: Amounts, used: Amounts) -> Admitted | Rejected:
    """Whether a node has room for the requests of a pod. `used`: the requests of its other pods."""
    short = shortages(known_resources(wanted, allocatable), allocatable, used)
    return refusal(short[0]) if short else Admitted()


def admit_critical(
    wanted: Amounts, allocatable: Amounts, used: Amounts, leaving: Amounts, others: Sequence[Resident]
) -> NodeDecision:
    """`admit` for a critical pod. `leaving`: the requests that remain when the terminating pods are gone."""
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
    return Preempting([pod.uid for pod in victims(needs, others)])


def known_resources(wanted: Amounts, allocatable: Amounts) -> Amounts:
    """The requests of a pod, without extended resources that the node lacks: the kubelet ignores those."""
    return {name: value for name, value in wanted.items() if name in allocatable or not _is_extended(name)}


def refusal(short: Shortage) -> Rejected:
    """The rejection for a shortage: the kubelet names the first short resource, cpu in millicpu."""
    return Rejected(
        f"OutOf{short.resource}",
        f"Node didn't have enough resource: {short.resource}, requested: {short.requested}, used: {short.used}, "
        f"capacity: {short.capacity}",
    )


def victims(needs: Needs, pods: Sequence[Resident]) -> list[Resident]:
    """The pods to preempt so that the needs are met. Requires that all `pods` together suffice."""
    classes = [[pod for pod in pods if pod.quality == quality] for quality in CLASSES]
    chosen: list[Resident] = []
    for i in reversed(range(len(classes))):  # of a class only what all lower classes cannot free
        lesser = [pod for pods_of in classes[:i] for pod in pods_of]
        chosen = _nearest(_less(needs, [*lesser, *chosen]), classes[i]) + chosen
    return chosen


def _nearest(needs: Needs, pods: Sequence[Resident]) -> list[Resident]:
    """Choose pods one by one, each the one nearest to the remaining needs; of equals the one with smaller requests."""
    chosen: list[Resident] = []
    left = list(pods)
    while needs and left:
        best = min(left, key=lambda pod: (_distance(needs, pod), _given(pod, "memory"), _given(pod, "cpu")))
        left.remove(best)
        chosen.append(best)
        needs = _less(needs, [best])
    return chosen


def _distance(needs: Needs, pod: Resident) -> float:
    """Return the sum, over the resources, of the squared fraction of the need that would remain without this pod.

    Fractions have no unit, so that resources of different units can be added up.
    """
    return sum((max(0, need - _given(pod, resource)) / need) ** 2 for resource, need in needs.items())


def _less(needs: Needs, pods: Sequence[Resident]) -> dict[str, int]:
    """The parts of `needs` that are not covered once these pods are gone."""
    left = {resource: need - sum(_given(pod, resource) for pod in pods) for resource, need in needs.items()}
    return {resource: need for resource, need in left.items() if need > 0}


def _given(pod: Resident, resource: str) -> int:
    return 1 if resource == "pods" else pod.requests.get(resource, 0)


def _is_extended(resource: str) -> bool:
    """Whether the resource's domain is not Kubernetes' own (corev1helper.IsExtendedResourceName)."""
    return "/" in resource and "kubernetes.io/" not in resource


def _listed(needs: Needs) -> str:
    return f"[{''.join(f'(res: {resource}, q: {need}), ' for resource, need in needs.items())}]"
