"""Rules on starting and stopping a Job whose Workload matches it: it runs exactly while the Workload is admitted. Pure.

While a stop waits for the last pods these rules give no answer, so that the Workload still follows its Job.
"""

from __future__ import annotations

from functools import partial

from queue_manager.api import condition_types, event_reasons, messages, reasons
from queue_manager.api.check_states import CheckState
from queue_manager.api.types import Workload
from queue_manager.jobs import start_stop
from queue_manager.jobs.job_situation import JobSituation
from queue_manager.jobs.planned_writes import Nothing, PatchJob, PlannedWrite, RecordEvent, WriteWorkloadStatus
from queue_manager.lifecycle import transitions
from queue_manager.lifecycle.status_draft import WorkloadEvent
from queue_manager.lifecycle.write_causes import Cause


def job_of_evicted_workload_is_stopped(s: JobSituation) -> PlannedWrite | None:
    """Suspend the Job of an evicted Workload. A later write releases the quota, when no pod is left."""
    evicted = s.workload.condition(condition_types.EVICTED) if s.workload is not None else None
    if s.workload is None or evicted is None or not evicted.is_true:
        return None
    return _unless_waiting(start_stop.stop_step(s, s.workload, evicted.message))


def quota_of_stopped_job_is_released(s: JobSituation) -> PlannedWrite | None:
    """Release the quota of an evicted Workload once its Job has stopped and has no pods, not even terminating ones."""
    w = s.workload
    if w is None or not w.is_true(condition_types.EVICTED) or not w.is_true(condition_types.QUOTA_RESERVED):
        return None
    if not start_stop.is_stopped(s, w):
        return None
    unreserve = partial(transitions.unreserve, waits_for_pods=s.context.waits_for_pods)
    return WriteWorkloadStatus(w, unreserve, Cause.RELEASE)


def admitted_job_is_started(s: JobSituation) -> PlannedWrite | None:
    """Start the Job of an admitted Workload: one write unsuspends it and injects the fields of flavors and checks.

    A Workload whose template contradicts that can never run and is finished. A missing flavor or ClusterQueue is
    awaited: what runs there would count against no quota.
    """
    if s.workload is None or not _may_run(s, s.workload) or not s.job.spec.suspend:
        return None
    if not s.context.cluster_queue_exists:
        return None
    try:
        patch = start_stop.start(s.job, s.workload, s.context.flavors)
    except start_stop.FlavorMissing:
        return None
    except start_stop.TemplateConflict as conflict:
        text = str(conflict)
        event = start_stop.finished_event(s.workload)
        finish = partial(transitions.finish, reason=reasons.FAILED_TO_START, message=text)
        return WriteWorkloadStatus(s.workload, finish, Cause.FINISH, event)
    admission = s.workload.status.admission
    queue = admission.cluster_queue if admission is not None else ""
    return PatchJob(patch, WorkloadEvent("Normal", event_reasons.JOB_STARTED, f"Admitted by clusterQueue {queue}"))


def job_that_is_not_admitted_is_stopped(s: JobSituation) -> PlannedWrite | None:
    """Stop a Job that a user unsuspended without quota, or whose stop began before its Workload was admitted again."""
    if s.workload is None or not _must_not_run(s, s.workload):
        return None
    return _unless_waiting(start_stop.stop_step(s, s.workload, messages.STOP_NOT_ADMITTED))


def missing_flavor_or_queue_is_reported(s: JobSituation) -> PlannedWrite | None:
    """Record an Event for a Job admitted to a ResourceFlavor or ClusterQueue that does not exist; it starts later."""
    if s.workload is None or not _may_run(s, s.workload) or not s.job.spec.suspend:
        return None
    admission = s.workload.status.admission
    if admission is not None and not s.context.cluster_queue_exists:
        text = f"Cannot be started: {messages.does_not_exist('ClusterQueue', admission.cluster_queue)}"
        return RecordEvent(WorkloadEvent("Warning", reasons.MISCONFIGURED, text))
    try:
        start_stop.start(s.job, s.workload, s.context.flavors)
    except start_stop.FlavorMissing as missing:
        return RecordEvent(WorkloadEvent("Warning", reasons.FLAVOR_NOT_FOUND, f"Cannot be started: {missing}"))
    return None


def pending_admission_checks_are_reported(s: JobSituation) -> PlannedWrite | None:
    """Record an Event with the messages of the admission checks that a stopped Job with reserved quota waits for."""
    w = s.workload
    if w is None or not w.is_true(condition_types.QUOTA_RESERVED) or not _must_not_run(s, w):
        return None
    texts = [f"{c.name}: {c.message}" for c in w.status.admission_checks if c.state == CheckState.PENDING and c.message]
    if not texts or not start_stop.is_stopped(s, w):
        return None
    return RecordEvent(WorkloadEvent("Normal", event_reasons.UPDATED_ADMISSION_CHECK, "; ".join(texts)))


def _may_run(s: JobSituation, w: Workload) -> bool:
    """Whether the Workload is admitted and not evicted, and no earlier stop of the Job is unfinished."""
    admitted = w.is_true(condition_types.ADMITTED) and w.status.admission is not None
    return admitted and not w.is_true(condition_types.EVICTED) and not s.is_stopping


def _must_not_run(s: JobSituation, w: Workload) -> bool:
    """Whether the Job must stop because it has no quota, for a reason other than an eviction."""
    return not w.is_true(condition_types.EVICTED) and not _may_run(s, w)


def _unless_waiting(step: PlannedWrite | None) -> PlannedWrite | None:
    return None if isinstance(step, Nothing) else step
