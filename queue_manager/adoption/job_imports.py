"""Which running Jobs `sluice import` can bring into a queue, and the Workload that it makes for each.

What keeps a Job outside is found before anything is written. Quota is not checked here: the scheduler admits the
Workload as any other, so an import never exceeds a quota (`visibility.scheduler_judgement` predicts the answer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from job_controller.conditions import finished
from job_controller.json_tree import Json
from job_controller.managed_by import BUILT_IN_MANAGER, OWN_MANAGER
from job_controller.model import Job
from queue_manager.adoption.queue_mapping import QueueRule, rule_for
from queue_manager.api import keys
from queue_manager.api.types import PriorityClass, Workload, WorkloadPriorityClass
from queue_manager.jobs.workload_manifest import (
    is_imported,
    is_made_for,
    min_parallelism,
    new_workload,
    permits_pods,
    prebuilt_name,
    priority_of,
    queue_name,
)
from queue_manager.jobs.workload_match import matches

CRON_JOB = "CronJob"


class ImportStep(StrEnum):
    """What an import does next with a Job."""

    SKIP = "skipped"
    REFUSE = "refused"
    CREATE = "import"  # create its Workload
    WAIT = "waiting"  # until its Workload is admitted
    LABEL = "admitted"  # give the Job its queue
    REPLACE = "changed"  # the Workload does not match its Job: delete it
    DONE = "in a queue"


@dataclass(frozen=True, slots=True)
class Import:
    """One Job. `queue`: its LocalQueue, "" if none is known. `why`: for a Job that is skipped or refused."""

    job: Job
    step: ImportStep
    queue: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class ImportSurroundings:
    """What decides about imports besides a Job itself.

    `queues`: the ClusterQueue of each LocalQueue, by "namespace/name". `manages`: whether the queue manages the Jobs of
    a namespace. `cluster_queues`: the names of those that exist; None if the user may not list them.
    """

    rules: Sequence[QueueRule]
    queues: Mapping[str, str]
    cluster_queues: frozenset[str] | None
    classes: Mapping[str, WorkloadPriorityClass]
    pod_classes: Mapping[str, PriorityClass]
    manages: Callable[[str], bool]
    labels_to_copy: tuple[str, ...] = ()


def plan(job: Job, workloads: Sequence[Workload], around: ImportSurroundings) -> Import | None:
    """Return the next step for a Job; None for one that has ended. `workloads`: those of its namespace."""
    if finished(job.status) is not None or job.metadata.deletion_timestamp is not None:
        return None
    if queue_name(job):
        return Import(job, ImportStep.DONE, queue_name(job))
    rule = rule_for(job, around.rules)
    if rule is None:
        return Import(job, ImportStep.REFUSE, why="no rule names a queue for it")
    if rule.skip:
        return Import(job, ImportStep.SKIP, why="a rule skips it")
    if job.spec.suspend:
        return Import(
            job, ImportStep.SKIP, rule.to_local_queue, f"suspended; label it with {keys.QUEUE_NAME} to queue it"
        )
    why = _obstacle(job) or _missing(job, rule.to_local_queue, around)
    if why:
        return Import(job, ImportStep.REFUSE, rule.to_local_queue, why)
    return Import(job, next_step(job, rule.to_local_queue, workloads), rule.to_local_queue)


def next_step(job: Job, queue: str, workloads: Sequence[Workload]) -> ImportStep:
    """Return what an import that may have been interrupted does next with a Job that it can import."""
    found = workload_of(job, workloads)
    if found is None:
        return ImportStep.CREATE
    if not matches(job, found) or found.spec.queue_name != queue:
        return ImportStep.REPLACE
    return ImportStep.LABEL if permits_pods(found) else ImportStep.WAIT


def workload_of(job: Job, workloads: Sequence[Workload]) -> Workload | None:
    """Return the Workload that an import made for a Job."""
    return next((w for w in workloads if is_imported(w) and is_made_for(job, w)), None)


def workload_for(job: Job, queue: str, around: ImportSurroundings) -> Json:
    """Return the Workload to create for an import of the Job into this LocalQueue.

    It is the one that the Job would get if it named the queue, with the label IMPORTED. `around` has the priority
    classes, one of which must be that of the Job.
    """
    labelled = _with_labels(job, {keys.QUEUE_NAME: queue})
    priority = priority_of(job, around.classes, around.pod_classes)
    assert priority is not None, "_missing has found the class"
    made = new_workload(labelled, priority, around.labels_to_copy)
    made["metadata"]["labels"] = {**made["metadata"]["labels"], keys.IMPORTED: "true"}
    return made


def label_patch(job: Job, queue: str) -> Json:
    """Return the patch that adds the queue label, on the condition that the Job has not changed since it was read."""
    meta = job.metadata
    only_this = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"metadata": {**only_this, "labels": {keys.QUEUE_NAME: queue}}}


def _obstacle(job: Job) -> str:
    """Return what about the Job itself keeps it outside, or ""."""
    owner = job.metadata.controller
    if owner is not None and owner.kind != CRON_JOB:
        return f"it belongs to {owner.kind} {owner.name}"
    if job.spec.managed_by not in ("", None, BUILT_IN_MANAGER, OWN_MANAGER):
        return f"it is run by {job.spec.managed_by}"
    if prebuilt_name(job):
        return f"it names the Workload {prebuilt_name(job)}"
    if min_parallelism(job) is not None:
        return f"{keys.MIN_PARALLELISM}: a running Job cannot start with fewer pods"
    return ""


def _missing(job: Job, queue: str, around: ImportSurroundings) -> str:
    """Return which object that the Job needs does not exist, or ""."""
    namespace = job.metadata.namespace
    if not around.manages(namespace):
        return f"managedJobsNamespaceSelector does not select namespace {namespace}"
    cluster_queue = around.queues.get(f"{namespace}/{queue}")
    if cluster_queue is None:
        return f"LocalQueue {namespace}/{queue} does not exist"
    if around.cluster_queues is not None and cluster_queue not in around.cluster_queues:
        return f"ClusterQueue {cluster_queue} does not exist"
    if priority_of(job, around.classes, around.pod_classes) is None:
        return f"WorkloadPriorityClass {job.metadata.labels.get(keys.PRIORITY_CLASS)} does not exist"
    return ""


def _with_labels(job: Job, labels: Mapping[str, str]) -> Job:
    metadata = replace(job.metadata, labels={**job.metadata.labels, **labels})
    return replace(job, metadata=metadata)
