"""Fields, labels and annotations that are accepted and have no effect: a table, and the function that reads it.

The API accepts all fields of Kueue, so that its manifests work unchanged. A field that Sluice does not implement is
reported to the user who sets it: by the embedded API server in a Warning (`queue_admission`), and on every cluster in
an Event (`scheduler.without_effect_events`; for Jobs `jobs.controller`) and, for a ClusterQueue, in a condition
(`scheduler.queue_status`). A value that equals the field's default is not reported.
BEHAVIOUR.md#q32-fields-without-effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from job_controller.json_tree import Json
from queue_manager.api import keys

NO_FLAVOR_WEIGHTS = "Sluice does not weigh flavors in fair sharing yet, what is borrowed counts the same in all"
NO_CONCURRENCY = "Sluice does not try several flavors at the same time yet, they are tried in their order"
NO_TOPOLOGY = "Sluice does not place pods by topology yet, any node of the flavor may get them"
NO_ELASTIC_JOBS = "Sluice does not resize an admitted Job yet, it has to be admitted again"
NO_PODS = "Sluice queues Jobs, not single pods: this pod starts immediately and uses no quota"

TOPOLOGY_ANNOTATIONS = tuple(
    f"kueue.x-k8s.io/{name}"
    for name in (
        "podset-required-topology",
        "podset-preferred-topology",
        "podset-unconstrained-topology",
        "podset-slice-required-topology",
        "podset-slice-size",
        "podset-group-name",
    )
)


class FieldWithoutEffect(NamedTuple):
    """A field, whether an object sets it to a value other than its default, and why it has no effect."""

    path: str
    is_set: Callable[[Json], bool]
    why: str


def without_effect(resource: str, obj: Json) -> list[str]:
    """One sentence for each field of `obj` without effect. `resource` is "<plural>.<group>", as `str(Resource)`."""
    return [f"{row.path}: has no effect: {row.why}" for row in ROWS.get(resource, ()) if row.is_set(obj)]


def _given(*path: str) -> Callable[[Json], bool]:
    """Return a predicate that is true for objects with a non-empty value at this path."""
    return lambda obj: bool(_at(obj, *path))


def _is_queued_job_with(*path: str) -> Callable[[Json], bool]:
    return lambda job: _names_a_queue(job) and _at(job, *path) is not None


def _is_queued_pod(pod: Json) -> bool:
    """Whether the pod names a queue and has no controller, whose template may carry the label for other reasons."""
    return _names_a_queue(pod) and not _at(pod, "metadata", "ownerReferences")


def _names_a_queue(obj: Json) -> bool:
    return bool(_at(obj, "metadata", "labels", keys.QUEUE_NAME))


def _is_elastic(job: Json) -> bool:
    return _names_a_queue(job) and _at(job, "metadata", "annotations", keys.ELASTIC_JOB) == "true"


def _at(obj: Json, *path: str) -> Any:
    for name in path:
        obj = (obj or {}).get(name)
    return obj


_TEMPLATE_ANNOTATIONS = ("spec", "template", "metadata", "annotations")

ROWS: Mapping[str, tuple[FieldWithoutEffect, ...]] = {
    "clusterqueues.kueue.x-k8s.io": (
        FieldWithoutEffect(
            "spec.concurrentAdmissionPolicy", _given("spec", "concurrentAdmissionPolicy"), NO_CONCURRENCY
        ),
    ),
    "resourceflavors.kueue.x-k8s.io": (
        FieldWithoutEffect("spec.topologyName", _given("spec", "topologyName"), NO_TOPOLOGY),
        FieldWithoutEffect("spec.resourceWeights", _given("spec", "resourceWeights"), NO_FLAVOR_WEIGHTS),
    ),
    "jobs.batch": (
        *(
            FieldWithoutEffect(
                f"spec.template.metadata.annotations[{name}]",
                _is_queued_job_with(*_TEMPLATE_ANNOTATIONS, name),
                NO_TOPOLOGY,
            )
            for name in TOPOLOGY_ANNOTATIONS
        ),
        FieldWithoutEffect(f"metadata.annotations[{keys.ELASTIC_JOB}]", _is_elastic, NO_ELASTIC_JOBS),
    ),
    "pods": (FieldWithoutEffect(f"metadata.labels[{keys.QUEUE_NAME}]", _is_queued_pod, NO_PODS),),
}
