"""Strategic merge patches: merge patches that know which lists are maps, sets or atomic.

The patch is merged into the object map by map, as in a merge patch. A list whose field has the strategy "merge" is
merged item by item: maps are matched by the field's merge key, plain values form a set. `schema.builtin_types` has the
strategy and the merge key of each field. Directives in the patch replace the strategy:

    $patch: replace | delete | merge        of the map that contains it, or of the list item
    $retainKeys: [..]                       remove all other keys of the map (unions such as a volume's source)
    $deleteFromPrimitiveList/<field>: [..]  items to remove from a list of plain values
    $setElementOrder/<field>: [..]          the order of the resulting list

Items that only the server has keep their position relative to those that the patch names; without an order the items of
the patch come first. The cost is linear in the size of object and patch.
"""

from __future__ import annotations

from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.schema.builtin_types import Shape

DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
DELETE_FROM = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"
_SET_LIKE = (RETAIN, DELETE_FROM, ORDER)


class BadPatch(Exception):
    """A patch that contradicts itself or the schema. The message is the server's."""

    def __init__(self, message: str, code: int = 500) -> None:
        super().__init__(message)
        self.code = code


def strategic_merge(current: Json, patch: Json, shape: Shape | None) -> Json:
    """Return the patched object, which may share parts of both arguments. Raises BadPatch."""
    if DIRECTIVE in patch:
        return _replaced(patch)
    patch = dict(patch)
    _retain(current, patch)
    for key in [key for key in patch if key.startswith(ORDER)]:
        _merge_ordered(current, patch, key, shape)
    for key, value in patch.items():
        deleting = key.startswith(DELETE_FROM)
        _merge_field(current, key.removeprefix(DELETE_FROM), value, shape, deleting)
    return current


def _merge_field(current: Json, name: str, value: Json, shape: Shape | None, deleting: bool) -> None:
    if value is None:
        current.pop(name, None)
        return
    inner = _below(shape, name)
    before = current.get(name)
    if name not in current or type(before) is not type(value):
        if not deleting:
            current[name] = _without_directives(value)
    elif isinstance(value, dict):
        replace = inner is not None and "replace" in inner.strategy
        current[name] = _without_directives(value) if replace else strategic_merge(before, value, inner)
    elif isinstance(value, list):
        if deleting or (inner is not None and "merge" in inner.strategy):
            current[name] = _merge_list(before or [], value, inner, deleting)
        else:
            current[name] = _without_directives(value)
    else:
        current[name] = value


def _below(shape: Shape | None, name: str) -> Shape | None:
    if shape is None:
        return None
    if shape.form == "map":
        return shape.item
    field = shape.fields.get(name)
    return field.shape if field else None


