"""Validation rules of the queue's kinds that no recording covers."""

from __future__ import annotations

from typing import Any

import pytest

from job_controller.json_tree import Json
from queue_manager.api import queue_validation
from queue_manager.api.workload_validation import validate_admission_gates, validate_admission_gates_update

GATED_BY = "kueue.x-k8s.io/admission-gated-by"
GATE_PATH = f"metadata.annotations[{GATED_BY}]"


def group(resources: list[str], flavors: list[str], **quota: Any) -> Json:
    def quotas() -> list[Json]:
        return [{"name": resource, "nominalQuota": "4", **quota} for resource in resources]

    return {"coveredResources": resources, "flavors": [{"name": name, "resources": quotas()} for name in flavors]}


def cluster_queue(*groups: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "q"}, "spec": {"resourceGroups": list(groups), **spec}}


def pod_set(name: str = "main", count: int = 3, **more: Any) -> Json:
    return {"name": name, "count": count, "template": {"spec": {"containers": [{"name": "c"}]}}, **more}


def workload(*, spec: Json | None = None, status: Json | None = None, annotations: Json | None = None) -> Json:
    return {
        "metadata": {"name": "w", "namespace": "ns", "annotations": annotations or {}},
        "spec": {"podSets": [pod_set()], "queueName": "q", **(spec or {})},
        "status": status or {},
    }


def true(*types: str) -> list[Json]:
    return [{"type": name, "status": "True"} for name in types]


def reserved(**status: Any) -> Json:
    assignments = [{"name": "main", "count": 3, "resourceUsage": {"cpu": "3"}}]
    admission = {"clusterQueue": "q", "podSetAssignments": assignments}
    return {"conditions": true("QuotaReserved"), "admission": admission, **status}


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


# --- ClusterQueue and Cohort ---------------------------------------------------------------------------------


def test_limits_hold_for_all_groups_together() -> None:
    groups = [group([f"r{i}-{j}" for j in range(9)], [f"f{i}-{k}" for k in range(60)]) for i in range(5)]
    errors = said(queue_validation.validate_cluster_queue(cluster_queue(*groups)))
    assert errors[0] == ("spec.resourceGroups: Too many: 300: must have at most 256 flavors in all groups together")
    assert errors[1] == (
        "spec.resourceGroups[0]: Too many: 540: must have at most 512 quotas (flavors times resources) in a group"
    )
    assert len(errors) == 6


def test_too_many_covered_resources_are_refused() -> None:
    groups = [group([f"r{i}-{j}" for j in range(64)], [f"f{i}"]) for i in range(5)]
    errors = said(queue_validation.validate_cluster_queue(cluster_queue(*groups)))
    assert errors == [
        "spec.resourceGroups: Too many: 320: must have at most 256 covered resources in all groups together"
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}},
            ["spec.preemption: Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"],
        ),
        (
            {"preemption": {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}},
            [],
        ),
        (
            {"flavorFungibility": {"preference": "BorrowingOverPreemption"}},
            [
                "spec.flavorFungibility: Invalid value: preference can only be set when both whenCanBorrow and "
                "whenCanPreempt are TryNextFlavor"
            ],
        ),
        ({"flavorFungibility": {"preference": "BorrowingOverPreemption", "whenCanBorrow": "TryNextFlavor"}}, []),
        ({"fairSharing": {"weight": 0}}, []),
        ({"fairSharing": {"weight": "500m"}}, []),
    ],
)
def test_contradictory_policies_are_refused(spec: Json, expected: list[str]) -> None:
    assert said(queue_validation.validate_cluster_queue(cluster_queue(group(["cpu"], ["f"]), **spec))) == expected


def test_the_concurrent_admission_policy_cannot_be_changed() -> None:
    old = cluster_queue(concurrentAdmissionPolicy={"migration": {"mode": "RetainFirstAdmission"}})
    errors = queue_validation.validate_cluster_queue(cluster_queue(), old)
    assert said(errors) == ["spec.concurrentAdmissionPolicy: Invalid value: null: field is immutable"]


def test_a_quota_may_be_lowered_and_the_cohort_changed() -> None:
    old = cluster_queue(group(["cpu"], ["f"], borrowingLimit="1"), cohortName="a")
    new = cluster_queue(group(["cpu"], ["f"], borrowingLimit="1", nominalQuota="1"), cohortName="b")
    assert queue_validation.validate_cluster_queue(new, old) == []


def test_a_cohort_may_lend_more_than_its_own_quota() -> None:
    spec = {"parentName": "root", "resourceGroups": [group(["cpu"], ["f"], lendingLimit="100")]}
    assert queue_validation.validate_cohort({"metadata": {"name": "c"}, "spec": spec}) == []


