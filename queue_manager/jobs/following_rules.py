"""Rules by which the Workload follows its Job: progress of the pods, queue, priority class, gates, overrides. Pure.

The status of the pods comes before starting and stopping. The patches come after: if the API server rejects one, the
Job must start and stop all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from queue_manager.api import condition_types, event_reasons, keys
from queue_manager.api.types import Workload
from queue_manager.jobs import pod_progress
from queue_manager.jobs.job_situation import JobSituation
from queue_manager.jobs.pairing_rules import unknown_priority_class
from queue_manager.jobs.planned_writes import PlannedWrite, UpdateWorkload, WriteWorkloadStatus
from queue_manager.jobs.workload_manifest import queue_name, reclaimed
from queue_manager.lifecycle import overrides, transitions
from queue_manager.lifecycle.status_draft import Draft, WorkloadEvent
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.scheduling.queue_order import queue_time, rank

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # for drafts that only answer whether something changes


def pods_are_reported(s: JobSituation) -> PlannedWrite | None:
    """Write PodsReady and the reclaimable pods of an admitted Workload if the Job's status has changed them."""

    def report(draft: Draft) -> None:
        if s.context.waits_for_pods and not draft.is_true(condition_types.FINISHED):
            transitions.pods_ready(draft, ready=pod_progress.are_pods_ready(s.job))
        count = pod_progress.reclaimable(s.job, draft.original.spec.pod_sets[0].count)
        if draft.is_true(condition_types.ADMITTED) and count > reclaimed(draft.workload):
            pod_progress.report_reclaimable(draft, count)

    if s.workload is None or not s.workload.is_true(condition_types.ADMITTED):
        return None
    return _write_if_changed(s.workload, report, Cause.PODS_READY)


def pods_are_expected(s: JobSituation) -> PlannedWrite | None:
    """Write PodsReady=False before the admission, with the lowest priority: the admission writes it too."""
    if s.workload is None or not s.context.waits_for_pods or s.workload.is_true(condition_types.FINISHED):
        return None
    return _write_if_changed(s.workload, transitions.pods_awaited, Cause.PODS_EXPECTED)


def _write_if_changed(workload: Workload, transition: transitions.Transition, cause: Cause) -> PlannedWrite | None:
    draft = Draft(workload, _ANY_TIME)
    transition(draft)
    return WriteWorkloadStatus(workload, transition, cause) if draft.changed else None


def workload_follows_queue_name(s: JobSituation) -> PlannedWrite | None:
    """Copy a changed queue name to the Workload while it holds no quota."""
    w, name = s.workload, queue_name(s.job)
    if w is None or w.spec.queue_name == name or w.is_true(condition_types.QUOTA_RESERVED) or not s.context.managed:
        return None
    return UpdateWorkload(w, {"spec": {"queueName": name or None}})


def workload_follows_priority_class(s: JobSituation) -> PlannedWrite | None:
    """Copy a changed priority class to the Workload. With reserved quota only to another
    WorkloadPriorityClass.
    """
    w, wanted, priority = s.workload, s.job.metadata.labels.get(keys.PRIORITY_CLASS, ""), s.context.priority
    if w is None or not wanted or priority is None:
        return None
    current = w.spec.priority_class_ref
    is_workload_class = current is not None and current.group == keys.GROUP
    if is_workload_class and current is not None and current.name == wanted:
        return None
    if not is_workload_class and w.is_true(condition_types.QUOTA_RESERVED):
        return None
    spec = {"priority": priority.value, "priorityClassRef": priority.reference}
    return UpdateWorkload(w, {"spec": spec}, _updated(f"Updated workload priority class: {w.metadata.key}"))


def in_order_of_priorities(workloads: Iterable[Workload], value: int) -> list[Workload]:
    """The Workloads of a WorkloadPriorityClass to which its new value is to be written, in the order of the writes.

    Of the unfinished Workloads that do not have it, those that are lowered come first if they are pending, those that
    are raised if they hold quota: so at no time has a pending one a higher priority than a running one of its class,
    which it would preempt. Of those that are lowered the last in its queue comes first, of those that are raised the
    first: so none becomes the first of its ClusterQueue with a priority that it is about to lose.
    BEHAVIOUR.md#q9-requeue-of-inadmissible-workloads
    """

    def is_lowered(w: Workload) -> bool:
        return (w.spec.priority or 0) > value

    def is_late(w: Workload) -> bool:
        return w.is_true(condition_types.QUOTA_RESERVED) == is_lowered(w)

    changed = [w for w in workloads if w.spec.priority != value and not w.is_true(condition_types.FINISHED)]
    in_queue = sorted(changed, key=lambda w: rank(w, queue_time(w)))
    raised, lowered = (w for w in in_queue if not is_lowered(w)), (w for w in reversed(in_queue) if is_lowered(w))
    return sorted([*raised, *lowered], key=is_late)


def workload_follows_admission_gates(s: JobSituation) -> PlannedWrite | None:
    """Copy the annotation that names the admission gates from the Job to the Workload."""
    gates = s.job.metadata.annotations.get(keys.ADMISSION_GATED_BY)
    if s.workload is None or gates == s.workload.metadata.annotations.get(keys.ADMISSION_GATED_BY):
        return None
    patch = {"metadata": {"annotations": {keys.ADMISSION_GATED_BY: gates}}}
    return UpdateWorkload(s.workload, patch, _updated(f'Updated workload AdmissionGatedBy to "{gates or ""}"'))


def workload_follows_overrides(s: JobSituation) -> PlannedWrite | None:
    """Copy the overrides from the Job or its priority class to the Workload, unless the Workload is prebuilt."""
    w = s.workload
    if w is None or s.context.prebuilt is not None:
        return None
    current = {key: w.metadata.annotations.get(key) for key in overrides.KEYS}
    wanted = {key: s.context.overrides.get(key) for key in overrides.KEYS}
    if current == wanted:
        return None
    message = f"Updated workload requeuing overrides: {w.metadata.key}"
    return UpdateWorkload(w, {"metadata": {"annotations": wanted}}, _updated(message))


def unknown_priority_class_is_reported(s: JobSituation) -> PlannedWrite | None:
    """Record an Event if the Job names a WorkloadPriorityClass that does not exist. The Workload keeps its priority."""
    if s.workload is None or s.context.priority is not None:
        return None
    current = s.workload.spec.priority_class_ref
    if current is not None and current.name == s.job.metadata.labels.get(keys.PRIORITY_CLASS):
        return None
    return unknown_priority_class(s)


def _updated(message: str) -> WorkloadEvent:
    return WorkloadEvent("Normal", event_reasons.UPDATED_WORKLOAD, message)
