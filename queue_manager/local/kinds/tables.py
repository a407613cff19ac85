"""Conversion of objects to the metav1.Table that kubectl prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.kinds.ages import since
from queue_manager.local.kinds.kind import Column, Kind
from queue_manager.local.status_errors import bad_request

VERSION = "meta.k8s.io/v1"
NAME = Column("Name", "string", "Name of the object, unique for its kind in its namespace", "name")
AGE = Column("Age", "string", "Time since the object was created")
CREATED_AT = Column("Created At", "date", "When the object was created")


def to_table(
    kind: Kind, objects: Iterable[Json], now: datetime, include: str = "Metadata", meta: Json | None = None
) -> Json:
    """A Table. `include` is the request's includeObject: "None", "Metadata" or "Object". Raises 400 for others."""
    if include not in ("None", "Metadata", "Object"):
        allowed = "must be 'Metadata', 'Object', 'None', or empty"
        why = f'includeObject: Invalid value: "{include}": {allowed}'
        raise bad_request(f"Unable to convert to Table as requested: {why}")
    return {
        "kind": "Table",
        "apiVersion": VERSION,
        "metadata": meta or {},
        "columnDefinitions": [_definition(column) for column in columns_of(kind)],
        "rows": [to_row(kind, tree, now, include) for tree in objects],
    }


def to_row(kind: Kind, tree: Json, now: datetime, include: str) -> Json:
    """The row of one object."""
    cells: Json = {"cells": (kind.row or _default_row)(tree, now), "object": None}
    if include == "Metadata":
        cells["object"] = {"kind": "PartialObjectMetadata", "apiVersion": VERSION, "metadata": tree["metadata"]}
    elif include == "Object":
        cells["object"] = tree
    return cells


def columns_of(kind: Kind) -> Sequence[Column]:
    """The columns of a kind in `kubectl get`; name and creation time if it defines none."""
    return kind.columns if kind.row else (NAME, CREATED_AT)


def _definition(column: Column) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _default_row(object: Json, _now: datetime) -> list[Any]:
    meta = object["metadata"]
    return [meta.get("name", ""), meta.get("creationTimestamp")]


def age(object: Json, now: datetime) -> str:
    """The time since the creation of an object, as kubectl prints ages."""
    return since(object["metadata"].get("creationTimestamp"), now)
