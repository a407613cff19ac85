"""Choice of preemption victims for a pod that fits nowhere (kube-scheduler's DefaultPreemption). Pure.

On each node that would fit the pod without its pods of lower priority, as many of them as possible are spared, the most
important first. The node is then chosen by the lowest highest priority among the victims, the lowest sum of their
priorities (which also prefers fewer victims), the latest start of the victims, and the name. PodDisruptionBudgets do
not exist in this cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from queue_manager.local.placement.node_choice import NodeRoom, PlacementPod, Usage, plus, refusals
from queue_manager.scheduling.amounts import Amounts

NEVER = "Never"
# Added to each priority before summing, so that an additional victim always increases the sum.
_OFFSET = 2**31


class PlacedPod(NamedTuple):
    """A pod on a node with its requests. began: start in seconds, only compared."""

    uid: str
    node: str
    requests: Amounts
    priority: int = 0
    began: float = 0.0


class PodPreemption(NamedTuple):
    """The node for a pod, and the victims to delete there."""

    node: str
    victims: Sequence[PlacedPod]


def preempt(
    pod: PlacementPod, nodes: Sequence[NodeRoom], usage: Usage, lower: Mapping[str, Sequence[PlacedPod]]
) -> PodPreemption | None:
    """The node with the least important victims, and these; None if no node fits. `lower`: possible victims by node."""
    found = [
        PodPreemption(node.name, victims)
        for node in nodes
        if (held := lower.get(node.name)) and (victims := victims_on(pod, node, usage.get(node.name) or {}, held))
    ]
    return min(found, key=_loss, default=None)


def victims_on(pod: PlacementPod, node: NodeRoom, used: Amounts, lower: Sequence[PlacedPod]) -> Sequence[PlacedPod]:
    """The fewest and least important pods whose removal makes the pod fit; empty if all together are not enough."""
    for held in lower:
        used = plus(used, held.requests, -1)
    if refusals(pod, node, used):
        return ()
    victims: list[PlacedPod] = []
    for held in sorted(lower, key=lambda held: (-held.priority, held.began, held.uid)):
        with_it = plus(used, held.requests)
        if refusals(pod, node, with_it):
            victims.append(held)
        else:
            used = with_it
    return victims


def _loss(found: PodPreemption) -> tuple[int, int, float, str]:
    highest = max(held.priority for held in found.victims)
    began = min(held.began for held in found.victims if held.priority == highest)
    return highest, sum(held.priority + _OFFSET for held in found.victims), -began, found.node
