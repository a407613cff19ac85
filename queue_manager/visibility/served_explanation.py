"""The explanation that a manager serves to users who may not read all on which the scheduler decides. Pure.

    GET /apis/visibility.kueue.x-k8s.io/VERSION/namespaces/NAMESPACE/localqueues/NAME/explanation?workload=WORKLOAD

It has the record of `sluice explain -o json`, computed from the caches of the manager. Whoever may read it may know
nothing of other namespaces: their Jobs and LocalQueues are counted, and never named (`Surroundings.only_named`).
Commands in it name the namespace, since the reader's default is not known. `sluice explain` adds what it reads of pods.
BEHAVIOUR.md#q248-explanations-that-a-manager-serves.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api.types import Workload
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.visibility.explain_record import Explanation, explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.explanation_rows import NOT_NAMED
from queue_manager.visibility.pending_summary import EXPLANATION_KIND, GROUP
from queue_manager.visibility.scheduler_judgement import ClusterObjects

NAMES_NOT_SEEN = "the names of Jobs and LocalQueues of other namespaces, which are only counted"
WORKLOAD = "workload"  # the query parameter


class ServedExplanation(msgspec.Struct, frozen=True):
    """A WorkloadExplanation as its readers decode it."""

    explanation: Explanation


def explained_to_namespace(
    job: Job | None, workload: Workload, objects: ClusterObjects, settings: WorkloadSettings, now: datetime
) -> Explanation:
    """Explain a Workload to whoever may read its namespace alone. `job`: the Job that controls it, if any.

    `objects`: all that `concerning` selects for the ClusterQueues that share quota with its own.
    """
    local = next((each for each in objects.local_queues if each.metadata.key == workload.local_queue), None)
    name = local.spec.cluster_queue if local is not None else ""
    around = Surroundings(
        objects=objects,
        settings=settings,
        local=local,
        above=next((each for each in objects.cluster_queues if each.metadata.name == name), None),
        default_ns="",
        only_named=workload.metadata.namespace,
    )
    found = explain(job, workload, around, now)
    return msgspec.structs.replace(found, not_seen=[NAMES_NOT_SEEN]) if _withholds(found) else found


def _withholds(found: Explanation) -> bool:
    """Whether a row is about LocalQueues that are not named."""
    ahead = found.position.ahead if found.position is not None else None
    return any((row.namespace, row.queue) == NOT_NAMED for row in (*found.holders, *(ahead or ())))


def concerning(objects: ClusterObjects, cluster_queues: Collection[str], settings: WorkloadSettings) -> ClusterObjects:
    """Return the objects on which decisions in these ClusterQueues depend, which are all that share quota.

    With blockAdmission, all Workloads count.
    """
    if settings.block_admission:
        return objects
    local_queues = [each for each in objects.local_queues if each.spec.cluster_queue in cluster_queues]
    keys = {each.metadata.key for each in local_queues}

    def counts(workload: Workload) -> bool:
        admission = workload.status.admission
        return workload.local_queue in keys or (admission is not None and admission.cluster_queue in cluster_queues)

    return replace(
        objects,
        workloads=[each for each in objects.workloads if counts(each)],
        local_queues=local_queues,
        cluster_queues=[each for each in objects.cluster_queues if each.metadata.name in cluster_queues],
    )


def document(found: Explanation, version: str) -> Json:
    """Return the object in the response."""
    return {
        "kind": EXPLANATION_KIND,
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {"name": found.workload, "namespace": found.namespace},
        "explanation": msgspec.to_builtins(found),
    }
