"""Hypothesis strategies of objects that a structural schema accepts."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from job_controller.json_tree import Json
from queue_manager.api import crd_generation
from queue_manager.api.models import KINDS

NAMES = ("a", "b", "node-1", "node-2", "rack-17")
TIME = "2026-01-01T00:00:00Z"
ANNOTATIONS = st.fixed_dictionaries({"team": st.text(max_size=3)}, optional={"sluice/min-runtime": st.just("5m")})


@cache
def objects(kind: str, version: str) -> st.SearchStrategy[Json]:
    """Objects of a kind in a version, as an API server passes them to a conversion: with defaults."""
    definition = crd_generation.crd(next(model for model in KINDS if model.__name__ == kind))["spec"]
    schema = next(v for v in definition["versions"] if v["name"] == version)["schema"]["openAPIV3Schema"]
    head = {"apiVersion": f"{definition['group']}/{version}", "kind": kind}
    meta = st.fixed_dictionaries({"name": st.just("x")}, optional={"annotations": ANNOTATIONS})
    rest = {name: child for name, child in schema["properties"].items() if name not in ("apiVersion", "kind")}
    body = _object({**schema, "properties": {name: child for name, child in rest.items() if name != "metadata"}})
    return st.builds(lambda metadata, rest: {**head, "metadata": metadata, **rest}, meta, body)


def values(schema: Json) -> st.SearchStrategy[Any]:
    """Values of one node of a schema."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.sampled_from([1, "1", "500m"])
    match schema["type"]:
        case "object":
            return _object(schema)
        case "array":
            return _list(schema)
        case "integer":
            return st.integers(schema.get("minimum", -5), 5)
        case "boolean":
            return st.booleans()
    return st.just(TIME) if schema.get("format") == "date-time" else st.sampled_from(NAMES)


def _object(schema: Json) -> st.SearchStrategy[Json]:
    if isinstance(more := schema.get("additionalProperties"), dict):
        return st.dictionaries(st.sampled_from(NAMES), values(more), max_size=2)
    properties = {name: values(child) for name, child in (schema.get("properties") or {}).items()}
    always = {name for name, child in (schema.get("properties") or {}).items() if "default" in child}
    always |= set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: value for name, value in properties.items() if name in always},
        optional={name: value for name, value in properties.items() if name not in always},
    )


def _list(schema: Json) -> st.SearchStrategy[list[Json]]:
    keys = schema.get("x-kubernetes-list-map-keys")
    unique = (lambda item: tuple(item[key] for key in keys)) if keys else None
    if schema.get("x-kubernetes-list-type") == "set":
        unique = str
    return st.lists(values(schema["items"]), min_size=schema.get("minItems", 0), max_size=3, unique_by=unique)
