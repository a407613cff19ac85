"""Pods and nodes as placement reads them."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Key, Object, PodStatus
from queue_manager.local.placement.node_choice import NodeRoom
from queue_manager.local.placement.pod_preemption import PlacedPod
from queue_manager.scheduling.amounts import Amounts, amount
from queue_manager.scheduling.pod_requests import pod_requests

log = logging.getLogger(__name__)

SCHEDULER = "default-scheduler"
MEMORY_PRESSURE = "MemoryPressure"
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class PlacedStatus(PodStatus):
    """core/v1 PodStatus with the node for which the pod is nominated."""

    nominated_node_name: str = ""


class PodObject(Object):
    """A pod whose spec stays undecoded until it is needed."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PlacedStatus = PlacedStatus()


class NodeObject(Object):
    """core/v1 Node, whose spec and status stay plain JSON."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


def is_ours(pod: PodObject, spec: Json) -> bool:
    """Whether the pod is to be placed now, by this scheduler."""
    return (
        pod.metadata.deletion_timestamp is None
        and not spec.get("schedulingGates")
        and (spec.get("schedulerName") or SCHEDULER) == SCHEDULER
    )


def requests_of(key: Key, spec: Json) -> Amounts:
    """The requests of a pod; empty, and a warning in the log, if they cannot be read."""
    try:
        return pod_requests(spec)
    except ValueError:  # the API server rejects malformed quantities; count one that got through as 0
        log.warning("the requests of a pod cannot be read and count as none", extra={"key": str(key)})
        return {}


def priority_of(spec: Json) -> int:
    """The priority of a pod, 0 by default."""
    return int(spec.get("priority") or 0)


def held_by(pod: Object, spec: Json) -> PlacedPod:
    """The node that the pod's spec names, and the requests that the pod occupies there."""
    meta = pod.metadata
    created = meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0
    return PlacedPod(meta.uid, spec["nodeName"], requests_of(meta.key, spec), priority_of(spec), created)


def node_of(node: NodeObject) -> NodeRoom:
    """The Node as placement reads it: labels, allocatable amounts, taints, and whether it takes new pods."""
    allocatable = {name: amount(name, text) for name, text in (node.status.get("allocatable") or {}).items()}
    spec = node.spec
    return NodeRoom(
        node.metadata.name,
        node.metadata.labels,
        allocatable,
        spec.get("taints") or (),
        bool(spec.get("unschedulable")),
        is_pressed(node),
    )


def is_pressed(node: NodeObject) -> bool:
    """Whether the node's MemoryPressure condition is True."""
    conditions = node.status.get("conditions") or ()
    return any(c["type"] == MEMORY_PRESSURE and c["status"] == "True" for c in conditions)
