"""Admission of pods to the nodes of the agent: keeps the state on which node_admission.py decides.

    seen --fits--> admitted, and holds its room until it is finished or gone
      |  does not fit
      |--> rejected
      |  critical
      v
    nominated; its victims are ended --they are gone--> admitted

A pod with a start time was admitted by an earlier agent: it holds its room and is not decided again.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from job_controller.json_tree import Json
from queue_manager.local.agent.node_admission import (
    UNDER_PRESSURE,
    Admitted,
    NodeDecision,
    Preempting,
    Rejected,
    Resident,
    admit,
    admit_critical,
    is_critical,
)
from queue_manager.local.agent.pod_worker_dependencies import NodePod
from queue_manager.local.placement.node_choice import BEST_EFFORT, tolerates_pressure
from queue_manager.local.placement.node_usage import NodeUsage
from queue_manager.local.placement.placement_objects import held_by, priority_of
from queue_manager.local.placement.pod_preemption import PlacedPod
from queue_manager.scheduling.amounts import Amounts


class KnownNodes(Protocol):
    """Looks up by name the fields of nodes that PodAdmitter reads."""

    def allocatable(self, node: str) -> Amounts:
        """The allocatable resources of the node."""
        ...

    def is_pressed(self, node: str) -> bool:
        """Whether the node is under memory pressure, so that it accepts no BestEffort pods."""
        ...


class PodAdmitter:
    """Decides once for each pod whether it may start on its node. State is keyed by uid."""

    def __init__(self, nodes: KnownNodes) -> None:
        self._nodes = nodes
        self._room = NodeUsage()
        self._quality: dict[str, str] = {}
        self._nominated: dict[str, None] = {}

    def observe(self, uid: str, pod: NodePod | None) -> list[str]:
        """Record a changed pod, or its removal (`pod` is None). Returns UIDs of pods to decide again."""
        if pod is None or pod.is_over:
            self._nominated.pop(uid, None)
            self._quality.pop(uid, None)
            self._room.withdraw(uid)
            return list(self._nominated) if self._room.release(uid) else []
        if self._room.held(uid) is None:
            if pod.status.get("startTime"):
                self._admit(pod, held_by(pod, msgspec.json.decode(pod.spec)))
        elif pod.metadata.deletion_timestamp is not None:
            self._room.leaving.add(uid)
        return []

    def admit(self, pod: NodePod, spec: Json) -> NodeDecision:
        """Decide whether this pod may start. The caller ends the victims of Preempting, and calls this again
        when `observe` returns the pod.
        """
        uid, wanted = pod.metadata.uid, held_by(pod, spec)
        if self._room.held(uid) is not None:
            return Admitted()
        answer = UNDER_PRESSURE if self._is_pressed_for(pod, spec) else self._decide(wanted)
        match answer:
            case Admitted():
                self._admit(pod, wanted)
            case Preempting(victims):
                self._nominated[uid] = None
                self._room.nominate(wanted)
                self._room.leaving.update(victims)
            case Rejected():
                self._nominated.pop(uid, None)
                self._room.withdraw(uid)
        return answer

    def held(self, uid: str) -> PlacedPod | None:
        """The node and the requests of an admitted pod; None if it is not admitted."""
        return self._room.held(uid)

    def mark_leaving(self, uid: str) -> None:
        """Record that an admitted pod is being ended."""
        self._room.leaving.add(uid)

    def _is_pressed_for(self, pod: NodePod, spec: Json) -> bool:
        """Whether the node is short of memory and this pod does not tolerate memory pressure."""
        if not self._nodes.is_pressed(spec["nodeName"]) or is_critical(priority_of(spec)):
            return False
        return not tolerates_pressure(_quality(pod), spec)

    def _decide(self, wanted: PlacedPod) -> NodeDecision:
        room, node, uid, priority = self._room, wanted.node, wanted.uid, wanted.priority
        allocatable, used = self._nodes.allocatable(node), room.usage(uid, priority).get(node) or {}
        if not is_critical(priority):
            return admit(wanted.requests, allocatable, used)
        others = [
            Resident(other.uid, self._quality[other.uid], other.requests)
            for other in room.preemptable(priority, ()).get(node, ())
        ]
        soon = room.usage_after_deletions(uid, priority).get(node) or {}
        return admit_critical(wanted.requests, allocatable, used, soon, others)

    def _admit(self, pod: NodePod, wanted: PlacedPod) -> None:
        self._nominated.pop(wanted.uid, None)
        self._quality[wanted.uid] = _quality(pod)
        self._room.take(wanted)


def _quality(pod: NodePod) -> str:
    return str(pod.status.get("qosClass") or BEST_EFFORT)
