"""A JSON Schema of the configuration file, for editors: `python -m queue_manager.configuration.json_schema FILE`.

Pydantic writes the schema of the models. Here it is split by version of the API and its references are replaced by
what they refer to, since editors show the description of a field better so. Rules that relate several values are
left to the loader.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from job_controller.json_tree import Json
from queue_manager import durations
from queue_manager.configuration.config_field_types import V1BETA1, V1BETA2
from queue_manager.configuration.kueue_config import KueueConfig
from queue_manager.configuration.version_defaults import GROUP, KIND

FOLDED = ("anyOf", "$ref", "$defs", "title", "x-only", "x-no-effect")
DIFFERENT_IN_V1BETA1 = ("timeout", "recoveryTimeout", "blockAdmission")
"""Fields of waitForPodsReady that have another default there, or none."""


class _Generator(GenerateJsonSchema):
    """JSON Schema generator of pydantic that writes default durations as in configuration files ("5m0s")."""

    def encode_default(self, dft: Any) -> Any:
        return durations.render(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def schema() -> Json:
    """The schema of both versions; a file without apiVersion is checked as the newest."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of Sluice (KueueConfig)",
        "if": {"properties": {"apiVersion": {"const": f"{GROUP}/{V1BETA1}"}}, "required": ["apiVersion"]},
        "then": document(V1BETA1),
        "else": document(V1BETA2),
    }


def render() -> str:
    """The JSON text of the schema file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def document(version: str) -> Json:
    """The schema of the files of one version, without references."""
    generated = KueueConfig.model_json_schema(schema_generator=_Generator)
    document = _inlined(generated, version, generated["$defs"])
    fixed = {"apiVersion": f"{GROUP}/{version}", "kind": KIND}
    properties = {name: {"const": value} for name, value in fixed.items()} | document["properties"]
    if version == V1BETA1:
        for name in DIFFERENT_IN_V1BETA1:
            del properties["waitForPodsReady"]["properties"][name]["default"]
    else:
        properties["fairSharing"]["required"] = ["preemptionStrategies"]
    return {**document, "properties": properties, "required": list(fixed)}


def _inlined(schema: Json, version: str, definitions: Mapping[str, Json]) -> Json:
    """Return a schema node with references replaced, without nulls, with only the fields of this version."""
    node = _merged(schema, definitions)
    result = {key: value for key, value in node.items() if key not in FOLDED}
    if "properties" in node:
        result["properties"] = {
            name: _property(child, version, definitions)
            for name, child in node["properties"].items()
            if child.get("x-only", version) == version
        }
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = _inlined(node[key], version, definitions)
    return result


def _property(schema: Json, version: str, definitions: Mapping[str, Json]) -> Json:
    result = _inlined(schema, version, definitions)
    result["description"] = " ".join(result["description"].split())
    if reason := schema.get("x-no-effect"):
        result["description"] += f" No effect: {reason}."
    if "properties" in result:
        result["type"] = ["object", "null"]  # a section whose fields are all commented out
    if result.get("default") in (None, "", []):  # off or empty: not worth showing
        result.pop("default", None)
    return result


def _merged(schema: Json, definitions: Mapping[str, Json]) -> Json:
    """Return the definition that the node refers to, or its non-null alternative, overridden by the node's own keys."""
    base: Json = {}
    if "$ref" in schema:
        base = definitions[schema["$ref"].removeprefix("#/$defs/")]
    elif "anyOf" in schema:
        base = _merged(next(choice for choice in schema["anyOf"] if choice != {"type": "null"}), definitions)
    return {**base, **schema}


def main(arguments: Sequence[str]) -> int:
    """Write the schema to the given file."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m queue_manager.configuration.json_schema FILE\n")
        return 2
    Path(arguments[0]).write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
