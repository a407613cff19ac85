"""Check an apply configuration against its type, with the error texts of structured-merge-diff."""

from __future__ import annotations

from job_controller.json_tree import Json
from queue_manager.local.apply.field_types import FieldType, ListType, MapType
from queue_manager.local.apply.list_item_keys import BadValue, element
from queue_manager.local.schema.fieldset import show_element, value_element


def check_value(type_: FieldType, value: Json) -> None:
    """Check that an apply configuration fits its type. Raises BadValue with all problems."""
    problems = list(_problems(type_, value, ""))
    if len(problems) == 1:
        raise BadValue(problems[0])
    if problems:
        raise BadValue("\n".join(["errors:", *(f"  {problem}" for problem in problems)]))


def _problems(type_: FieldType, value: Json, path: str) -> list[str]:
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
    """Format a value like Go's %v of an interface value."""
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
    """Format a value like Go's %#v of an interface value."""
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
