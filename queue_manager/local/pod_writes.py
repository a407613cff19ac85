"""Writes to a pod with its uid as precondition, so that a new pod of the same name is never changed.

A pod that is gone is not an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from job_controller.json_tree import Json
from job_controller.model import Object
from queue_manager.api.api_resources import PODS
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH, ApiError

NONE: Mapping[str, str] = MappingProxyType({})


async def patch_pod_status(
    client: RestClient, pod: Object, status: Json, annotations: Mapping[str, str] = NONE
) -> bool:
    """Patch these status fields, conditions merged by type, and annotations. False: the pod is gone. Raises ApiError.

    A write to the status of a pod may change its annotations, as with Kubernetes.
    """
    meta = pod.metadata
    added = {"annotations": dict(annotations)} if annotations else {}
    patch = {"metadata": {"uid": meta.uid, **added}, "status": status}
    try:
        await client.patch(
            PODS,
            *meta.key,
            patch,
            subresource="status",
            content_type=STRATEGIC_PATCH,
            type=type(pod),
        )
    except ApiError as error:
        return _must_be_gone(error)
    return True


async def delete_pod(client: RestClient, pod: Object, *, grace_period: int | None = None) -> bool:
    """Delete the pod, with this grace period in seconds or its own. False: the pod is gone. Raises ApiError."""
    try:
        await client.delete(PODS, *pod.metadata.key, uid=pod.metadata.uid, grace_period=grace_period)
    except ApiError as error:
        return _must_be_gone(error)
    return True


def _must_be_gone(error: ApiError) -> bool:
    """False if the error is 404, or 409 because the name has another uid now; otherwise raises the error."""
    if error.is_not_found or (error.is_conflict and "uid" in error.message.lower()):
        return False
    raise error
