"""Rules on which Workload belongs to a Job: it is created, adopted, released, deleted and finished. Pure.

The Workload of a Job is the one created for it, or the one that its label or annotation `prebuilt-workload-name`
names (KEP-369; `ensureOneWorkload` in Kueue's pkg/controller/jobframework).
"""

from __future__ import annotations

from collections.abc import Sequence

from job_controller.condition_types import COMPLETE
from queue_manager.api import condition_types, event_reasons, keys, messages, reasons
from queue_manager.api.types import Workload
from queue_manager.jobs import pod_progress, start_stop
from queue_manager.jobs.job_situation import MAX_ANCESTORS, JobSituation
from queue_manager.jobs.planned_writes import (
    CreateWorkload,
    DeleteWorkload,
    Nothing,
    PatchJob,
    PlannedWrite,
    RecordEvent,
    ReleaseWorkload,
    UpdateWorkload,
    WriteWorkloadStatus,
)
from queue_manager.jobs.workload_manifest import (
    adopt,
    disown,
    is_made_for,
    max_execution_time,
    new_workload,
    pod_set,
    prebuilt_name,
    reclaimed,
)
from queue_manager.lifecycle import transitions
from queue_manager.lifecycle.status_draft import Draft, WorkloadEvent
from queue_manager.lifecycle.write_causes import Cause


def deleted_job_is_ignored(s: JobSituation) -> PlannedWrite | None:
    """Do nothing for a Job that is being deleted: the garbage collector deletes its Workload, and the lifecycle rules
    release that.
    """
    return Nothing() if s.job.metadata.deletion_timestamp is not None else None


def lost_owner_reference_is_restored(s: JobSituation) -> PlannedWrite | None:
    """Restore the owner reference of a Workload that carries the Job's UID label but has none."""
    lost = next((w for w in s.owned if w.metadata.controller is None), None)
    return UpdateWorkload(lost, adopt(s.job, lost)) if lost is not None else None


# --- child Jobs --------------------------------------------------------------------------------------------


def child_leaves_its_queue(s: JobSituation) -> PlannedWrite | None:
    """Stop a Job that has become the child of a managed Job, and delete its Workload."""
    if not s.is_child:
        return None
    action = _leave_queue(s)
    return None if isinstance(action, Nothing) else action


def too_deep_child_is_reported(s: JobSituation) -> PlannedWrite | None:
    """Record an Event if the chain of owners is too long to find out whether a managed Job is above this one."""
    if not s.is_child or s.context.parent is None or not s.context.parent.too_deep:
        return None
    message = f"The job has more than {MAX_ANCESTORS} managed or unmanaged ancestors"
    return RecordEvent(WorkloadEvent("Warning", event_reasons.JOB_NESTING_TOO_DEEP, message))


def child_of_pending_parent_is_suspended(s: JobSituation) -> PlannedWrite | None:
    """Suspend a child whose parent is not admitted. The creator of the child unsuspends it afterwards."""
    if not s.is_child or s.context.parent is None:
        return None
    if s.context.parent.admitted or s.job.spec.suspend or s.end is not None:
        return Nothing()
    event = WorkloadEvent("Normal", event_reasons.CHILD_SUSPENDED, messages.CHILD_SUSPENDED_MESSAGE)
    return PatchJob(start_stop.suspend(s.job, mark=False), event)


# --- leaving the queue -------------------------------------------------------------------------------------


def unmanaged_job_leaves_queue(s: JobSituation) -> PlannedWrite | None:
    """Stop a Job whose queue label was removed, and delete its Workload."""
    return _leave_queue(s) if s.has_left_queue else None


def _leave_queue(s: JobSituation) -> PlannedWrite:
    return _stop_to_leave(s, s.current) or _delete_or_disown(s, s.owned)


def _stop_to_leave(s: JobSituation, workload: Workload | None) -> PlannedWrite | None:
    """The next step of stopping a Job before its Workload is deleted; None once the Job is stopped.

    Only the Workload holds the template as the user wrote it. A Job that its owner unsuspended while the Workload was
    pending is suspended again; it may run once the Workload is gone and its owner unsuspends it again.
    """
    if workload is None or s.end is not None:
        return None
    evicted = workload.condition(condition_types.EVICTED)
    message = evicted.message if evicted is not None and evicted.is_true else messages.STOP_NOT_ADMITTED
    return start_stop.stop_step(s, workload, message)


def _delete_or_disown(s: JobSituation, workloads: Sequence[Workload]) -> PlannedWrite:
    """Delete the Workloads that were created for the Job, and return the prebuilt ones to their users."""
    for workload in workloads:
        if workload.metadata.deletion_timestamp is None:
            if is_made_for(s.job, workload):
                return DeleteWorkload(workload)
            return UpdateWorkload(workload, disown(s.job, workload))
        if keys.FINALIZER in workload.metadata.finalizers:
            return ReleaseWorkload(workload)
    return Nothing()


