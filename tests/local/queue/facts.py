"""An object as the recordings show it: a flat table of facts, in which two objects are compared key by key."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

Facts = dict[str, Any]
EMPTY: tuple[Any, ...] = (None, {}, [])
OUR_OWN = ("sluice/",)  # keys that only Sluice writes
TEMPLATE = ("containers", "nodeSelector", "tolerations", "affinity", "priorityClassName")
KUEUE_META = ("kueue.x-k8s.io/",)


def plain(text: str) -> str:
    """Text without the hashes of Workload names and without the seconds of waiting times."""
    text = re.sub(r"\b(job-[a-z0-9-]*?)-[0-9a-f]{5}\b", r"\1-HASH", text)
    return re.sub(r"wait time since (\w+) was \d+s", r"wait time since \1 was Ns", text)


def name_of(tree: dict[str, Any]) -> str:
    """ "Workload/ns/job-a-HASH"."""
    meta = tree["metadata"]
    return "/".join(filter(None, (tree["kind"], meta.get("namespace"), plain(meta["name"]))))


def facts(tree: dict[str, Any]) -> Facts:
    """The facts of an object; empty values are left out, as in the recordings."""
    meta, kind = tree["metadata"], tree["kind"]
    result: Facts = {
        "labels": _own(meta.get("labels")),
        "annotations": _own(meta.get("annotations")),
        "finalizers": [f for f in meta.get("finalizers") or () if not f.startswith("batch.kubernetes.io/")],
        "owners": [f"{o['kind']}/{o['name']}" for o in meta.get("ownerReferences") or ()],
        "deletionTimestamp": meta.get("deletionTimestamp"),
    }
    read = {"Workload": _workload, "Job": _job, "ClusterQueue": _queue, "LocalQueue": _queue, "Pod": _pod}.get(kind)
    if read is not None:
        result |= read(tree.get("spec") or {}, tree.get("status") or {}, meta)
    for condition in (tree.get("status") or {}).get("conditions") or () if kind != "Pod" else ():
        result[f"cond.{condition['type']}"] = said(condition)
    return {key: value for key, value in result.items() if value not in EMPTY}


def said(condition: dict[str, Any]) -> tuple[str, str, str]:
    return condition["status"], condition["reason"], plain(condition["message"])


def _own(values: dict[str, str] | None) -> dict[str, str]:
    return {k: plain(v) for k, v in (values or {}).items() if not k.startswith(OUR_OWN)}


def _workload(spec: Facts, status: Facts, meta: Facts) -> Facts:
    keys = ("active", "priority", "queueName", "priorityClassRef", "maximumExecutionTimeSeconds")
    result = {f"spec.{key}": spec.get(key) for key in keys}
    result["spec.podSets"] = [_pod_set(pod_set) for pod_set in spec.get("podSets") or ()]
    kept = ("admission", "reclaimablePods", "schedulingStats", "resourceRequests", "requeueState", "admissionChecks")
    result |= {f"status.{key}": status.get(key) for key in (*kept, "accumulatedPastExecutionTimeSeconds")}
    return result


def _pod_set(pod_set: Facts) -> Facts:
    template = template_facts(pod_set.get("template") or {})
    return {**{k: v for k, v in pod_set.items() if k != "template"}, "template": template}


def template_facts(template: Facts) -> Facts:
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    result: Facts = {"labels": meta.get("labels"), "annotations": _own(meta.get("annotations"))}
    result |= {key: spec.get(key) for key in TEMPLATE}
    result["containers"] = [
        {"name": c["name"], "resources": c.get("resources") or {}} for c in spec.get("containers") or ()
    ]
    return {key: value for key, value in result.items() if value not in EMPTY}


def _job(spec: Facts, status: Facts, meta: Facts) -> Facts:
    keys = ("suspend", "parallelism", "completions", "backoffLimit")
    result = {f"spec.{key}": spec.get(key) for key in keys}
    result["spec.completionMode"] = spec.get("completionMode") if spec.get("completionMode") == "Indexed" else None
    result |= {f"template.{key}": value for key, value in template_facts(spec["template"]).items()}
    kept = ("active", "ready", "terminating", "succeeded", "failed", "failedIndexes", "completedIndexes")
    return result | {f"status.{key}": status.get(key) for key in (*kept, "startTime", "completionTime")}


def _queue(spec: Facts, status: Facts, meta: Facts) -> Facts:
    keys = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
    result = {f"status.{key}": status.get(key) for key in keys}
    for key in ("flavorsUsage", "flavorsReservation"):
        result[f"status.{key}"] = {
            f"{flavor['name']}.{r['name']}": _amount(r)
            for flavor in status.get(key) or ()
            for r in flavor.get("resources") or ()
        }
    return result


def _amount(row: Facts) -> str:
    borrowed = row.get("borrowed", "0")
    return str(row["total"]) + (f" (borrowed {borrowed})" if borrowed not in ("0", 0) else "")


def _pod(spec: Facts, status: Facts, meta: Facts) -> Facts:
    ready = next((c["status"] for c in status.get("conditions") or () if c["type"] == "Ready"), None)
    own = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    tolerations = [t for t in spec.get("tolerations") or () if not t.get("key", "").startswith("node.kubernetes.io/")]
    return {
        "job": next((o["name"] for o in meta.get("ownerReferences") or ()), None),
        "phase": status.get("phase"),
        "ready": ready,
        "nodeSelector": spec.get("nodeSelector"),
        "tolerations": tolerations,
        "kueueMeta": {k: plain(v) for k, v in own.items() if k.startswith(KUEUE_META)},
        "terminating": "deletionTimestamp" in meta or None,
    }


def seconds(value: Any, start: datetime) -> Any:
    """A time as the recordings write it: seconds since the start."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value):
        return (datetime.fromisoformat(value) - start).total_seconds()
    if isinstance(value, dict):
        return {k: seconds(v, start) for k, v in value.items()}
    if isinstance(value, list):
        return [seconds(v, start) for v in value]
    return value
