"""Objects seen as sets of fields: what an object consists of, what a change touches, merging, and taking away.

These are the operations of structured-merge-diff, on which the API server's field ownership is built. A *leaf* is a
scalar, an atomic list or map, or an empty one; only leaves are compared and replaced as a whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from job_controller.fields import Json
from queue_manager.local.apply.field_types import ListType, MapType, Type
from queue_manager.local.schema.fieldset import (
    MEMBER,
    SELF,
    FieldSet,
    below,
    children_of,
    has,
    in_order,
    is_member,
    key_element,
    node_of,
    show_element,
    value_element,
    without,
)

_NOTHING: Any = object()
MEMO = 512  # lists of one type whose fields are remembered


class BadValue(Exception):
    """A value that does not fit its type, as the server says it."""


class Change(NamedTuple):
    """What differs between two objects."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def less(self, fields: FieldSet) -> Change:
        """Without these fields and what lies below them."""
        return Change(without(self.added, fields), without(self.modified, fields), without(self.removed, fields))


# --- elements of lists ---------------------------------------------------------------------------------------


def element(kind: ListType, item: Json) -> str:
    """What an item of a list is known by. Raises BadValue."""
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


def _grouped(kind: ListType, items: list[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for item in items:
        try:
            found.setdefault(element(kind, item), []).append(item)
        except BadValue:
            continue
    return found


# --- all fields of an object ---------------------------------------------------------------------------------


def field_set(type_: Type, value: Json) -> FieldSet:
    """The fields that an applied configuration sets."""
    return children_of(_node(type_, value) or MEMBER)


def _node(type_: Type, value: Json) -> FieldSet | None:
    """The node of a value: None when nothing in it is a field (an empty list that is no leaf)."""
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
        node = _node(child or kind.other or _SCALAR, item)
        if node is None:
            node = MEMBER if member else None
        elif member and not is_member(node):
            node = {SELF: MEMBER, **node}
        if node is not None:
            out[f"f:{name}"] = node
    return out


def _items_of(kind: ListType, items: list[Json]) -> FieldSet:
    out: FieldSet = {}
    for name, same in _grouped(kind, items).items():
        node = _node(kind.item, same[0]) if len(same) == 1 else None
        out[name] = MEMBER if node is None or not node else {SELF: MEMBER, **children_of(node)}
    return out


_SCALAR = Type("untyped")


# --- changes -------------------------------------------------------------------------------------------------


def compare(type_: Type, old: Json, new: Json) -> Change:
    """What lies between two objects of a type."""
    added, modified, removed = _compare(type_, old, new)
    return Change(*(children_of(node or MEMBER) for node in (added, modified, removed)))


_Nodes = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
_SAME: _Nodes = (None, None, None)
_MODIFIED: _Nodes = (None, MEMBER, None)


def _compare(type_: Type, old: Json, new: Json) -> _Nodes:
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
    elements, other = kind.elements, kind.other or _SCALAR
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
    before, after = _grouped(kind, old), _grouped(kind, new)
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


def _whole(type_: Type, value: Json) -> FieldSet:
    """The node of something that is new, or gone, with all that is in it."""
    if value.__class__ in _PLAIN or not value:
        return MEMBER
    if isinstance(value, dict):
        kind = type_.map
        if kind is None or kind.atomic:
            return MEMBER
        elements, other = kind.elements, kind.other or _SCALAR
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
    """The same for a list by keys or a set. The pods of a Job have the same containers: one answer serves all."""
    text = orjson.dumps(value)
    known = kind.memo.get(text)
    if known is not None:
        return known
    node: FieldSet = {SELF: MEMBER}
    for name, same in _grouped(kind, value).items():
        node[name] = _whole(kind.item, same[0]) if len(same) == 1 else MEMBER
    node = in_order(node)
    if len(kind.memo) >= MEMO:
        kind.memo.clear()
    kind.memo[text] = node
    return node


# --- merging -------------------------------------------------------------------------------------------------


def merge(type_: Type, live: Json, applied: Json) -> Json:
    """`live` with all that `applied` sets. Shares parts with both."""
    found = _merge(type_, live, applied)
    return None if found is _NOTHING else found


def _merge(type_: Type, live: Json, applied: Json) -> Json:
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
        child = kind.fields.get(name) or kind.other or _SCALAR
        value = _merge(child, live.get(name, _NOTHING), applied.get(name, _NOTHING))
        if value is not _NOTHING:
            out[name] = value
    return out if out else _NOTHING


def _merge_lists(kind: ListType, live: list[Json], applied: list[Json]) -> Json:
    """Items of both: those applied in their order, those that are only live where they were among them."""
    left = [element(kind, item) for item in live]
    right = [element(kind, item) for item in applied]
    theirs = dict(zip(right, applied, strict=True))
    ours: dict[str, Json] = {}
    for name, item in zip(left, live, strict=True):
        ours[name] = None if name in ours else item  # what is there twice is not merged into
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
                at += 1  # shared, but another one comes first
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


# --- taking away ---------------------------------------------------------------------------------------------


def remove(type_: Type, value: Json, fields: FieldSet) -> Json:
    """A value without the members of a set. What becomes empty becomes null."""
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
        child = kind.fields.get(name) or kind.other or _SCALAR
        out[name] = remove(child, item, inner) if inner else item
    return out or None


def named_fields_too(type_: Type, fields: FieldSet) -> FieldSet:
    """The set with every struct field above a member made a member too."""
    out: FieldSet = {}
    for name, node in fields.items():
        kind, rest = name[:1], name[2:]
        child: Type | None = None
        declared = False
        if kind == "f" and type_.map is not None:
            child = type_.map.fields.get(rest)
            declared = child is not None
            child = child or type_.map.other
        elif type_.list is not None:
            child = type_.list.item
        inner = named_fields_too(child or _SCALAR, children_of(node))
        out[name] = node_of(is_member(node) or declared, inner) or MEMBER
    return out


# --- validation ----------------------------------------------------------------------------------------------


def check_value(type_: Type, value: Json) -> None:
    """Whether an applied configuration fits its type. Raises BadValue with every problem."""
    problems = list(_problems(type_, value, ""))
    if len(problems) == 1:
        raise BadValue(problems[0])
    if problems:
        raise BadValue("\n".join(["errors:", *(f"  {problem}" for problem in problems)]))


def _problems(type_: Type, value: Json, path: str) -> list[str]:
    at = f"{path}: " if path else ""
    if value is None:
        return []
    if isinstance(value, dict) and type_.map is not None:
        return _map_problems(type_.map, value, path)
    if isinstance(value, list) and type_.list is not None:
        return _list_problems(type_.list, value, path)
    if type_.scalar:
        return [f"{at}{problem}" for problem in _scalar_problem(type_.scalar, value)]
    return [f"{at}expected {'list' if type_.map is None else 'map'}, got {_go(value)}"]


def _scalar_problem(scalar: str, value: Json) -> list[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match scalar:
        case "numeric" if not number:
            return [f"expected numeric (int or float), got {_go_type(value)}"]
        case "string" if not isinstance(value, str):
            return [f"expected string, got {_go_value(value)}"]
        case "boolean" if not isinstance(value, bool):
            return [f"expected boolean, got {_go(value)}"]
        case "untyped" if isinstance(value, dict | list):
            return [f"expected any scalar, got {_go(value)}"]
    return []


def _map_problems(kind: MapType, value: dict[str, Json], path: str) -> list[str]:
    found: list[str] = []
    for name, item in value.items():
        child = kind.fields.get(name) or kind.other
        if child is None:
            return [*found, f"{path}.{name}: field not declared in schema"]
        found += _problems(child, item, f"{path}.{name}")
    return found


def _list_problems(kind: ListType, items: list[Json], path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    at = f"{path}: " if path else ""
    for index, item in enumerate(items):
        name = f"[{index}]"
        if kind.kind != "atomic":
            try:
                identity = element(kind, item)
            except BadValue as error:
                return [*found, f"{at}element {index}: {error}"]
            name = show_element(identity)
            if identity in seen:
                found.append(f"{at}duplicate entries for key {name}")
            seen.add(identity)
        found += _problems(kind.item, item, path + name)
    return found


def _go(value: Json) -> str:
    """A value as Go prints it with %v behind an interface."""
    return f"&{{{_go_plain(value)}}}"


def _go_plain(value: Json) -> str:
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_go_plain(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_go_plain, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def _go_value(value: Json) -> str:
    """A value as Go prints it with %#v behind an interface."""
    if isinstance(value, bool):
        shown = "true" if value else "false"
    elif isinstance(value, dict):
        pairs = ", ".join(f'"{name}":{_go_inner(value[name])}' for name in sorted(value))
        shown = f"map[string]interface {{}}{{{pairs}}}"
    elif isinstance(value, list):
        shown = f"[]interface {{}}{{{', '.join(map(_go_inner, value))}}}"
    else:
        shown = str(value)
    return f"&value.valueUnstructured{{Value:{shown}}}"


def _go_inner(value: Json) -> str:
    return value_element(value)[2:]


def _go_type(value: Json) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "<nil>")


__all__ = [
    "BadValue",
    "Change",
    "check_value",
    "compare",
    "element",
    "field_set",
    "merge",
    "named_fields_too",
    "remove",
]
