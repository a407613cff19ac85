"""Deleting a pod that did nothing wrong: first its condition DisruptionTarget says why, then it is deleted.

The order is what a pod failure policy needs (spec: job-controller.md, section 4): by the time the pod ends, the
reason is on it. Should the deletion not follow, the condition is taken back after two minutes by who looks after
stale disruptions.
"""

from __future__ import annotations

from typing import TypeVar

from job_controller.model import Object
from queue_manager.engine.resources import PODS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import STRATEGIC_PATCH, ApiError

DISRUPTION_TARGET = "DisruptionTarget"


P = TypeVar("P", bound=Object)


async def disrupt(runtime: Runtime, pod: P, reason: str, message: str) -> bool:
    """Mark the pod and delete it with its own grace period. False: it is gone. Raises ApiError."""
    meta = pod.metadata
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": runtime.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
    client = runtime.client
    try:
        await client.patch(
            PODS,
            meta.namespace,
            meta.name,
            patch,
            subresource="status",
            content_type=STRATEGIC_PATCH,
            type=type(pod),
        )
        await client.delete(PODS, meta.namespace, meta.name, uid=meta.uid)
    except ApiError as error:
        if error.status not in (404, 409):  # 409: another pod has its name by now
            raise
        return False
    return True
