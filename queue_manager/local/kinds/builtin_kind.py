"""Construction of built-in Kinds: what all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from job_controller.api_rules import metadata_validation, names
from job_controller.api_rules.field_errors import IMMUTABLE, FieldError, invalid
from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.local.kinds.kind import Kind
from queue_manager.local.schema.strict_decoding import TypedSchema

Check = Callable[[Json], list[FieldError]]
UpdateCheck = Callable[[Json, Json], list[FieldError]]


def builtin(
    resource: Resource,
    definition: str,
    *,
    create: Check | None = None,
    update: UpdateCheck | None = None,
    name_check: metadata_validation.NameCheck = names.dns_subdomain,
    finalizers_on_update: bool = True,
    **facts: Any,
) -> Kind:
    """A Kind with a built-in schema, whose metadata is validated before `create` and `update`.

    Without `finalizers_on_update` an update may add a finalizer without a domain, which a creation may not.
    """

    def validate_create(new: Json) -> list[FieldError]:
        errors = metadata_validation.validate_metadata(
            new["metadata"], namespaced=resource.namespaced, name_check=name_check
        )
        return errors + create(new) if create else errors

    def validate_update(new: Json, old: Json) -> list[FieldError]:
        errors = metadata_validation.validate_metadata_update(new["metadata"], old["metadata"])
        finalizers = new["metadata"].get("finalizers") or ()
        errors += metadata_validation.validate_finalizers(
            finalizers, "metadata.finalizers", custom=not finalizers_on_update
        )
        return errors + update(new, old) if update else errors

    def validate_status(new: Json, old: Json) -> list[FieldError]:
        return metadata_validation.validate_metadata_update(new["metadata"], old["metadata"])

    kind = Kind(
        resource=resource,
        schema=TypedSchema(definition, resource.kind, resource.version),
        singular=resource.kind.lower(),
        validate_create=validate_create,
        validate_update=validate_update,
        validate_status=validate_status,
    )
    return replace(kind, **facts)


def immutable(new: Json, old: Json, field: str, value: Any = None) -> list[FieldError]:
    """An error if a field (a dotted path) differs."""
    found, before = lookup(new, field), lookup(old, field)
    return [] if found == before else [invalid(field, found if value is None else value, IMMUTABLE)]


def lookup(tree: Json, path: str) -> Any:
    """The value at a dotted path, or None."""
    for step in path.split("."):
        if not isinstance(tree, dict):
            return None
        tree = tree.get(step)
    return tree
