"""An update of a Workload's status loses nothing that the API server has stored, whoever wrote it."""

from typing import Any

import msgspec
import pytest

from queue_manager.api.models.workload import Workload
from queue_manager.api.types import WorkloadStatus
from tests.unit.api.test_crds import schema_of

SCHEMA = schema_of(Workload)["properties"]["status"]
NOW = "2026-01-01T00:00:00Z"


def everything(schema: dict[str, Any]) -> Any:
    """A value with each field of the schema."""
    if "properties" in schema:
        return {name: everything(each) for name, each in schema["properties"].items()}
    if "additionalProperties" in schema:
        return {"some": everything(schema["additionalProperties"])}
    if "items" in schema:
        return [everything(schema["items"])]
    text = NOW if schema.get("format") == "date-time" else "some"
    return {"integer": 1, "boolean": True, "string": text}.get(schema.get("type", ""), "1")


def least(schema: dict[str, Any]) -> Any:
    """A value with one item in each list of the schema, and in each item only required fields, as small as can be."""
    if "properties" in schema:
        required = schema.get("required", ())
        return {name: least(each) for name, each in schema["properties"].items() if name in required}
    if "items" in schema:
        return [least(schema["items"])]
    if schema.get("format") == "date-time":
        return NOW
    shortest = "x" * schema.get("minLength", "pattern" in schema)
    text = schema.get("enum", [shortest])[0]
    smallest = {"integer": schema.get("minimum", 0), "boolean": False, "string": text}
    return smallest.get(schema.get("type", ""), {} if "additionalProperties" in schema else "0")


@pytest.mark.parametrize("value", [everything, least])
def test_an_update_has_each_field_that_was_read(value: Any) -> None:
    fields = {name: value(schema) for name, schema in SCHEMA["properties"].items()}
    read = msgspec.json.decode(msgspec.json.encode(fields), type=WorkloadStatus)
    kept = {name: each for name, each in fields.items() if each != ""}
    assert msgspec.json.decode(msgspec.json.encode(read)) == kept
