"""Custom kinds: definitions, and how their schemas default, prune and validate objects."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CRDS
from tests.contract.bodies import definition, thing, things
from tests.contract.session import Session

Json = Any
SEVEN: Json = {"type": "object", "properties": {"x": {"type": "integer", "default": 7}}}
SCHEMA: Json = {
    "type": "object",
    "required": ["color"],
    "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "default": 3},
        "color": {"type": "string", "enum": ["red", "green"]},
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
        "deep": {
            "type": "object",
            "default": {},
            "properties": {
                "level": {"type": "integer", "default": 1},
                "list": {"type": "array", "items": SEVEN},
            },
        },
        "ports": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}},
            },
        },
    },
}  # fmt: skip

SPECS: list[Json] = [
    {"color": "red"},
    {},
    {"color": "blue"},
    {"color": 1},
    {"color": None},
    {"color": "red", "size": 0},
    {"color": "red", "size": 11},
    {"color": "red", "size": "3"},
    {"color": "red", "size": 3.5},
    {"color": "red", "size": None},
    {"color": "red", "name": "x"},
    {"color": "red", "name": "abcdefg"},
    {"color": "red", "name": "ABC"},
    {"color": "red", "any": {"x": [1, {"y": None}]}},
    {"color": "red", "port": 80},
    {"color": "red", "port": "http"},
    {"color": "red", "port": True},
    {"color": "red", "ratio": 1},
    {"color": "red", "ratio": "1"},
    {"color": "red", "flag": None},
    {"color": "red", "flag": "x"},
    {"color": "red", "when": "2026-01-01T00:00:00Z"},
    {"color": "red", "when": "soon"},
    {"color": "red", "tags": ["a", "b"]},
    {"color": "red", "tags": ["a", "a"]},
    {"color": "red", "tags": "a"},
    {"color": "red", "map": {"a": "b"}},
    {"color": "red", "map": {"a": 1}},
    {"color": "red", "map": {"a": "1", "b": "2", "c": "3"}},
    {"color": "red", "deep": {}},
    {"color": "red", "deep": {"list": [{}, {"x": 1}]}},
    {"color": "red", "deep": []},
    {"color": "red", "ports": [{"name": "a"}, {"name": "b", "port": 1}]},
    {"color": "red", "ports": [{"name": "a"}, {"name": "a"}]},
    {"color": "red", "ports": [{"port": 1}]},
    {"color": "red", "ports": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
    {"color": "red", "unknown": 1, "deep": {"unknown": 2}},
]


@pytest.mark.parametrize("mode", ["Warn", "Strict"])
async def test_specs(s: Session, mode: str) -> None:
    """Defaults are filled in, unknown fields pruned or refused, wrong values refused with their path."""
    await s.define(definition(s.group, SCHEMA))
    for number, spec in enumerate(SPECS):
        await s.create(thing(s.group, f"t{number}", **spec), fieldValidation=mode)


NUMBERS: Json = {
    "type": "object",
    "properties": {
        "tenths": {"type": "number", "multipleOf": 0.1},
        "thirds": {"type": "number", "multipleOf": 3},
        "halves": {"type": "number", "multipleOf": 0.5},
        "small": {"type": "integer", "format": "int32"},
        "few": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "some": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
        "any": {"type": "integer", "anyOf": [{"minimum": 9}, {"maximum": 1}]},
        "one": {"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 5}]},
        "other": {"type": "integer", "oneOf": [{"minimum": 9}, {"maximum": 1}]},
        "all": {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 5}]},
        "no": {"type": "integer", "allOf": [{"minimum": 3}, {"minimum": 2}]},
        "none": {"type": "integer", "not": {"minimum": 3}},
    },
}


@pytest.mark.parametrize("tenths", [0.3, 0.7, 1.1, 0.35, 12.3, 123456.7, -0.3, 0, 1, 2.9])
async def test_multiples_of_a_tenth(s: Session, tenths: float) -> None:
    """Fractions are compared with a tolerance. An integer is refused: as an integer, the factor 0.1 is 0."""
    await s.define(definition(s.group, NUMBERS))
    await s.create(thing(s.group, "t", tenths=tenths))


async def test_bounds_of_numbers_lists_and_alternatives(s: Session) -> None:
    await s.define(definition(s.group, NUMBERS))
    specs: list[Json] = [
        {"thirds": 9},
        {"thirds": 10},
        {"thirds": 1.5},
        {"halves": 2.5},
        {"halves": 2.6},
        {"small": 2**31 - 1},
        {"small": 2**31},
        {"small": -(2**31)},
        {"small": -(2**31) - 1},
        {"few": []},
        {"few": ["a"]},
        {"few": ["a", "b", "c"]},
        {"some": {}},
        {"some": {"a": "b"}},
        {"some": {"a": None}},
        {"any": 5},
        {"any": 9},
        {"one": 2},
        {"one": 4},
        {"other": 5},
        {"all": 4},
        {"all": 6},
        {"no": 1},
        {"none": 2},
        {"none": 3},
    ]
    for number, spec in enumerate(specs):
        await s.create(thing(s.group, f"t{number}", **spec))


async def test_updates_of_custom_objects(s: Session) -> None:
    await s.define(definition(s.group, SCHEMA))
    made = await s.create(thing(s.group, "t", color="red"))
    kind = things(s.group)
    body = made.body
    body["spec"]["size"] = 4
    await s.replace(body)
    await s.replace(made.body)
    await s.replace(thing(s.group, "t", color="green"))
    await s.patch(kind, "t", {"spec": {"color": None}})
    await s.patch(kind, "t", {"spec": {"size": 99}})
    await s.patch(kind, "t", {"status": {"phase": "x"}})
    await s.patch(kind, "t", {"status": {"phase": "x"}, "spec": {"size": 9}}, subresource="status")
    await s.patch(kind, "t", {"metadata": {"labels": {"a": "b"}}})
    await s.get(kind, "t")
    await s.delete(kind, "t")


async def test_kinds_without_a_status_subresource_keep_status_in_the_object(s: Session) -> None:
    await s.define(definition(s.group, SCHEMA, subresources={}))
    await s.create(thing(s.group, "t", color="red") | {"status": {"phase": "x"}})
    await s.patch(things(s.group), "t", {"status": {"phase": "y"}})
    await s.patch(things(s.group), "t", {"status": {"phase": "z"}}, subresource="status")


async def test_envelopes_of_custom_objects(s: Session) -> None:
    await s.define(definition(s.group, SCHEMA))
    path = s.path(things(s.group))
    good = thing(s.group, "t", color="red")
    for change in ({"kind": "Other"}, {"apiVersion": "v1"}, {"kind": ""}, {"spec": []}, {"other": 1}, {"metadata": {}}):
        await s.ask("POST", path, good | change)
    await s.ask("POST", path, b"[]")
    await s.ask("POST", path, good)
    await s.ask("POST", path, good)


async def test_a_definition_is_defaulted_and_established(s: Session) -> None:
    await s.define(definition(s.group, SCHEMA))
    answer = await s.ask("GET", CRDS.path(name=f"things.{s.group}"), silent=True)
    body = answer.body
    for condition in body["status"]["conditions"]:
        condition.pop("observedGeneration", None)
    body["spec"].pop("versions")
    body["metadata"].pop("resourceVersion")
    s.check_step({"body": s.normal.tree(body)})


@pytest.mark.parametrize(
    "change",
    [
        {"scope": "Everywhere"},
        {"group": ""},
        {"names": {"plural": "others", "singular": "thing", "kind": "Thing"}},
        {
            "names": {
                "plural": "things",
                "singular": "1thing",
                "kind": "9T",
                "listKind": "T" * 64,
                "shortNames": ["-" * 64],
            }
        },
        {"versions": []},
        {"preserveUnknownFields": True},
    ],
    ids=str,
)
async def test_definitions_are_validated(s: Session, change: Json) -> None:
    body = definition(s.group, {"type": "object"})
    body["spec"] |= change
    await s.ask("POST", CRDS.path(), body, dryRun="All")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
        {"type": "text"},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
    ],
    ids=str,
)
async def test_schemas_are_structural(s: Session, schema: Json) -> None:
    await s.ask("POST", CRDS.path(), definition(s.group, schema), dryRun="All")
