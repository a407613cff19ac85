"""What happens to each Workload when Sluice takes the place of Kueue.

The fate of a Workload is the first match in this table. None stops a Job that Kueue would have let run: of a
Job that differs from its Workload, Kueue makes a new Workload as well.

    finished   it has ended; it stays until its Job is deleted, or as objectRetentionPolicies say
    inactive   spec.active is false: it waits for an operator, as before
    leaving    it is evicted or deactivated and still holds quota: Sluice stops its Job and releases the quota
    foreign    it belongs to something that is not a batch/v1 Job, and holds quota, which counts as used until it is
               deleted; Sluice neither starts nor stops what it stands for
    unstarted  it belongs to something that is not a batch/v1 Job, and waits for quota: it gets it, and nothing starts
    replaced   it holds quota for a request that its Job no longer has: the Job is stopped and gets a new Workload
    kept       it holds quota: admitted, its Job runs on; reserved, it waits for its admission checks
    requeued   it waits for quota: it enters its queue, in the order of priority and timestamp
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from job_controller.conditions import finished
from job_controller.model import Job
from queue_manager.api import condition_types
from queue_manager.api.types import Workload
from queue_manager.jobs.workload_match import matches


class Fate(StrEnum):
    """What happens to a Workload; in the order in which they are shown."""

    KEPT = "kept"
    REPLACED = "replaced"
    REQUEUED = "requeued"
    LEAVING = "leaving"
    INACTIVE = "inactive"
    FINISHED = "finished"
    FOREIGN = "foreign"
    UNSTARTED = "unstarted"


MEANING: Mapping[Fate, str] = {
    Fate.KEPT: "they keep their quota, and their Jobs run on",
    Fate.REPLACED: "their Jobs differ from them, and are stopped and queued again",
    Fate.REQUEUED: "they wait for quota, in the order of priority and timestamp",
    Fate.LEAVING: "their eviction is completed: the Job stops, then the quota is released",
    Fate.INACTIVE: "they wait for an operator (`sluice reactivate`)",
    Fate.FINISHED: "they have ended",
    Fate.FOREIGN: "of other kinds than Job: their quota counts as used until you delete them; nothing stops them",
    Fate.UNSTARTED: "of other kinds than Job: they would get quota, and nothing starts; deactivate or delete them",
}


def fate(workload: Workload, job: Job | None = None) -> Fate:
    """Return what happens to a Workload. `job`: its Job, if that is known."""
    if workload.is_true(condition_types.FINISHED):
        return Fate.FINISHED
    if is_foreign(workload):
        holds = workload.is_true(condition_types.QUOTA_RESERVED)
        return Fate.FOREIGN if holds else Fate.UNSTARTED if workload.spec.active else Fate.INACTIVE
    if workload.is_true(condition_types.QUOTA_RESERVED):
        leaving = workload.is_true(condition_types.EVICTED) or not workload.spec.active
        if leaving:
            return Fate.LEAVING
        return Fate.KEPT if job is None or finished(job.status) or matches(job, workload) else Fate.REPLACED
    return Fate.REQUEUED if workload.spec.active else Fate.INACTIVE


def is_foreign(workload: Workload) -> bool:
    """Whether the Workload is controlled by something else than a batch/v1 Job."""
    owner = workload.metadata.controller
    return owner is not None and not owner.is_job


def count_fates(workloads: Iterable[Workload], jobs: Mapping[str, Job] = MappingProxyType({})) -> dict[Fate, int]:
    """Return how many Workloads have each fate, without fates that do not occur. `jobs`: by UID."""
    counts = Counter(fate(workload, jobs.get(workload.job_uid)) for workload in workloads)
    return {each: counts[each] for each in Fate if counts[each]}
