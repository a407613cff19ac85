"""The manifest of a Job's Workload. Pure.

The source is `constructWorkload` in Kueue's pkg/controller/jobframework.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from job_controller.annotations import integer
from job_controller.json_tree import Json
from job_controller.model import Job, JobSpec
from job_controller.pod_manifest import owner_reference
from job_controller.times import timestamp
from queue_manager.api import condition_types, keys
from queue_manager.api.types import PriorityClass, Workload, WorkloadPriorityClass
from queue_manager.api.workload_names import is_named_for, workload_name

MAX_LABEL = 63


class Priority(NamedTuple):
    """spec.priority of a Workload, and the class that it comes from."""

    value: int = 0
    group: str = ""
    kind: str = ""
    name: str = ""

    @property
    def reference(self) -> Json:
        """spec.priorityClassRef; None without a class."""
        return {"group": self.group, "kind": self.kind, "name": self.name} if self.name else None


def is_made_for(job: Job, workload: Workload) -> bool:
    """Whether the name of the Workload was made for this Job, by Sluice or by Kueue; False for a prebuilt Workload."""
    return is_named_for(workload.metadata.name, job.metadata.name, job.metadata.uid)


def is_imported(workload: Workload) -> bool:
    """Whether `sluice import` made the Workload, for a Job that ran already."""
    return workload.metadata.labels.get(keys.IMPORTED) == "true"


def permits_pods(workload: Workload) -> bool:
    """Whether a Job may run: its Workload is admitted, and not evicted, finished or being deleted."""
    ended = any(workload.is_true(end) for end in (condition_types.EVICTED, condition_types.FINISHED))
    admitted = workload.is_true(condition_types.ADMITTED) and workload.status.admission is not None
    return admitted and not ended and workload.metadata.deletion_timestamp is None


def queue_name(job: Job) -> str:
    """The LocalQueue that the Job names; empty if it names none."""
    return job.metadata.labels.get(keys.QUEUE_NAME, "")


def pod_count(spec: JobSpec) -> int:
    """How many pods run at once: not more than there are completions."""
    return spec.pods_at_once if spec.completions is None else min(spec.pods_at_once, spec.completions)


def pod_set(job: Job) -> Json:
    """The only pod set of the Job's Workload."""
    result: dict[str, Json] = {
        "name": "main",
        "count": pod_count(job.spec),
        "template": clean_template(job.spec.template),
        "topologyRequest": {"podIndexLabel": keys.POD_INDEX_LABEL},
    }
    minimum = min_parallelism(job)
    if minimum is not None:
        result["minCount"] = minimum
    return result


def min_parallelism(job: Job) -> int | None:
    """The lowest number of pods that the Job accepts, from its annotation; None without partial admission (KEP-420)."""
    number = integer(job.metadata.annotations.get(keys.MIN_PARALLELISM, ""))
    return number if number is not None and number > 0 else None


def clean_template(template: Mapping[str, Json]) -> Json:
    """A Job's pod template without the labels that the API server added for this Job."""
    meta = {k: v for k, v in (template.get("metadata") or {}).items() if v}
    own = (*keys.CONTROLLER_UID_LABELS, "job-name")
    if "labels" in meta:
        meta["labels"] = {k: v for k, v in meta["labels"].items() if k not in own}
    spec = dict(template.get("spec") or {})
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_unique_env(container) for container in spec[field]]
    return {"metadata": meta, "spec": spec}


def _unique_env(container: Json) -> Json:
    """The container with each variable once, as a Workload requires: of equal names the last one, which applies."""
    env = container.get("env") or []
    last = {variable.get("name"): variable for variable in env}
    return container if len(last) == len(env) else {**container, "env": list(last.values())}


def reclaimed(workload: Workload) -> int:
    """How many pods of the Workload will not run again."""
    return next((r.count for r in workload.status.reclaimable_pods if r.name == "main"), 0)


def is_synchronous(job: Job) -> bool:
    """Whether a partial admission lowers the Job's completions together with its parallelism."""
    return job.metadata.annotations.get(keys.COMPLETIONS_EQUAL_PARALLELISM, "") in keys.TRUE_TEXTS


def max_execution_time(job: Job) -> int | None:
    """Seconds, from the Job's label; None without a label or if it is not a positive 32-bit integer (KEP-3125)."""
    number = integer(job.metadata.labels.get(keys.MAX_EXEC_TIME, ""))
    return number if number is not None and number > 0 else None


