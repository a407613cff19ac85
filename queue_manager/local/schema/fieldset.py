"""Sets of fields as metadata.managedFields writes them (FieldsV1), and operations on them.

A set is a tree of path elements in its stored form, so nothing is decoded or encoded:

    {"f:spec": {"f:parallelism": {}, "f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}}}}}

Elements are `f:name` (a field or map key), `k:{...}` (the item of a list with these keys), `v:...` (an item of a set).
A node is a *member* when it is empty or has the key "."; its other keys are the elements below it. A node that is not a
member can have elements below it too. The root of a set is not a node: an empty root is the empty set.

Trees are never changed in place, so they may share parts with each other and with stored objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

FieldSet = dict[str, Any]
Path = tuple[str, ...]

MEMBER: FieldSet = {}  # a member without elements below it
SELF = "."


def is_member(node: FieldSet) -> bool:
    """Whether the field of this node is in the set itself, not only fields below it."""
    return not node or SELF in node


def node_of(member: bool, children: FieldSet) -> FieldSet | None:
    """Return a node, or None if it would contain no member."""
    if not children:
        return MEMBER if member else None
    return {SELF: MEMBER, **children} if member else children


def children_of(node: FieldSet) -> FieldSet:
    """The fields below a node, without the mark that the node itself is in the set."""
    if SELF not in node:
        return node
    return {element: below for element, below in node.items() if element != SELF}


def of_paths(*paths: Path) -> FieldSet:
    """Return the set of exactly these paths."""
    tree: FieldSet = {}
    for path in paths:
        part: FieldSet = {}
        for element in reversed(path):
            part = {element: part}
        tree = union(tree, part)
    return tree


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields that are in either set."""
    if not other:
        return one
    if not one:
        return other
    out = dict(one)
    for element, right in other.items():
        left = one.get(element)
        if left is None:
            out[element] = right
        elif left is not right and left != right:
            member = is_member(left) or is_member(right)
            out[element] = node_of(member, union(children_of(left), children_of(right)))
    return out


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """The fields that are in both sets."""
    out: FieldSet = {}
    for element, left in one.items():
        right = other.get(element)
        if right is None:
            continue
        member = is_member(left) and is_member(right)
        node = node_of(member, intersection(children_of(left), children_of(right)))
        if node is not None:
            out[element] = node
    return out


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of `one` that are not members of `other`. Keeps what lies below a member of `other`."""
    if not other:
        return one
    out: FieldSet = {}
    for element, left in one.items():
        right = other.get(element)
        if right is None:
            out[element] = left
            continue
        member = is_member(left) and not is_member(right)
        node = node_of(member, difference(children_of(left), children_of(right)))
        if node is not None:
            out[element] = node
    return out


def without(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return `one` without the members of `other` and everything below them."""
    if not other:
        return one
    out: FieldSet = {}
    for element, left in one.items():
        right = other.get(element)
        if right is None:
            out[element] = left
        elif not is_member(right):
            node = node_of(is_member(left), without(children_of(left), children_of(right)))
            if node is not None:
                out[element] = node
    return out


def below(one: FieldSet, element: str) -> FieldSet:
    """Return the set of everything below an element."""
    return children_of(one.get(element) or MEMBER)


def has(one: FieldSet, element: str) -> bool:
    """Whether the set contains this field at its top level."""
    node = one.get(element)
    return node is not None and is_member(node)


def contains(one: FieldSet, path: Path) -> bool:
    """Whether the set contains the field at `path`."""
    node: FieldSet | None = one
    for element in path:
        node = None if node is None else node.get(element)
    return node is not None and is_member(node)


def paths(one: FieldSet, above: Path = ()) -> Iterator[Path]:
    """Return the paths of all members in order: the members of a level before those below them."""
    order = _sorted(one)
    for element in order:
        if is_member(one[element]):
            yield (*above, element)
    for element in order:
        yield from paths(children_of(one[element]), (*above, element))


def in_order(one: FieldSet) -> FieldSet:
    """Return the same set with its elements in the order in which they are written."""
    out: FieldSet = {}
    for element in _sorted(one):
        node = one[element]
        out[element] = in_order(node) if node else MEMBER
    return out


def _sorted(one: FieldSet) -> list[str]:
    """Sort elements as text, except that the keys and values of several items are compared as values."""
    order = sorted(one)
    if len(order) > 1 and order[-1][0] in "kv":
        order.sort(key=_order)
    return order


def _order(element: str) -> tuple[Any, ...]:
    """Return the sort key: first the member mark, then fields by name, list items by their keys, set items by value."""
    if element == SELF:
        return (0,)
    kind, _, rest = element.partition(":")
    if kind == "f":
        return (1, rest)
    value = _value(rest)
    if kind == "k" and isinstance(value, dict):
        return (2, [(name, *_rank(value[name])) for name in sorted(value)])
    return (3, _rank(value))


def _rank(value: Any) -> tuple[int, Any]:
    """Return the sort key of a value. Types are ordered: numbers, strings, booleans, null."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    return (1, value) if isinstance(value, str) else (3, str(value))


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


# --- elements ------------------------------------------------------------------------------------------------


def key_element(keys: dict[str, Any]) -> str:
    """The path element of a list item that is known by its keys, as in fieldsV1."""
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def value_element(value: Any) -> str:
    """The path element of a list item that is known by its value, as in fieldsV1."""
    return "v:" + orjson.dumps(value).decode()


def show(path: Path) -> str:
    """Format a path as in errors: `.spec.containers[name="a"].image`."""
    return "".join(map(show_element, path))


def show_element(element: str) -> str:
    """A path element as messages about conflicts print it."""
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    value = _value(rest)
    if kind == "k" and isinstance(value, dict):
        return "[" + ",".join(f"{name}={_printed(value[name])}" for name in sorted(value)) + "]"
    return f"[={_printed(value)}]"


def _printed(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def check(tree: Any) -> bool:
    """Return whether a value from outside is a valid set."""
    if not isinstance(tree, dict):
        return False
    return all(
        element == SELF or (len(element) >= 2 and element[1] == ":" and element[0] in "fkvi" and check(node))
        for element, node in tree.items()
    )
