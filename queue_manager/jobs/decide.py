"""A Job and its Workload: given both, the next thing to do (spec: kueue.md 7.1, 7.2).

Theory. The Workload is the Job's ticket: while it is Admitted the Job runs, otherwise the Job is suspended.
All state is in the two objects, so each call looks at them anew and names one action; the controller performs
it and asks again.

    no Workload                Job idle: create it          Job runs: stop the Job first
    Workload differs           Job suspended: follow it     Job runs: stop, delete, make a new one
    Workload is deleted        stop the Job, then let the Workload go
    Workload is evicted        stop the Job, then give the quota back
    admitted / not admitted    Job suspended: start         / Job runs: stop
    Job has ended              so has the Workload

"Stop" is two patches with a wait between them (see `patches`); quota is given back only after the second, when
no pod of the Job is left, not even one that is terminating.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from job_controller import conditions
from job_controller.model import Job
from queue_manager.api import condition_types, event_reasons, keys, messages, reasons
from queue_manager.api.types import ReclaimablePod, Workload
from queue_manager.api.workload_names import workload_name
from queue_manager.jobs import pod_progress, start_stop
from queue_manager.jobs.actions import (
    MAX_ANCESTORS,
    Action,
    CreateWorkload,
    DeleteWorkload,
    JobContext,
    Nothing,
    ParentJob,
    PatchJob,
    RecordEvent,
    ReleaseWorkload,
    UpdateWorkload,
    WriteWorkloadStatus,
)
from queue_manager.jobs.workload_manifest import (
    hand_back,
    injected,
    made_for,
    matches,
    max_execution_time,
    new_workload,
    pod_set,
    prebuilt_name,
    queue_name,
    reclaimed,
    take_over,
)
from queue_manager.lifecycle import overrides, transitions
from queue_manager.lifecycle.status_draft import Draft, Event

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # where only it matters whether something changes


def decide(job: Job, owned: Sequence[Workload], context: JobContext) -> Action:
    """The next action for a Job, given its Workloads: those that it controls, and those that only name its UID.

    Somebody has removed the owner reference of the latter: it is put back first.
    """
    if job.metadata.deletion_timestamp is not None:
        return Nothing()  # the life cycle of Workloads sees to what it leaves behind
    lost = next((w for w in owned if w.metadata.controller is None), None)
    if lost is not None:
        return UpdateWorkload(lost, take_over(job, lost))
    workload = _current(job, owned)
    if context.parent is not None and not _still_runs(job, workload):
        leaves = _stop_to_leave(job, workload, context) or _abandon(job, owned)  # it had a queue name of its own
        return _child(job, context.parent) if isinstance(leaves, Nothing) else leaves
    if prebuilt_name(job) and context.managed:
        return _prebuilt(job, owned, context)
    if not context.managed and not _still_runs(job, workload):
        return _stop_to_leave(job, workload, context) or _abandon(job, owned)
    end = conditions.finished(job.status)
    if end is not None:
        return _finish(job, owned, context)
    if workload is None:
        return _without_workload(job, context)
    for other in owned:
        if other is not workload and other.metadata.deletion_timestamp is None:
            return DeleteWorkload(
                other, _event(event_reasons.DELETED_WORKLOAD, f"Deleted not matching Workload: {other.metadata.key}")
            )
    if workload.metadata.deletion_timestamp is not None:
        return _stop(job, workload, messages.STOP_WORKLOAD_DELETED, context) or _let_go(workload)
    if workload.is_true(condition_types.FINISHED):  # it could not be started, and holds no quota
        return _stop(job, workload, messages.STOP_NOT_ADMITTED, context) or Nothing()
    if not matches(job, workload):
        return _mismatch(job, workload, context)
    return _keep_in_step(job, workload, context)


def _keep_in_step(job: Job, workload: Workload, context: JobContext) -> Action:
    """All is there and fits together; what changed on one side is done on the other.

    What the Workload has to follow comes last: if the server refuses that, the Job must start and stop all the same.
    """
    action = _report(job, workload, context) or _steer(job, workload, context)
    if isinstance(action, Nothing | RecordEvent):
        action = _synchronise(job, workload, context) or action
    if isinstance(action, Nothing) and context.priority is None:
        followed = workload.spec.priority_class_ref
        if followed is None or followed.name != job.metadata.labels.get(keys.PRIORITY_CLASS):
            return _unknown_class(job)  # its Workload keeps the priority that it has
    return action


def _child(job: Job, parent: ParentJob) -> Action:
    """Suspended until its parent is admitted; then whoever made it starts it (spec 7.1)."""
    if parent.too_deep:
        message = f"The job has more than {MAX_ANCESTORS} managed or unmanaged ancestors"
        return RecordEvent(Event("Warning", event_reasons.JOB_NESTING_TOO_DEEP, message))
    if parent.admitted or job.spec.suspend or conditions.finished(job.status) is not None:
        return Nothing()
    return PatchJob(
        start_stop.suspend(job, mark=False), _event(event_reasons.CHILD_SUSPENDED, messages.CHILD_SUSPENDED_MESSAGE)
    )


def _prebuilt(job: Job, owned: Sequence[Workload], context: JobContext) -> Action:
    """A Job that brings its Workload along: it is taken over, never made, edited or deleted (spec 7.2)."""
    if conditions.finished(job.status) is not None:
        return _finish(job, owned, context)
    others = [w for w in owned if w.metadata.name != prebuilt_name(job)]
    if others and job.spec.suspend:  # it named another one before, or none
        return _stop_to_leave(job, others[0], context) or _abandon(job, others)
    workload = context.prebuilt
    if workload is None or not _may_have(job, workload):
        return _without_prebuilt(job, workload)
    if workload.metadata.controller is None:
        return UpdateWorkload(workload, take_over(job, workload))
    if workload.metadata.deletion_timestamp is not None:
        return _stop(job, workload, messages.STOP_WORKLOAD_DELETED, context) or _let_go(workload)
    if workload.is_true(condition_types.FINISHED):
        return _stop(job, workload, messages.STOP_NOT_ADMITTED, context) or Nothing()
    if not matches(job, workload):
        return _stop(job, workload, messages.STOP_NO_MATCH, context) or WriteWorkloadStatus(workload, _out_of_sync)
    return _keep_in_step(job, workload, context)


def _may_have(job: Job, workload: Workload) -> bool:
    """It is the Job's, or nobody's; one that is being deleted takes no finalizer any more."""
    owner = workload.metadata.controller
    return workload.metadata.deletion_timestamp is None if owner is None else owner.uid == job.metadata.uid


def _without_prebuilt(job: Job, workload: Workload | None) -> Action:
    """What the Job names is not there, or not for it: until it is, the Job must not run (invariant S10)."""
    if not job.spec.suspend:
        return PatchJob(
            start_stop.suspend(job, mark=False), _event(event_reasons.JOB_STOPPED, messages.STOP_MISSING_PREBUILT)
        )
    owner = workload.metadata.controller if workload is not None else None
    if workload is None or owner is None:
        return Nothing()
    return RecordEvent(
        Event("Warning", reasons.OUT_OF_SYNC, f"Workload {workload.metadata.key} belongs to {owner.name}")
    )


def _out_of_sync(draft: Draft) -> None:
    transitions.finish(draft, reasons.OUT_OF_SYNC, messages.OUT_OF_SYNC_MESSAGE)


def _current(job: Job, owned: Sequence[Workload]) -> Workload | None:
    """The Workload that stands for the Job: one that matches, else ours by name, else any."""
    name = workload_name(job.metadata.name, job.metadata.uid)
    return max(
        owned,
        key=lambda w: (w.metadata.deletion_timestamp is None, matches(job, w), w.metadata.name == name),
        default=None,
    )


def _still_runs(job: Job, workload: Workload | None) -> bool:
    """Its queue label is gone, but it still uses quota: it keeps its Workload until it stops or ends."""
    return workload is not None and workload.is_true(condition_types.ADMITTED) and not job.spec.suspend


def _stop_to_leave(job: Job, workload: Workload | None, context: JobContext) -> Action | None:
    """Stop a Job that leaves the queue, before its Workload goes; None once it is stopped.

    Only the Workload knows the template as the user wrote it. A Job that is unsuspended while its Workload waits is
    suspended again: it is free to run when the Workload is gone and its owner unsuspends it once more.
    """
    if workload is None or conditions.finished(job.status) is not None:
        return None
    evicted = workload.condition(condition_types.EVICTED)
    message = evicted.message if evicted is not None and evicted.is_true else messages.STOP_NOT_ADMITTED
    return _stop(job, workload, message, context)


def _abandon(job: Job, owned: Sequence[Workload]) -> Action:
    """The Job has left the queue, or these for another one: they must not stay in line for it, nor hold its quota.

    What somebody else made is theirs again, as it was before the Job took it over.
    """
    for workload in owned:
        if workload.metadata.deletion_timestamp is None:
            return (
                DeleteWorkload(workload)
                if made_for(job, workload)
                else UpdateWorkload(workload, hand_back(job, workload))
            )
        if keys.FINALIZER in workload.metadata.finalizers:
            return ReleaseWorkload(workload)
    return Nothing()


def _let_go(workload: Workload) -> Action:
    return ReleaseWorkload(workload) if keys.FINALIZER in workload.metadata.finalizers else Nothing()


def _event(reason: str, message: str) -> Event:
    return Event("Normal", reason, message)


# --- the Job's end -----------------------------------------------------------------------------------------


def _finish(job: Job, owned: Sequence[Workload], context: JobContext) -> Action:
    end = conditions.finished(job.status)
    assert end is not None
    reason = reasons.SUCCEEDED if end.type == "Complete" else reasons.FAILED
    for workload in owned:
        if workload.metadata.deletion_timestamp is not None:
            if keys.FINALIZER in workload.metadata.finalizers:
                return ReleaseWorkload(workload)
        elif not workload.is_true(condition_types.FINISHED):

            def finish(draft: Draft) -> None:
                if context.waits_for_pods and draft.is_true(condition_types.ADMITTED) and pod_progress.ready(job):
                    transitions.pods_ready(draft, ready=True)
                transitions.finish(draft, reason, end.message)

            return WriteWorkloadStatus(workload, finish, _finished_event(workload))
    return Nothing()


def _finished_event(workload: Workload) -> Event:
    return _event(event_reasons.FINISHED_WORKLOAD, f"Workload '{workload.metadata.key}' is declared finished")


# --- making and following ----------------------------------------------------------------------------------


def _without_workload(job: Job, context: JobContext) -> Action:
    if not job.spec.suspend:
        return PatchJob(start_stop.suspend(job, mark=False), _event(event_reasons.JOB_STOPPED, messages.STOP_MISSING))
    if keys.STOPPING in job.metadata.annotations:
        return PatchJob(start_stop.unmark(job))
    if not pod_progress.idle(job, context.uses_nodes):
        return Nothing()
    if context.priority is None:
        return _unknown_class(job)
    tree = new_workload(job, context.priority, context.labels_to_copy, context.overrides)
    key = f"{job.metadata.namespace}/{tree['metadata']['name']}"
    return CreateWorkload(tree, _event(event_reasons.CREATED_WORKLOAD, f"Created Workload: {key}"))


def _unknown_class(job: Job) -> Action:
    name = job.metadata.labels.get(keys.PRIORITY_CLASS, "")
    return RecordEvent(
        Event("Warning", event_reasons.PRIORITY_CLASS_NOT_FOUND, f'WorkloadPriorityClass "{name}" not found')
    )


def _mismatch(job: Job, workload: Workload, context: JobContext) -> Action:
    """The Job was edited. While it waits its Workload follows; a running one starts over."""
    stop = _stop(job, workload, messages.STOP_NO_MATCH, context)
    if stop is not None:
        return stop
    key = workload.metadata.key
    if workload.is_true(condition_types.QUOTA_RESERVED):
        return DeleteWorkload(workload, _event(event_reasons.DELETED_WORKLOAD, f"Deleted not matching Workload: {key}"))
    wanted, seconds = pod_set(job), max_execution_time(job)
    left = pod_progress.reclaimable(job, wanted["count"])
    if reclaimed(workload) > left:  # first: a Workload cannot be done with more pods than it asks for
        return WriteWorkloadStatus(workload, lambda d: _reclaim(d, left))
    message = f"Updated not matching Workload for suspended job: {key}"
    spec = {"podSets": [wanted], "maximumExecutionTimeSeconds": seconds}
    return UpdateWorkload(workload, {"spec": spec}, _event(event_reasons.UPDATED_WORKLOAD, message))


def _synchronise(job: Job, workload: Workload, context: JobContext) -> Action | None:
    """What may be changed on the Job and is then followed: queue, priority class, admission gates."""
    key, name = workload.metadata.key, queue_name(job)
    if workload.spec.queue_name != name and not workload.is_true(condition_types.QUOTA_RESERVED) and context.managed:
        return UpdateWorkload(workload, {"spec": {"queueName": name or None}})
    wanted = job.metadata.labels.get(keys.PRIORITY_CLASS, "")
    have = workload.spec.priority_class_ref
    ours = have is not None and have.group == keys.GROUP
    follows = ours or not workload.is_true(
        condition_types.QUOTA_RESERVED
    )  # a reserved one may change only the class's name
    if wanted and context.priority is not None and follows and (have is None or not ours or have.name != wanted):
        spec = {"priority": context.priority.value, "priorityClassRef": context.priority.reference}
        message = f"Updated workload priority class: {key}"
        return UpdateWorkload(workload, {"spec": spec}, _event(event_reasons.UPDATED_WORKLOAD, message))
    gates = job.metadata.annotations.get(keys.ADMISSION_GATED_BY)
    if gates != workload.metadata.annotations.get(keys.ADMISSION_GATED_BY):
        patch = {"metadata": {"annotations": {keys.ADMISSION_GATED_BY: gates}}}
        message = f'Updated workload AdmissionGatedBy to "{gates or ""}"'
        return UpdateWorkload(workload, patch, _event(event_reasons.UPDATED_WORKLOAD, message))
    if context.prebuilt is None:
        return _follow_overrides(workload, context)
    return None


def _follow_overrides(workload: Workload, context: JobContext) -> Action | None:
    """Timeout and limit may change at any time: they are looked at when they matter."""
    have = {key: workload.metadata.annotations.get(key) for key in overrides.KEYS}
    want = {key: context.overrides.get(key) for key in overrides.KEYS}
    if have == want:
        return None
    message = f"Updated workload requeuing overrides: {workload.metadata.key}"
    return UpdateWorkload(
        workload, {"metadata": {"annotations": want}}, _event(event_reasons.UPDATED_WORKLOAD, message)
    )


def _report(job: Job, workload: Workload, context: JobContext) -> Action | None:
    """What the pods do, as the Workload's status says it: readiness, and quota not needed any more."""

    def report(draft: Draft) -> None:
        if context.waits_for_pods and not draft.is_true(condition_types.FINISHED):
            transitions.pods_ready(draft, ready=pod_progress.ready(job))
        count = pod_progress.reclaimable(job, draft.original.spec.pod_sets[0].count)
        if draft.is_true(condition_types.ADMITTED) and count > reclaimed(draft.workload):
            _reclaim(draft, count)

    draft = Draft(workload, _ANY_TIME)
    report(draft)
    return WriteWorkloadStatus(workload, report) if draft.changed else None


