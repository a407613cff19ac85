"""How a Job is started and stopped: the merge patches, each of them one write. Pure.

A start is one patch: it unsuspends the Job and injects the fields of the flavors (`RunWithPodSetsInfo` in Kueue's
pkg/controller/jobs/job). A stop takes two patches, because the API server accepts a changed template only after the Job
controller has confirmed the suspension: the first suspends the Job and marks it as "stopping", the second restores the
template that the user wrote and removes the mark. A crash between them leaves the mark, so the stop is resumed later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from job_controller.annotations import integer
from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api import condition_types, event_reasons, keys, messages
from queue_manager.api.types import ResourceFlavor, Workload
from queue_manager.jobs import pod_progress
from queue_manager.jobs.job_situation import JobSituation
from queue_manager.jobs.planned_writes import Nothing, PatchJob, PlannedWrite
from queue_manager.jobs.workload_manifest import is_synchronous, reclaimed
from queue_manager.jobs.workload_match import is_injected
from queue_manager.lifecycle.status_draft import WorkloadEvent

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")


class TemplateConflict(Exception):
    """The Job's template has another value for a key that must be injected: the Job can never start."""


class FlavorMissing(Exception):
    """A ResourceFlavor that the Workload was admitted to does not exist: its node labels are unknown."""


# --- the steps of a stop -----------------------------------------------------------------------------------


def stop_step(s: JobSituation, workload: Workload, message: str) -> PlannedWrite | None:
    """The next step of stopping the Job: a patch, or Nothing while the last pods end; None once the Job is stopped.

    Stopped means suspended, with the template that the user wrote, and without pods. `message` is that of the Event
    which the last patch records.
    """
    job, uses_nodes = s.job, s.context.uses_nodes
    event = WorkloadEvent("Normal", event_reasons.JOB_STOPPED, message)
    restores = must_restore(job, workload)
    if not job.spec.suspend:
        return PatchJob(suspend(job, mark=restores), None if restores else event, _violation(s, workload))
    # Without quota and traces of a start, a template that differs from the Workload is a user's edit.
    was_started = restores and workload.is_true(condition_types.QUOTA_RESERVED) and is_injected(job)
    if s.is_stopping or was_started:
        return PatchJob(restore(job, workload), event) if pod_progress.is_stopped(job, uses_nodes) else Nothing()
    return None if pod_progress.is_idle(job, uses_nodes) else Nothing()


def _violation(s: JobSituation, workload: Workload) -> WorkloadEvent | None:
    """The Event about a Job that runs though it was not started by the queue; None if an admitted Job is stopped."""
    if workload.is_true(condition_types.ADMITTED) and not s.is_stopping:
        return None
    return WorkloadEvent("Warning", event_reasons.POLICY_VIOLATION, messages.NOT_SUSPENDED_WITHOUT_ADMISSION)


def is_stopped(s: JobSituation, workload: Workload) -> bool:
    """Whether the Job is suspended, has the template that the user wrote, and has no pods."""
    return stop_step(s, workload, "") is None


def finished_event(workload: Workload) -> WorkloadEvent:
    """The Event about a Job whose Workload is finished."""
    message = f"Workload '{workload.metadata.key}' is declared finished"
    return WorkloadEvent("Normal", event_reasons.FINISHED_WORKLOAD, message)


# --- starting ----------------------------------------------------------------------------------------------


def start(job: Job, workload: Workload, flavors: Mapping[str, ResourceFlavor]) -> Json:
    """The patch that unsuspends the Job and injects node selector, tolerations, labels and an annotation.

    Raises TemplateConflict and FlavorMissing.
    """
    admission = workload.status.admission
    assigned = admission.pod_set_assignments[0] if admission and admission.pod_set_assignments else None
    if admission is None or assigned is None:
        raise ValueError(f"{workload.metadata.key} has no assignment")
    to = dict.fromkeys(assigned.flavors.values())
    missing = [name for name in to if name not in flavors]
    if missing:
        raise FlavorMissing(f"missing ResourceFlavor(s): {', '.join(missing)}")
    used = [flavors[name] for name in to]
    template = job.spec.template
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    selector: dict[str, str] = {}
    for flavor in used:
        selector |= flavor.spec.node_labels
    names = {
        keys.PODSET: assigned.name or "main",
        keys.LOCAL_QUEUE_NAME: workload.spec.queue_name,
        keys.CLUSTER_QUEUE_NAME: admission.cluster_queue,
    }
    new_labels = {key: value for key, value in names.items() if _LABEL_VALUE.match(value)}
    annotation = {keys.WORKLOAD: workload.metadata.name}
    _check("labels", meta.get("labels"), new_labels)
    _check("annotations", meta.get("annotations"), annotation)
    _check("nodeSelector", spec.get("nodeSelector"), selector)
    more = [t for f in used for t in f.spec.tolerations]
    for update in _pod_set_updates(workload, names[keys.PODSET]):
        for field, have, add in (
            ("labels", meta.get("labels"), new_labels),
            ("annotations", meta.get("annotations"), annotation),
            ("nodeSelector", spec.get("nodeSelector"), selector),
        ):
            _check(field, {**(have or {}), **add}, update.get(field) or {})
            add |= update.get(field) or {}
        more += update.get("tolerations") or []
    change: dict[str, Json] = {"metadata": {"labels": new_labels, "annotations": annotation}}
    pod_change: dict[str, Json] = {"nodeSelector": selector} if selector else {}
    tolerations = _merged(spec.get("tolerations") or [], more)
    if tolerations != (spec.get("tolerations") or []):
        pod_change["tolerations"] = tolerations
    if pod_change:
        change["spec"] = pod_change
    size, note = _reduced_size(job, workload, assigned.count)
    return _patch(job, {"suspend": False, "template": change, **size}, note)


