"""Validation that an OpenAPI schema in a CustomResourceDefinition is structural."""

from __future__ import annotations

from job_controller.api_rules.field_errors import FieldError, forbidden, invalid, not_supported, required
from job_controller.json_tree import Json
from queue_manager.local.schema.patterns import PatternError, compiled
from queue_manager.local.schema.structural_schemas import CompiledSchema

TYPES = ("array", "boolean", "integer", "number", "object", "string")


def validate_schema(schema: Json, path: str) -> list[FieldError]:
    """The errors that keep a schema from being structural. The root must be an object."""
    errors: list[FieldError] = []
    if not schema.get("type"):
        return [required(f"{path}.type", "must not be empty at the root")]
    if schema["type"] != "object":
        errors.append(invalid(f"{path}.type", schema["type"], "must be object at the root"))
    return errors + _validate(schema, path, "")


def _validate(schema: Json, path: str, level: str) -> list[FieldError]:
    errors = _validate_type(schema, path, level) + _validate_pattern(schema, path) + _validate_rules(schema, path)
    for name, child in (schema.get("properties") or {}).items():
        errors += _validate(child, f"{path}.properties[{name}]", "specified object fields")
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        if schema.get("properties"):
            detail = "additionalProperties and properties are mutual exclusive"
            errors.append(forbidden(f"{path}.additionalProperties", detail))
        errors += _validate(more, f"{path}.additionalProperties", "specified object fields")
    if isinstance(schema.get("items"), dict):
        errors += _validate(schema["items"], f"{path}.items", "specified array items")
        errors += _validate_list(schema, path)
    elif schema.get("type") == "array":
        errors.append(required(f"{path}.items", "must be specified"))
    return errors + (_validate_default(schema, path) if not errors else [])


def _validate_type(schema: Json, path: str, level: str) -> list[FieldError]:
    kind = schema.get("type") or ""
    if schema.get("x-kubernetes-int-or-string"):
        return [invalid(f"{path}.type", kind, "must be empty if x-kubernetes-int-or-string is true")] if kind else []
    if kind:
        return [] if kind in TYPES else [not_supported(f"{path}.type", kind, TYPES)]
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    return [required(f"{path}.type", f"must not be empty for {level}")]


def _validate_rules(schema: Json, path: str) -> list[FieldError]:
    if not schema.get("x-kubernetes-validations"):
        return []
    from queue_manager.local.cel.compiled_rules import problems

    return problems(schema, path)


def _validate_pattern(schema: Json, path: str) -> list[FieldError]:
    pattern = schema.get("pattern")
    if not pattern:
        return []
    try:
        compiled(pattern)
    except PatternError as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        return [invalid(f"{path}.pattern", pattern, detail)]
    return []


def _validate_list(schema: Json, path: str) -> list[FieldError]:
    if schema.get("x-kubernetes-list-type") != "map":
        return []
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if not keys:
        return [required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")]
    items = schema["items"]
    errors: list[FieldError] = []
    for key in keys:
        child = (items.get("properties") or {}).get(key)
        if child is None:
            detail = "entries must all be names of item properties"
            errors.append(invalid(f"{path}.x-kubernetes-list-map-keys", keys, detail))
        elif "default" not in child and key not in (items.get("required") or []):
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            errors.append(required(f"{path}.items.properties[{key}].default", detail))
    return errors


def _validate_default(schema: Json, path: str) -> list[FieldError]:
    if "default" not in schema:
        return []
    found = list(CompiledSchema(schema).validate(schema["default"]))
    return [FieldError(e.reason, f"{path}.default{'.' + e.field if e.field else ''}", e.message) for e in found]
