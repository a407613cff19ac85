"""The identity of list items: their keys, or their value (structured-merge-diff, typed/helpers.go)."""

from __future__ import annotations

from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.apply.field_types import ListType
from queue_manager.local.schema.fieldset import key_element, value_element

_NOTHING: Any = object()


class BadValue(Exception):
    """A value that does not fit its type, with the server's error text."""


def element(kind: ListType, item: Json) -> str:
    """Return the path element that identifies an item of a list. Raises BadValue."""
    if kind.keys:
        return _by_keys(kind, item)
    if isinstance(item, dict):
        raise BadValue("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise BadValue("not supported: associative list with lists as elements")
    if item is None:
        raise BadValue("associative list without keys has an element that's an explicit null")
    return value_element(item)


def _by_keys(kind: ListType, item: Json) -> str:
    if item is None:
        raise BadValue("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise BadValue("associative list with keys may not have non-map elements")
    keys = {}
    for name in kind.keys:
        value = item.get(name, _NOTHING)
        if value is _NOTHING:
            field = kind.item.map.fields.get(name) if kind.item.map else None
            value = field.default if field is not None else None
            if value is None:
                continue
        keys[name] = value
    if not keys:
        names = " ".join(f'"{name}"' for name in kind.keys)
        raise BadValue(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(keys)


def grouped(kind: ListType, items: list[Json]) -> dict[str, list[Json]]:
    """The items of a list by their path element; items without a valid key are left out."""
    found: dict[str, list[Json]] = {}
    for item in items:
        try:
            found.setdefault(element(kind, item), []).append(item)
        except BadValue:
            continue
    return found
