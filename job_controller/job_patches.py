"""The patches a Job controller sends."""

from __future__ import annotations

import msgspec

from job_controller.labels import DELETING, TRACKING_FINALIZERS
from job_controller.model import Job, JobStatus, Pod
from job_controller.pod_manifest import Tree, owner_reference


def status_changes(old: JobStatus, new: JobStatus) -> Tree:
    """Merge patch from one status to another: only what differs, null for what is no more.

    Zero counters are left out, as the API leaves them out; ready, terminating and failedIndexes are not.
    """
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    changes = {name: after.get(name) for name in (*after, *before) if before.get(name) != after.get(name)}
    uncounted = changes.get("uncountedTerminatedPods")
    if uncounted is not None:
        changes["uncountedTerminatedPods"] = {kind: uncounted.get(kind) for kind in ("succeeded", "failed")}
    return changes


def release(pod: Pod, *, this_version: bool = False) -> Tree:
    """Take the finalizer off: strategic merge, so that other finalizers may come and go meanwhile.

    A mark goes with it, wherever it is from: a pod that is done would be tracked, and counted, again and again.
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
    """Take the finalizer off a pod that is to be deleted uncounted, and mark it.

    Refused (409) if the pod has changed meanwhile: it may just have succeeded.
    """
    patch = release(pod, this_version=True)
    patch["metadata"]["annotations"] = {DELETING: "true"}
    return patch


def track(pod: Pod, finalizer: str) -> Tree:
    """The reverse of begin_deletion."""
    return {
        "metadata": {"uid": pod.metadata.uid, "finalizers": [finalizer], "annotations": {DELETING: None}},
    }


def adopt(job: Job, pod: Pod, finalizer: str) -> Tree:
    """Make an ownerless pod the Job's, and track it from now on."""
    return {
        "metadata": {"uid": pod.metadata.uid, "ownerReferences": [owner_reference(job)], "finalizers": [finalizer]},
    }


def let_go(job: Job, pod: Pod) -> Tree:
    """Owner reference and finalizer go in one patch."""
    patch = release(pod)
    patch["metadata"]["ownerReferences"] = [{"$patch": "delete", "uid": job.metadata.uid}]
    return patch
