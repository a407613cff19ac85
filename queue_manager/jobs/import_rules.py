"""Rules on Jobs that ran before they joined a queue (`sluice import`). None of them stops a Job. Pure.

The import creates a Workload for the running Job, waits until that is admitted, and then labels the Job. It may be
interrupted between any two of these writes:

    Workload pending, no label      the Job runs outside of the queue; the Workload waits and preempts none
    Workload admitted, no label     the Job runs and its quota counts; a repeated import labels it
    Workload evicted, no label      the Workload goes, and the Job runs outside of the queue as before
    Workload admitted, label        imported: every other rule applies
"""

from __future__ import annotations

from queue_manager.api import condition_types, keys
from queue_manager.api.types import Workload
from queue_manager.jobs import following_rules
from queue_manager.jobs.job_situation import JobSituation
from queue_manager.jobs.planned_writes import DeleteWorkload, Nothing, PlannedWrite, ReleaseWorkload
from queue_manager.jobs.workload_manifest import is_imported, is_made_for


def job_outside_its_queue_runs_on(s: JobSituation) -> PlannedWrite | None:
    """Let a Job that is being imported, and has no queue label, run on: delete its Workload once that is evicted,
    remove the finalizer of a deleted Workload, else report the pods.
    """
    w = _running_import(s)
    if w is None or s.context.managed:
        return None
    if w.metadata.deletion_timestamp is not None:
        return ReleaseWorkload(w) if keys.FINALIZER in w.metadata.finalizers else Nothing()
    if w.is_true(condition_types.EVICTED) or not w.spec.active:
        return DeleteWorkload(w)
    return following_rules.pods_are_reported(s) or Nothing()


def imported_job_awaits_its_admission(s: JobSituation) -> PlannedWrite | None:
    """Do nothing for a labelled Job whose Workload is not seen as admitted yet: the label may be seen first.

    A Workload loses its quota by an eviction, whose condition stays: without it no admission has been seen yet.
    """
    w = _running_import(s)
    if w is None or w.metadata.deletion_timestamp is not None or not w.spec.active:
        return None
    seen = w.is_true(condition_types.ADMITTED) or w.condition(condition_types.EVICTED) is not None
    return None if seen else Nothing()


def _running_import(s: JobSituation) -> Workload | None:
    """The Workload that `sluice import` created for a running Job; None for other Jobs."""
    w = s.current
    if w is None or s.job.spec.suspend or s.end is not None:
        return None
    return w if is_imported(w) and is_made_for(s.job, w) else None