def _reclaim(draft: Draft, count: int) -> None:
    draft.put(reclaimable_pods=(ReclaimablePod(name="main", count=count),) if count else ())


# --- starting and stopping ---------------------------------------------------------------------------------


def _steer(job: Job, workload: Workload, context: JobContext) -> Action:
    if workload.is_true(condition_types.EVICTED):
        evicted = workload.condition(condition_types.EVICTED)
        stop = _stop(job, workload, evicted.message if evicted else "", context)
        if stop is not None:
            return stop
        if not workload.is_true(condition_types.QUOTA_RESERVED):
            return Nothing()
        return WriteWorkloadStatus(workload, lambda d: transitions.unreserve(d, waits_for_pods=context.waits_for_pods))
    admitted = workload.is_true(condition_types.ADMITTED) and workload.status.admission is not None
    stopping = keys.STOPPING in job.metadata.annotations
    if admitted and not stopping:
        return _start(job, workload, context) if job.spec.suspend else Nothing()
    return _stop(job, workload, messages.STOP_NOT_ADMITTED, context) or _tell_checks(workload)


def _tell_checks(workload: Workload) -> Action:
    """What admission checks say while the Job waits for them."""
    said = [f"{c.name}: {c.message}" for c in workload.status.admission_checks if c.state == "Pending" and c.message]
    if not said or not workload.is_true(condition_types.QUOTA_RESERVED):
        return Nothing()
    return RecordEvent(_event(event_reasons.UPDATED_ADMISSION_CHECK, "; ".join(said)))


