"""The types that determine field ownership: structs, maps, lists by key, sets, and atomic values, which have one owner.

Created from the OpenAPI schemas of built-in types and custom kinds by the rules of an API server: by default lists are
atomic and maps are not; a value without a type may be anything, and its lists are atomic.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.schema.builtin_types import definitions

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"


class FieldType:
    """The values that a field allows: any of a scalar, a list and a map."""

    __slots__ = ("default", "list", "map", "scalar")

    def __init__(self, scalar: str = "", list: ListType | None = None, map: MapType | None = None) -> None:
        self.scalar = scalar  # numeric, string, boolean, untyped; empty: scalars are not allowed
        self.list = list
        self.map = map
        self.default: Json = None


class ListType:
    """A list: replaced as a whole (atomic), a set of scalars, or a map of items by their `keys`."""

    __slots__ = ("item", "keys", "kind", "memo")

    def __init__(self, kind: str, item: FieldType, keys: tuple[str, ...] = ()) -> None:
        self.kind = kind  # atomic, set or map
        self.item = item
        self.keys = keys
        self.memo: dict[bytes, dict[str, Any]] = {}  # cache of changed_fields


class MapType:
    """A struct (`fields`), a map (`other`), or both. Without `other`, names that are not in `fields` are unknown."""

    __slots__ = ("atomic", "elements", "fields", "other")

    def __init__(self, fields: dict[str, FieldType], other: FieldType | None, atomic: bool) -> None:
        self.fields = fields
        self.other = other
        self.atomic = atomic
        self.elements = {name: (f"f:{name}", child) for name, child in fields.items()}


UNTYPED = FieldType("untyped")  # any scalar; the type of fields without a schema


def _untyped_atomic() -> FieldType:
    found = FieldType("untyped")
    found.list = ListType("atomic", found)
    found.map = MapType({}, found, True)
    return found


def _deduced() -> FieldType:
    found = FieldType("untyped", ListType("atomic", ATOMIC))
    found.map = MapType({}, found, False)
    return found


ATOMIC = _untyped_atomic()  # any value, owned as a whole
DEDUCED = _deduced()  # any value; maps are owned key by key


@cache
def type_named(name: str) -> FieldType:
    """Return a built-in type by its OpenAPI name."""
    return _named(name)


_NAMED: dict[str, FieldType] = {}


def _named(name: str) -> FieldType:
    found = _NAMED.get(name)
    if found is None:
        if name == _RAW:
            return ATOMIC
        found = _NAMED[name] = FieldType()
        made = FieldType("untyped") if name == _QUANTITY else _parse(definitions()[name], False)
        found.scalar, found.list, found.map = made.scalar, made.list, made.map
    return found


def custom_type(schema: Json) -> FieldType:
    """Return the type of a custom kind: its schema plus apiVersion, kind and metadata."""
    properties = {**(schema.get("properties") or {}), **_head()}
    return _parse({**schema, "type": "object", "properties": properties}, False)


def _head() -> dict[str, Json]:
    return {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": OBJECT_META}}


def _parse(schema: Json, preserve: bool) -> FieldType:
    preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
    if schema.get("x-kubernetes-embedded-resource"):
        own = {**_head(), **(schema.get("properties") or {}), "metadata": {"$ref": OBJECT_META}}
        schema = {**schema, "properties": own}
    match schema.get("type", ""):
        case "object":
            found = FieldType(map=_map(schema, preserve))
        case "array":
            found = FieldType(list=_list(schema, preserve))
        case "integer" | "number":
            found = FieldType("numeric")
        case "boolean":
            found = FieldType("boolean")
        case "string":
            found = FieldType("string" if schema.get("format", "") in ("", "byte") else "untyped")
        case _:
            found = FieldType("untyped", _list(schema, preserve), _map(schema, preserve))
    return found


def _reference(schema: Json, preserve: bool) -> FieldType:
    """Return the type of a field or an item, including the settings given where it is referenced."""
    if "$ref" not in schema:
        found = _parse(schema, preserve)
        found.default = schema.get("default")
        return found
    relation = schema.get("x-kubernetes-map-type")
    if not relation:
        return _named(schema["$ref"])
    made = _parse({**definitions()[schema["$ref"]], "x-kubernetes-map-type": relation}, preserve)
    return FieldType(made.scalar, made.list, made.map)


def _map(schema: Json, preserve: bool) -> MapType:
    properties = schema.get("properties") or {}
    fields = {name: _reference(child, preserve) for name, child in properties.items()}
    more = schema.get("additionalProperties")
    other: FieldType | None
    if isinstance(more, dict):
        other = _reference(more, preserve)
    elif more is True or (more is None and (preserve or not properties)):
        other = DEDUCED
    else:
        other = None
    return MapType(fields, other, schema.get("x-kubernetes-map-type") == "atomic")


def _list(schema: Json, preserve: bool) -> ListType:
    items = schema.get("items")
    item = _reference(items, preserve) if isinstance(items, dict) else ATOMIC
    kind = schema.get("x-kubernetes-list-type")
    if kind is not None:
        return ListType(kind, item, tuple(schema.get("x-kubernetes-list-map-keys") or ()))
    if "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        key = schema.get("x-kubernetes-patch-merge-key")
        return ListType("map", item, (key,)) if key else ListType("set", item)
    return ListType("atomic", item)


def empty_object(name: str) -> Json:
    """Return the initial content of a new object of a built-in type: its structs and required fields."""
    schema = definitions()[name]
    required = schema.get("required", ())
    out: dict[str, Any] = {}
    for field, child in schema.get("properties", {}).items():
        if "$ref" in child and child.get("default") == {} and "properties" in definitions()[child["$ref"]]:
            out[field] = empty_object(child["$ref"])
        elif field in required:
            out[field] = None if "items" in child or "additionalProperties" in child else child.get("default")
    return out
