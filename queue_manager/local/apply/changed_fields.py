"""Objects as sets of fields: which fields an object contains, and which of them a change touches.

These are operations of structured-merge-diff, on which the API server's field ownership is built. A *leaf* is a scalar,
an atomic list or map, or an empty list or map; only leaves are compared and replaced as a whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from job_controller.json_tree import Json
from queue_manager.local.apply.field_types import UNTYPED, FieldType, ListType, MapType
from queue_manager.local.apply.list_item_keys import grouped
from queue_manager.local.schema.fieldset import (
    MEMBER,
    SELF,
    FieldSet,
    children_of,
    in_order,
    is_member,
    node_of,
)

_NOTHING: Any = object()
MEMO = 512  # lists per type whose field sets are cached


class FieldDifference(NamedTuple):
    """The fields in which two objects differ."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


# --- all fields of an object ---------------------------------------------------------------------------------


def field_set(type_: FieldType, value: Json) -> FieldSet:
    """Return the fields that an apply configuration sets."""
    return children_of(_node(type_, value) or MEMBER)


def _node(type_: FieldType, value: Json) -> FieldSet | None:
    """Return the node of a value, or None if it contains no field (an empty list that is not a leaf)."""
    if isinstance(value, dict):
        if type_.map is None or type_.map.atomic:
            return MEMBER
        return node_of(False, _fields_of(type_.map, value))
    if isinstance(value, list):
        if type_.list is None or type_.list.kind == "atomic":
            return MEMBER
        return node_of(False, _items_of(type_.list, value))
    if value is None and type_.map is not None and not type_.map.atomic:
        return None
    if value is None and type_.map is None and type_.list is not None and type_.list.kind != "atomic":
        return None
    return MEMBER


def _fields_of(kind: MapType, value: dict[str, Json]) -> FieldSet:
    out: FieldSet = {}
    for name, item in value.items():
        child = kind.fields.get(name)
        member = child is None or item is None or item == {}
        node = _node(child or kind.other or UNTYPED, item)
        if node is None:
            node = MEMBER if member else None
        elif member and not is_member(node):
            node = {SELF: MEMBER, **node}
        if node is not None:
            out[f"f:{name}"] = node
    return out


def _items_of(kind: ListType, items: list[Json]) -> FieldSet:
    out: FieldSet = {}
    for name, same in grouped(kind, items).items():
        node = _node(kind.item, same[0]) if len(same) == 1 else None
        out[name] = MEMBER if node is None or not node else {SELF: MEMBER, **children_of(node)}
    return out


# --- changes -------------------------------------------------------------------------------------------------


def compare(type_: FieldType, old: Json, new: Json) -> FieldDifference:
    """Return the difference between two objects of a type."""
    added, modified, removed = _compare(type_, old, new)
    return FieldDifference(*(children_of(node or MEMBER) for node in (added, modified, removed)))


_Nodes = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
_SAME: _Nodes = (None, None, None)
_MODIFIED: _Nodes = (None, MEMBER, None)


def _compare(type_: FieldType, old: Json, new: Json) -> _Nodes:
    if old == new:
        return _SAME
    if type_.map is not None and (old is None or isinstance(old, dict)) and (new is None or isinstance(new, dict)):
        if type_.map.atomic or not (old or new):
            return _MODIFIED
        return _compare_maps(type_.map, old or {}, new or {})
    if type_.list is not None and (old is None or isinstance(old, list)) and (new is None or isinstance(new, list)):
        if type_.list.kind == "atomic" or not (old or new):
            return _MODIFIED
        return _compare_lists(type_.list, old or [], new or [])
    added = removed = None
    if isinstance(new, dict) and new and type_.map is not None and not type_.map.atomic:
        added = children_of(_whole(type_, new)) or None
    if isinstance(old, dict) and old and type_.map is not None and not type_.map.atomic:
        removed = children_of(_whole(type_, old)) or None
    return (added, MEMBER, removed)


def _compare_maps(kind: MapType, old: dict[str, Json], new: dict[str, Json]) -> _Nodes:
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    elements, other = kind.elements, kind.other or UNTYPED
    for name, value in new.items():
        known = elements.get(name)
        before = old.get(name, _NOTHING)
        if before is _NOTHING:
            if known is not None:
                added[known[0]] = _whole(known[1], value)
            else:
                added["f:" + name] = _whole(other, value)
            continue
        plus, changed, minus = _compare(known[1] if known else other, before, value)
        if plus is not None:
            added["f:" + name] = plus
        if changed is not None:
            modified["f:" + name] = changed
        if minus is not None:
            removed["f:" + name] = minus
    for name, value in old.items():
        if name not in new:
            known = elements.get(name)
            removed["f:" + name] = _whole(known[1] if known else other, value)
    return (added or None, modified or None, removed or None)


def _compare_lists(kind: ListType, old: list[Json], new: list[Json]) -> _Nodes:
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    before, after = grouped(kind, old), grouped(kind, new)
    for name in {**before, **after}:
        left, right = before.get(name, []), after.get(name, [])
        if len(left) <= 1 and len(right) <= 1:
            if not left:
                added[name] = _whole(kind.item, right[0])
            elif not right:
                removed[name] = _whole(kind.item, left[0])
            else:
                plus, changed, minus = _compare(kind.item, left[0], right[0])
                _put(added, name, plus)
                _put(modified, name, changed)
                _put(removed, name, minus)
        elif len(left) > 1 and len(right) > 1:
            if left != right:
                modified[name] = MEMBER
        elif len(left) > 1:
            removed[name] = MEMBER
            if right:
                added[name] = _whole(kind.item, right[0])
        else:
            added[name] = MEMBER
            if left:
                removed[name] = _whole(kind.item, left[0])
    return (added or None, modified or None, removed or None)


def _put(out: FieldSet, name: str, node: FieldSet | None) -> None:
    if node is not None:
        out[name] = node


_PLAIN = frozenset((str, int, bool, float))


def _whole(type_: FieldType, value: Json) -> FieldSet:
    """Return the node of an added or removed value, with everything in it."""
    if value.__class__ in _PLAIN or not value:
        return MEMBER
    if isinstance(value, dict):
        kind = type_.map
        if kind is None or kind.atomic:
            return MEMBER
        elements, other = kind.elements, kind.other or UNTYPED
        node: FieldSet = {SELF: MEMBER}
        for name, item in value.items():
            known = elements.get(name)
            if known is not None:
                node[known[0]] = MEMBER if item.__class__ in _PLAIN else _whole(known[1], item)
            else:
                node["f:" + name] = MEMBER if item.__class__ in _PLAIN else _whole(other, item)
        return node
    items = type_.list
    if items is None or items.kind == "atomic":
        return MEMBER
    return _whole_list(items, value)


def _whole_list(kind: ListType, value: list[Json]) -> FieldSet:
    """Like `_whole` for a list by keys or a set. Cached, because all pods of a Job have the same containers."""
    text = orjson.dumps(value)
    known = kind.memo.get(text)
    if known is not None:
        return known
    node: FieldSet = {SELF: MEMBER}
    for name, same in grouped(kind, value).items():
        node[name] = _whole(kind.item, same[0]) if len(same) == 1 else MEMBER
    node = in_order(node)
    if len(kind.memo) >= MEMO:
        kind.memo.clear()
    kind.memo[text] = node
    return node
