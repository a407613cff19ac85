"""What each field becomes in the other version, and which kept fields are used."""

from __future__ import annotations

import json

import pytest

from job_controller.json_tree import Json
from queue_manager.api import keys
from queue_manager.api.conversion import ConversionError, convert
from queue_manager.api.conversion.topology_assignments import MAX_DOMAINS, domains_of, slices_of


def old(kind: str, **fields: Json) -> Json:
    return {"apiVersion": keys.V1BETA1, "kind": kind, "metadata": {"name": "x"}, **fields}


def new(kind: str, **fields: Json) -> Json:
    return {**old(kind, **fields), "apiVersion": keys.API_VERSION}


def upgraded(kind: str, **fields: Json) -> Json:
    return convert(old(kind, **fields), keys.API_VERSION)


def downgraded(kind: str, **fields: Json) -> Json:
    return convert(new(kind, **fields), keys.V1BETA1)


@pytest.mark.parametrize(
    ("kind", "v1beta1", "v1beta2"),
    [
        ("ClusterQueue", {"spec": {"cohort": "c"}}, {"spec": {"cohortName": "c"}}),
        (
            "ClusterQueue",
            {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["f"]}]}}},
            {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a", "onFlavors": ["f"]}]}}},
        ),
        ("LocalQueue", {"status": {"flavorUsage": [{"name": "f"}]}}, {"status": {"flavorsUsage": [{"name": "f"}]}}),
        (
            "Workload",
            {
                "spec": {
                    "priorityClassName": "high",
                    "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
                }
            },
            {
                "spec": {
                    "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
                }
            },
        ),
        (
            "Workload",
            {"spec": {"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"}},
            {"spec": {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}},
        ),
        ("Workload", {"spec": {"priorityClassSource": ""}}, {"spec": {}}),
        (
            "Workload",
            {"status": {"accumulatedPastExexcutionTimeSeconds": 5}},
            {"status": {"accumulatedPastExecutionTimeSeconds": 5}},
        ),
        ("Cohort", {"spec": {"parentName": "p"}}, {"spec": {"parentName": "p"}}),
        ("ResourceFlavor", {"spec": {"nodeLabels": {"a": "b"}}}, {"spec": {"nodeLabels": {"a": "b"}}}),
        ("WorkloadPriorityClass", {"value": 5}, {"value": 5}),
    ],
)
def test_a_field_that_both_versions_can_express_leaves_no_annotation(kind: str, v1beta1: Json, v1beta2: Json) -> None:
    assert upgraded(kind, **v1beta1) == new(kind, **v1beta2)
    assert downgraded(kind, **v1beta2) == old(kind, **v1beta1)


@pytest.mark.parametrize(
    ("kind", "v1beta1", "v1beta2"),
    [
        (
            "ClusterQueue",
            {"spec": {"admissionChecks": ["a", "b", "a"]}},
            {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}},
        ),
        (
            "ClusterQueue",
            {"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}},
            {"spec": {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}},
        ),
        ("ClusterQueue", {"status": {"pendingWorkloadsStatus": {}}}, {"status": {}}),
        ("LocalQueue", {"status": {"flavors": [{"name": "f"}]}}, {"status": {}}),
        ("AdmissionCheck", {"spec": {"retryDelayMinutes": 15}}, {"spec": {}}),
        ("Workload", {"spec": {"priorityClassName": "x", "priorityClassSource": ""}}, {"spec": {}}),
    ],
)
def test_what_v1beta2_cannot_express_is_kept_in_an_annotation(kind: str, v1beta1: Json, v1beta2: Json) -> None:
    converted = upgraded(kind, **v1beta1)
    assert set(converted["metadata"].pop("annotations")) == {keys.ONLY_IN_V1BETA1}
    assert converted == new(kind, **v1beta2)


def test_a_value_that_was_changed_meanwhile_is_not_restored() -> None:
    stored = upgraded("ClusterQueue", spec={"admissionChecks": ["a"], "flavorFungibility": {"whenCanBorrow": "Borrow"}})
    stored["spec"]["admissionChecksStrategy"]["admissionChecks"] = [{"name": "b"}]
    shown = convert(stored, keys.V1BETA1)
    assert shown["spec"] == {
        "admissionChecksStrategy": {"admissionChecks": [{"name": "b"}]},
        "flavorFungibility": {"whenCanBorrow": "Borrow"},
    }
    assert "annotations" not in shown["metadata"]


