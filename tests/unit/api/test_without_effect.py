"""Fields without effect are named; values that mean the default are not."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api import without_effect as table
from queue_manager.api.without_effect import without_effect

QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
RACK = {"kueue.x-k8s.io/podset-required-topology": "rack"}
CLUSTER_QUEUES, COHORTS, FLAVORS = (
    f"{kind}.kueue.x-k8s.io" for kind in ("clusterqueues", "cohorts", "resourceflavors")
)


def job(of_pods: dict[str, str], **meta: Any) -> dict[str, Any]:
    return {"metadata": meta, "spec": {"template": {"metadata": {"annotations": of_pods}}}}


@pytest.mark.parametrize(
    ("resource", "obj", "path", "why"),
    [
        (
            CLUSTER_QUEUES,
            {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}},
            "spec.concurrentAdmissionPolicy",
            "NO_CONCURRENCY",
        ),
        (FLAVORS, {"topologyName": "racks"}, "spec.topologyName", "NO_TOPOLOGY"),
        (FLAVORS, {"resourceWeights": {"cpu": 2}}, "spec.resourceWeights", "NO_FLAVOR_WEIGHTS"),
    ],
)
def test_a_field_of_a_spec_without_effect_is_named(resource: str, obj: Any, path: str, why: str) -> None:
    assert without_effect(resource, {"spec": obj}) == [f"{path}: has no effect: {getattr(table, why)}"]


@pytest.mark.parametrize(
    ("resource", "spec"),
    [
        (CLUSTER_QUEUES, {}),
        (CLUSTER_QUEUES, {"fairSharing": {"weight": 2}, "admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}),
        (CLUSTER_QUEUES, {"preemption": {"withinClusterQueue": "LowerPriority"}}),
        (COHORTS, {"parentName": "all", "resourceGroups": [{}], "fairSharing": {"weight": 2}}),
        (FLAVORS, {"nodeLabels": {"a": "b"}}),
        ("workloads.kueue.x-k8s.io", {"podSets": []}),
    ],
)
def test_default_values_are_not_named(resource: str, spec: Any) -> None:
    assert without_effect(resource, {"spec": spec}) == []


def test_annotations_for_topology_and_elastic_jobs_are_named_on_queued_jobs_only() -> None:
    path = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-required-topology]"
    assert without_effect("jobs.batch", job(RACK, **QUEUED)) == [f"{path}: has no effect: {table.NO_TOPOLOGY}"]
    assert without_effect("jobs.batch", job(RACK)) == []
    assert without_effect("jobs.batch", job({}, **QUEUED)) == []
    elastic = {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}
    assert without_effect("jobs.batch", job({}, **elastic)) == []
    assert without_effect("jobs.batch", job({}, **QUEUED, **elastic)) == [
        f"metadata.annotations[kueue.x-k8s.io/elastic-job]: has no effect: {table.NO_ELASTIC_JOBS}"
    ]


def test_the_queue_name_of_a_pod_is_named_unless_a_controller_owns_the_pod() -> None:
    text = f"metadata.labels[kueue.x-k8s.io/queue-name]: has no effect: {table.NO_PODS}"
    assert without_effect("pods", {"metadata": QUEUED}) == [text]
    assert without_effect("pods", {"metadata": {**QUEUED, "ownerReferences": [{"kind": "Job"}]}}) == []
    assert without_effect("pods", {"metadata": {}}) == []
