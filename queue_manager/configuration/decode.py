"""From YAML nodes to typed values, by the annotations of the settings.

Nothing stops at the first mistake: a value that cannot be read is noted and left out, and reading goes on. A
null is the same as an absent field.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal

import yaml

from job_controller import quantities
from queue_manager.configuration import durations
from queue_manager.configuration.document import Findings, line_of, shown
from queue_manager.configuration.setting import Opaque, Quantity
from queue_manager.kube_yaml import FLOAT, INT, MERGE, NULL, STR, NotJson, to_json

UNSET: Any = object()
INT32 = 2**31
NOTHING: Mapping[str, Any] = MappingProxyType({})


def wire_name(name: str) -> str:
    """`backoff_limit_count` -> `backoffLimitCount`."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@cache
def hints(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def settings(cls: type, version: str) -> dict[str, dataclasses.Field[Any]]:
    """The fields that a section has in a version, by their names in the file."""
    return {
        wire_name(field.name): field
        for field in dataclasses.fields(cls)
        if field.metadata.get("doc")
        and field.metadata.get("since", version) == version
        and field.metadata.get("until", version) == version
    }


def given(
    node: yaml.Node, cls: type, path: str, findings: Findings, instead: Mapping[str, type] = NOTHING
) -> dict[str, Any]:
    """The values that a section has in the file, by Python name. `instead`: sections read as another class."""
    known = settings(cls, findings.version)
    values: dict[str, Any] = {}
    for key, child, where in _entries(node, path, findings):
        field = known.get(key)
        if field is None:
            findings.unreadable(where, f"unknown field; {_instead(key, cls, known)}", findings.line(where))
            continue
        hint = instead.get(field.name, hints(cls)[field.name])
        value = read(child, hint, where, findings, field.metadata)
        if value is UNSET:
            continue
        if reason := field.metadata.get("ignored"):
            findings.ignored.append(f"{where}: {reason}")
        values[field.name] = value
    return values


def _entries(node: yaml.Node, path: str, findings: Findings) -> Iterable[tuple[str, yaml.Node, str]]:
    """Keys, values and paths of a mapping, each key once."""
    if not isinstance(node, yaml.MappingNode):
        findings.unreadable(path, f"{shown(node)}; must be a mapping", line_of(node))
        return
    seen: dict[str, int] = {}
    own = [(key, child) for key, child in node.value if key.tag != MERGE]
    for key_node, child in own:
        key = _text(key_node)
        where = f"{path}.{key}" if path else key
        line = line_of(key_node)
        if key in seen:
            findings.refuse(where, f"given twice; line {seen[key]} has it already", line)
            continue
        seen[key] = line
        findings.lines[where] = line
        yield key, child, where
    for key_node, child in _merged(node, path, findings):
        key = _text(key_node)
        if key not in seen:
            seen[key] = line_of(key_node)
            where = f"{path}.{key}" if path else key
            findings.lines[where] = seen[key]
            yield key, child, where


def _text(key: yaml.Node) -> str:
    return key.value if isinstance(key, yaml.ScalarNode) else "?"


def _merged(node: yaml.MappingNode, path: str, findings: Findings) -> Iterable[tuple[yaml.Node, yaml.Node]]:
    """Keys and values that `<<` brings in, those that count before those that they hide. Each mapping comes once:
    what would merge itself ends, and what is merged over and over does no harm."""
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


def _instead(key: str, cls: type, known: Iterable[str]) -> str:
    """What may have been meant by a field that is not there."""
    for field in dataclasses.fields(cls):
        if wire_name(field.name) == key and field.metadata.get("doc"):
            version = field.metadata.get("since") or field.metadata.get("until")
            return f"only {version} has it"
    names = sorted(known)
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.75)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"allowed here: {', '.join(names)}"


def read(node: yaml.Node, hint: Any, path: str, findings: Findings, marks: Mapping[str, Any] = NOTHING) -> Any:
    """One value, or UNSET when there is none or it was refused."""
    if node.tag == NULL:
        return UNSET
    origin = typing.get_origin(hint)
    if origin in (UnionType, typing.Union):
        hint = next(choice for choice in typing.get_args(hint) if choice is not NoneType)
        origin = typing.get_origin(hint)
    if hint is Opaque:
        return UNSET
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return _section(node, hint, path, findings)
    if origin is tuple:
        return _list(node, typing.get_args(hint)[0], path, findings)
    if origin is Mapping:
        return _mapping(node, typing.get_args(hint)[1], path, findings, marks)
    return _scalar(node, hint, path, findings, marks)


def _section(node: yaml.Node, cls: type, path: str, findings: Findings) -> Any:
    """A section; what was refused in it has its default, so that the rest can still be checked."""
    if not isinstance(node, yaml.MappingNode):
        findings.unreadable(path, f"{shown(node)}; must be a mapping", line_of(node))
        return UNSET
    return cls(**given(node, cls, path, findings))


