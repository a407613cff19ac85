"""Deletion of a pod by disruption: the condition DisruptionTarget is written first, then the pod is deleted.

A pod failure policy needs this order (KEP-3329): the condition is on the pod when it ends. If the deletion does not
follow, the controller of stale disruptions sets the condition to False after two minutes.
"""

from __future__ import annotations

from job_controller.disruption_target import announcement, is_announced
from job_controller.model import Object, Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.local.pod_writes import delete_pod, patch_pod_status


async def disrupt(runtime: Runtime, pod: Object, reason: str, message: str) -> bool:
    """Set DisruptionTarget unless it is set already, and delete the pod with its own grace period.

    The pod is read from the API server for that, because a cache may lag behind. Returns False if the pod is gone.
    Raises ApiError.
    """
    try:
        live = await runtime.client.get(PODS, *pod.metadata.key, type=Pod)
    except ApiError as error:
        if error.is_not_found:
            return False
        raise
    if live.metadata.uid != pod.metadata.uid:
        return False
    if not is_announced((c.type, c.status) for c in live.status.conditions):
        condition = announcement(reason, message, runtime.clock.now())
        if not await patch_pod_status(runtime.client, pod, {"conditions": [condition]}):
            return False
    return await delete_pod(runtime.client, pod)