def _pod_set_updates(workload: Workload, pod_set: str) -> list[Json]:
    """The `podSetUpdates` of all admission checks for this pod set: fields to inject into the Job's template."""
    found = (u for check in workload.status.admission_checks for u in check.pod_set_updates)
    return [update for update in found if update.get("name") == pod_set]


def _reduced_size(job: Job, workload: Workload, count: int | None) -> tuple[Json, Json]:
    """Changes of spec and annotations for a Job that was admitted with fewer pods than it requests (KEP-420).

    The user's parallelism can be read from the Workload, unless completions had capped the number of pods: then the
    annotation keeps it.
    """
    wanted = workload.spec.pod_sets[0]
    if wanted.min_count is None or count is None or count >= wanted.count - reclaimed(workload):
        return {}, None  # also if all pods that have not succeeded were admitted: the completions must stay
    size = {"parallelism": count, **({"completions": count} if is_synchronous(job) else {})}
    before = job.spec.parallelism
    return size, {keys.PARALLELISM: str(before)} if before is not None and before > wanted.count else None


def _restored_size(job: Job, workload: Workload) -> Json:
    """Parallelism and completions as they were before a partial admission; empty if they are unchanged."""
    wanted = workload.spec.pod_sets[0]
    if wanted.min_count is None or job.spec.parallelism is None or job.spec.parallelism >= wanted.count:
        return {}
    noted = integer(job.metadata.annotations.get(keys.PARALLELISM, ""))
    size: dict[str, Json] = {"parallelism": wanted.count if noted is None else max(0, noted)}
    if is_synchronous(job):
        size["completions"] = wanted.count
    return size


def _check(field: str, have: Mapping[str, str] | None, want: Mapping[str, str]) -> None:
    for key, value in want.items():
        there = (have or {}).get(key, value)
        if there != value:
            raise TemplateConflict(
                f"invalid admission check PodSetUpdate: conflict for {field}: "
                f"conflict for key={key}, value1={there}, value2={value}"
            )


def _merged(have: list[Json], more: Iterable[Json]) -> list[Json]:
    result = list(have)
    for toleration in more:
        if toleration not in result:
            result.append(toleration)
    return result


# --- stopping ----------------------------------------------------------------------------------------------


def suspend(job: Job, *, mark: bool) -> Json:
    """The first patch of a stop. `mark`: a second patch follows, which restores the template."""
    return _patch(job, {"suspend": True}, {keys.STOPPING: "true"} if mark else None)


def restore(job: Job, workload: Workload) -> Json:
    """The second patch of a stop: it restores the template and removes the mark."""
    own = [key for key in (keys.STOPPING, keys.PARALLELISM) if key in job.metadata.annotations]
    return _patch(job, _difference(job, workload), dict.fromkeys(own))


def unmark(job: Job) -> Json:
    """The patch that ends a stop whose Workload no longer exists: the template to restore is unknown."""
    return _patch(job, {}, {keys.STOPPING: None})


def must_restore(job: Job, workload: Workload) -> bool:
    """Whether a stop needs its second patch: the template or the size is not as the user wrote it."""
    return bool(_difference(job, workload))


def _difference(job: Job, workload: Workload) -> Json:
    """The change of the Job's spec that restores the Workload's template; empty if they are equal."""
    if not workload.spec.pod_sets:
        return {}
    original = workload.spec.pod_sets[0].template
    meta, spec = job.spec.template.get("metadata") or {}, job.spec.template.get("spec") or {}
    old_meta, old_spec = original.get("metadata") or {}, original.get("spec") or {}
    kept = (*keys.CONTROLLER_UID_LABELS, *keys.JOB_NAME_LABELS)
    change: dict[str, Json] = {}
    meta_change = {
        "labels": _map_change(meta.get("labels"), old_meta.get("labels"), kept),
        "annotations": _map_change(meta.get("annotations"), old_meta.get("annotations")),
    }
    if meta_change := {k: v for k, v in meta_change.items() if v}:
        change["metadata"] = meta_change
    spec_change: dict[str, Json] = {}
    if selector := _map_change(spec.get("nodeSelector"), old_spec.get("nodeSelector")):
        spec_change["nodeSelector"] = selector
    for field in ("tolerations", "schedulingGates"):
        if (spec.get(field) or []) != (old_spec.get(field) or []):
            spec_change[field] = old_spec.get(field) or None
    if spec_change:
        change["spec"] = spec_change
    return {**({"template": change} if change else {}), **_restored_size(job, workload)}


def _map_change(
    have: Mapping[str, str] | None, want: Mapping[str, str] | None, kept: tuple[str, ...] = ()
) -> dict[str, str | None]:
    have, want = have or {}, want or {}
    change: dict[str, str | None] = {k: v for k, v in want.items() if have.get(k) != v}
    return change | {k: None for k in have if k not in want and k not in kept}


def _patch(job: Job, spec: Json, annotations: Json = None) -> Json:
    meta: dict[str, Json] = {"resourceVersion": job.metadata.resource_version, "uid": job.metadata.uid}
    if annotations:
        meta["annotations"] = annotations
    return {"metadata": meta, **({"spec": spec} if spec else {})}
