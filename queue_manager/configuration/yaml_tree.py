"""Converts YAML nodes to the plain tree that pydantic validates, and records the place of every field.

Reads what pydantic does not see: lines, keys that are given twice, merge keys (`<<`), nulls (the same as an absent
field), and fields that only another version of the API has. The annotations of the models direct the descent, so that
a file whose aliases contain themselves is read in bounded time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from queue_manager.configuration import config_field_types
from queue_manager.configuration.config_field_types import ConfigModel, Quantity
from queue_manager.configuration.yaml_places import Findings, line_of, shown
from queue_manager.kube_yaml import BOOL, FLOAT, INT, MERGE, NULL, STR, NotJson, to_json

NOT_JSON: Any = object()
"""A collection where another value is expected, or a number that JSON cannot hold: no type accepts it."""


def read_section(node: yaml.MappingNode, model: type[ConfigModel], path: str, findings: Findings) -> dict[str, Any]:
    """The fields of a section by their names in the file. An unknown field has the value None."""
    known = config_field_types.fields_of(model)
    tree: dict[str, Any] = {}
    for key, child in _entries(node, path, ".%s" if path else "%s", findings):
        field = known.get(key)
        where = f"{path}.{key}" if path else key
        if field is None:
            tree[key] = None
        elif config_field_types.only_version(field) not in ("", findings.version):
            findings.unreadable(where, f"unknown field; {config_field_types.other_version(field)}")
        elif child.tag != NULL:
            if (reason := config_field_types.no_effect_reason(field)) and not _is_empty(child):
                findings.ignored.append(f"{where}: {reason}")
            if config_field_types.core_type(field.annotation) is not Any:
                tree[key] = _value(child, field.annotation, where, findings)
    return tree


def _is_empty(node: yaml.Node) -> bool:
    """Whether a value counts as unset (null, empty): configurations printed by Kueue contain such values."""
    if isinstance(node, yaml.MappingNode):
        return all(_is_empty(value) for _, value in node.value)
    return not node.value or node.tag == NULL


def _value(node: yaml.Node, annotation: Any, path: str, findings: Findings) -> Any:
    if isinstance(node, yaml.ScalarNode):
        as_text = config_field_types.is_literal(annotation) or (
            annotation == Quantity and node.tag in (STR, INT, FLOAT)
        )
        return node.value if as_text else json_value(node)
    model, inner, is_list = (
        config_field_types.section_model(annotation),
        config_field_types.element_type(annotation),
        config_field_types.is_list(annotation),
    )
    if isinstance(node, yaml.SequenceNode) and is_list:
        return _list(node, inner, path, findings)
    if isinstance(node, yaml.MappingNode) and model is not None:
        return read_section(node, model, path, findings)
    if isinstance(node, yaml.MappingNode) and inner is not None and not is_list:
        entries = _entries(node, path, "[%s]", findings)
        return {key: _value(child, inner, f"{path}[{key}]", findings) for key, child in entries if child.tag != NULL}
    return NOT_JSON


def _list(node: yaml.SequenceNode, inner: Any, path: str, findings: Findings) -> list[Any]:
    items = []
    for i, child in enumerate(node.value):
        findings.place(f"{path}[{i}]", line_of(child), child)
        items.append(_value(child, inner, f"{path}[{i}]", findings))
    return items


def json_value(node: yaml.Node) -> Any:
    """The value of a scalar as Kueue reads it; NOT_JSON if JSON cannot hold it or JSON does not have its tag's type."""
    try:
        return to_json(node) if node.tag in (STR, INT, FLOAT, BOOL, NULL) else NOT_JSON
    except NotJson:
        return NOT_JSON


def _entries(node: yaml.MappingNode, path: str, form: str, findings: Findings) -> Iterable[tuple[str, yaml.Node]]:
    """Keys and values of a mapping, each key once. `form` is the key's part of a path."""
    seen: dict[str, int] = {}
    for key_node, child in node.value:
        if key_node.tag == MERGE:
            continue
        key, line = _text(key_node), line_of(key_node)
        where = path + form % key
        if key in seen:
            findings.refuse(where, f"duplicate key; first given in line {seen[key]}", line)
            continue
        seen[key] = line
        findings.place(where, line, child)
        yield key, child
    for key_node, child in _merged(node, path, findings):
        key = _text(key_node)
        if key not in seen:
            seen[key] = line_of(key_node)
            findings.place(path + form % key, seen[key], child)
            yield key, child


def _text(key: yaml.Node) -> str:
    return key.value if isinstance(key, yaml.ScalarNode) else "?"


def _merged(node: yaml.MappingNode, path: str, findings: Findings) -> Iterable[tuple[yaml.Node, yaml.Node]]:
    """Keys and values that `<<` merges, those with precedence first.

    Each mapping is visited once, so that a mapping that merges itself ends and repeated merges cost nothing.
    """
    found, known = [node], {id(node)}
    while found:
        mapping = found.pop()
        if mapping is not node:
            yield from ((key, child) for key, child in mapping.value if key.tag != MERGE)
        more = []
        for key, child in mapping.value:
            if key.tag != MERGE:
                continue
            for source in child.value if isinstance(child, yaml.SequenceNode) else [child]:
                if not isinstance(source, yaml.MappingNode):
                    what = f"{shown(source)}; must be a mapping or a list of mappings"
                    findings.refuse(f"{path}.<<" if path else "<<", what, line_of(key))
                elif id(source) not in known:
                    known.add(id(source))
                    more.append(source)
        found += reversed(more)
