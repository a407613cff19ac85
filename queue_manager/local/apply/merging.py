"""Merge objects and remove fields from them, as structured-merge-diff's typed/merge.go and typed/remove.go do."""

from __future__ import annotations

from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.apply.field_types import UNTYPED, FieldType, ListType, MapType
from queue_manager.local.apply.list_item_keys import element
from queue_manager.local.schema.fieldset import MEMBER, FieldSet, below, children_of, has, is_member, node_of

_NOTHING: Any = object()


def merge(type_: FieldType, live: Json, applied: Json) -> Json:
    """Return `live` with everything that `applied` sets. Shares parts with both."""
    found = _merge(type_, live, applied)
    return None if found is _NOTHING else found


def _merge(type_: FieldType, live: Json, applied: Json) -> Json:
    if applied is _NOTHING:
        return live
    if live is _NOTHING:
        return applied
    if type_.map is not None and (live is None or isinstance(live, dict)) and isinstance(applied, dict | None):
        if type_.map.atomic or not (live or applied):
            return applied
        return _merge_maps(type_.map, live or {}, applied or {})
    if type_.list is not None and (live is None or isinstance(live, list)) and isinstance(applied, list | None):
        if type_.list.kind == "atomic" or not (live or applied):
            return applied
        return _merge_lists(type_.list, live or [], applied or [])
    return applied


def _merge_maps(kind: MapType, live: dict[str, Json], applied: dict[str, Json]) -> Json:
    out: dict[str, Json] = {}
    for name in {**live, **applied}:
        child = kind.fields.get(name) or kind.other or UNTYPED
        value = _merge(child, live.get(name, _NOTHING), applied.get(name, _NOTHING))
        if value is not _NOTHING:
            out[name] = value
    return out if out else _NOTHING


def _merge_lists(kind: ListType, live: list[Json], applied: list[Json]) -> Json:
    """Merge two lists: applied items in their order, items only in `live` at their previous relative position."""
    left = [element(kind, item) for item in live]
    right = [element(kind, item) for item in applied]
    theirs = dict(zip(right, applied, strict=True))
    ours: dict[str, Json] = {}
    for name, item in zip(left, live, strict=True):
        ours[name] = None if name in ours else item  # a duplicate item is replaced, not merged
    shared = [name for name in right if name in ours]
    out: list[Json] = []
    done: set[str] = set()

    def take(name: str, mine: Json, wanted: Json) -> None:
        value = _merge(kind.item, mine, wanted)
        if value is not _NOTHING:
            out.append(value)

    at, to, next_shared = 0, 0, 0
    while at < len(left) or to < len(right):
        if at < len(left) and to < len(right):
            name = left[at]
            if name == right[to]:
                done.add(name)
                take(name, ours[name], theirs[name])
                at, to, next_shared = at + 1, to + 1, next_shared + 1
                continue
            if name in theirs and next_shared < len(shared) and shared[next_shared] != name:
                at += 1  # skip shared items: the order of `applied` places them
                continue
        if at < len(left):
            name = left[at]
            if name not in theirs:
                take(name, live[at], _NOTHING)
                at += 1
                continue
            if name in done:
                at += 1
        if to < len(right):
            name = right[to]
            done.add(name)
            take(name, ours.get(name, _NOTHING), theirs[name])
            to += 1
            if next_shared < len(shared) and shared[next_shared] == name:
                next_shared += 1
    return out if out else _NOTHING


def remove(type_: FieldType, value: Json, fields: FieldSet) -> Json:
    """Return a value without the members of a set. A list or map that becomes empty becomes null."""
    if isinstance(value, list) and type_.list is not None:
        return None if type_.list.kind == "atomic" or not value else _remove_items(type_.list, value, fields)
    if isinstance(value, dict) and type_.map is not None:
        return None if type_.map.atomic or not value else _remove_fields(type_.map, value, fields)
    return value


def _remove_items(kind: ListType, items: list[Json], fields: FieldSet) -> Json:
    out: list[Json] = []
    for item in items:
        name = element(kind, item)
        if has(fields, name):
            continue
        inner = below(fields, name)
        out.append(remove(kind.item, item, inner) if inner else item)
    return out or None


def _remove_fields(kind: MapType, value: dict[str, Json], fields: FieldSet) -> Json:
    out: dict[str, Json] = {}
    for name, item in value.items():
        if has(fields, f"f:{name}"):
            continue
        inner = below(fields, f"f:{name}")
        child = kind.fields.get(name) or kind.other or UNTYPED
        out[name] = remove(child, item, inner) if inner else item
    return out or None


def named_fields_too(type_: FieldType, fields: FieldSet) -> FieldSet:
    """Return the set with every struct field above a member added as a member."""
    out: FieldSet = {}
    for name, node in fields.items():
        kind, rest = name[:1], name[2:]
        child: FieldType | None = None
        declared = False
        if kind == "f" and type_.map is not None:
            child = type_.map.fields.get(rest)
            declared = child is not None
            child = child or type_.map.other
        elif type_.list is not None:
            child = type_.list.item
        inner = named_fields_too(child or UNTYPED, children_of(node))
        out[name] = node_of(is_member(node) or declared, inner) or MEMBER
    return out
