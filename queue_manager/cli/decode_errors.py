"""Explains why the API server could not decode a Job, with the line of each error in the manifest.

Unlike validation errors, decoding errors have no causes with field paths. The server names unknown fields by path, but
reports a value of a wrong type by Go struct field, without list indexes and map keys. This module finds such values by
walking the manifest along the same types as the embedded server:

    strict decoding error: unknown field "spec.paralelism", unknown field "spec.template.spec.containers[0].img"
    json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32
"""

from __future__ import annotations

import copy
import json
from typing import Any

from job_controller.json_tree import Json
from queue_manager.cli.api_error_text import NOT_DECODED, strict_errors
from queue_manager.cli.manifests import Manifest
from queue_manager.local.schema.builtin_types import INT_LIMITS, Field, Shape, shape_of
from queue_manager.local.schema.strict_decoding import Trail, Undecodable, Walk, quantity

JOB = "io.k8s.api.batch.v1.Job"
MAX_QUOTED = 60  # characters of a quoted value
Steps = tuple[tuple[str | int, bool], ...]  # (field, True), or (map key or list index, False)
_NO_JOB = f"{NOT_DECODED}Job"
_KINDS = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
_TIME = "a time such as 2026-01-31T12:00:00Z"
_WANTED = {
    "string": "a string", "bool": "true or false", "int32": "an integer", "int64": "an integer", "number": "a number",
    "list": "a list", "map": "a mapping", "object": "a mapping", "quantity": "a quantity such as 500m or 2Gi",
    "intstr": "an integer or a string", "time": _TIME, "microtime": _TIME, "bytes": "base64 text",
}  # fmt: skip


def explain_decoding(manifest: Manifest, message: str) -> list[str]:
    """Return one line per error in a manifest that the server failed to decode; empty if none is found."""
    if strict := strict_errors(message):
        return [f"{manifest.place(field)}: {field}: {kind} field" for kind, field in strict]
    if _NO_JOB not in message:
        return []
    search = _Search()
    search.object(shape_of(JOB), copy.deepcopy(manifest.tree), None)
    return [_line(manifest, *problem) for problem in search.problems]


class _Search(Walk):
    """Finds all values that cannot be decoded; a server reports only the first."""

    __slots__ = ("problems",)

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[tuple[Steps, str]] = []  # the path to a value, and the expected form

    def value(self, shape: Shape, item: Json, trail: Trail) -> Json:
        try:
            return super().value(shape, item, trail)
        except Undecodable:
            if shape.form == "map" and isinstance(item, dict):  # a map of quantities
                for key in item:
                    if not _is_quantity(item[key]):
                        self._note((trail, key), "quantity")
            else:
                self._note(trail, shape.form)
            return item

    def mismatch(self, found: str, shape: Shape, trail: Trail) -> None:
        self._note(trail, shape.form)

    def _note(self, trail: Trail, form: str) -> None:
        self.problems.append((_steps(trail), form))
        # The text must change with each problem: the walk caches parts that have none.
        self.wrong = f"{len(self.problems)} problems"


def _is_quantity(item: Json) -> bool:
    try:
        quantity(item)
    except Undecodable:
        return False
    return True


def _steps(trail: Trail | None) -> Steps:
    """Return the steps from the root to a value."""
    steps: list[tuple[str | int, bool]] = []
    while trail is not None:
        trail, step = trail
        steps.append((step.name, True) if isinstance(step, Field) else (step, False))
    return tuple(reversed(steps))


def _line(manifest: Manifest, steps: Steps, form: str) -> str:
    value: Any = manifest.tree
    for step, _ in steps:
        value = value[step]
    field = "".join(f".{step}" if is_field else f"[{step}]" for step, is_field in steps).removeprefix(".")
    return (
        f"{manifest.place(field)}: {field}: {_quoted(value)} is {_KINDS[type(value)]}; must be {_wanted(value, form)}"
    )


def _wanted(value: Any, form: str) -> str:
    wanted = _WANTED[form]
    if form == "string" and not isinstance(value, list | dict):
        return f"{wanted}: put it in quotes"
    if form in INT_LIMITS and type(value) is int:
        return f"{wanted} of {form.removeprefix('int')} bits"
    return wanted


def _quoted(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 4]} ..."
