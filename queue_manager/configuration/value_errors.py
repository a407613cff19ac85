"""Pydantic's validation errors in our words: the place in the file, the value as it is written, what is allowed.

A rejected value is taken out of the tree, so that the tree validates with defaults in its place and values that depend
on each other can still be checked: all problems of a file are reported at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple, get_args

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from queue_manager import durations
from queue_manager.configuration import config_field_types
from queue_manager.configuration.config_field_types import INT32, ConfigModel
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.quoted_text import quoted
from queue_manager.configuration.yaml_places import Findings, line_of, shown
from queue_manager.configuration.yaml_tree import NOT_JSON, json_value
from queue_manager.kube_yaml import FLOAT, INT, NULL, STR

OUT_OF_RANGE = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
WANTED = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "quantity": "a quantity",
    "duration": durations.EXAMPLES,
    "store_url": "sqlite:///PATH or postgresql://HOST/DATABASE",
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
}
"""What a value must be, by pydantic's type of error."""


class Mistake(NamedTuple):
    """A validation error. `kind` is pydantic's type of error; `field` is None for an unknown field."""

    path: str
    key: str
    kind: str
    field: FieldInfo | None
    model: type[ConfigModel]  # the section around the field


def validated(tree: dict[str, Any], findings: Findings) -> tuple[KueueConfig, list[Mistake]]:
    """The configuration of a tree, with defaults in place of rejected values, and the mistakes."""
    try:
        return _validate(tree), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
    mistakes = [_located(detail) for detail in details]
    for detail, mistake in zip(details, mistakes, strict=True):
        _take_out(tree, detail, mistake)
    return _validate(tree), mistakes


def _validate(tree: dict[str, Any]) -> KueueConfig:
    """Validate by the names that fields have in a file; their Python names are unknown fields."""
    return KueueConfig.model_validate(tree, by_alias=True, by_name=False)


def report(mistake: Mistake, findings: Findings) -> None:
    """Add a mistake to the problems of the file."""
    line, node = findings.places[mistake.path]
    if mistake.field is None:
        known = config_field_types.fields_of(mistake.model, findings.version)
        findings.unreadable(mistake.path, f"unknown field; {_instead(mistake.key, known)}", line)
    else:
        findings.unreadable(mistake.path, _message(mistake.kind, mistake.field, node), line_of(node))


def is_beyond(mistake: Mistake, findings: Findings) -> bool:
    """Whether the mistake is a value of the right type that is out of bounds, or none of the allowed words."""
    node = findings.places[mistake.path].value
    if mistake.kind == "literal_error":
        return node.tag == STR
    return mistake.kind in OUT_OF_RANGE and not _exceeds_int32(json_value(node))


def one_of(allowed: Iterable[str]) -> str:
    """`"a", "b" or "c"`."""
    *head, last = (f'"{value}"' for value in allowed)
    return f"{', '.join(head)} or {last}" if head else last


def _located(detail: ErrorDetails) -> Mistake:
    path = ""
    model: type[ConfigModel] = KueueConfig
    inner: type[ConfigModel] | None = KueueConfig
    field: FieldInfo | None = None
    for part in detail["loc"]:
        if inner is None or isinstance(part, int):  # an element of a list, or a value of a mapping
            path += f"[{part}]"
            continue
        path, model = f"{path}.{part}" if path else part, inner
        field = config_field_types.fields_of(model).get(part)
        annotation = field.annotation if field else None
        inner = config_field_types.section_model(
            config_field_types.element_type(annotation) if config_field_types.is_list(annotation) else annotation
        )
    return Mistake(path, str(detail["loc"][-1]), detail["type"], field, model)


def _take_out(tree: dict[str, Any], detail: ErrorDetails, mistake: Mistake) -> None:
    """Remove a rejected value. An element of a list is replaced, so that the others keep their index."""
    parent: Any = tree
    last: Any
    *way, last = detail["loc"]
    for part in way:
        parent = parent[part]
    if not isinstance(parent, list):
        parent.pop(last, None)
    elif mistake.kind == "literal_error" and mistake.field:
        parent[last] = _choices(mistake.field)[0]
    else:
        parent[last] = {} if mistake.kind == "model_type" else ""


def _message(kind: str, field: FieldInfo, node: yaml.Node) -> str:
    if node.tag == NULL:
        return "is empty; must have a value"
    if kind in OUT_OF_RANGE:
        return f"{node.value} is out of range; must be {_bounds(field, json_value(node))}"
    wanted = one_of(_choices(field)) if kind == "literal_error" else WANTED[kind]
    if not isinstance(node, yaml.ScalarNode):
        return f"{shown(node)}; must be {wanted}"
    text = node.value
    if kind == "literal_error":
        return f"{quoted(text)} is not supported; must be {wanted}"
    if node.tag == FLOAT and json_value(node) is NOT_JSON and wanted not in ("a mapping", "a list"):
        return f"{text} cannot be represented in JSON; must be {wanted}"
    if kind == "duration":
        return f"{quoted(text)} is not a duration; must be {wanted}" if node.tag == STR else _without_unit(node)
    if kind == "store_url":
        return f"{quoted(text)} is not the URL of a store; must be {wanted}"
    if kind == "quantity" and node.tag in (STR, INT, FLOAT):
        return f'{quoted(text)} is not a quantity; must be like "500m", "2" or "1Gi"'
    advice = f", in quotes: {quoted(text)}" if kind == "string_type" else ""
    return f"{shown(node)}; must be {wanted}{advice}"


def _without_unit(node: yaml.Node) -> str:
    unit = " without a unit" if node.tag in (INT, FLOAT) else ""
    return f"{shown(node)}{unit}; must be {durations.EXAMPLES}"


def _choices(field: FieldInfo) -> tuple[str, ...]:
    return get_args(config_field_types.core_type(field.annotation))


def _bounds(field: FieldInfo, value: object) -> str:
    """The bounds of a number as text. The only bound of a duration is zero."""
    if _exceeds_int32(value) and _bound(field, "lt"):
        return "a 32-bit integer"
    least, most = _bound(field, "ge"), _bound(field, "le")
    if most is not None:
        return f"{least}-{most}"
    return "greater than 0" if least is None else f"greater than or equal to {least or 0}"


def _bound(field: FieldInfo, name: str) -> Any:
    return next((getattr(mark, name) for mark in config_field_types.metadata(field) if hasattr(mark, name)), None)


def _exceeds_int32(value: object) -> bool:
    return isinstance(value, int) and not -INT32 <= value < INT32


def _instead(key: str, known: Iterable[str]) -> str:
    """Suggest the known field that resembles `key`, else list all known fields."""
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.75)
    return f'did you mean "{close[0]}"?' if close else f"allowed here: {', '.join(names)}"
