"""All obstacles of a Job that can never start are named at once, not one after the other as each is removed."""

from __future__ import annotations

from typing import Any

import pytest

from job_controller.model import Job
from queue_manager.api.types import ClusterQueue
from queue_manager.visibility.explain_record import Explanation
from tests.unit.visibility.build import cluster_queue, flavor, job, local_queue, workload
from tests.unit.visibility.test_explain_record import explained

TO_OTHERS = "ClusterQueue cq admits no Jobs of namespace default (namespaceSelector)"
NO_CPU = "it asks 1 cpu, queue limit 0"
NO_MEMORY = "ClusterQueue cq has no quota for memory"
LESS = "it requests less or an admin raises the quota of ClusterQueue cq"
LET = "an admin lets ClusterQueue cq admit Jobs of namespace default"
ADD = "it does not request memory or an admin adds a quota for memory"
TAINTED = flavor(nodeTaints=[{"key": "spot", "value": "true", "effect": "NoSchedule"}])
INACTIVE = "an admin puts right what keeps the ClusterQueue inactive"
NONE = {"f": {"cpu": "0"}}


def of(above: ClusterQueue, requests: dict[str, str] | None = None, **around: Any) -> Explanation:
    requests = requests or {"cpu": "1"}
    return explained(job(requests=requests), workload(requests=requests), above=above, **around)


def test_what_an_inactive_cluster_queue_hides_is_named_with_what_is_to_be_changed() -> None:
    """After the missing flavor is created, the namespaceSelector would refuse the Job, and then the quota of 0."""
    found = of(cluster_queue(quotas={"gone": {"cpu": "0"}}))
    assert found.code == "NEVER/Misconfigured"
    assert found.sentence == (
        "ClusterQueue cq: Can't admit new workloads: references missing ResourceFlavor(s): gone. "
        f"Besides, {TO_OTHERS}; {NO_CPU}."
    )
    assert found.changes == [f"{INACTIVE}, and {LET}, and {LESS}"]


@pytest.mark.parametrize(
    ("found", "code", "besides", "needed"),
    [
        (of(cluster_queue(quotas=NONE)), "Misconfigured", NO_CPU, LESS),
        (of(cluster_queue(), {"cpu": "1", "memory": "1Gi"}), "Misconfigured", NO_MEMORY, ADD),
        (
            of(cluster_queue(quotas=NONE, namespaceSelector={}), {"cpu": "1", "memory": "1Gi"}),
            "NoMatchingFlavor",
            NO_CPU,
            LESS,
        ),
        (
            of(cluster_queue(namespaceSelector={}), {"cpu": "1", "memory": "1Gi"}, flavors=[TAINTED]),
            "NoMatchingFlavor",
            "no flavor of ClusterQueue cq takes it: untolerated taint {spot true NoSchedule <nil>} in flavor f",
            "its node selector, affinity and tolerations fit a flavor of ClusterQueue cq",
        ),
    ],
    ids=["namespace and quota", "namespace and resource", "resource and quota", "resource and taint"],
)
def test_the_obstacles_after_the_first_are_named_too(found: Explanation, code: str, besides: str, needed: str) -> None:
    assert found.code == f"NEVER/{code}"
    assert found.sentence.endswith(f". Besides, {besides}.")
    assert found.changes
    assert all(change.endswith(f", and {needed}") for change in found.changes)


def test_an_obstacle_after_the_release_of_a_held_queue_is_named_with_all_others() -> None:
    found = of(cluster_queue(quotas=NONE), local=local_queue(stop="Hold"))
    assert f" Besides, {NO_CPU}. LocalQueue q is held (sluice release q)." in found.sentence
    assert found.changes == [f"what the message says is put right, and {LESS}, and the queue is released"]


@pytest.mark.parametrize(
    ("its", "around"),
    [
        (job(), {"above": cluster_queue(quotas={"gone": {"cpu": "4"}}, namespaceSelector={})}),
        (job(), {"above": cluster_queue()}),
        (job(requests={"cpu": "64"}), {}),
        (job(requests={"memory": "1Gi"}), {}),
        (job(), {"flavors": [TAINTED]}),
        (None, {"above": cluster_queue(quotas={"gone": {"cpu": "0"}}, namespaceSelector={})}),
        (job(), {"above": cluster_queue(), "objects": None}),
    ],
    ids=["inactive", "namespace", "quota", "resource", "taint", "without a Job", "what may not be read"],
)
def test_an_obstacle_is_not_named_twice(its: Job | None, around: dict[str, Any]) -> None:
    container = its.spec.template["spec"]["containers"][0] if its is not None else {}
    requests = container.get("resources", {}).get("requests", {"cpu": "1"})
    found = explained(its, workload(requests=requests), **around)
    assert "Besides" not in found.sentence


def test_a_job_that_may_start_has_no_obstacles() -> None:
    assert "Besides" not in of(cluster_queue(namespaceSelector={})).sentence
