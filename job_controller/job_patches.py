"""Bodies of the PATCH requests that the Job controller sends."""

from __future__ import annotations

import msgspec

from job_controller.labels import DELETING, TRACKING_FINALIZERS
from job_controller.model import Job, JobStatus, Pod
from job_controller.pod_manifest import Tree, owner_reference


def status_changes(old: JobStatus, new: JobStatus) -> Tree:
    """The merge patch from one status to another: fields that differ, with null for removed ones.

    Counters that are zero are omitted, as in the API; ready, terminating and failedIndexes are written as 0 and "".
    """
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    changes = {name: after.get(name) for name in (*after, *before) if before.get(name) != after.get(name)}
    uncounted = changes.get("uncountedTerminatedPods")
    if uncounted is not None:
        changes["uncountedTerminatedPods"] = {kind: uncounted.get(kind) for kind in ("succeeded", "failed")}
    return changes


def remove_finalizer(pod: Pod, *, this_version: bool = False) -> Tree:
    """Remove the tracking finalizer: a strategic merge patch, which leaves other finalizers alone.

    The annotation labels.DELETING is removed too: a finished pod that keeps it would be tracked and counted again. With
    `this_version` the API server rejects the patch (409) if the pod has changed.
    """
    tracking = [finalizer for finalizer in pod.metadata.finalizers if finalizer in TRACKING_FINALIZERS]
    metadata: Tree = {"uid": pod.metadata.uid}
    if DELETING in pod.metadata.annotations:
        metadata["annotations"] = {DELETING: None}
    if tracking:
        metadata["$deleteFromPrimitiveList/finalizers"] = tracking
    if this_version:
        metadata["resourceVersion"] = pod.metadata.resource_version
    return {"metadata": metadata}


def begin_deletion(pod: Pod) -> Tree:
    """Remove the finalizer of a pod that will be deleted uncounted, and set the annotation labels.DELETING.

    The API server rejects the patch (409) if the pod has changed since it was read, for example because it has
    succeeded.
    """
    patch = remove_finalizer(pod, this_version=True)
    patch["metadata"]["annotations"] = {DELETING: "true"}
    return patch


def add_finalizer(pod: Pod, finalizer: str) -> Tree:
    """Add the finalizer again and remove the annotation: the reverse of begin_deletion."""
    return {
        "metadata": {"uid": pod.metadata.uid, "finalizers": [finalizer], "annotations": {DELETING: None}},
    }


def adopt(job: Job, pod: Pod, finalizer: str) -> Tree:
    """Make the Job the controller of a pod without one, and add the tracking finalizer."""
    return {
        "metadata": {"uid": pod.metadata.uid, "ownerReferences": [owner_reference(job)], "finalizers": [finalizer]},
    }


def release_pod(job: Job, pod: Pod) -> Tree:
    """Remove the owner reference of the Job and the finalizer in one patch."""
    patch = remove_finalizer(pod)
    patch["metadata"]["ownerReferences"] = [{"$patch": "delete", "uid": job.metadata.uid}]
    return patch