def _replaced(patch: Json) -> Json:
    match patch[DIRECTIVE]:
        case "replace":
            return {key: _without_directives(value) for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
    raise BadPatch(f"unknown patch type: {go(patch[DIRECTIVE])} in map: {go(patch)}")


def _retain(current: Json, patch: Json) -> None:
    keys = patch.pop(RETAIN, None)
    if keys is None:
        return
    if not isinstance(keys, list):
        raise BadPatch("invalid patch format of retainKeys", 400)
    kept = {key for key in keys if isinstance(key, str)}
    if any(value is not None and not key.startswith("$") and key not in kept for key, value in patch.items()):
        raise BadPatch("invalid patch format of retainKeys", 400)
    for key in [key for key in current if key not in kept]:
        del current[key]


def _without_directives(value: Json) -> Json:
    """Return a value of the patch as stored where the object has no value: without directives and nulls."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return {}  # for every directive, as an API server does
        return {
            key: _without_directives(item)
            for key, item in value.items()
            if item is not None and not key.startswith(_SET_LIKE)
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not (isinstance(item, dict) and DIRECTIVE in item)]
    return value


# --- lists ---------------------------------------------------------------------------------------------------


def _merge_list(before: list[Json], patch: list[Json], shape: Shape | None, deleting: bool) -> list[Json]:
    if not before and not patch:
        return before
    if not _maps(before, patch):
        if deleting:
            gone = {_identity(item, "") for item in patch}
            return [item for item in before if _identity(item, "") not in gone]
        merged = list({_identity(item, ""): item for item in [*before, *patch]}.values())
        return _arrange(merged, patch, before, "")
    key = shape.key if shape is not None else ""
    if not key:
        raise BadPatch("cannot merge lists without merge key")
    before, patch = _handle_special(before, patch, key)
    return _arrange(_merge_items(before, patch, key, shape), patch, before, key)


def _maps(before: list[Json], patch: list[Json]) -> bool:
    """Return whether the items are maps. Raises BadPatch if the items are of different kinds."""
    kinds = {type(item) for item in [*before, *patch]}
    if len(kinds) > 1:
        raise BadPatch(f"list element types are not identical: [{go(before)} {go(patch)}]")
    if list in kinds:
        raise BadPatch("lists of lists cannot be merged")
    return dict in kinds


def _handle_special(before: list[Json], patch: list[Json], key: str) -> tuple[list[Json], list[Json]]:
    """Apply `$patch` in list items: delete the item with the same merge key, or replace the whole list."""
    plain, gone, replace = [], set(), False
    for item in patch:
        match item.get(DIRECTIVE):
            case None:
                plain.append(item)
            case "delete":
                gone.add(_require_key(item, key))
            case "replace":
                replace = True
            case "merge":
                raise BadPatch("merging lists cannot yet be specified in the patch")
            case other:
                raise BadPatch(f"unknown patch type: {go(other)} in map: {go(item)}")
    if replace:
        return [], plain
    return [item for item in before if _identity(item, key) not in gone], plain


def _merge_items(before: list[Json], patch: list[Json], key: str, shape: Shape | None) -> list[Json]:
    merged = list(before)
    place = {_identity(item, key): index for index, item in enumerate(merged)}
    inner = shape.item if shape is not None else None
    for item in patch:
        identity = _require_key(item, key)
        if identity in place:
            index = place[identity]
            merged[index] = strategic_merge(merged[index], item, inner)
        else:
            place[identity] = len(merged)
            merged.append(_without_directives(item))
    return merged


def _merge_ordered(current: Json, patch: Json, directive: str, shape: Shape | None) -> None:
    """Merge a list that has a requested order."""
    order = patch.pop(directive)
    name = directive.removeprefix(ORDER)
    inner = _below(shape, name)
    key = inner.key if inner is not None else ""
    if not isinstance(order, list):
        raise BadPatch(f"expected a []interface {{}}, but received a {_go_type(order)}")
    changes, before = patch.get(name), current.get(name)
    if isinstance(changes, list):
        patch.pop(name)
        _check_order(changes, order, key)
    if not isinstance(before, list):
        merged = _without_directives(changes) if isinstance(changes, list) else None
    elif isinstance(changes, list):
        merged = _merge_list(before, changes, inner, False)
    else:
        merged = before
    if merged is not None:
        current[name] = _arrange(merged, order, before if isinstance(before, list) else [], key)


def _check_order(changes: list[Json], order: list[Json], key: str) -> None:
    """Check that the items of the patch occur in the order list, in that order. Items to delete need not occur."""
    if key:
        for item in order:
            if not isinstance(item, dict):
                raise BadPatch(f"expected a map[string]interface {{}}, but received a {_go_type(item)}")
    place = {_identity(item, key): index for index, item in enumerate(order)}
    last = -1
    for item in changes:
        if isinstance(item, dict) and item.get(DIRECTIVE) in ("delete", "replace"):
            continue
        at = place.get(_identity(item, key), -1)
        if at < last or at == -1:
            raise BadPatch(
                f"The order in patch list:\n{go(changes)}\n doesn't match $setElementOrder list:\n{go(order)}\n"
            )
        last = at


def _arrange(merged: list[Json], order: list[Json], before: list[Json], key: str) -> list[Json]:
    """Return the items in `order` in its order, merged with the other items by their previous positions."""
    wanted = {_identity(item, key): index for index, item in enumerate(order)}
    old = {_identity(item, key): index for index, item in reversed(list(enumerate(before)))}
    named = [item for item in merged if _identity(item, key) in wanted]
    others = [item for item in merged if _identity(item, key) not in wanted]
    named.sort(key=lambda item: wanted[_identity(item, key)])
    others.sort(key=lambda item: old.get(_identity(item, key), len(before)))
    woven: list[Json] = []
    left = iter(others)
    other = next(left, None)
    for item in named:
        place = old.get(_identity(item, key), -1)
        while other is not None and old.get(_identity(other, key), len(before)) < place:
            woven.append(other)
            other = next(left, None)
        woven.append(item)
    if other is not None:
        woven += [other, *left]
    return woven


def _require_key(item: Json, key: str) -> Any:
    if key not in item:
        raise BadPatch(f"map: {go(item)} does not contain declared merge key: {key}")
    return _identity(item, key)


def _identity(item: Json, key: str) -> Any:
    """Return the identity of an item: the merge key's value as text, or the item itself."""
    if key and isinstance(item, dict):
        return go(item.get(key))
    return (type(item).__name__, go(item))


def _go_type(value: Json) -> str:
    names = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}
    return names.get(type(value), "int64")


def go(value: Json) -> str:
    """Format a value like Go's %v."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(go(item) for item in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
