"""Whose room a pod of higher priority takes when it fits nowhere (kube-scheduler's DefaultPreemption), pure.

On each node on which it would fit if all pods of lower priority were gone, those are spared that can stay, the most
important first. Of these nodes the one is taken where least is lost: the lowest highest priority among the victims,
then the lowest sum of priorities (and with it the fewest), then those that began last, then by name. There are no
PodDisruptionBudgets here to be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from queue_manager.local.placement.filters import NodeRoom, Pod, Usage, plus, refusals
from queue_manager.scheduling.amounts import Amounts

NEVER = "Never"
# Added to each priority before they are summed, so that one victim more always counts.
_OFFSET = 2**31


class Held(NamedTuple):
    """A pod on a node. began: seconds, only compared."""

    uid: str
    node: str
    requests: Amounts
    priority: int = 0
    began: float = 0.0


class Preemption(NamedTuple):
    """Room for a pod: on this node, when these pods are gone."""

    node: str
    victims: Sequence[Held]


def preempt(
    pod: Pod, nodes: Sequence[NodeRoom], usage: Usage, lower: Mapping[str, Sequence[Held]]
) -> Preemption | None:
    """The node where least is lost, and what. `lower`: the pods that may go, of lower priority, by node."""
    found = [
        Preemption(node.name, victims)
        for node in nodes
        if (held := lower.get(node.name)) and (victims := victims_on(pod, node, usage.get(node.name) or {}, held))
    ]
    return min(found, key=_loss, default=None)


def victims_on(pod: Pod, node: NodeRoom, used: Amounts, lower: Sequence[Held]) -> Sequence[Held]:
    """The fewest and least important pods without which the pod fits; none if it would not fit without all of them."""
    for held in lower:
        used = plus(used, held.requests, -1)
    if refusals(pod, node, used):
        return ()
    victims: list[Held] = []
    for held in sorted(lower, key=lambda held: (-held.priority, held.began, held.uid)):
        with_it = plus(used, held.requests)
        if refusals(pod, node, with_it):
            victims.append(held)
        else:
            used = with_it
    return victims


def _loss(found: Preemption) -> tuple[int, int, float, str]:
    highest = max(held.priority for held in found.victims)
    began = min(held.began for held in found.victims if held.priority == highest)
    return highest, sum(held.priority + _OFFSET for held in found.victims), -began, found.node
