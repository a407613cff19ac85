"""values.yaml and values.schema.json from the settings, and settings from `--values` and `--set`."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from job_controller.json_tree import Json
from queue_manager.installation.setting_mistakes import mistake
from queue_manager.installation.settings import Settings, values_of

WIDTH = 116
KEY = re.compile(r":(?=[\s,}])")  # the end of a key; a user name has colons too
INLINED = ("$defs", "title")


class SettingsError(ValueError):
    """Settings that cannot be used; one line per mistake."""


# --- files of the chart -----------------------------------------------------------------------------------------


def values_yaml() -> str:
    """Return values.yaml: every setting with its default, described by the comment above it."""
    return "\n".join(_section(Settings, values_of(Settings()))) + "\n"


def _section(model: type[BaseModel], values: Json, indent: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = field.alias or name
        description = " ".join((field.description or "").split())
        yield from textwrap.wrap(
            description, WIDTH - len(indent), initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
        )
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield f"{indent}{key}:"
            yield from _section(nested, values[key], indent + "  ")
        else:
            yield from (indent + line for line in _entry(key, values[key]))
        if not indent:
            yield ""


def _entry(key: str, value: object) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return [f"{key}: |", *textwrap.indent(value, "  ").splitlines()]
    return yaml.safe_dump({key: value}, sort_keys=False, default_flow_style=False).splitlines()


def values_schema() -> str:
    """Return values.schema.json, by which Helm checks values."""
    document = Settings.model_json_schema(by_alias=True)
    schema = _inlined(document, document.get("$defs", {}))
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, indent=2) + "\n"


def _inlined(node: Json, definitions: Mapping[str, Json]) -> Json:
    """Return a node of the schema without references; what stands beside a reference has precedence."""
    merged: Json = {**definitions[node["$ref"].removeprefix("#/$defs/")], **node} if "$ref" in node else dict(node)
    merged.pop("$ref", None)
    result: dict[str, Any] = {key: value for key, value in merged.items() if key not in INLINED}
    if isinstance(result.get("description"), str):
        result["description"] = " ".join(result["description"].split())
    if "properties" in result:
        result["properties"] = {name: _inlined(child, definitions) for name, child in result["properties"].items()}
    if "items" in result:
        result["items"] = _inlined(result["items"], definitions)
    return result


# --- what an admin says -----------------------------------------------------------------------------------------


def settings_from(documents: Iterable[Json], assignments: Iterable[str]) -> Settings:
    """Return the settings of values files and of `key=value` assignments; what comes later has precedence.

    Raises SettingsError with all mistakes.
    """
    values = merged_values(documents, assignments)
    try:
        return Settings.model_validate(_merged(values_of(Settings()), values))
    except ValidationError as error:
        known = list(_annotations(Settings))
        raise SettingsError("\n".join(mistake(each, known) for each in error.errors())) from None


def merged_values(documents: Iterable[Json], assignments: Iterable[str]) -> Json:
    """Return what was set, without defaults and unchecked. Raises SettingsError for what is no assignment."""
    values: Json = {}
    for document in (*documents, *map(_assignment, assignments)):
        values = _merged(values, document)
    return values


def _assignment(text: str) -> Json:
    path, separator, value = text.partition("=")
    if not separator or not all(path.split(".")):
        raise SettingsError(f"{text!r} is not KEY=VALUE, e.g. image.tag=v1")
    try:
        tree = _listed(yaml.safe_load(value), value)
        if isinstance(tree, int | float) and _is_text(path):
            tree = value  # a tag 1.10 is no number
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: of a date without such a day
        raise SettingsError(f"{path}: {value!r} is not YAML") from None
    for name in reversed(path.split(".")):
        tree = {name: tree}
    document: Json = tree
    return document


def _is_text(path: str) -> bool:
    """Whether this setting is a string."""
    return _annotations(Settings).get(path) is str


def _annotations(model: type[BaseModel], around: str = "") -> dict[str, object]:
    """Return the types of all settings and sections by their paths."""
    found: dict[str, object] = {}
    for key, field in model.model_fields.items():
        path = f"{around}{field.alias or key}"
        found[path] = inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= _annotations(inner, f"{path}.")
    return found


def _listed(tree: object, text: str) -> object:
    """Return the list of `{a,b}`, as Helm reads it; YAML reads a mapping without values."""
    if not isinstance(tree, dict) or not tree or not text.lstrip().startswith("{") or KEY.search(text):
        return tree
    return list(tree)


def _merged(base: Json, over: Json) -> Json:
    """Return both, with nested mappings merged, as Helm does."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result
