"""Reads Workloads as the store has them, as decoded JSON, without the product's types: what the invariants count."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from queue_manager.api import keys
from queue_manager.scheduling.amounts import amount
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.local.queue.invariants import Tree, condition, is_true, priority

CPU = "cpu"


def waits(w: Tree) -> bool:
    """Whether the Workload is pending."""
    return (
        w["spec"].get("active") is not False
        and "deletionTimestamp" not in w["metadata"]
        and not any(is_true(w, each) for each in ("Finished", "QuotaReserved", "DeactivationTarget"))
        and not (w["metadata"].get("annotations") or {}).get(keys.ADMISSION_GATED_BY)
    )


def order(w: Tree) -> tuple[int, datetime, int]:
    """Priority, queue time, order of creation."""
    evicted = condition(w, "Evicted")
    timed_out = evicted.get("status") == "True" and evicted["reason"] == "PodsReadyTimeout"
    annotations = w["metadata"].get("annotations") or {}
    created = datetime.fromisoformat(w["metadata"]["creationTimestamp"])
    of_job = datetime.fromisoformat(annotations.get(keys.JOB_CREATED, "0001-01-01T00:00:00Z"))
    since = of_job if created - of_job <= timedelta(minutes=1) else created
    if timed_out:
        since = datetime.fromisoformat(evicted["lastTransitionTime"])
    return -priority(w), since, int(annotations.get(keys.SEQUENCE, 0))


def request(w: Tree) -> int:
    """cpu of all pods that are still to run, in the units of `amounts`."""
    left = _left(w)
    return sum(left[each["name"]] * _of_a_pod(each["template"]["spec"]) for each in w["spec"]["podSets"])


def _left(w: Tree) -> dict[str, int]:
    """The pods that are still to run, by pod set."""
    done = {each["name"]: each["count"] for each in (w.get("status") or {}).get("reclaimablePods") or ()}
    return {each["name"]: each["count"] - done.get(each["name"], 0) for each in w["spec"]["podSets"]}


def _of_a_pod(spec: Tree) -> int:
    return sum(amount(CPU, c["resources"]["requests"][CPU]) for c in spec["containers"])


def usage_of(w: Tree) -> tuple[str, Counter[FlavorResource]] | None:
    """ClusterQueue and usage of a Workload that holds quota, without what it has reclaimed; None if it holds none."""
    if not is_true(w, "QuotaReserved") or is_true(w, "Finished"):
        return None
    admission = w["status"]["admission"]
    left, usage = _left(w), Counter[FlavorResource]()
    for row in admission["podSetAssignments"]:
        for resource, flavor in row["flavors"].items():
            whole = amount(resource, row["resourceUsage"][resource])
            usage[FlavorResource(flavor, resource)] += whole * left[row["name"]] // row["count"]
    return admission["clusterQueue"], usage
