"""The requests of pods on the nodes, which of the pods are terminating, and what is reserved for nominated pods.

A pod that preempts others is nominated for their node until it is bound there. What its victims release one
after another is not given to pods of lower priority meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

from queue_manager.local.placement.node_choice import Usage, plus
from queue_manager.local.placement.pod_preemption import PlacedPod
from queue_manager.scheduling.amounts import Amounts


class NodeUsage:
    """The requests of the pods on each node, and of those that are nominated for it.

    `leaving`: UIDs of pods that are being deleted and whose requests still count.
    """

    def __init__(self) -> None:
        self.leaving: set[str] = set()
        self._held: dict[str, PlacedPod] = {}
        self._usage: dict[str, Amounts] = {}
        self._nominated: dict[str, PlacedPod] = {}
        self._priorities: Counter[int] = Counter()

    def held(self, uid: str) -> PlacedPod | None:
        """Return the pod with its node and requests; None if it is on no node."""
        return self._held.get(uid)

    def take(self, held: PlacedPod) -> None:
        """Add the requests of a pod to those of its node, in place of its earlier ones and of its nomination."""
        self.release(held.uid)
        self._nominated.pop(held.uid, None)
        self._held[held.uid] = held
        self._priorities[held.priority] += 1
        self._usage[held.node] = plus(self._usage.get(held.node) or {}, held.requests)

    def release(self, uid: str) -> bool:
        """Subtract the requests of a pod from those of its node; False if the pod was on no node."""
        held = self._held.pop(uid, None)
        self.leaving.discard(uid)
        if held is None:
            return False
        self._priorities[held.priority] -= 1
        self._usage[held.node] = plus(self._usage[held.node], held.requests, -1)
        return True

    # --- nominations -

    def nominate(self, held: PlacedPod) -> None:
        """Reserve the requests of a pod on a node where it does not fit yet."""
        self._nominated[held.uid] = held

    def withdraw(self, uid: str) -> None:
        """End the nomination of a pod, if any."""
        self._nominated.pop(uid, None)

    def nominated(self, uid: str) -> str:
        """The node for which the pod is nominated; empty if it is not nominated."""
        held = self._nominated.get(uid)
        return held.node if held is not None else ""

    # --- usage ----------

    def usage(self, uid: str, priority: int) -> Usage:
        """The usage of each node that counts for a pod: the requests of the pods on the node, and of the other pods
        that are nominated for it and have at least this priority.
        """
        return _added(self._usage, (n for n in self._nominated.values() if n.uid != uid and n.priority >= priority), 1)

    def usage_after_deletions(self, uid: str, priority: int) -> Usage:
        """The usage after all terminating pods are gone."""
        return _added(self.usage(uid, priority), (self._held[left] for left in sorted(self.leaving)), -1)

    def has_lower_priority(self, priority: int) -> bool:
        """Whether any pod has a lower priority."""
        return any(number > 0 and held < priority for held, number in self._priorities.items())

    def preemptable(self, priority: int, excluded: Container[str]) -> dict[str, list[PlacedPod]]:
        """The pods of lower priority that may be preempted, by node."""
        found: dict[str, list[PlacedPod]] = {}
        for held in self._held.values():
            if held.priority < priority and held.uid not in self.leaving and held.uid not in excluded:
                found.setdefault(held.node, []).append(held)
        return found


def _added(usage: Usage, pods: Iterable[PlacedPod], sign: int) -> Usage:
    """A copy with the requests of these pods added (sign 1) or removed (-1); `usage` itself without pods."""
    changed: dict[str, Amounts] | None = None
    for held in pods:
        if changed is None:
            changed = dict(usage)
        changed[held.node] = plus(changed.get(held.node) or {}, held.requests, sign)
    return usage if changed is None else changed
