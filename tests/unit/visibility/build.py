"""Builders of objects for tests of what people see, decoded as from the wire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from job_controller.model import Job
from queue_manager.api.events import Event
from queue_manager.api.types import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from queue_manager.visibility.wire_types import Pod

T0 = datetime(2026, 1, 1, tzinfo=UTC)
Tree = dict[str, Any]


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def wire(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def cond(type: str, status: str = "True", reason: str = "", message: str = "", seconds: float = 0) -> Tree:
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": wire(seconds),
    }


def requeue(count: int, seconds: float | None) -> Tree:
    """The requeueState of a status; `seconds`: when the backoff ends, None if it has ended."""
    return {"requeueState": {"count": count, **({"requeueAt": wire(seconds)} if seconds is not None else {})}}


LIMIT = "DeactivatedDueToRequeuingLimitExceeded"
TIMED_OUT = cond("Evicted", reason="PodsReadyTimeout", seconds=30)


def owner(name: str) -> list[Tree]:
    return [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}]


def job(name: str = "j", *, queue: str = "q", suspend: bool = True, requests: Tree | None = None, **more: Any) -> Job:
    """`more`: status, conditions, labels, annotations, deleted (seconds), created, and any field of the spec."""
    meta: Tree = {
        "name": name,
        "namespace": more.pop("namespace", "default"),
        "uid": f"uid-{name}",
        "creationTimestamp": wire(more.pop("created", 0)),
        "labels": {**({"kueue.x-k8s.io/queue-name": queue} if queue else {}), **more.pop("labels", {})},
        "annotations": more.pop("annotations", {}),
    }
    if "deleted" in more:
        meta["deletionTimestamp"] = wire(more.pop("deleted"))
    status = {"conditions": more.pop("conditions", []), **more.pop("status", {})}
    container = {"name": "c", "resources": {"requests": requests or {"cpu": "1"}}}
    template = {"spec": {"containers": [container], **more.pop("pod", {})}}
    spec = {"suspend": suspend, "completions": 1, "parallelism": 1, "template": template, **more}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Job)


def workload(name: str = "j", *, conditions: Iterable[Tree] = (), **more: Any) -> Workload:
    """The Workload of Job `name`. `more`: status, annotations, owners, created, requests, pod (fields of the pod spec),
    and any field of the spec.
    """
    meta: Tree = {
        "name": more.pop("workload", f"job-{name}-12345"),
        "namespace": more.pop("namespace", "default"),
        "uid": f"uid-w-{name}",
        "creationTimestamp": wire(more.pop("created", 0)),
        "annotations": more.pop("annotations", {}),
        "ownerReferences": more.pop("owners", owner(name) if more.pop("owned", True) else []),
    }
    if "deleted" in more:
        meta["deletionTimestamp"] = wire(more.pop("deleted"))
    status = {"conditions": list(conditions), **more.pop("status", {})}
    container = {"name": "c", "resources": {"requests": more.pop("requests", {"cpu": "1"})}}
    template = {"spec": {"containers": [container], **more.pop("pod", {})}}
    pod_set = {"name": "main", "count": more.pop("count", 1), "template": template}
    spec = {"queueName": "q", "podSets": [pod_set], **more}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Workload)


ADMISSION: Tree = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}, "count": 1}],
}


def admitted(seconds: float = 0) -> list[Tree]:
    return [cond("QuotaReserved", seconds=seconds), cond("Admitted", reason="Admitted", seconds=seconds)]


def evictions(*rows: tuple[str, str, int]) -> Tree:
    found = [{"reason": reason, "underlyingCause": cause, "count": count} for reason, cause, count in rows]
    return {"schedulingStats": {"evictions": found}}


def pod(name: str = "j-aaaaa", phase: str = "Running", **more: Any) -> Pod:
    """`more`: index, failures (before it), exit, ended, created, ready, node, waiting, deleted, disrupted, owner;
    verdict: why the node ended it; before: why its container ended before it ran again."""
    annotations: Tree = {}
    if "index" in more:
        annotations["batch.kubernetes.io/job-completion-index"] = str(more["index"])
    if "failures" in more:
        annotations["batch.kubernetes.io/job-index-failure-count"] = str(more["failures"])
    meta: Tree = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": wire(more.get("created", 0)),
        "annotations": annotations,
        "ownerReferences": owner(more["owner"]) if "owner" in more else [],
    }
    if "deleted" in more:
        meta["deletionTimestamp"] = wire(more["deleted"])
    state: Tree = {}
    if "exit" in more:
        reason = more.get("reason", "Error" if more["exit"] else "Completed")
        state = {"terminated": {"exitCode": more["exit"], "reason": reason, "finishedAt": wire(more.get("ended", 0))}}
    if "waiting" in more:
        state = {"waiting": {"reason": "CreateContainerError", "message": more["waiting"]}}
    last: Tree = {}
    if "before" in more:
        state = {"running": {"startedAt": wire(more.get("created", 0))}}
        last = {"terminated": {"exitCode": 143, "reason": more["before"], "finishedAt": wire(0)}}
    conditions = [cond("Ready")] if more.get("ready") else []
    conditions += [cond("DisruptionTarget", reason="DeletionByTaintManager")] if more.get("disrupted") else []
    conditions += [cond("PodScheduled", "False", "Unschedulable", more["stuck"])] if "stuck" in more else []
    status = {
        "phase": phase,
        "startTime": wire(more.get("created", 0)),
        "conditions": conditions,
        "containerStatuses": [{"name": "c", "state": state, "lastState": last}] if state else [],
        "reason": more.get("verdict", ""),
    }
    tree = {"metadata": meta, "spec": {"nodeName": more.get("node", "n")}, "status": status}
    return msgspec.convert(tree, Pod)


def event(reason: str, about: str = "Workload/job-j-12345", seconds: float = 0, **more: Any) -> Event:
    """`more`: message, type, uid, count, namespace."""
    kind, _, name = about.partition("/")
    uid = more.get("uid", {"Workload": "uid-w-j", "Job": "uid-j"}.get(kind, f"uid-{name}"))
    involved = {"kind": kind, "name": name, "uid": uid, "namespace": more.get("namespace", "default")}
    tree = {
        "metadata": {"name": f"{reason}-{seconds}", "creationTimestamp": wire(seconds)},
        "involvedObject": involved,
        "type": more.get("type", "Normal"),
        "reason": reason,
        "message": more.get("message", ""),
        "count": more.get("count", 1),
        "lastTimestamp": wire(seconds),
    }
    return msgspec.convert(tree, Event)


def local_queue(name: str = "q", cluster_queue: str = "cq", stop: str = "None", **status: Any) -> LocalQueue:
    tree = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterQueue": cluster_queue, "stopPolicy": stop},
        "status": status,
    }
    return msgspec.convert(tree, LocalQueue)


def cluster_queue(name: str = "cq", quotas: Tree | None = None, **more: Any) -> ClusterQueue:
    """`quotas`: {flavor: {resource: quantity}}, all in one resource group. `more`: status, deleted (seconds), and any
    field of the spec.
    """
    flavors = quotas or {"f": {"cpu": "4"}}
    covered = sorted({resource for resources in flavors.values() for resource in resources})
    group = {
        "coveredResources": covered,
        "flavors": [
            {"name": flavor, "resources": [{"name": r, "nominalQuota": resources[r]} for r in covered]}
            for flavor, resources in flavors.items()
        ],
    }
    status, meta = more.pop("status", {}), {"name": name}
    if "deleted" in more:
        meta["deletionTimestamp"] = wire(more.pop("deleted"))
    tree = {"metadata": meta, "spec": {"resourceGroups": [group], **more}, "status": status}
    return msgspec.convert(tree, ClusterQueue)


def flavor(name: str = "f", **spec: Any) -> ResourceFlavor:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceFlavor)
