"""Label and field selectors, as far as a client needs them.

The API server filters lists and watches, but the responses to our own writes arrive unfiltered, and a cache with a
selector receives those too: so the same test is made here. Syntax: labels.Parse and fields.ParseSelector of
apimachinery.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Match = Callable[[Mapping[str, Any]], bool]  # over the JSON tree of an object

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^=!\s]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^=!\s]*)$")
_EXISTS = re.compile(r"^(?P<absent>!?)\s*(?P<key>[^=!\s]+)$")


def matcher(label_selector: str, field_selector: str) -> Match | None:
    """The test for both selectors, or None if neither restricts anything. Raises ValueError on a syntax error."""
    tests = [_label_test(part) for part in _split(label_selector)]
    tests += [_field_test(part) for part in _split(field_selector)]
    return (lambda tree: all(test(tree) for test in tests)) if tests else None


def _split(selector: str) -> list[str]:
    """The requirements of a selector: split at commas outside parentheses."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", selector) if part.strip()]


def _label_test(requirement: str) -> Match:
    if match := _SET.match(requirement):
        key, values = match["key"], {value.strip() for value in match["values"].split(",")}
        if match["op"] == "in":
            return lambda tree: _labels(tree).get(key) in values
        return lambda tree: _labels(tree).get(key) not in values
    if match := _EQUAL.match(requirement):
        key, value = match["key"], match["value"]
        if match["op"] == "!=":
            return lambda tree: _labels(tree).get(key) != value
        return lambda tree: _labels(tree).get(key) == value
    if match := _EXISTS.match(requirement):
        key, wanted = match["key"], not match["absent"]
        return lambda tree: (key in _labels(tree)) is wanted
    raise ValueError(f"cannot read the label selector {requirement!r}")


def _field_test(requirement: str) -> Match:
    match = _EQUAL.match(requirement)
    if match is None:
        raise ValueError(f"cannot read the field selector {requirement!r}")
    path, value, wanted = match["key"].split("."), match["value"], match["op"] != "!="
    return lambda tree: (_field(tree, path) == value) is wanted


def _labels(tree: Mapping[str, Any]) -> Mapping[str, str]:
    return (tree.get("metadata") or {}).get("labels") or {}


def _field(tree: Any, path: list[str]) -> str:
    """A field as field selectors compare it: as text, "" if absent."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    if isinstance(tree, bool):
        return "true" if tree else "false"
    return "" if tree is None else str(tree)
