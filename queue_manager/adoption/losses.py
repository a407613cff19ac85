"""What Kueue did on this cluster that Sluice does not do, object by object.

Nothing here stops a Job. A loss is what an admin would notice later: a kind that is no longer queued, a field without
effect, an admission check that nothing answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.adoption.job_differences import differences, has_same_request
from queue_manager.adoption.workload_fates import Fate, fate, is_foreign
from queue_manager.api import condition_types
from queue_manager.api.api_resources import ADMISSION_CHECKS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.api.without_effect import without_effect

# Admission checks that run inside Kueue's manager: once it is stopped, nothing answers them.
BUILT_IN_CHECKS = ("kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request")
NOT_QUEUED = "Sluice queues Jobs only: new ones start immediately, and use no quota"
OF_PODS = "gated ones keep Kueue's gate, deleted ones its finalizer kueue.x-k8s.io/managed: remove both by patches"
NO_WAY_BACK = "after `sluice install` objects are stored as v1beta2, which this Kueue does not know: upgrade it first"
NO_ANSWER = "answered by Kueue itself: Workloads of its ClusterQueues would wait for it forever"


class Loss(NamedTuple):
    """One thing that Kueue did and Sluice does not do. `object`: "Kind name", "Kind namespace/name" or a count."""

    object: str
    what: str


@dataclass(frozen=True)
class AdoptedObjects:
    """The objects of a cluster from which its losses are found.

    `trees` has them as JSON, by "<plural>.<group>": the other fields have only what Sluice decodes. `ignored_settings`
    are the settings of the KueueConfig that Sluice ignores, each with the reason.
    """

    workloads: Sequence[Workload] = ()
    trees: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)  # by UID
    ignored_settings: Sequence[str] = ()
    one_way: bool = False  # Kueue's CRDs know no version in which Sluice stores objects


def losses(objects: AdoptedObjects) -> list[Loss]:
    """Return everything that is lost: kinds first, then single objects, then settings."""
    return [
        *_kinds_not_queued(objects.workloads),
        *_checks_without_answer(objects.trees.get(str(ADMISSION_CHECKS), ())),
        *_replaced(objects.workloads, objects.jobs),
        *_workloads_elsewhere(objects.trees.get(str(WORKLOADS), ())),
        *_fields_without_effect(objects.trees),
        *(Loss("KueueConfig", setting) for setting in objects.ignored_settings),
        *([Loss("the way back", NO_WAY_BACK)] if objects.one_way else []),
    ]


def _replaced(workloads: Iterable[Workload], jobs: Mapping[str, Job]) -> Iterator[Loss]:
    """Admitted Workloads that differ from their Jobs, with the fields."""
    for workload in workloads:
        job = jobs.get(workload.job_uid)
        if job is not None and fate(workload, job) is Fate.REPLACED:
            fields = ", ".join(differences(job, workload)) or "its pod set"
            name = job.metadata.name
            what = (
                f"its pod template is not that of Job {name} ({fields})"
                if has_same_request(job, workload)
                else f"its quota is not what Job {name} requests ({fields})"
            )
            yield Loss(f"Workload {workload.metadata.key}", f"{what}: the Job is stopped and queued again")


def _kinds_not_queued(workloads: Iterable[Workload]) -> Iterator[Loss]:
    """One row per kind that owns unfinished Workloads."""
    foreign = (w for w in workloads if is_foreign(w) and not w.is_true(condition_types.FINISHED))
    owners = Counter(owner.kind for w in foreign if (owner := w.metadata.controller) is not None)
    for kind, count in sorted(owners.items()):
        what = f"{NOT_QUEUED}; {OF_PODS}" if kind == "Pod" else NOT_QUEUED
        yield Loss(f"{count} {'Workload' if count == 1 else 'Workloads'} of kind {kind}", what)


def _checks_without_answer(checks: Iterable[Json]) -> Iterator[Loss]:
    for check in checks:
        controller = (check.get("spec") or {}).get("controllerName")
        if controller in BUILT_IN_CHECKS:
            yield Loss(_named("AdmissionCheck", check), f"{controller} is {NO_ANSWER}")


def _workloads_elsewhere(workloads: Iterable[Json]) -> Iterator[Loss]:
    """Workloads that Kueue placed by topology, or dispatched to another cluster."""
    for workload in workloads:
        status = workload.get("status") or {}
        assignments = (status.get("admission") or {}).get("podSetAssignments") or ()
        if any(assignment.get("topologyAssignment") for assignment in assignments):
            yield Loss(
                _named("Workload", workload), "placed by topology: its next attempt runs on any node of the flavor"
            )
        if status.get("clusterName"):
            yield Loss(_named("Workload", workload), f"runs in cluster {status['clusterName']}: its end is not noticed")


def _fields_without_effect(trees: Mapping[str, Sequence[Json]]) -> Iterator[Loss]:
    for resource, objects in trees.items():
        for tree in objects:
            for text in without_effect(resource, tree):
                yield Loss(_named(tree.get("kind") or resource, tree), text)


def _named(kind: str, tree: Json) -> str:
    meta = tree["metadata"]
    return f"{kind} {meta['namespace']}/{meta['name']}" if meta.get("namespace") else f"{kind} {meta['name']}"
