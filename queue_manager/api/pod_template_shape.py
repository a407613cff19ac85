"""The shape of a pod template: the fields that the queue reads, with their types.

The schema of a Workload leaves metadata and spec of its templates open, so an API server stores a list where a pod spec
has a map. The rules and the scheduler read templates as JSON trees; both check the shape first, so that they may rely
on it: `workload_validation` refuses a write, and `types.PodSet` a stored Workload. An absent field may also be null.
Quantities have no type here, as the rules report malformed ones themselves.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Record

Strings = dict[str, str] | None
Texts = tuple[str, ...] | None


class Metadata(Record):
    """The labels and annotations by which Jobs and Workloads are compared, and which a stop restores."""

    labels: Strings = None
    annotations: Strings = None


class Resources(Record):
    """Quantities by resource."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class ContainerShape(Record):
    """The fields of a container that count against quota."""

    resources: Resources | None = None


class Toleration(Record):
    """core/v1 Toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Requirement(Record):
    """core/v1 NodeSelectorRequirement."""

    key: str | None = None
    operator: str | None = None
    values: Texts = None


class Term(Record):
    """core/v1 NodeSelectorTerm."""

    match_expressions: tuple[Requirement, ...] | None = None


class NodeSelector(Record):
    """core/v1 NodeSelector."""

    node_selector_terms: tuple[Term, ...] | None = None


class NodeAffinity(Record):
    """core/v1 NodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Record):
    """core/v1 Affinity."""

    node_affinity: NodeAffinity | None = None


class PodSpecShape(Record):
    """The fields of a pod spec that count against quota, or decide which flavors fit."""

    containers: tuple[ContainerShape, ...] | None = None
    init_containers: tuple[ContainerShape, ...] | None = None
    resources: Resources | None = None
    overhead: dict[str, Any] | None = None
    runtime_class_name: str | None = None
    node_selector: Strings = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduling_gates: tuple[dict[str, Any], ...] | None = None


class PodTemplate(Record):
    """core/v1 PodTemplateSpec."""

    metadata: Metadata | None = None
    spec: PodSpecShape | None = None


class Mismatch(NamedTuple):
    """A value of another type than its field: the path in the template (".spec.containers[0]"), and what is allowed."""

    path: str
    value: Json
    detail: str


_DETAILS = {"object": "must be an object", "array": "must be an array", "str": "must be a string"}
_MESSAGE = re.compile(r"Expected `(\w+)(?: \| null)?`.*? - at `\$(.*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")


def mismatch(template: Json) -> Mismatch | None:
    """The first field of another type, or None."""
    try:
        msgspec.convert(template, PodTemplate)
    except msgspec.ValidationError as error:
        return _located(template, str(error))
    return None


def _located(template: Json, message: str) -> Mismatch:
    """The field in an error of msgspec, which writes "[...]" for the key of a map."""
    found = _MESSAGE.fullmatch(message)
    if found is None:  # at the root the message has no path
        return Mismatch("", template, _DETAILS["object"])
    expected, path = found.groups()
    value, where = template, ""
    for step in _STEP.finditer(path):
        field, index = step.groups()
        if index == "...":
            index = next(key for key, each in value.items() if not isinstance(each, str))
            value = value[index]
        else:
            value = value[field] if field else value[int(index)]
        where += f".{field}" if field else f"[{index}]"
    return Mismatch(where, value, _DETAILS[expected])
