"""Which pod a node evicts when its memory runs out, and the message, as the kubelet does (rankMemoryPressure and
evictionMessage in eviction/helpers.go of Kubernetes 1.36). Pure; all amounts are bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from job_controller.quantities import Quantity, canonical
from queue_manager.local.agent.node_admission import is_critical
from queue_manager.local.agent.pod_status import Termination

EVICTED = "Evicted"
THRESHOLD_MET = "EvictionThresholdMet"
RECLAIMING = "Attempting to reclaim memory"


@dataclass(frozen=True, slots=True)
class PressurePolicy:
    """When a node is short of memory; the defaults are the kubelet's.

    period: seconds between two samples. threshold: bytes that have to stay free. transition: seconds for which the
    condition MemoryPressure outlives its cause.
    """

    period: float = 10.0
    threshold: int = 100 << 20
    transition: float = 300.0


class ContainerUse(NamedTuple):
    """Memory use of a container. request: the quantity as its pod states it."""

    name: str
    used: int
    requested: int
    request: str


class PodUse(NamedTuple):
    """Memory use and request of a pod, and the use of each of its running containers."""

    uid: str
    used: int
    requested: int
    priority: int = 0
    containers: Sequence[ContainerUse] = ()

    @property
    def above(self) -> int:
        """By how many bytes the use exceeds the request."""
        return self.used - self.requested


class PressureEviction(NamedTuple):
    """The pod to evict, and the reason and message that its status gets."""

    uid: str
    verdict: Termination


def available(capacity: int, pods: Iterable[PodUse]) -> int:
    """The memory of a node in bytes that its pods do not use."""
    return max(0, capacity - sum(pod.used for pod in pods))


def ranked(pods: Iterable[PodUse]) -> list[PodUse]:
    """Pods in the order of eviction: above their request first, then lower priority, then most above the request."""
    return sorted(pods, key=lambda pod: (pod.above <= 0, pod.priority, -pod.above, pod.uid))


def evict(capacity: int, threshold: int, pods: Sequence[PodUse]) -> PressureEviction | None:
    """The one pod to evict now; None while enough memory is free, or if all pods are critical."""
    left = available(capacity, pods)
    if left >= threshold:
        return None
    victim = next((pod for pod in ranked(pods) if not is_critical(pod.priority)), None)
    if victim is None:
        return None
    message = eviction_message(threshold, left, victim.containers)
    return PressureEviction(victim.uid, Termination(EVICTED, message, disruption=message))


def eviction_message(threshold: int, left: int, containers: Iterable[ContainerUse]) -> str:
    """The message, which lists the containers above their request. It ends with a space, like the kubelet's."""
    parts = [
        "The node was low on resource: memory. ",
        f"Threshold quantity: {_bytes(threshold)}, available: {_bytes(left)}. ",
    ]
    parts += [
        f"Container {name} was using {_bytes(used)}, request is {request}, has larger consumption of memory. "
        for name, used, requested, request in containers
        if used > requested
    ]
    return "".join(parts)


def _bytes(amount: int) -> str:
    return canonical(Quantity(amount * 10**9, "binary"))
