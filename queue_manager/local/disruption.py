"""Deleting a pod that did nothing wrong: first its condition DisruptionTarget says why, then it is deleted.

The order is what a pod failure policy needs (spec: job-controller.md, section 4): by the time the pod ends, the
reason is on it. Should the deletion not follow, the condition is taken back after two minutes by who looks after
stale disruptions.
"""

from __future__ import annotations

from job_controller.model import Object
from job_controller.times import timestamp
from queue_manager.engine.runtime import Runtime
from queue_manager.local.pod_writes import delete_pod, patch_pod_status

DISRUPTION_TARGET = "DisruptionTarget"


async def disrupt(runtime: Runtime, pod: Object, reason: str, message: str) -> bool:
    """Mark the pod and delete it with its own grace period. False: it is gone. Raises ApiError."""
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(runtime.clock.now()),
    }
    marked = await patch_pod_status(runtime.client, pod, {"conditions": [condition]})
    return marked and await delete_pod(runtime.client, pod)
