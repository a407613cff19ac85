"""Renders templates of objects as templates of a Helm chart.

Values are written as JSON, which is YAML on one line, so a setting of any type needs no indentation. A text that itself
has braces, such as the legend of a dashboard, is quoted for Helm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from typing_extensions import TypeIs

from queue_manager.installation.template import (
    CONFIG,
    CONFIG_FIELDS,
    ITEM,
    NAMESPACE,
    Checksum,
    Choice,
    Each,
    Encoded,
    Joined,
    Node,
    Setting,
    Spread,
    Template,
    TemplateCondition,
    Text,
    When,
)

PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
NOT_TEXT = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null")  # plain words that YAML does not read as texts
ITEM_NAME = "$item"
STEP = "  "


def chart_template(templates: Sequence[Template]) -> str:
    """Return the text of a file in `templates/`."""
    return "".join(f"{line}\n" for template in templates for line in _document(template))


def _document(node: Node) -> Iterator[str]:
    match node:
        case When(conditions, then):
            yield f"{{{{- if {_all(conditions)} }}}}"
            yield from _document(then)
            yield "{{- end }}"
        case Each(path, inner):
            yield f"{{{{- range {ITEM_NAME} := {_path(path)} }}}}"
            yield from _document(inner)
            yield "{{- end }}"
        case Mapping():
            yield "---"
            yield from _mapping(node)
        case _:
            raise TypeError(f"{node!r} is not an object")


def _mapping(nodes: Mapping[str, Node]) -> Iterator[str]:
    for name, node in nodes.items():
        match node:
            case When(conditions, then):
                yield f"{{{{- if {_all(conditions)} }}}}"
                yield from _entry(name, then)
                yield "{{- end }}"
            case Spread(path):
                yield f"{{{{- range $name, $value := {_path(path)} }}}}"
                yield "{{ $name | toJson }}: {{ $value | toJson }}"
                yield "{{- end }}"
            case _:
                yield from _entry(name, node)


def _entry(name: str, node: Node) -> Iterator[str]:
    key = _scalar(name)
    if isinstance(node, Mapping) and node:
        yield f"{key}:"
        yield from _indented(_mapping(node))
    elif _is_list(node) and node:
        yield f"{key}:"
        yield from _indented(_sequence(node))
    else:
        yield f"{key}: {_inline(node)}"


def _sequence(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        match node:
            case When(conditions, then):
                yield f"{{{{- if {_all(conditions)} }}}}"
                yield from _sequence([then])
                yield "{{- end }}"
            case Each(path, inner):
                yield f"{{{{- range {ITEM_NAME} := {_path(path)} }}}}"
                yield from _sequence([inner])
                yield "{{- end }}"
            case _:
                yield from _list_item(node)


def _list_item(node: Node) -> Iterator[str]:
    if isinstance(node, Mapping) and node:
        first, *rest = _mapping(node)
        if first.startswith("{{-"):
            raise TypeError("the first entry of a mapping in a list cannot be conditional")
        yield f"- {first}"
        yield from _indented(rest)
    else:
        yield f"- {_inline(node)}"


def _indented(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """Indent lines, except those that only direct Helm."""
    for line in lines:
        yield line if line.startswith("{{-") else STEP + line


def _inline(node: Node) -> str:
    """Return a value on one line."""
    match node:
        case Choice(condition, then, otherwise):
            return f"{{{{ if {_one(condition)} }}}}{_inline(then)}{{{{ else }}}}{_inline(otherwise)}{{{{ end }}}}"
        case Text(parts):
            form = "".join("%s" if not isinstance(part, str) else part.replace("%", "%%") for part in parts)
            arguments = " ".join(_expression(part) for part in parts if not isinstance(part, str))
            return f"{{{{ printf {json.dumps(form)} {arguments} | toJson }}}}"
        case Checksum(path):
            return f"{{{{ {_path(path)} | sha256sum }}}}"
        case Encoded(path):
            return f"{{{{ {_path(path)} | b64enc | toJson }}}}"
        case str():
            return _scalar(node)
        case None | bool() | int():
            return json.dumps(node)
        case Mapping() | list() | tuple():
            assert not node, "only empty collections are written on one line"
            return json.dumps(node)
        case _:
            return f"{{{{ {_expression(node)} | toJson }}}}"


def _expression(node: Node) -> str:
    if node is ITEM:
        return ITEM_NAME
    if isinstance(node, Setting):
        return _path(node.path)
    if isinstance(node, Joined):
        before, between, after = (json.dumps(text) for text in (node.before, node.after + node.before, node.after))
        values = _path(node.path)
        return f'(ternary (print {before} (join {between} {values}) {after}) "" (not (empty {values})))'
    raise TypeError(f"{node!r} has no value in Helm")


def _scalar(text: str) -> str:
    if PLAIN.fullmatch(text) and not NOT_TEXT.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    if "{{" not in text:
        return quoted
    if "`" in text:
        raise ValueError(f"a text with both braces and backquotes cannot be quoted for Helm: {text}")
    return f"{{{{ `{quoted}` }}}}"


def _all(conditions: Sequence[TemplateCondition]) -> str:
    if len(conditions) == 1:
        return _one(conditions[0])
    return "and " + " ".join(f"({_one(condition)})" for condition in conditions)


def _one(condition: TemplateCondition) -> str:
    path = _path(condition.path)
    test = f"has {path} (list {' '.join(json.dumps(each) for each in condition.among)})" if condition.among else path
    return f"not ({test})" if condition.negated else test


def _path(path: str) -> str:
    """Return the value in Helm; $ because `range` changes what a leading dot means."""
    if path.startswith(CONFIG_FIELDS):
        return _config_field(path.removeprefix(CONFIG_FIELDS))
    return "$.Release.Namespace" if path == NAMESPACE.path else f"$.Values.{path}"


def _config_field(path: str) -> str:
    """Return a field of the configuration, or what stands for an absent one: false, {} or []."""
    defaults = {"matchLabels": "dict", "matchExpressions": "list"}
    *_, last = names = path.split(".")
    keys = " ".join(json.dumps(name) for name in names)
    return f"(dig {keys} {f'({defaults[last]})' if last in defaults else 'false'} (fromYaml $.Values.{CONFIG}))"


def _is_list(node: Node) -> TypeIs[Sequence[Node]]:
    return isinstance(node, list | tuple)
