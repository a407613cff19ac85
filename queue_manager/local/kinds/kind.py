"""Description of a kind for the embedded API server.

The request handlers are the same for all kinds; everything that differs between kinds is a field of `Kind`. Built-in
kinds are constants, custom kinds are built from CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api.api_resources import Resource
from queue_manager.local.schema.fieldset import FieldSet


class Schema(Protocol):
    """The fields of a kind: strict decoding, pruning, and merge keys for strategic merge patches."""

    def check(self, body: Json, old: Json | None = None) -> list[str]:
        """Unknown fields as `unknown field "spec.foo"`. Raises BadRequest on a wrong JSON type.

        Parts that are unchanged from the stored object `old` need not be checked.
        """
        ...

    def prune(self, body: Json) -> None:
        """Remove unknown fields in place."""
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the Table that kubectl prints. priority 0 is always shown, 1 with -o wide."""

    name: str
    type: str = "string"
    description: str = ""
    format: str = ""
    priority: int = 0


def nothing(*_: Json) -> None:
    """Default of `Kind` fields that edit objects: do nothing."""


def no_errors(*_: Json) -> list[FieldError]:
    """Validation of a kind without rules."""
    return []


def no_warnings(_new: Json, _old: Json | None) -> list[str]:
    """Warnings of a kind that has none."""
    return []


def no_fields(_: Json) -> Mapping[str, str]:
    """Fields for field selectors of a kind that has only metadata."""
    return {}


def no_generated_fields(_: Json) -> FieldSet:
    """Fields that the server generates, of a kind that has none."""
    return {}


class OtherVersion(NamedTuple):
    """Another version of a kind that has other fields."""

    schema: Schema
    convert: Callable[[Json], Json]  # to that version
    back: Callable[[Json], Json]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind in one version. The `prepare_` functions change the object in place before it is validated and stored.

    The handler sets metadata (uid, resourceVersion, generation, timestamps) and separates the main resource from
    /status; these functions do the rest. `new` already has the metadata that it will be stored with.
    """

    resource: Resource
    schema: Schema
    singular: str = ""
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    has_status: bool = True
    subresources: Sequence[str] = ()  # besides "status": "log", "binding", "eviction"
    generation: bool = True  # metadata.generation counts spec changes
    prepare_create: Callable[[Json], None] = nothing
    prepare_update: Callable[[Json, Json], None] = nothing  # (new, old)
    validate_create: Callable[[Json], list[FieldError]] = no_errors
    validate_update: Callable[[Json, Json], list[FieldError]] = no_errors  # (new, old)
    prepare_status: Callable[[Json, Json], None] = nothing  # (new, old), spec already restored
    validate_status: Callable[[Json, Json], list[FieldError]] = no_errors
    warnings: Callable[[Json, Json | None], list[str]] = no_warnings  # (new, old or None on create)
    fields: Callable[[Json], Mapping[str, str]] = no_fields  # field selectors besides metadata.name/namespace
    columns: Sequence[Column] = ()
    row: Callable[[Json, datetime], list[Any]] | None = None  # cells for `columns`
    default_propagation: str = "Background"  # batch/v1 Jobs: "Orphan"
    created_by_update: bool = False  # PUT of an object that does not exist creates it
    status_on_create: bool = False  # a created object keeps the status that the client sent
    generated_fields: Callable[[Json], FieldSet] = (
        no_generated_fields  # set by the server on create, owned by no field manager
    )
    is_custom: bool = False  # defined by a CustomResourceDefinition
    deprecation: str = ""  # warning of a deprecated version
    # Conversion between the form that is stored and the form that this kind shows; None: they are the same.
    stored_as: Resource | None = None  # the kind whose objects are stored: events of both API groups share one table
    stored_fields: Callable[[Json], Mapping[str, str]] | None = None  # `fields` of the stored kind, if they differ
    to_stored: Callable[[Json], Json] | None = None
    from_stored: Callable[[Json], Json] | None = None
    converted_since: int = 0  # resourceVersion of the definition: objects stored before it are converted by from_stored
    versions: Mapping[str, OtherVersion] = field(default_factory=dict)  # with other fields, by apiVersion
    table: str = field(init=False)  # where the objects are stored

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", str(self.stored_as or self.resource))
