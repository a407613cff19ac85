"""Whether a Workload still matches its Job after an edit of either. Pure.

`pairing_rules` decides what follows if it does not. The source is `EquivalentToWorkload` in Kueue's
pkg/controller/jobframework.
"""

from __future__ import annotations

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api import condition_types, keys
from queue_manager.api.types import PodSet, Workload
from queue_manager.jobs.workload_manifest import max_execution_time, pod_set, prebuilt_name


def matches(job: Job, workload: Workload) -> bool:
    """Whether pod set and execution time of the Workload are those of the Job.

    While the Workload holds quota, the Job's template may have injected fields. Then only fields that are never
    injected are compared.
    """
    if len(workload.spec.pod_sets) != 1:
        return False
    have = workload.spec.pod_sets[0]
    want = pod_set(job)
    if want["count"] not in _counts(have, workload) or have.min_count != want.get("minCount"):
        return False
    if workload.spec.maximum_execution_time_seconds != max_execution_time(job):
        return False
    ours, theirs = have.template, want["template"]
    pure = not workload.is_true(condition_types.QUOTA_RESERVED) or not is_injected(job)
    stopped = job.spec.suspend and keys.STOPPING not in job.metadata.annotations
    if pure and stopped and not prebuilt_name(job):
        return _equal(ours, theirs, "metadata", ("labels", "annotations")) and ours.get("spec") == theirs["spec"]
    return _equal(ours, theirs, "spec", ("containers", "initContainers"))


def is_injected(job: Job) -> bool:
    """Whether the Job's template has the label or annotation that a start injects."""
    meta = job.spec.template.get("metadata") or {}
    return keys.WORKLOAD in (meta.get("annotations") or {}) or keys.PODSET in (meta.get("labels") or {})


def _counts(have: PodSet, workload: Workload) -> set[int]:
    """The numbers of pods that match: all pods, or those that were admitted."""
    admission = workload.status.admission
    if have.min_count is None or admission is None or not admission.pod_set_assignments:
        return {have.count}
    return {have.count, admission.pod_set_assignments[0].count or have.count}


def _equal(ours: Json, theirs: Json, part: str, fields: tuple[str, ...]) -> bool:
    one, other = ours.get(part) or {}, theirs.get(part) or {}
    return all((one.get(field) or None) == (other.get(field) or None) for field in fields)
