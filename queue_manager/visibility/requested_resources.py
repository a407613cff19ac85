"""The resource requests of a Job and the quota assigned to it. Pure."""

from __future__ import annotations

import msgspec

from job_controller.model import Job
from queue_manager.api.types import PodSet, PodSetAssignment, Workload
from queue_manager.jobs.workload_manifest import pod_count
from queue_manager.scheduling.amounts import text
from queue_manager.scheduling.pod_requests import pod_requests


class DemandRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One resource of one pod set. Quantities are written as in the API.

    `per_pod` and `total` are "" for a resource that the Workload holds although its pod template does not request it:
    a transformation, a default or an overhead has added it (BEHAVIOUR.md#q15-counted-requests). `assigned` is ""
    before admission.
    """

    pod_set: str
    resource: str
    per_pod: str
    pods: int
    total: str
    assigned: str
    assigned_pods: int | None
    flavor: str


def demand(job: Job | None, workload: Workload | None) -> list[DemandRow]:
    """Return the requests of a Job and the quota assigned to it, one row per pod set and resource."""
    if workload is None:
        pod_sets = (PodSet(count=pod_count(job.spec), template=job.spec.template),) if job is not None else ()
        return [row for pod_set in pod_sets for row in _rows(pod_set, None)]
    admission = workload.status.admission
    assigned = {a.name: a for a in admission.pod_set_assignments} if admission is not None else {}
    return [row for pod_set in workload.spec.pod_sets for row in _rows(pod_set, assigned.get(pod_set.name))]


def _rows(pod_set: PodSet, given: PodSetAssignment | None) -> list[DemandRow]:
    try:
        requests = pod_requests(pod_set.template.get("spec") or {})
    except ValueError:  # not a quantity: the queue rejects the Job with a reason of its own
        requests = {}
    per_pod = {name: text(name, amount) for name, amount in requests.items()}
    total = {name: text(name, amount * pod_set.count) for name, amount in requests.items()}
    usage = given.resource_usage if given is not None else {}
    names = sorted({*requests, *usage})
    return [
        DemandRow(
            pod_set=pod_set.name,
            resource=name,
            per_pod=per_pod.get(name, ""),
            pods=pod_set.count,
            total=total.get(name, ""),
            assigned=str(usage.get(name, "")),
            assigned_pods=given.count if given is not None else None,
            flavor=given.flavors.get(name, "") if given is not None else "",
        )
        for name in names
    ]