def new_workload(
    job: Job,
    priority: Priority,
    labels_to_copy: tuple[str, ...] = (),
    overrides: Mapping[str, str] = MappingProxyType({}),
    first_seen: str = "",
) -> Json:
    """The Workload to create for a Job. `overrides`: the annotations that pass `overrides.accepted`. `first_seen`: the
    resourceVersion that orders Jobs created in the same second; default: the current one.
    """
    meta = job.metadata
    kept = {k: v for k, v in meta.annotations.items() if k.startswith(keys.PROVREQ_PREFIX)}
    kept |= overrides
    if keys.ADMISSION_GATED_BY in meta.annotations:
        kept[keys.ADMISSION_GATED_BY] = meta.annotations[keys.ADMISSION_GATED_BY]
    sequence = first_seen or meta.resource_version
    if sequence.isdecimal():
        kept[keys.SEQUENCE] = sequence
    if meta.creation_timestamp is not None:
        kept[keys.JOB_CREATED] = timestamp(meta.creation_timestamp)
    spec: dict[str, Json] = {
        "podSets": [pod_set(job)],
        "priority": priority.value,
        "active": True,
    }
    if queue_name(job):
        spec["queueName"] = queue_name(job)
    if priority.reference:
        spec["priorityClassRef"] = priority.reference
    seconds = max_execution_time(job)
    if seconds is not None:
        spec["maximumExecutionTimeSeconds"] = seconds
    return {
        "apiVersion": keys.API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(meta.name, meta.uid),
            "namespace": meta.namespace,
            "labels": {**{k: meta.labels[k] for k in labels_to_copy if k in meta.labels}, **uid_label(job)},
            "annotations": kept,
            "finalizers": [keys.FINALIZER],
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def prebuilt_name(job: Job) -> str:
    """The name of the Workload that a user created for this Job; empty if the queue manager creates it."""
    own, annotations = job.metadata.labels, job.metadata.annotations
    return own.get(keys.PREBUILT_WORKLOAD, "") or annotations.get(keys.PREBUILT_WORKLOAD, "")


def adopt(job: Job, workload: Workload) -> Json:
    """The patch that makes the Job the controlling owner of a Workload, and adds the finalizer.

    Without the finalizer a deleted Workload could not restore the template of a running Job, and its quota would be
    free while pods still use it. The API server rejects new finalizers on an object that is being deleted.
    """
    meta = workload.metadata
    others = msgspec.to_builtins([o for o in meta.owner_references if o.uid != job.metadata.uid])
    references = [*others, owner_reference(job)]
    more = (keys.FINALIZER,) if meta.deletion_timestamp is None else ()
    kept = list(dict.fromkeys((*meta.finalizers, *more)))
    return {"metadata": {"ownerReferences": references, "labels": uid_label(job), "finalizers": kept}}


def disown(job: Job, workload: Workload) -> Json:
    """The patch that reverses `adopt`."""
    meta = workload.metadata
    references = msgspec.to_builtins([o for o in meta.owner_references if o.uid != job.metadata.uid])
    kept = [f for f in meta.finalizers if f != keys.FINALIZER]
    return {"metadata": {"ownerReferences": references, "labels": {keys.JOB_UID: None}, "finalizers": kept}}


def uid_label(job: Job) -> dict[str, str]:
    """The label by which the Workload of a Job is found; empty if the UID is too long for a label."""
    return {keys.JOB_UID: job.metadata.uid} if len(job.metadata.uid) <= MAX_LABEL else {}


def priority_of(
    job: Job,
    classes: Mapping[str, WorkloadPriorityClass],
    pod_classes: Mapping[str, PriorityClass],
) -> Priority | None:
    """The Job's priority: from its label, else the pods' PriorityClass, else the global default, else 0.

    None if the label names a class that does not exist.
    """
    name = job.metadata.labels.get(keys.PRIORITY_CLASS, "")
    if name:
        found = classes.get(name)
        return Priority(found.value, keys.GROUP, "WorkloadPriorityClass", name) if found else None
    pod_class = (job.spec.template.get("spec") or {}).get("priorityClassName", "")
    default = next((c for c in pod_classes.values() if c.global_default), None)
    chosen = pod_classes.get(pod_class) if pod_class else default
    if chosen is None:
        return Priority()
    return Priority(chosen.value, "scheduling.k8s.io", "PriorityClass", chosen.metadata.name)
