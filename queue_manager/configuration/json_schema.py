"""A JSON Schema of the configuration file, for editors: `python -m queue_manager.configuration.json_schema FILE`.

It says about the shape what the loader would say; what depends on other values is left to the loader.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import typing
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal

from job_controller.json_tree import Json
from queue_manager.configuration.decode import hints, settings
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.render import plain
from queue_manager.configuration.setting import Opaque, Quantity
from queue_manager.configuration.versions import GROUP, INSTEAD, KIND, V1BETA1, V1BETA2

DURATION = r"^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$"
_PLAIN: Mapping[Any, Json] = {
    bool: {"type": "boolean"},
    float: {"type": "number"},
    str: {"type": "string"},
    int: {"type": "integer"},
    timedelta: {"type": "string", "pattern": DURATION, "examples": ["30s", "5m", "1h30m"]},
    Quantity: {"type": ["string", "number"]},
    Opaque: {},
}


def schema() -> Json:
    """The schema of both versions; without apiVersion a file is taken for the newest."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of Sluice (KueueConfig)",
        "if": {"properties": {"apiVersion": {"const": f"{GROUP}/{V1BETA1}"}}, "required": ["apiVersion"]},
        "then": _document(V1BETA1),
        "else": _document(V1BETA2),
    }


def render() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _document(version: str) -> Json:
    section = _section(KueueConfig, version)
    fixed = {"apiVersion": f"{GROUP}/{version}", "kind": KIND}
    properties = {name: {"const": value} for name, value in fixed.items()} | section["properties"]
    if version == V1BETA1:
        properties["queueVisibility"] = {"type": "object", "description": "No effect, in Kueue as well."}
        # Most defaults of this section are others there.
        for name in ("timeout", "recoveryTimeout", "blockAdmission"):
            properties["waitForPodsReady"]["properties"][name].pop("default", None)
    else:
        properties["fairSharing"]["required"] = ["preemptionStrategies"]
    return {**section, "properties": properties, "required": list(fixed)}


def _section(cls: type, version: str, written: type | None = None) -> Json:
    """An object. `written`: a class with further fields that the file has and the result has not."""
    properties = {name: _field(cls, field, version) for name, field in settings(cls, version).items()}
    for name, field in settings(written, version).items() if written else ():
        if written and name not in properties:
            properties[name] = _field(written, field, version)
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _field(cls: type, field: dataclasses.Field[Any], version: str) -> Json:
    marks = field.metadata
    written = INSTEAD.get(field.name) if cls is KueueConfig else None
    node = {**_type(hints(cls)[field.name], version, marks, written)}
    if "properties" in node:
        node["type"] = ["object", "null"]  # a section whose settings are all commented out
    without_effect = f" No effect: {marks['ignored']}." if marks.get("ignored") else ""
    node["description"] = marks["doc"] + without_effect
    # Sections are explained field by field, and what is off or empty has no default worth showing.
    default = None if field.default is dataclasses.MISSING else plain(field.default)
    if "properties" not in node and default not in (None, "", []):
        node["default"] = default
    return node


def _type(hint: Any, version: str, marks: Mapping[str, Any], written: type | None = None) -> Json:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (UnionType, typing.Union):
        hint = next(choice for choice in arguments if choice is not NoneType)
        return _type(hint, version, marks, written)
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0], version, {})}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _type(arguments[1], version, marks)}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return _section(hint, version, written)
    limits = {"minimum": marks.get("minimum"), "maximum": marks.get("maximum"), "exclusiveMinimum": marks.get("above")}
    numbers = {name: limit for name, limit in limits.items() if isinstance(limit, int | float)}
    node = _PLAIN[hint]
    return {**node, "type": ["string", "integer"], **numbers} if marks.get("nanoseconds") else {**node, **numbers}


def main(arguments: Sequence[str]) -> int:
    """Write the schema to the given file."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m queue_manager.configuration.json_schema FILE\n")
        return 2
    Path(arguments[0]).write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