def test_the_finalizer_is_added_once_and_only_on_creation() -> None:
    queue = cluster_queue()
    queue_validation.prepare_cluster_queue(queue)
    queue_validation.prepare_cluster_queue(queue)
    assert queue["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    flavor: Json = {"metadata": {"name": "f"}}
    queue_validation.prepare_resource_flavor(flavor, {"metadata": {"name": "f"}})
    assert "finalizers" not in flavor["metadata"]


# --- LocalQueue, ResourceFlavor, AdmissionCheck --------------------------------------------------------------


def test_an_empty_cluster_queue_name_is_refused_like_an_absent_one() -> None:
    errors = queue_validation.validate_local_queue({"spec": {"clusterQueue": ""}})
    assert [error.field for error in errors] == ["spec.clusterQueue"]


@pytest.mark.parametrize("weight", ["0", "-1"])
def test_resource_weights_of_a_flavor_are_positive(weight: str) -> None:
    flavor = {"spec": {"resourceWeights": {"cpu": weight, "memory": 2}}}
    assert said(queue_validation.validate_resource_flavor(flavor)) == [
        f'spec.resourceWeights[cpu]: Invalid value: "{weight}": must be greater than 0'
    ]


def test_the_topology_of_a_flavor_can_be_set_later_and_not_removed() -> None:
    plain = {"spec": {"nodeLabels": {"a": "b"}}}
    with_topology = {"spec": {"nodeLabels": {"a": "b"}, "topologyName": "t"}}
    assert queue_validation.validate_resource_flavor(with_topology, plain) == []
    assert said(queue_validation.validate_resource_flavor(plain, with_topology)) == [
        "spec: Invalid value: topologyName is immutable when topologyName is set"
    ]


def test_the_controller_of_a_check_cannot_be_changed() -> None:
    old, new = {"spec": {"controllerName": "a"}}, {"spec": {"controllerName": "b"}}
    assert said(queue_validation.validate_admission_check(new, old)) == [
        'spec.controllerName: Invalid value: "b": field is immutable'
    ]


# --- Workload ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"conditions": true("QuotaReserved")},
            ["status.admission: Required value: must be set while the QuotaReserved condition is true"],
        ),
        (
            reserved(
                admission={
                    "clusterQueue": "q",
                    "podSetAssignments": [{"name": "main", "count": 3, "resourceUsage": {"cpu": "1", "memory": "3Gi"}}],
                }
            ),
            ['status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1": is not a multiple of 3'],
        ),
        (
            {"reclaimablePods": [{"name": "main", "count": 4}]},
            ["status.reclaimablePods[main].count: Invalid value: 4: should be less or equal to 3"],
        ),
        (
            {
                "admissionChecks": [
                    {"name": "c", "state": "Ready", "podSetUpdates": [{"name": "main", "labels": {"a": "-"}}]}
                ]
            },
            ["status.admissionChecks[0].podSetUpdates[0].labels"],
        ),
    ],
)
def test_a_status_must_fit_its_spec(status: Json, expected: list[str]) -> None:
    errors = said(queue_validation.validate_workload(workload(status=status)))
    assert len(errors) == len(expected)
    assert all(error.startswith(start) for error, start in zip(errors, expected, strict=True))


def test_an_inconsistent_workload_may_still_be_updated() -> None:
    broken = workload(status={"conditions": true("QuotaReserved")})
    repaired = workload(status={"conditions": true("QuotaReserved"), "requeueState": {"count": 1}})
    assert queue_validation.validate_workload(repaired, broken) == []


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"podSets": [pod_set(count=2)]}, {}, []),
        ({"podSets": [pod_set(count=4)]}, {}, ["spec.podSets.0"]),
        ({"podSets": [pod_set(count=2, minCount=1)]}, {}, ["spec.podSets.0"]),
        ({"priority": 7}, {"priority": 1}, []),
        ({"active": False}, {"active": True}, []),
        ({"queueName": "other"}, {}, ["<nil>"]),
        ({"queueName": None}, {}, ["<nil>"]),
        ({"queueName": "other"}, {"queueName": None}, ["<nil>"]),
        ({"queueName": None}, {"queueName": None}, []),
    ],
)
def test_the_spec_of_a_workload_with_quota_is_immutable(new: Json, old: Json, expected: list[str]) -> None:
    errors = queue_validation.validate_workload(
        workload(spec=new, status=reserved()), workload(spec=old, status=reserved())
    )
    assert [error.field for error in errors] == expected


def reference(group: str, kind: str, name: str) -> Json:
    return {"priority": 1, "priorityClassRef": {"group": group, "kind": kind, "name": name}}


OURS, PODS = ("kueue.x-k8s.io", "WorkloadPriorityClass"), ("scheduling.k8s.io", "PriorityClass")


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (reference(*OURS, "b"), reference(*OURS, "a"), []),
        (
            reference(*PODS, "b"),
            reference(*PODS, "a"),
            ["priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"],
        ),
        (
            reference(*OURS, "a"),
            reference(*PODS, "a"),
            [
                "priorityClassRef.group is immutable while workload quota reserved",
                "priorityClassRef.kind is immutable while workload quota reserved",
            ],
        ),
        ({}, reference(*OURS, "a"), ["priorityClassRef is immutable while workload quota reserved"]),
    ],
)
def test_the_priority_class_is_immutable_while_quota_is_reserved(new: Json, old: Json, expected: list[str]) -> None:
    pending = workload(spec=old)
    assert queue_validation.validate_workload(workload(spec=new), pending) == []
    errors = queue_validation.validate_workload(
        workload(spec=new, status=reserved()), workload(spec=old, status=reserved())
    )
    assert said(errors) == [f"<nil>: Invalid value: {text}" for text in expected]