def _list(node: yaml.Node, hint: Any, path: str, findings: Findings) -> Any:
    if not isinstance(node, yaml.SequenceNode):
        findings.unreadable(path, f"{shown(node)}; must be a list", line_of(node))
        return UNSET
    values = []
    for i, child in enumerate(node.value):
        where = f"{path}[{i}]"
        findings.lines[where] = line_of(child)
        value = read(child, hint, where, findings)
        if value is UNSET and not findings.unread(where):
            findings.unreadable(where, "is empty; must have a value", line_of(child))
        values.append(_blank(hint) if value is UNSET else value)
    return tuple(values)


def _blank(hint: Any) -> Any:
    """In the place of an element that could not be read, so that the others keep theirs."""
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)[0]
    return hint()


def _mapping(node: yaml.Node, hint: Any, path: str, findings: Findings, marks: Mapping[str, Any]) -> Any:
    values = {}
    for key, child, where in _entries(node, path, findings):
        bracketed = f"{path}[{key}]"
        findings.lines[bracketed] = findings.lines.pop(where)
        value = read(child, hint, bracketed, findings, marks)
        if value is not UNSET:
            values[key] = value
    return values


def _scalar(node: yaml.Node, hint: Any, path: str, findings: Findings, marks: Mapping[str, Any]) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        findings.unreadable(path, f"{shown(node)}; must be {_wanted(hint)}", line_of(node))
        return UNSET
    try:
        value = _convert(node, hint, marks)
    except ValueError as error:
        findings.unreadable(path, str(error), line_of(node))
        return UNSET
    limit = _beyond(value, marks)
    if limit:
        findings.unreadable(path, f"{node.value} is out of range; must be {limit}", line_of(node))
        return UNSET
    return value


def _convert(node: yaml.ScalarNode, hint: Any, marks: Mapping[str, Any]) -> Any:
    """The scalar as the wanted type. Raises ValueError with what is wrong and what is allowed."""
    text, tag = node.value, node.tag
    if typing.get_origin(hint) is Literal:
        allowed = typing.get_args(hint)
        if text not in allowed:
            raise ValueError(f'"{text}" is not supported; must be {one_of(allowed)}')
        return text
    value = _json(node)
    if value is None:
        raise ValueError(f"{text} has no form in JSON; must be {_wanted(hint)}")
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and type(value) is int:
        if not -INT32 <= value < INT32:
            raise ValueError(f"{text} is out of range; must be a 32-bit integer")
        return value
    if hint is float and type(value) in (int, float):
        return float(value)
    if hint is Quantity and tag in (STR, INT, FLOAT):
        return _quantity(text)
    if hint is timedelta:
        return _duration(node, marks)
    if hint is str:
        if tag == STR:
            return text
        raise ValueError(f'{shown(node)}; must be a string, in quotes: "{text}"')
    raise ValueError(f"{shown(node)}; must be {_wanted(hint)}")


def _json(node: yaml.ScalarNode) -> Any:
    """The value as Kueue reads it; None if JSON cannot hold it."""
    try:
        return to_json(node)
    except NotJson:
        return None


def _quantity(text: str) -> str:
    try:
        quantities.quantity(text)
    except quantities.MalformedQuantity:
        raise ValueError(f'"{text}" is not a quantity; must be like "500m", "2" or "1Gi"') from None
    return text


def _duration(node: yaml.ScalarNode, marks: Mapping[str, Any]) -> timedelta:
    value = _json(node)
    if type(value) is int and (marks.get("nanoseconds") or value == 0):
        return timedelta(microseconds=value // 1000)
    if node.tag != STR:
        raise ValueError(f"{shown(node)} without a unit; must be {durations.EXAMPLES}")
    try:
        return durations.parse(node.value)
    except ValueError:
        raise ValueError(f'"{node.value}" is not a duration; must be {durations.EXAMPLES}') from None


def _beyond(value: Any, marks: Mapping[str, Any]) -> str:
    """The limit that a value exceeds, in words."""
    minimum, above, maximum = (marks.get(name) for name in ("minimum", "above", "maximum"))
    if maximum is not None and not (minimum or 0) <= value <= maximum:
        return f"{minimum or 0}-{maximum}"
    if minimum is not None and value < minimum:
        return f"greater than or equal to {_plain(minimum)}"
    if above is not None and value <= above:
        return f"greater than {_plain(above)}"
    return ""


def _plain(limit: Any) -> str:
    return "0" if not limit else durations.render(limit) if isinstance(limit, timedelta) else str(limit)


def one_of(allowed: Iterable[str]) -> str:
    """`"a", "b" or "c"`."""
    *head, last = (f'"{value}"' for value in allowed)
    return f"{', '.join(head)} or {last}" if head else last


def _wanted(hint: Any) -> str:
    words = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
    return durations.EXAMPLES if hint is timedelta else words.get(hint, "a quantity" if hint is Quantity else "a word")
