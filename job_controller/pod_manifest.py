"""The manifest of a pod that a Job creates (spec 1.9)."""

from __future__ import annotations

from typing import Any

from job_controller.decision import PodPlan
from job_controller.labels import COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, INDEX_VARIABLE
from job_controller.model import Job

# A name has 63 characters, 5 of them are the API server's random ones.
_PREFIX_LENGTH = 58

Tree = dict[str, Any]  # a JSON object that is about to be sent


def manifest(job: Job, plan: PodPlan, finalizer: str) -> Tree:
    """The pod to POST. The template is shared where it is not changed: the caller only encodes the result."""
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
    """That of an object which the Job manages, and which goes with it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def index_prefix(name: str, index: int) -> str:
    """`<name>-<index>-`, of which the API server must not cut the index."""
    tail = f"-{index}-"
    return name[: _PREFIX_LENGTH - len(tail)] + tail


def _add_index(spec: Tree, name: str, index: int) -> None:
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