def _start(job: Job, workload: Workload, context: JobContext) -> Action:
    admission = workload.status.admission
    queue = admission.cluster_queue if admission is not None else ""
    try:
        patch = start_stop.start(job, workload, context.flavors)
    except start_stop.FlavorMissing as missing:
        return RecordEvent(Event("Warning", reasons.FLAVOR_NOT_FOUND, f"Cannot be started: {missing}"))
    except start_stop.TemplateConflict as conflict:
        text = str(conflict)
        event = _finished_event(workload)
        return WriteWorkloadStatus(workload, lambda d: transitions.finish(d, reasons.FAILED_TO_START, text), event)
    return PatchJob(patch, _event(event_reasons.JOB_STARTED, f"Admitted by clusterQueue {queue}"))


def _stop(job: Job, workload: Workload, message: str, context: JobContext) -> Action | None:
    """The next step of stopping a Job; None once it is stopped, restored and without pods."""
    event = _event(event_reasons.JOB_STOPPED, message)
    restore = start_stop.must_restore(job, workload)
    if not job.spec.suspend:
        return PatchJob(start_stop.suspend(job, mark=restore), None if restore else event)
    ours = restore and workload.is_true(condition_types.QUOTA_RESERVED) and injected(job)  # else it is a user's edit
    if keys.STOPPING in job.metadata.annotations or ours:
        return (
            PatchJob(start_stop.restore(job, workload), event)
            if pod_progress.stopped(job, context.uses_nodes)
            else Nothing()
        )
    return None if pod_progress.idle(job, context.uses_nodes) else Nothing()
