"""OpenAPI v3 documents, as far as `kubectl explain`, `apply` and `edit` need them.

A document contains the schemas of the kinds of a group version, and for each kind the paths by which a client detects
that fieldValidation and dryRun are supported. Only schemas of CustomResourceDefinitions have descriptions.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.local.kinds.custom_kinds import OBJECT_META, CustomSchema
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.schema.builtin_types import definitions
from queue_manager.local.schema.strict_decoding import TypedSchema

_PREFIX = "#/components/schemas/"
_GVK = "x-kubernetes-group-version-kind"
_PARAMETERS = {
    "create": ("dryRun", "fieldManager", "fieldValidation"),
    "update": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
}
_PATCHES = ("application/json-patch+json", "application/merge-patch+json")


def path_of(group: str, version: str) -> str:
    """Return `api/v1`, `apis/batch/v1`: the key of a group version in documents and discovery."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def document(kinds: list[Kind]) -> bytes:
    """Return the document of one group version."""
    schemas: dict[str, Json] = {}
    paths: dict[str, Json] = {}
    for kind in kinds:
        name = _add_kind(schemas, kind)
        paths |= _paths(kind, name)
    return orjson.dumps(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.36"},
            "paths": paths,
            "components": {"schemas": schemas},
        },
        option=orjson.OPT_SORT_KEYS,
    )


def index(documents: dict[str, bytes]) -> bytes:
    """Return the list of documents. A client fetches a document again when its hash has changed."""
    paths = {
        path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashlib.sha256(body).hexdigest().upper()}"}
        for path, body in documents.items()
    }
    return orjson.dumps({"paths": paths})


# --- schemas -------------------------------------------------------------------------------------------------


def _add_kind(schemas: dict[str, Json], kind: Kind) -> str:
    schema = kind.schema
    if isinstance(schema, TypedSchema):
        _add_type(schemas, schema.definition)
        return schema.definition
    assert isinstance(schema, CustomSchema)
    resource = kind.resource
    name = f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}.{resource.kind}"
    _add_type(schemas, OBJECT_META)
    schemas[name] = _custom(schema.definition, resource)
    return name


def _add_type(schemas: dict[str, Json], name: str) -> None:
    """Add a type and all types that it refers to."""
    pending = [name]
    while pending:
        name = pending.pop()
        if name not in schemas:
            schemas[name] = _public(definitions()[name], pending)


def _public(schema: Json, found: list[str]) -> Json:
    """Convert a stored schema to OpenAPI. The types that it refers to are added to `found`."""
    out = {key: value for key, value in schema.items() if not key.startswith("x-go-") and key != "$ref"}
    if "$ref" in schema:
        found.append(schema["$ref"])
        reference = {"$ref": _PREFIX + schema["$ref"]}
        return out | {"allOf": [reference]} if out else reference
    if "properties" in schema:
        out["properties"] = {name: _public(value, found) for name, value in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            out[key] = _public(schema[key], found)
    return out


def _custom(definition: Json, resource: Resource) -> Json:
    properties = {
        "apiVersion": {"type": "string", "description": "The group and version that this object is written in."},
        "kind": {"type": "string", "description": "The kind of this object."},
        "metadata": {
            "allOf": [{"$ref": _PREFIX + OBJECT_META}],
            "description": "Name, namespace, labels and the like.",
        },
    }
    own = {name: value for name, value in (definition.get("properties") or {}).items() if name not in properties}
    return {**definition, "type": "object", "properties": {**own, **properties}, _GVK: [_gvk(resource)]}


def _gvk(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


# --- paths ---------------------------------------------------------------------------------------------------


def _paths(kind: Kind, name: str) -> dict[str, Json]:
    resource = kind.resource
    collection = resource.path(namespace="{namespace}")
    one = resource.path(namespace="{namespace}", name="{name}")
    found: dict[str, Json] = {
        collection: {"get": _operation(kind, name, "list"), "post": _operation(kind, name, "create")},
        one: {
            "get": _operation(kind, name, "get"),
            "put": _operation(kind, name, "update"),
            "patch": _operation(kind, name, "patch"),
            "delete": _operation(kind, name, "delete"),
        },
    }
    if kind.has_status:
        found[f"{one}/status"] = {
            method: _operation(kind, name, action)
            for method, action in (("get", "get"), ("put", "update"), ("patch", "patch"))
        }
    return found


def _operation(kind: Kind, name: str, action: str) -> Json:
    reference = {"schema": {"$ref": _PREFIX + name}}
    operation: dict[str, Any] = {
        "responses": {"200": {"description": "OK", "content": {"application/json": reference}}},
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(action, action),
        _GVK: _gvk(kind.resource),
    }
    if action in _PARAMETERS:
        operation["parameters"] = [
            {"name": parameter, "in": "query", "schema": {"type": "boolean" if parameter == "force" else "string"}}
            for parameter in _PARAMETERS[action]
        ]
    if action in ("create", "update"):
        operation["requestBody"] = {"content": {"application/json": reference}, "required": True}
    elif action == "patch":
        types = [*_PATCHES, *(["application/strategic-merge-patch+json"] if _is_typed(kind) else [])]
        operation["requestBody"] = {"content": {media: {"schema": {"type": "object"}} for media in types}}
    return operation


def _is_typed(kind: Kind) -> bool:
    return isinstance(kind.schema, TypedSchema)
