"""The CRDs equal the models, and are structural schemas that an API server accepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from job_controller.json_tree import Json
from queue_manager.api import crd_generation
from queue_manager.api.models import KINDS, CustomKind

CHECKED_IN = Path(__file__).parents[3] / "config" / "crds"
IDS = [kind.__name__ for kind in KINDS]


def schema_of(kind: type[CustomKind]) -> Json:
    return crd_generation.crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


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


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_every_node_of_a_schema_is_structural(kind: type[CustomKind]) -> None:
    """A type everywhere except for int-or-string, no references, no nulls, only keys that a CRD may have."""
    allowed = {
        "additionalProperties", "anyOf", "default", "description", "enum", "format", "items", "maxItems", "maxLength",
        "maxProperties", "minItems", "minLength", "minimum", "pattern", "properties", "required", "type",
        "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    }  # fmt: skip
    for path, node in nodes(schema_of(kind)):
        assert set(node) <= allowed, path
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_every_field_is_described(kind: type[CustomKind]) -> None:
    for path, node in nodes(schema_of(kind)):
        for name, child in node.get("properties", {}).items():
            if (path, name) != ("", "metadata"):
                assert child.get("description"), f"{path}.{name}"


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_a_key_of_a_list_map_is_required_or_has_a_default(kind: type[CustomKind]) -> None:
    for path, node in nodes(schema_of(kind)):
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
    spec = crd_generation.crd(KINDS[IDS.index(kind)])["spec"]
    assert spec["scope"] == scope
    assert spec["names"]["shortNames"] == short_names
    assert [column["name"] for column in spec["versions"][0].get("additionalPrinterColumns", [])] == columns


def test_workloads_can_be_selected_by_the_cluster_queue_that_admitted_them() -> None:
    version = crd_generation.crd(KINDS[IDS.index("Workload")])["spec"]["versions"][0]
    assert version["selectableFields"] == [{"jsonPath": ".status.admission.clusterQueue"}]
    assert version["subresources"] == {"status": {}}