def test_an_admission_can_be_removed_and_not_changed() -> None:
    old = workload(status=reserved())
    assert queue_validation.validate_workload(workload(), old) == []
    moved = reserved()
    moved["admission"] = {**moved["admission"], "clusterQueue": "other"}
    errors = queue_validation.validate_workload(workload(status=moved), old)
    assert [error.field for error in errors] == ["status.admission"]


def test_reclaimable_pods_only_grow_while_quota_is_reserved() -> None:
    old = workload(status=reserved(reclaimablePods=[{"name": "main", "count": 2}]))
    fewer = [{"name": "main", "count": 1}]
    assert said(queue_validation.validate_workload(workload(status=reserved(reclaimablePods=fewer)), old)) == [
        "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2"
    ]
    assert queue_validation.validate_workload(workload(status={"reclaimablePods": fewer}), old) == []


def test_the_pod_updates_of_a_ready_check_are_immutable() -> None:
    def check(state: str, value: str) -> Json:
        updates = [{"name": "main", "labels": {"a": value}}]
        return workload(status={"admissionChecks": [{"name": "c", "state": state, "podSetUpdates": updates}]})

    assert [error.field for error in queue_validation.validate_workload(check("Ready", "2"), check("Ready", "1"))] == [
        "status.admissionChecks[0].podSetUpdates"
    ]
    assert queue_validation.validate_workload(check("Ready", "2"), check("Pending", "1")) == []


def test_a_nominated_cluster_may_be_chosen_once() -> None:
    nominated = workload(status={"nominatedClusterNames": ["a", "b"]})
    chosen = workload(status={"nominatedClusterNames": ["a", "b"], "clusterName": "a"})
    queue_validation.prepare_workload(chosen, nominated)
    assert "nominatedClusterNames" not in chosen["status"]
    assert queue_validation.validate_workload(chosen, nominated) == []
    other = workload(status={"clusterName": "b"})
    assert said(queue_validation.validate_workload(other, chosen)) == [
        "status: Invalid value: clusterName is immutable once set"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("example.com/a", []),
        ("example.com/a, acme.io/b", []),
        (
            "example.com/a, b.io/c,example.com/a",
            [f'{GATE_PATH}: Invalid value: "example.com/a, b.io/c,example.com/a": duplicate gate name: example.com/a'],
        ),
        ("a.io/b,,", [f'{GATE_PATH}: Invalid value: "a.io/b,,": cannot contain empty gate names'] * 2),
        (" ", []),
        ("a.io/" + "b" * 58, []),
        ("a.io/" + "b" * 59, [f"{GATE_PATH}: Too long: may not be more than 63 bytes"]),
        ("a", [f'{GATE_PATH}: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")']),
    ],
)
def test_gate_names_are_domain_prefixed_short_and_unique(text: str, expected: list[str]) -> None:
    assert said(validate_admission_gates({GATED_BY: text})) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("a.io/x", "a.io/x,a.io/y", []),
        ("", "a.io/x", []),
        ("a.io/z", "a.io/x", ["can only remove gates, not add new ones"]),
        ("a.io/x", "", ["cannot add admission gate after creation"]),
    ],
)
def test_gates_can_only_be_removed(new: str, old: str, expected: list[str]) -> None:
    errors = validate_admission_gates_update({GATED_BY: new}, {GATED_BY: old})
    assert said(errors) == [f"{GATE_PATH}: Forbidden: {text}" for text in expected]


def test_labels_and_limits_of_a_pod_template_are_checked() -> None:
    template = {
        "metadata": {"labels": {"a b": "c"}},
        "spec": {"initContainers": [{"name": "i", "resources": {"limits": {"memory": "-1Gi"}}}]},
    }
    spec = {"podSets": [{"name": "main", "count": 1, "template": template}]}
    assert [error.field for error in queue_validation.validate_workload(workload(spec=spec))] == [
        "spec.podSets[0].template.metadata.labels",
        "spec.podSets[0].template.spec.initContainers[0].resources.limits[memory]",
    ]


@pytest.mark.parametrize("field", ["nominalQuota", "borrowingLimit", "lendingLimit"])
def test_a_quantity_that_only_the_schema_accepts_is_an_error(field: str) -> None:
    """The pattern of the CRD allows an exponent with a fraction, as Kubernetes' own does."""
    queue = cluster_queue(group(["cpu"], ["a"], **{field: "1e1.5"}), cohortName="c")
    [error] = queue_validation.validate_cluster_queue(queue)
    assert error.field == f"spec.resourceGroups[0].flavors[0].resources[0].{field}"
    assert "quantities must match the regular expression" in str(error)


def test_a_weight_that_only_the_schema_accepts_is_an_error() -> None:
    queue = {"metadata": {"name": "q"}, "spec": {"clusterQueue": "c", "fairSharing": {"weight": "1e1.5"}}}
    [error] = queue_validation.validate_local_queue(queue)
    assert "quantities must match the regular expression" in str(error)
