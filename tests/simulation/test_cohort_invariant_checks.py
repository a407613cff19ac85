"""The checks of `cohort_invariants` that concern cycles, deletions, kills and resumes can fail, each by its number."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from queue_manager.api import keys
from tests.local.queue.invariants import Broken
from tests.simulation.cohort_invariants import INPUT, KILLED, CohortHistory, Write

Tree = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
GUARDED = {"finalizers": [keys.FINALIZER]}


def play(*lines: bytes) -> CohortHistory:
    """A history of the user with a write every two seconds."""
    history = CohortHistory(0, by_user={"1": {}})
    history.play(Write(START + timedelta(seconds=2 * i), line) for i, line in enumerate(lines))
    return history


def line(resource: str, tree: Tree, what: str = "MODIFIED") -> bytes:
    return f"{what} {resource} ".encode() + msgspec.json.encode(tree)


def kueue(kind: str, name: str, spec: Tree, what: str = "MODIFIED", **meta: Any) -> bytes:
    tree = {"kind": kind, "metadata": {"name": name, "uid": name, "resourceVersion": "1", **meta}, "spec": spec}
    return line(f"{kind.lower()}s.kueue.x-k8s.io", tree, what)


def cluster_queue(what: str = "MODIFIED", **meta: Any) -> bytes:
    quota = {"name": "cpu", "nominalQuota": "4"}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "plain", "resources": [quota]}]}]
    return kueue("ClusterQueue", "cq", {"cohortName": "left", "resourceGroups": groups}, what, **meta)


def cohorts(**parents: str) -> list[bytes]:
    return [kueue("Cohort", name, {"parentName": parent}) for name, parent in parents.items()]


QUEUES = (cluster_queue(**GUARDED), kueue("LocalQueue", "lq", {"clusterQueue": "cq"}, namespace="north"))
FLAVOR = kueue("ResourceFlavor", "plain", {}, **GUARDED)


def workload(*conditions: Tree) -> bytes:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    meta = {"name": "w", "namespace": "north", "uid": "w", "resourceVersion": "1"}
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    row = {"name": "main", "count": 1, "flavors": {"cpu": "plain"}, "resourceUsage": {"cpu": "1"}}
    status = {"conditions": conditions, "admission": {"clusterQueue": "cq", "podSetAssignments": [row]}}
    spec = {"queueName": "lq", "podSets": [pod_set]}
    return line("workloads.kueue.x-k8s.io", {"metadata": meta, "spec": spec, "status": status})


def condition(kind: str, status: str, **more: str) -> Tree:
    return {"type": kind, "status": status, "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z", **more}


HOLDS, WAITS = workload(condition("QuotaReserved", "True")), workload(condition("QuotaReserved", "False"))


def preempted(times: int) -> Iterable[bytes]:
    for _ in range(times):
        yield from (HOLDS, workload(condition("QuotaReserved", "True"), condition("Preempted", "True")))


def job(*, suspend: bool, started: str) -> bytes:
    meta = {"name": "j", "namespace": "north", "uid": "j", "resourceVersion": "1"}
    status = {"startTime": started, "conditions": [condition("Suspended", str(suspend))]}
    return line("jobs.batch", {"metadata": meta, "spec": {"suspend": suspend, "template": {}}, "status": status})


def resumed(started: str) -> list[bytes]:
    """The Job is resumed after two seconds, by its user."""
    return [job(suspend=True, started="2026-01-01T00:00:00Z"), job(suspend=False, started=started)]


DELETED = cluster_queue("DELETED", **GUARDED)
FLAVOR_DELETED = kueue("ResourceFlavor", "plain", {}, "DELETED", **GUARDED)
NO_QUEUE = kueue("ClusterQueue", "cq", {"resourceGroups": []})


@pytest.mark.parametrize(
    ("number", "lines"),
    [
        ("S1: w got quota in cq, which is below a cycle", [*QUEUES, *cohorts(left="leaf", leaf="left"), HOLDS]),
        ("S9", [*QUEUES, *preempted(3)]),
        ("S9", [*QUEUES, *preempted(2), KILLED, *preempted(1)]),
        ("S24", [*QUEUES, HOLDS, DELETED]),
        ("S24", [FLAVOR, *QUEUES, FLAVOR_DELETED]),
        ("S24", [FLAVOR, *QUEUES, HOLDS, NO_QUEUE, FLAVOR_DELETED]),
    ],
)
def test_a_violation_in_cohorts_is_found(number: str, lines: list[bytes]) -> None:
    with pytest.raises(Broken, match=f"^{number}"):
        play(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        [*QUEUES, *cohorts(left="root"), HOLDS],
        [*QUEUES, HOLDS, *cohorts(left="leaf", leaf="left")],
        [*QUEUES, *preempted(2), INPUT, *preempted(2)],
        [FLAVOR, *QUEUES, HOLDS, WAITS, DELETED, FLAVOR_DELETED],
    ],
)
def test_no_violation_in_cohorts_is_found(lines: list[bytes]) -> None:
    play(*lines)


def test_a_start_time_before_the_resume_is_found() -> None:
    assert play(*resumed("2026-01-01T00:00:02Z")).checked["S13"] == 1
    with pytest.raises(Broken, match=r"^S13: j was resumed"):
        play(*resumed("2026-01-01T00:00:01Z"))
