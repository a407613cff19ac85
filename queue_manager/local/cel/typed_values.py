"""Converts JSON for CEL rules into values of the types that the schema declares: numbers, times, durations, lists.

A value is converted when a rule reads it, because most rules read a small part of the object.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.cel.cel_values import CelError, Fields, Items, MapList, SetList, no_overload
from queue_manager.local.cel.operators import duration

_NO_SCHEMA: dict[str, Any] = {}
_LISTS: dict[str, type[Items]] = {"set": SetList, "map": MapList}


def typed(schema: Json, value: Json) -> Any:
    """Return a JSON value as rules read it: objects and lists with their schema, scalars by type and format."""
    if isinstance(value, dict):
        fields = Fields(value)
        fields.schema = schema
        return fields
    if isinstance(value, list):
        items = _LISTS.get(schema.get("x-kubernetes-list-type", ""), Items)(value)
        items.schema = schema.get("items") or _NO_SCHEMA
        items.keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        return items
    kind = schema.get("type")
    if kind == "string":
        return _formatted(schema["format"], value) if schema.get("format") and isinstance(value, str) else value
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def descend(of: Fields, names: tuple[str, ...]) -> Any:
    """The value of `of.a.b.c`; only the last value is converted. Raises CelError."""
    value, schema = raw(of, names), of.schema
    for name in names:
        child = (schema.get("properties") or _NO_SCHEMA).get(name)
        if child is None:
            child = schema.get("additionalProperties")
        schema = child if isinstance(child, dict) else _NO_SCHEMA
    return typed(schema, value)


def raw(of: Json, names: tuple[str, ...]) -> Json:
    """The value in `of` at the path `names`, as it is in the object: no type of the schema is applied."""
    for name in names:
        if not isinstance(of, dict):
            raise no_overload()
        if name not in of:
            raise CelError(f"no such key: {name}")
        of = of[name]
    return of


def field(of: dict[Any, Any], name: Any) -> Any:
    """The value of a field or map entry, typed by its schema. Raises KeyError without it."""
    value = of[name]
    if not isinstance(of, Fields):
        return value
    schema = of.schema
    child = (schema.get("properties") or _NO_SCHEMA).get(name)
    if child is None:
        child = schema.get("additionalProperties")
    return typed(child if isinstance(child, dict) else _NO_SCHEMA, value)


def item(of: list[Any], index: int) -> Any:
    """The item at an index, typed by its schema. Raises IndexError beyond the end."""
    return typed(of.schema, of[index]) if isinstance(of, Items) else of[index]


def pairs(of: list[Any] | dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a map, indexes and items of a list."""
    if isinstance(of, dict):
        for name in of:
            yield name, field(of, name)
    else:
        for index in range(len(of)):
            yield index, item(of, index)


def _formatted(form: str, value: str) -> Any:
    try:
        match form:
            case "date-time":
                moment = datetime.fromisoformat(value)
                return value if moment.tzinfo is None else moment
            case "date":
                return datetime.fromisoformat(value).replace(tzinfo=UTC)
            case "duration":
                return duration(value)
            case "byte":
                return base64.b64decode(value, validate=True)
    except (CelError, ValueError, binascii.Error):
        pass
    return value
