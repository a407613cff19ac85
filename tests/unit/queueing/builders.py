"""Objects for the tests of queues and scheduling: short calls, real types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from queue_manager.api.types import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
from queue_manager.queueing.pending import PendingWorkloads
from queue_manager.scheduling.workload_info import Info, info

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def wire(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def workload(
    name="w", *, requests=None, priority=0, created=0, queue="lq", count=1, fewest=None, uid=None, **more
) -> Workload:
    """A pending Workload of one pod set. `more`: conditions, status, spec, pod (pod spec fields), annotations.

    `fewest`: of the `count` pods, for partial admission.
    """
    container = {"name": "c", "image": "x", "resources": {"requests": requests or {"cpu": "1"}}}
    tree = {
        "metadata": {
            "name": name,
            "namespace": more.get("namespace", "ns"),
            "uid": uid or f"uid-{name}",
            "creationTimestamp": wire(created),
            "annotations": more.get("annotations", {}),
            "generation": 1,
        },
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [
                {
                    "name": "main",
                    "count": count,
                    "minCount": fewest,
                    "template": {"spec": {"containers": [container], **more.get("pod", {})}},
                }
            ],
            **more.get("spec", {}),
        },
        "status": {"conditions": list(more.get("conditions", ())), **more.get("status", {})},
    }
    return msgspec.convert(tree, Workload)


def pending(name="w", **kwargs) -> Info:
    return info(workload(name, **kwargs))


def condition(type: str, status: str, reason: str = "R", message: str = "m", seconds: float = 0) -> dict:
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": wire(seconds),
    }


def resource_group(quotas):
    """`quotas`: {flavor: {resource: nominal or full quota}}."""
    flavors = [
        {
            "name": flavor,
            "resources": [{"name": r, **(q if isinstance(q, dict) else {"nominalQuota": q})} for r, q in own.items()],
        }
        for flavor, own in quotas.items()
    ]
    return {"coveredResources": list(next(iter(quotas.values()))), "flavors": flavors}


def cluster_queue(name="cq", *, quotas=None, groups=None, strategy="BestEffortFIFO", **spec) -> ClusterQueue:
    """`quotas`: {flavor: {resource: nominal or full quota}}, all resources in one group."""
    if groups is None:
        groups = [quotas or {"default": {"cpu": "2"}}]
    tree = {
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "resourceGroups": [resource_group(group) for group in groups],
            "namespaceSelector": {},
            "queueingStrategy": strategy,
            **spec,
        },
    }
    return msgspec.convert(tree, ClusterQueue)


def cohort(name, parent="", quotas=None, **spec) -> Cohort:
    """`quotas`: {flavor: {resource: nominal or full quota}}, all resources in one group."""
    groups = [resource_group(quotas)] if quotas else []
    tree = {"metadata": {"name": name}, "spec": {"parentName": parent, "resourceGroups": groups, **spec}}
    return msgspec.convert(tree, Cohort)


def local_queue(name="lq", cluster_queue="cq", namespace="ns", **spec) -> LocalQueue:
    tree = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"clusterQueue": cluster_queue, **spec},
    }
    return msgspec.convert(tree, LocalQueue)


def flavor(name="default", **spec) -> ResourceFlavor:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceFlavor)


def drain(queue: PendingWorkloads) -> list[str]:
    """The names of the Workloads to try, in order, if each is admitted."""
    names = []
    while (head := queue.head()) is not None:
        names.append(head.key.name)
        queue.remove(head.key)
    return names