# --- the Job's end -----------------------------------------------------------------------------------------


def workload_of_ended_job_is_finished(s: JobSituation) -> PlannedWrite | None:
    """Finish the Workloads of a Job that is Complete or Failed; remove the finalizer of deleted ones."""
    end = s.end
    if end is None:
        return None
    reason = reasons.SUCCEEDED if end.type == COMPLETE else reasons.FAILED

    def finish(draft: Draft) -> None:
        if s.context.waits_for_pods and draft.is_true(condition_types.ADMITTED) and pod_progress.are_pods_ready(s.job):
            transitions.pods_ready(draft, ready=True)
        transitions.finish(draft, reason, end.message, s.context.pod_cause)

    for workload in s.owned:
        if workload.metadata.deletion_timestamp is not None:
            if keys.FINALIZER in workload.metadata.finalizers:
                return ReleaseWorkload(workload)
        elif not workload.is_true(condition_types.FINISHED):
            return WriteWorkloadStatus(workload, finish, Cause.FINISH, start_stop.finished_event(workload))
    return Nothing()


# --- prebuilt Workloads ------------------------------------------------------------------------------------


def job_naming_another_workload_leaves_the_one_before(s: JobSituation) -> PlannedWrite | None:
    """Delete or disown the previous Workload of a suspended Job that now names another, prebuilt one."""
    others = [w for w in s.owned if w.metadata.name != prebuilt_name(s.job)]
    if not s.has_prebuilt_workload or not others or not s.job.spec.suspend:
        return None
    return _stop_to_leave(s, others[0]) or _delete_or_disown(s, others)


def job_without_its_prebuilt_workload_is_suspended(s: JobSituation) -> PlannedWrite | None:
    """Suspend a Job whose prebuilt Workload does not exist, is another Job's, or is being deleted: it has no quota."""
    if not s.has_prebuilt_workload or _is_available(s, s.workload) or s.job.spec.suspend:
        return None
    event = WorkloadEvent("Normal", event_reasons.JOB_STOPPED, messages.STOP_MISSING_PREBUILT)
    return PatchJob(start_stop.suspend(s.job, mark=False), event)


def prebuilt_workload_of_another_job_is_reported(s: JobSituation) -> PlannedWrite | None:
    """Wait for a prebuilt Workload that the Job cannot adopt yet; record an Event if it belongs to another owner."""
    workload = s.workload
    if not s.has_prebuilt_workload or _is_available(s, workload):
        return None
    owner = workload.metadata.controller if workload is not None else None
    if workload is None or owner is None:
        return Nothing()
    message = f"Workload {workload.metadata.key} belongs to {owner.name}"
    return RecordEvent(WorkloadEvent("Warning", reasons.OUT_OF_SYNC, message))


def prebuilt_workload_is_adopted(s: JobSituation) -> PlannedWrite | None:
    """Make the Job the controlling owner of the prebuilt Workload that it names."""
    workload = s.workload
    if not s.has_prebuilt_workload or workload is None or workload.metadata.controller is not None:
        return None
    return UpdateWorkload(workload, adopt(s.job, workload))


def _is_available(s: JobSituation, workload: Workload | None) -> bool:
    """Whether a prebuilt Workload is the Job's, or can become so: one that is being deleted takes no new finalizer."""
    if workload is None:
        return False
    owner = workload.metadata.controller
    return workload.metadata.deletion_timestamp is None if owner is None else owner.uid == s.job.metadata.uid


# --- creating a Workload -----------------------------------------------------------------------------------


def running_job_without_workload_is_suspended(s: JobSituation) -> PlannedWrite | None:
    """Suspend a running Job without a Workload, in one write: there is no stored template to restore."""
    if s.workload is not None or s.job.spec.suspend:
        return None
    event = WorkloadEvent("Normal", event_reasons.JOB_STOPPED, messages.STOP_MISSING)
    return PatchJob(start_stop.suspend(s.job, mark=False), event)


def stop_without_workload_is_ended(s: JobSituation) -> PlannedWrite | None:
    """Remove the stop mark of a Job whose Workload was lost during the stop; its template cannot be restored."""
    return PatchJob(start_stop.unmark(s.job)) if s.workload is None and s.is_stopping else None


def pods_of_earlier_run_are_awaited(s: JobSituation) -> PlannedWrite | None:
    """Wait before creating a Workload while pods of an earlier run still use nodes."""
    return Nothing() if s.workload is None and not pod_progress.is_idle(s.job, s.context.uses_nodes) else None


def new_job_of_unknown_priority_class_is_reported(s: JobSituation) -> PlannedWrite | None:
    """Record an Event instead of creating a Workload if the Job's WorkloadPriorityClass does not exist."""
    return unknown_priority_class(s) if s.workload is None and s.context.priority is None else None


