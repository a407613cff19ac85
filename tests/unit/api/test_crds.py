"""The CRDs equal the models, and are structural schemas that an API server accepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from job_controller.json_tree import Json
from queue_manager.api import crd_conversion, crd_generation
from queue_manager.api.models import KINDS, CustomKind

CHECKED_IN = Path(__file__).parents[3] / "config" / "crds"
IDS = [kind.__name__ for kind in KINDS]
VERSIONS = ("v1beta2", "v1beta1")
SAME = ("Cohort", "ResourceFlavor", "WorkloadPriorityClass")  # in both versions


def version_of(kind: type[CustomKind], name: str = "v1beta2") -> Json:
    return next(version for version in crd_generation.crd(kind)["spec"]["versions"] if version["name"] == name)


def schema_of(kind: type[CustomKind], version: str = "v1beta2") -> Json:
    return version_of(kind, version)["schema"]["openAPIV3Schema"]


def at(schema: Json, path: str) -> Json:
    for part in path.split("."):
        schema = schema["items"] if part == "[]" else schema["properties"][part]
    return schema


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[{key}]")


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_the_checked_in_crd_equals_the_models(kind: type[CustomKind]) -> None:
    """`make crds` updates it."""
    assert (CHECKED_IN / crd_generation.file_name(kind)).read_text() == crd_generation.render(crd_generation.crd(kind))


def test_no_crd_is_checked_in_without_a_model() -> None:
    assert {path.name for path in CHECKED_IN.glob("*.yaml")} == {crd_generation.file_name(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_rendered_crd_reads_back_unchanged(kind: type[CustomKind]) -> None:
    assert yaml.safe_load(crd_generation.render(crd_generation.crd(kind))) == crd_generation.crd(kind)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_every_node_of_a_schema_is_structural(kind: type[CustomKind], version: str) -> None:
    """A type everywhere except for int-or-string, no references, no nulls, only keys that a CRD may have."""
    allowed = {
        "additionalProperties", "anyOf", "default", "description", "enum", "format", "items", "maxItems", "maxLength",
        "maxProperties", "minItems", "minLength", "minimum", "pattern", "properties", "required", "type",
        "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    }  # fmt: skip
    for path, node in nodes(schema_of(kind, version)):
        assert set(node) <= allowed, path
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_every_field_is_described(kind: type[CustomKind], version: str) -> None:
    for path, node in nodes(schema_of(kind, version)):
        for name, child in node.get("properties", {}).items():
            if (path, name) != ("", "metadata"):
                assert child.get("description"), f"{path}.{name}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_key_of_a_list_map_is_required_or_has_a_default(kind: type[CustomKind], version: str) -> None:
    for path, node in nodes(schema_of(kind, version)):
        for key in node.get("x-kubernetes-list-map-keys", ()):
            item = node["items"]
            assert key in item.get("required", ()) or "default" in item["properties"][key], f"{path}: {key}"


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        (
            "ClusterQueue",
            "spec.queueingStrategy",
            {"default": "BestEffortFIFO", "enum": ["StrictFIFO", "BestEffortFIFO"]},
        ),
        ("ClusterQueue", "spec.stopPolicy", {"default": "None", "enum": ["None", "Hold", "HoldAndDrain"]}),
        ("ClusterQueue", "spec.preemption", {"default": {}}),
        ("ClusterQueue", "spec.preemption.borrowWithinCohort", {"default": {}}),
        ("ClusterQueue", "spec.flavorFungibility.whenCanPreempt", {"default": "TryNextFlavor"}),
        ("ClusterQueue", "spec.resourceGroups", {"maxItems": 16, "x-kubernetes-list-type": "atomic"}),
        (
            "ClusterQueue",
            "spec.resourceGroups.[].flavors",
            {"minItems": 1, "maxItems": 64, "x-kubernetes-list-map-keys": ["name"]},
        ),
        (
            "ClusterQueue",
            "spec.resourceGroups.[].flavors.[].resources.[].nominalQuota",
            {"x-kubernetes-int-or-string": True},
        ),
        ("LocalQueue", "spec.fairSharing.weight", {"default": 1}),
        ("ResourceFlavor", "spec.nodeLabels", {"maxProperties": 8, "x-kubernetes-map-type": "atomic"}),
        ("Workload", "spec.podSets", {"minItems": 1, "maxItems": 18, "x-kubernetes-list-map-keys": ["name"]}),
        ("Workload", "spec.podSets.[].count", {"default": 1, "minimum": 0, "format": "int32"}),
        ("Workload", "spec.podSets.[].minCount", {"minimum": 1}),
        ("Workload", "spec.podSets.[].template", {"x-kubernetes-preserve-unknown-fields": True}),
        ("Workload", "spec.active", {"default": True, "type": "boolean"}),
        ("Workload", "status.conditions", {"maxItems": 16, "x-kubernetes-list-map-keys": ["type"]}),
        (
            "Workload",
            "status.schedulingStats.evictions",
            {"maxItems": 256, "x-kubernetes-list-map-keys": ["reason", "underlyingCause"]},
        ),
        ("Workload", "status.requeueState.requeueAt", {"format": "date-time"}),
        ("WorkloadPriorityClass", "value", {"type": "integer", "format": "int32"}),
        ("WorkloadPriorityClass", "description", {"maxLength": 2048}),
    ],
)
def test_fields_carry_their_limits_and_defaults(kind: str, path: str, expected: Json) -> None:
    schema = at(schema_of(KINDS[IDS.index(kind)]), path)
    assert {key: schema.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("kind", "scope", "short_names", "columns"),
    [
        (
            "Workload",
            "Namespaced",
            ["kwl", "kueueworkload", "kueueworkloads"],
            ["Queue", "Reserved in", "Admitted", "Finished", "Age"],
        ),
        ("ClusterQueue", "Cluster", ["cq"], ["Cohort", "Strategy", "Pending Workloads", "Admitted Workloads"]),
        (
            "LocalQueue",
            "Namespaced",
            ["queue", "queues", "lq"],
            ["ClusterQueue", "Pending Workloads", "Admitted Workloads"],
        ),
        ("ResourceFlavor", "Cluster", ["flavor", "flavors", "rf"], []),
        ("WorkloadPriorityClass", "Cluster", ["wpc"], ["Value"]),
    ],
)
def test_names_and_printer_columns_are_kueues(
    kind: str, scope: str, short_names: list[str], columns: list[str]
) -> None:
    model = KINDS[IDS.index(kind)]
    spec = crd_generation.crd(model)["spec"]
    assert spec["scope"] == scope
    assert spec["names"]["shortNames"] == short_names
    for version in VERSIONS:
        found = version_of(model, version).get("additionalPrinterColumns", [])
        assert [column["name"] for column in found] == columns


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("ClusterQueue", "spec.cohort", {"type": "string", "maxLength": 253}),
        (
            "ClusterQueue",
            "spec.flavorFungibility.whenCanBorrow",
            {"enum": ["MayStopSearch", "TryNextFlavor", "Borrow"]},
        ),
        ("ClusterQueue", "spec.admissionChecks", {"type": "array", "maxItems": 64}),
        ("LocalQueue", "status.flavorUsage", {"x-kubernetes-list-map-keys": ["name"]}),
        ("AdmissionCheck", "spec.retryDelayMinutes", {"default": 15, "format": "int64"}),
        ("Workload", "spec", {"default": {}}),
        ("Workload", "spec.priorityClassSource", {"default": ""}),
        ("Workload", "status.accumulatedPastExexcutionTimeSeconds", {"type": "integer", "format": "int32"}),
        (
            "Workload",
            "status.admission.podSetAssignments.[].topologyAssignment.domains.[].count",
            {"minimum": 1},
        ),
    ],
)
def test_v1beta1_has_its_own_fields(kind: str, path: str, expected: Json) -> None:
    model = KINDS[IDS.index(kind)]
    assert expected.items() <= at(schema_of(model, "v1beta1"), path).items()
    if path != "spec" and not path.endswith("whenCanBorrow"):
        with pytest.raises(KeyError):
            at(schema_of(model), path)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_v1beta1_is_deprecated_and_never_stored(kind: type[CustomKind]) -> None:
    old = version_of(kind, "v1beta1")
    assert (old["storage"], old["deprecated"]) == (False, True)
    assert old["deprecationWarning"] == "This version is deprecated. Use v1beta2 instead."
    assert version_of(kind)["storage"]


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_without_webhook_v1beta1_is_served_where_it_is_the_same(kind: type[CustomKind]) -> None:
    """With the strategy None, an API server would store an object of another version in the wrong shape."""
    definition = crd_generation.crd(kind)
    assert "conversion" not in definition["spec"]
    assert version_of(kind, "v1beta1")["served"] == (kind.__name__ in SAME)
    if kind.__name__ in SAME:
        assert schema_of(kind, "v1beta1") == schema_of(kind)


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_with_a_webhook_v1beta1_of_all_kinds_is_served(kind: type[CustomKind]) -> None:
    definition = crd_conversion.converted_by(crd_generation.crd(kind), crd_conversion.service(ca_bundle="Q0E="))
    assert all(version["served"] for version in definition["spec"]["versions"])
    client = {
        "service": {"namespace": "kueue-system", "name": "sluice-conversion-service", "path": "/convert", "port": 443},
        "caBundle": "Q0E=",
    }
    expected = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    assert definition["spec"].get("conversion") == (None if kind.__name__ in SAME else expected)


def test_the_rules_of_v1beta1_name_its_fields() -> None:
    for kind in KINDS:
        for _, node in nodes(schema_of(kind, "v1beta1")):
            for rule in node.get("x-kubernetes-validations", ()):
                assert "cohortName" not in rule["rule"]
                assert "priorityClassRef" not in rule["rule"]


def test_workloads_can_be_selected_by_the_cluster_queue_that_admitted_them() -> None:
    version = version_of(KINDS[IDS.index("Workload")])
    assert version["selectableFields"] == [{"jsonPath": ".status.admission.clusterQueue"}]
    assert version["subresources"] == {"status": {}}
