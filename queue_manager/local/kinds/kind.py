"""What the embedded API server must know of a kind to serve it.

The request handler is the same for every kind; all that differs is in one of these. Built-in kinds are
constants, custom ones are made from CustomResourceDefinitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from job_controller.api_rules.field_errors import FieldError
from job_controller.json_tree import Json
from queue_manager.api.resources import Resource


class Schema(Protocol):
    """The shape of a kind: strict decoding, and merge keys for strategic merge patches."""

    def check(self, body: Json, old: Json | None = None) -> list[str]:
        """Unknown fields as `unknown field "spec.foo"`. Raises BadRequest on a wrong JSON type.

        Parts that are as they were in `old`, which is stored, need not be looked at.
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


def nothing(*_: Json) -> None: ...


def no_errors(*_: Json) -> list[FieldError]:
    return []


def no_warnings(_new: Json, _old: Json | None) -> list[str]:
    return []


def no_fields(_: Json) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind in one version. Functions that prepare work in place on the object about to be stored.

    The handler owns metadata (uid, resourceVersion, generation, timestamps) and the split between the main
    resource and /status; the functions own everything below. `new` already carries the metadata it will
    be stored with (uid included) when a function sees it.
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
    extra: Mapping[str, Any] = field(default_factory=dict)
    # Where its objects are stored; two kinds may share a table (events of two API groups).
    table: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", str(self.extra.get("stored_as", self.resource)))