@pytest.mark.parametrize(
    "gates",
    [[{"name": "g", "more": 1}], [{"name": ""}], [{"name": 5}], [{"name": "g"}] * 9, "g", {"name": "g"}],
)
def test_kept_fields_that_v1beta2_refuses_are_not_used(gates: Json) -> None:
    """A client of v1beta1 can write the annotation, and the API server does not validate the result in v1beta2."""
    forged = old("Workload", spec={"priorityClassSource": ""})
    kept = {"spec.preemptionGates": {"preemptionGates": gates}, "spec.priorityClassRef": {"priorityClassRef": {}}}
    forged["metadata"]["annotations"] = {keys.ONLY_IN_V1BETA2: json.dumps(kept)}
    assert convert(forged, keys.API_VERSION) == new("Workload", spec={})
    kept["spec.preemptionGates"] = {"preemptionGates": [{"name": "g"}]}
    forged["metadata"]["annotations"] = {keys.ONLY_IN_V1BETA2: json.dumps(kept)}
    assert convert(forged, keys.API_VERSION)["spec"] == {"preemptionGates": [{"name": "g"}]}


def test_kept_fields_of_a_removed_pod_set_are_dropped() -> None:
    constraints = [{"topology": "rack", "size": 2}]
    request = {"podsetSliceRequiredTopologyConstraints": constraints}
    sets = [{"name": "a", "topologyRequest": request}, {"name": "b", "topologyRequest": {}}]
    shown = downgraded("Workload", spec={"podSets": sets})
    assert shown["spec"]["podSets"][0] == {"name": "a", "topologyRequest": {}}
    del shown["spec"]["podSets"][0]
    assert convert(shown, keys.API_VERSION) == new("Workload", spec={"podSets": [sets[1]]})


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "[" * 100_000])
def test_an_unreadable_annotation_is_removed(text: str) -> None:
    forged = old("ClusterQueue", spec={})
    forged["metadata"]["annotations"] = {keys.ONLY_IN_V1BETA2: text, "team": "a"}
    assert convert(forged, keys.API_VERSION)["metadata"] == {"name": "x", "annotations": {"team": "a"}}


@pytest.mark.parametrize(
    ("obj", "version"),
    [
        (old("Topology"), keys.API_VERSION),
        (old("Workload"), "kueue.x-k8s.io/v1"),
        ({**old("Workload"), "apiVersion": "kueue.x-k8s.io/v1alpha1"}, keys.API_VERSION),
        ({}, keys.API_VERSION),
    ],
)
def test_other_kinds_and_versions_are_refused(obj: Json, version: str) -> None:
    with pytest.raises(ConversionError):
        convert(obj, version)


# --- topology assignments --------------------------------------------------------------------------------------------


def test_domains_are_compressed_as_by_kueue() -> None:
    domains = [{"values": ["b1", f"rack-{i}.local"], "count": 2} for i in (1, 22, 3)]
    columns = [{"universalValue": "b1"}, {"prefix": "rack-", "suffix": ".local", "roots": ["1", "22", "3"]}]
    assert slices_of(domains) == [{"domainCount": 3, "valuesPerLevel": columns, "universalPodCount": 2}]
    domains[1]["count"] = 5
    assert slices_of(domains) == [{"domainCount": 3, "valuesPerLevel": columns, "podCounts": [2, 5, 2]}]
    assert slices_of([]) == []


def test_the_domains_of_all_slices_are_listed_in_order() -> None:
    slices = [
        {"domainCount": 2, "valuesPerLevel": [{"prefix": "n", "roots": ["1", "2"]}], "universalPodCount": 1},
        {"domainCount": 1, "valuesPerLevel": [{"universalValue": "m"}], "podCounts": [3]},
    ]
    assert domains_of(slices) == [
        {"values": ["n1"], "count": 1},
        {"values": ["n2"], "count": 1},
        {"values": ["m"], "count": 3},
    ]


def test_a_slice_of_very_many_domains_is_not_expanded() -> None:
    """A few bytes can state two billion domains; v1beta1 shows none of them, and they are kept."""
    huge = [{"domainCount": 2**31 - 1, "valuesPerLevel": [{"universalValue": "n"}], "universalPodCount": 1}]
    assert domains_of(huge) is None
    assert domains_of([{**huge[0], "domainCount": MAX_DOMAINS}, {**huge[0], "domainCount": 1}]) is None
    assignment = {"name": "main", "topologyAssignment": {"levels": ["h"], "slices": huge}}
    stored = new("Workload", spec={}, status={"admission": {"podSetAssignments": [assignment]}})
    assert convert(convert(stored, keys.V1BETA1), keys.API_VERSION) == stored


@pytest.mark.parametrize(
    "domains",
    [
        None,
        {},
        [1],
        [{"values": ["a"]}],
        [{"values": [], "count": 1}],
        [{"values": ["a"], "count": 1}, {"values": ["a", "b"], "count": 1}],
    ],
)
def test_malformed_domains_have_no_slices(domains: Json) -> None:
    assert slices_of(domains) is None
