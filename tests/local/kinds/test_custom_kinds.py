"""Custom kinds: pruning, defaults, validation and printing, as recorded from a real API server."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_manager.local.kinds.jsonpath import compile_path, find
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.kinds.tables import to_table
from queue_manager.local.schema.structural_schemas import CompiledSchema
from tests.local.kinds.crd import THINGS

REGISTRY = KindRegistry.builtin()
THING = REGISTRY.install(THINGS)[0]
CRD = REGISTRY.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
assert CRD is not None


def thing(spec: Any) -> Any:
    tree = {
        "apiVersion": "demo.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": spec,
    }
    return copy.deepcopy(tree)


def create(spec: Any) -> tuple[Any, list[str]]:
    """The spec as it would be stored, and the errors."""
    tree = thing(spec)
    THING.schema.check(tree)
    THING.prepare_create(tree)
    return tree.get("spec"), [str(error) for error in THING.validate_create(tree)]


REFUSED: list[tuple[Any, list[str]]] = [
    ({}, ["spec.color: Required value"]),
    ({"color": None}, ["spec.color: Required value"]),
    ({"color": "blue"}, ['spec.color: Unsupported value: "blue": supported values: "red", "green"']),
    (
        {"color": 1},
        [
            'spec.color: Invalid value: "integer": spec.color in body must be of type string: "integer"',
            'spec.color: Unsupported value: 1: supported values: "red", "green"',
        ],
    ),
    ({"size": 0}, ["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"]),
    ({"size": 11}, ["spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"]),
    ({"size": "x"}, ['spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"']),
    (
        {"size": 1.5},
        [
            'spec.size: Invalid value: "float64": spec.size in body must be of type int32: "float64"',
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.size',
        ],
    ),
    (
        {"size": 3000000000},
        [
            '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.size',
            "spec.size: Invalid value: 3000000000: spec.size in body should be less than or equal to 10",
        ],
    ),
    ({"name": "a"}, ['spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long']),
    ({"name": "aaaaaaa"}, ["spec.name: Too long: may not be more than 5 bytes"]),
    ({"name": "A1"}, ["spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'"]),
    ({"port": 1.5}, ['spec.port: Invalid value: "number": spec.port in body must be of type integer,string: "number"']),
    ({"items": [{"name": "a"}, {"name": "a"}]}, ['spec.items[1]: Duplicate value: {"name":"a"}']),
    ({"items": [{"name": c} for c in "abc"]}, ["spec.items: Too many: 3: must have at most 2 items"]),
    ({"items": [{}]}, ["spec.items[0].name: Required value"]),
    ({"items": {}}, ['spec.items: Invalid value: "object": spec.items in body must be of type array: "object"']),
    ({"tags": ["a", "a"]}, ['spec.tags[1]: Duplicate value: "a"']),
    ({"when": "x"}, ['spec.when: Invalid value: "x": spec.when in body must be of type date-time: "x"']),
    ({"map": {"a": "1", "b": "2", "c": "3"}}, ["spec.map: Too many: 3: must have at most 2 items"]),
    ({"map": {"a": 1}}, ['spec.map.a: Invalid value: "integer": spec.map.a in body must be of type string: "integer"']),
]


@pytest.mark.parametrize(("spec", "messages"), REFUSED, ids=str)
def test_wrong_values_are_refused_in_the_servers_words(spec: Any, messages: list[str]) -> None:
    full = spec if "color" in spec or not spec else {"color": "red", **spec}
    assert create(full)[1] == messages


ACCEPTED: list[tuple[Any, Any]] = [
    ({"color": "red"}, {"color": "red", "size": 3}),
    ({"color": "red", "size": None}, {"color": "red", "size": 3}),
    ({"color": "red", "flag": None}, {"color": "red", "flag": None, "size": 3}),
    ({"color": "red", "any": {"x": [1]}}, {"any": {"x": [1]}, "color": "red", "size": 3}),
    ({"color": "red", "port": "http"}, {"color": "red", "port": "http", "size": 3}),
    (
        {"color": "red", "foo": 1, "items": [{"name": "a", "bar": 1}]},
        {"color": "red", "size": 3, "items": [{"name": "a"}]},
    ),
    (None, None),
]


@pytest.mark.parametrize(("spec", "stored"), ACCEPTED, ids=str)
def test_defaults_are_filled_in_and_unknown_fields_dropped(spec: Any, stored: Any) -> None:
    assert create(spec) == (stored, [])


def test_unknown_fields_are_reported_in_order_of_name() -> None:
    tree = thing({"color": "red", "foo": 1, "bar": {"x": 1}})
    tree["metadata"]["zip"] = 1
    assert THING.schema.check(tree) == [
        'unknown field "metadata.zip"',
        'unknown field "spec.bar"',
        'unknown field "spec.foo"',
    ]


def test_a_stricter_schema_accepts_unchanged_values() -> None:
    """Only values that change are validated again."""
    old = thing({"color": "purple", "size": 3})
    new = thing({"color": "purple", "size": 4})
    assert THING.validate_update(new, old) == []
    new["spec"]["size"] = 40
    assert [error.field for error in THING.validate_update(new, old)] == ["spec.size"]


def test_printer_columns_follow_their_paths() -> None:
    tree = thing({"color": "red", "size": 4})
    tree["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    tree["status"] = {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}
    table = to_table(THING, [tree, thing({})], datetime(2026, 1, 1, 0, 5, tzinfo=UTC))
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Ready", "Age"]
    assert [row["cells"] for row in table["rows"]] == [["a", 4, "True", "5m"], ["a", None, None, None]]


@pytest.mark.parametrize("path", [".spec[", f".spec[{'9' * 5000}]", ".spec[?(@.a==nul)]", ".spec[?(@.a>1e5)]"])
def test_columns_after_an_invalid_path_are_not_served(path: str) -> None:
    """The definition is stored: an error would keep the cluster from starting again."""
    definition = copy.deepcopy(THINGS)
    definition["spec"]["versions"][0]["additionalPrinterColumns"][1]["jsonPath"] = path
    kind = KindRegistry.builtin().install(definition)[0]
    assert [column.name for column in kind.columns] == ["Name", "Size"]


def test_selectable_fields_can_be_selected_by() -> None:
    assert THING.fields(thing({"color": "red"})) == {"spec.color": "red"}


def test_combined_schemas_are_checked() -> None:
    node = CompiledSchema({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}})
    assert list(node.validate({"a": 1})) == []
    assert "must validate at least one schema (anyOf)" in str(next(node.validate({"a": []})))


def test_a_null_among_values_that_may_not_be_null_is_dropped() -> None:
    """As on the real server, in a map as in a field."""
    text = {"type": "string"}
    node = CompiledSchema(
        {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": text}, "b": text}}
    )
    value: Any = {"a": {"x": None, "y": "z"}, "b": None}
    node.fill(value)
    assert value == {"a": {"y": "z"}}


PATHS = [
    (".spec.a", ["x"]),
    ("{.spec.a}", ["x"]),
    (".spec['b.c']", [1]),
    (".spec.b\\.c", [1]),
    (".spec.l[0]", [1]),
    (".spec.l[-1]", [3]),
    (".spec.l[*]", [1, 2, 3]),
    ('.items[?(@.type=="B")].v', [2]),
    ('.items[?(@.type == "B" )].v', [2]),
    (".items[?(@.v > 1 )].v", [2]),
    (".items[?(@.v" + " " * 50_000 + ")].v", [1, 2]),
    (".none.at.all", []),
]


@pytest.mark.parametrize(("path", "found"), PATHS)
def test_json_paths_find(path: str, found: list[Any]) -> None:
    tree = {"spec": {"a": "x", "b.c": 1, "l": [1, 2, 3]}, "items": [{"type": "A", "v": 1}, {"type": "B", "v": 2}]}
    assert find(compile_path(path), tree) == found


# --- definitions as objects ----------------------------------------------------------------------------------


def define(**spec: Any) -> list[str]:
    crd = copy.deepcopy(THINGS)
    crd["spec"] |= spec
    CRD.prepare_create(crd)
    return [str(error) for error in CRD.validate_create(crd)]


def with_field(schema: Any) -> list[str]:
    versions = copy.deepcopy(THINGS["spec"]["versions"])
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["z"] = schema
    return define(versions=versions)


Z = "spec.validation.openAPIV3Schema.properties[spec].properties[z]"
SCHEMAS: list[tuple[Any, str]] = [
    ({}, f"{Z}.type: Required value: must not be empty for specified object fields"),
    (
        {"type": "foo"},
        f'{Z}.type: Unsupported value: "foo": supported values: '
        '"array", "boolean", "integer", "number", "object", "string"',
    ),
    ({"type": "array"}, f"{Z}.items: Required value: must be specified"),
    (
        {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
        f"{Z}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
    ),
    (
        {"type": "integer", "default": "x"},
        f'{Z}.default: Invalid value: "string":  in body must be of type integer: "string"',
    ),
]


@pytest.mark.parametrize(("schema", "message"), SCHEMAS, ids=str)
def test_a_schema_must_be_structural(schema: Any, message: str) -> None:
    assert with_field(schema) == [message]


def test_a_definition_must_be_named_plural_dot_group() -> None:
    assert define(group="other.example.com") == [
        'metadata.name: Invalid value: "things.demo.example.com": must be spec.names.plural+"."+spec.group'
    ]


def test_a_definition_is_established_at_once() -> None:
    crd = copy.deepcopy(THINGS)
    CRD.prepare_create(crd)
    assert {c["type"]: c["status"] for c in crd["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert crd["status"]["acceptedNames"]["listKind"] == "ThingList"
    assert crd["status"]["storedVersions"] == ["v1"]


def test_versions_are_served_newest_and_stablest_first() -> None:
    crd = copy.deepcopy(THINGS)
    version = crd["spec"]["versions"][0]
    names = ("v1alpha1", "v1beta2", "v2", "v10", "v1beta1")
    crd["spec"]["versions"] = [{**version, "name": name, "storage": name == "v2"} for name in names]
    kinds = KindRegistry().install(crd)
    assert [kind.resource.version for kind in kinds] == ["v10", "v2", "v1beta2", "v1beta1", "v1alpha1"]


def test_removing_a_definition_ends_its_kinds() -> None:
    registry = KindRegistry()
    registry.install(THINGS)
    registry.remove(THINGS)
    assert registry.all() == []
