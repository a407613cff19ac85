"""The manifest of a pod that a Job creates (upstream GetPodFromTemplate, BEHAVIOUR.md#b15-pod-manifest)."""

from __future__ import annotations

from typing import Any

from job_controller.labels import COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, INDEX_VARIABLE
from job_controller.model import Job
from job_controller.sync_steps import PodPlan

_PREFIX_LENGTH = 58  # characters: 63 of a name minus 5 that the API server appends

Tree = dict[str, Any]  # a JSON object to send


def manifest(job: Job, plan: PodPlan, finalizer: str) -> Tree:
    """The body of the create request for a pod of this Job.

    Parts of the template that are not changed are shared with it, so the caller must not modify the result.
    """
    template = job.spec.template
    metadata: Tree = template.get("metadata") or {}
    labels = dict(metadata.get("labels") or {})
    annotations = dict(metadata.get("annotations") or {})
    spec: Tree = dict(template.get("spec") or {})
    prefix = f"{job.metadata.name}-"
    if plan.index is not None:
        prefix = index_prefix(job.metadata.name, plan.index)
        labels[COMPLETION_INDEX] = annotations[COMPLETION_INDEX] = str(plan.index)
        _add_index(spec, job.metadata.name, plan.index)
    if plan.failures is not None:
        annotations[INDEX_FAILURE_COUNT] = str(plan.failures)
        if plan.ignored > 0:
            annotations[INDEX_IGNORED_FAILURE_COUNT] = str(plan.ignored)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": prefix,
            "namespace": job.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "finalizers": [*(f for f in metadata.get("finalizers") or () if f != finalizer), finalizer],
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def owner_reference(job: Job) -> Tree:
    """The owner reference of an object that the Job controls and that is deleted with it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def index_prefix(name: str, index: int) -> str:
    """`<name>-<index>-`, with the name cut so that the API server does not cut the index."""
    tail = f"-{index}-"
    return name[: _PREFIX_LENGTH - len(tail)] + tail


def _add_index(spec: Tree, name: str, index: int) -> None:
    """Set the hostname and the environment variable JOB_COMPLETION_INDEX."""
    spec["hostname"] = f"{name}-{index}"
    for group in ("initContainers", "containers"):
        if spec.get(group):
            spec[group] = [_with_variable(container, index) for container in spec[group]]


def _with_variable(container: Tree, index: int) -> Tree:
    """The container with the index in its environment, unless it defines that variable itself.

    The value is written out. The built-in controller refers to the label of the pod, which can be changed until the
    container starts; the container would then work on another index than the one that it is counted for.
    """
    env = list(container.get("env") or ())
    if any(variable.get("name") == INDEX_VARIABLE for variable in env):
        return container
    return {**container, "env": [*env, {"name": INDEX_VARIABLE, "value": str(index)}]}
