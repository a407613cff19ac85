"""Writes of placement: bindings, the PodScheduled condition, deletion of preemption victims, and their Events."""

from __future__ import annotations

import logging

import msgspec

from job_controller.times import timestamp
from queue_manager.api.api_resources import PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.local.placement.node_choice import Unschedulable
from queue_manager.local.placement.placement_objects import SCHEDULER, PodObject
from queue_manager.local.pod_disruption import disrupt
from queue_manager.local.pod_writes import patch_pod_status

log = logging.getLogger(__name__)

UNSCHEDULABLE = "Unschedulable"
PREEMPTION_REASON = "PreemptionByScheduler"
PREEMPTION_MESSAGE = f"{SCHEDULER}: preempting to accommodate a higher priority pod"


class PlacementWrites:
    """Writes to the API server, and records Events as default-scheduler."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._events = runtime.recorder(SCHEDULER)

    async def bind(self, pod: PodObject, node: str) -> bool:
        """Bind the pod to the node. Returns False if the pod is gone or already bound. Raises ApiError."""
        meta = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.path(meta.namespace, meta.name, "binding")
        answer = await self._runtime.client.transport.request(Request("POST", path, body=msgspec.json.encode(binding)))
        if answer.is_success:
            self._events.event(pod, "Normal", "Scheduled", f"Successfully assigned {meta.key} to {node}")
            return True
        error = ApiError.of(answer.status, answer.body)
        if not (error.is_not_found or error.is_conflict):
            raise error
        log.info("a pod could not be bound", extra={"key": str(meta.key), "uid": meta.uid, "error": str(error)})
        return False

    async def preempt(self, pod: PodObject, preemptor: str, node: str) -> None:
        """Delete a victim of the pod with the UID `preemptor`, after setting DisruptionTarget. Raises ApiError."""
        if await disrupt(self._runtime, pod, PREEMPTION_REASON, PREEMPTION_MESSAGE):
            self._events.event(pod, "Normal", "Preempted", f"Preempted by pod {preemptor} on node {node}")

    async def refuse(self, pod: PodObject, refusal: Unschedulable) -> None:
        """Write why the pod is pending, unless its condition already says so. Raises ApiError."""
        known = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        said = known is not None and (known.status, known.reason, known.message) == (
            "False",
            UNSCHEDULABLE,
            refusal.message,
        )
        if said and pod.status.nominated_node_name == refusal.nominated:
            return
        since = known.last_transition_time if known is not None and known.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": UNSCHEDULABLE,
            "message": refusal.message,
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(since or self._runtime.clock.now()),
        }
        status: dict[str, object] = {"conditions": [condition]}
        if pod.status.nominated_node_name != refusal.nominated:
            status["nominatedNodeName"] = refusal.nominated or None
        if not await patch_pod_status(self._runtime.client, pod, status):
            return
        self._events.event(pod, "Warning", "FailedScheduling", refusal.message)