def workload_is_created(s: JobSituation) -> PlannedWrite | None:
    """Create the Workload of a suspended Job without pods."""
    context = s.context
    if s.workload is not None or context.priority is None:
        return None
    tree = new_workload(s.job, context.priority, context.labels_to_copy, context.overrides, context.first_seen)
    key = f"{s.job.metadata.namespace}/{tree['metadata']['name']}"
    return CreateWorkload(tree, WorkloadEvent("Normal", event_reasons.CREATED_WORKLOAD, f"Created Workload: {key}"))


def unknown_priority_class(s: JobSituation) -> PlannedWrite:
    """The Event for a Job whose label names a WorkloadPriorityClass that does not exist."""
    name = s.job.metadata.labels.get(keys.PRIORITY_CLASS, "")
    message = messages.class_not_found(name)
    return RecordEvent(WorkloadEvent("Warning", event_reasons.PRIORITY_CLASS_NOT_FOUND, message))


# --- replacing a Workload ----------------------------------------------------------------------------------


def surplus_workload_is_deleted(s: JobSituation) -> PlannedWrite | None:
    """Delete the Workloads that the Job owns besides the one that matches it."""
    if s.has_prebuilt_workload:
        return None
    for other in s.owned:
        if other is not s.workload and other.metadata.deletion_timestamp is None:
            return DeleteWorkload(other, _deleted_event(other))
    return None


def job_of_deleted_workload_is_stopped(s: JobSituation) -> PlannedWrite | None:
    """Stop the Job of a Workload that is being deleted. The finalizer keeps the Workload and its quota until then."""
    if s.workload is None or s.workload.metadata.deletion_timestamp is None:
        return None
    return start_stop.stop_step(s, s.workload, messages.STOP_WORKLOAD_DELETED)


def deleted_workload_is_released(s: JobSituation) -> PlannedWrite | None:
    """Remove the finalizer of a Workload that is being deleted, once its Job has stopped."""
    if s.workload is None or s.workload.metadata.deletion_timestamp is None:
        return None
    return ReleaseWorkload(s.workload) if keys.FINALIZER in s.workload.metadata.finalizers else Nothing()


def job_of_finished_workload_is_stopped(s: JobSituation) -> PlannedWrite | None:
    """Stop a Job whose Workload finished before it (the Job could not start, or is OutOfSync): it has no quota."""
    if s.workload is None or not s.workload.is_true(condition_types.FINISHED):
        return None
    return start_stop.stop_step(s, s.workload, messages.STOP_NOT_ADMITTED) or Nothing()


def edited_job_is_stopped(s: JobSituation) -> PlannedWrite | None:
    """Stop a Job that no longer matches the request of its Workload."""
    if s.workload is None or s.matches:
        return None
    return start_stop.stop_step(s, s.workload, messages.STOP_NO_MATCH)


def prebuilt_workload_of_edited_job_is_finished(s: JobSituation) -> PlannedWrite | None:
    """Finish a prebuilt Workload that its Job no longer matches as OutOfSync; prebuilt Workloads are never edited."""
    if s.workload is None or s.matches or not s.has_prebuilt_workload:
        return None
    return WriteWorkloadStatus(
        s.workload, lambda d: transitions.finish(d, reasons.OUT_OF_SYNC, messages.OUT_OF_SYNC_MESSAGE), Cause.FINISH
    )


def workload_with_quota_of_edited_job_is_deleted(s: JobSituation) -> PlannedWrite | None:
    """Delete the Workload of an edited Job if it holds quota, which was for the old size. A new one is created next."""
    if s.workload is None or s.matches or not s.workload.is_true(condition_types.QUOTA_RESERVED):
        return None
    return DeleteWorkload(s.workload, _deleted_event(s.workload))


def reclaimable_pods_of_edited_job_are_lowered(s: JobSituation) -> PlannedWrite | None:
    """Lower status.reclaimablePods to what the edited Job has left, before the rule below lowers the pod count of the
    Workload: an API server rejects a Workload with more reclaimable pods than pods.
    """
    if s.workload is None or s.matches:
        return None
    left = pod_progress.reclaimable(s.job, pod_set(s.job)["count"])
    if reclaimed(s.workload) <= left:
        return None
    return WriteWorkloadStatus(s.workload, lambda d: pod_progress.report_reclaimable(d, left), Cause.PODS_READY)


def pending_workload_follows_edited_job(s: JobSituation) -> PlannedWrite | None:
    """Update a pending Workload to the current pods and execution time of its Job."""
    if s.workload is None or s.matches:
        return None
    spec = {"podSets": [pod_set(s.job)], "maximumExecutionTimeSeconds": max_execution_time(s.job)}
    message = f"Updated not matching Workload for suspended job: {s.workload.metadata.key}"
    return UpdateWorkload(s.workload, {"spec": spec}, WorkloadEvent("Normal", event_reasons.UPDATED_WORKLOAD, message))


def _deleted_event(workload: Workload) -> WorkloadEvent:
    message = f"Deleted not matching Workload: {workload.metadata.key}"
    return WorkloadEvent("Normal", event_reasons.DELETED_WORKLOAD, message)
