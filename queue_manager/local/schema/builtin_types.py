"""The shapes of the built-in kinds: the type and the merge keys of each field.

A kind is a tree of `Shape`s created from data/types.json, which tests/control_plane/generate_schemas.py generates from
a real API server.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from job_controller.json_tree import Json
from queue_manager.local.schema.structural_fast_path import Fit
from queue_manager.local.schema.validation_cache import Passed

INT_LIMITS = {"int32": 2**31, "int64": 2**63}
# Types with a decoder of their own, by the last word of their name.
_SPECIAL = {
    "Time": "time",
    "MicroTime": "microtime",
    "Quantity": "quantity",
    "IntOrString": "intstr",
    "FieldsV1": "any",
    "RawExtension": "any",
    "JSON": "any",
}
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_PYTHON = {"string": str, "bool": bool}
# Large types whose values often recur unchanged.
_REMEMBERED = frozenset(("PodSpec", "JobSpec"))
# Types that occur in most written objects, with values that rarely recur.
_FITTED = frozenset(("ObjectMeta", "PodStatus", "JobStatus"))


class Shape:
    """The type of a value."""

    __slots__ = (
        "fields",
        "fit",
        "form",
        "go",
        "item",
        "keep",
        "key",
        "keys",
        "limit",
        "list_type",
        "passed",
        "python",
        "strategy",
    )

    def __init__(self, form: str, go: str = "") -> None:
        self.form = form  # object, map, list, string, bool, int32, int64, number, bytes, or one of _SPECIAL
        self.go = go  # Go's name of the type, as in the server's errors
        self.fields: dict[str, Field] = {}
        self.item: Shape | None = None
        self.key = ""  # patchMergeKey
        self.strategy: frozenset[str] = frozenset()  # patchStrategy: merge, replace, retainKeys
        self.list_type = ""  # map, set or atomic
        self.keys: tuple[str, ...] = ()
        self.keep = False  # store an empty list or map
        self.limit = INT_LIMITS.get(form, 0)
        self.python = _PYTHON.get(form)
        self.passed: Passed | None = None  # cache of values that need no changes
        self.fit: Fit | None = None  # a test that only such values pass


class Field:
    """A field of a Shape of form `object`."""

    __slots__ = ("go_path", "name", "owner", "shape")

    def __init__(self, name: str, shape: Shape, owner: str, go_path: str) -> None:
        self.name = name
        self.shape = shape
        self.owner = owner  # Go's name of the struct that contains the field
        self.go_path = go_path  # the field's name, after that of the struct it is inlined from


@cache
def definitions() -> dict[str, Json]:
    """Return all types by their OpenAPI name."""
    text = resources.files("queue_manager.local").joinpath("data", "types.json").read_bytes()
    tree: dict[str, Json] = json.loads(text)
    return tree


@cache
def _struct(name: str) -> Shape:
    word = name.rsplit(".", 1)[1]
    special = (
        "any" if name.startswith(_CRD + "JSON") and "properties" not in definitions()[name] else _SPECIAL.get(word)
    )
    if special:
        return Shape(special, f"v1.{word}")
    shape = Shape("object", f"v1.{word}")
    if word in _REMEMBERED:
        shape.passed = Passed()
    _STRUCTS.append((name, shape))
    return shape


_STRUCTS: list[tuple[str, Shape]] = []


def shape_of(name: str) -> Shape:
    """Return the shape of a type and of all types that it refers to. Recursive types refer to themselves."""
    shape, fitted = _struct(name), []
    while _STRUCTS:
        pending, target = _STRUCTS.pop()
        definition = definitions()[pending]
        required = definition.get("required", ())
        owner = definition.get("x-go-name", pending.rsplit(".", 1)[1])
        for field, schema in definition.get("properties", {}).items():
            inner = _part(schema, schema.get("x-go-type", ""), schema.get("x-go-item", ""))
            inner.keep = field in required
            target.fields[field] = Field(field, inner, owner, schema.get("x-go-path", field))
        if pending.rsplit(".", 1)[1] in _FITTED:
            fitted.append(target)
    for target in fitted:
        target.fit = Fit(structural(target))
    return shape


_STRUCTURAL: dict[str, Json] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "time": {"type": "string", "format": "date-time"},
}


def structural(shape: Shape) -> Json:
    """Return a schema of values that a walk leaves unchanged.

    Parts that a walk may change get an unknown format, which no value fits.
    """
    match shape.form:
        case "object":
            return {"type": "object", "properties": {name: structural(f.shape) for name, f in shape.fields.items()}}
        case "list" if shape.item is not None:
            return {"type": "array", "items": structural(shape.item), "minItems": 0 if shape.keep else 1}
        case "map" if shape.item is not None:
            values = structural(shape.item)
            return {"type": "object", "additionalProperties": values, "minProperties": 0 if shape.keep else 1}
    return _STRUCTURAL.get(shape.form, {"type": "string", "format": shape.form})


def _part(schema: Json, go: str, go_item: str = "") -> Shape:
    if "$ref" in schema:
        target = _struct(schema["$ref"])
        if target.form == "any" or not (schema.keys() - {"$ref", "default", "x-go-type", "x-go-item", "x-go-path"}):
            return target
        shape = Shape(target.form, target.go)
        shape.fields = target.fields
        shape.passed = target.passed
    elif "items" in schema:
        shape = Shape("list", go)
        shape.item = _part(schema["items"], go_item or go.removeprefix("[]"))
    elif "additionalProperties" in schema:
        shape = Shape("map", go)
        shape.item = _part(schema["additionalProperties"], go_item)
    else:
        shape = Shape(_form(schema), go or schema.get("format") or schema["type"])
    shape.strategy = frozenset(filter(None, schema.get("x-kubernetes-patch-strategy", "").split(",")))
    shape.key = schema.get("x-kubernetes-patch-merge-key", "")
    shape.list_type = schema.get("x-kubernetes-list-type", "")
    shape.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return shape


def _form(schema: Json) -> str:
    kind, width = schema.get("type"), schema.get("format")
    if kind == "string":
        return "bytes" if width == "byte" else "string"
    if kind == "integer":
        return str(width or "int64")
    return {"boolean": "bool", "number": "number", "array": "list"}.get(str(kind), "any")
