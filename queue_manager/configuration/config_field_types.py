"""Building blocks of the configuration models: the base model, field types, and marks for what pydantic cannot say.

A model is an ordinary pydantic model: types, bounds, defaults and descriptions (the docstrings of the attributes) are
pydantic's. The marks say which version of the API has a field, why a field has no effect in Sluice, and why a running
process cannot apply a new value.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    Strict,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from job_controller import quantities
from queue_manager import durations
from queue_manager.api import component_names

V1BETA1, V1BETA2 = "v1beta1", "v1beta2"
DEFAULT_NAMESPACE = component_names.NAMESPACE
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
INT32 = 2**31
DURATION = r"^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$"

T = TypeVar("T")


class ConfigModel(BaseModel):
    """A section. Snake case in Python, camel case in the file; unknown fields and converted types are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
        defer_build=True,
    )


# --- marks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Only:
    """Only this version of the API has the field. `instead`: what another version has in its place."""

    version: str
    instead: str = ""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "x-only": self.version}


@dataclass(frozen=True, slots=True)
class NoEffect:
    """The field is read and checked, and has no effect in Sluice."""

    why: str

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "x-no-effect": self.why}


@dataclass(frozen=True, slots=True)
class AtStart:
    """A new value needs a restart."""

    why: str


# --- field types ---------------------------------------------------------------------------------------------


def _quantity(value: object) -> str:
    """Validate a quantity. `value` is its text in the file, also for a number."""
    try:
        if isinstance(value, str):
            quantities.quantity(value)
            return value
    except quantities.MalformedQuantity:
        pass
    raise PydanticCustomError("quantity", "not a quantity")


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if type(value) is int and value == 0:
        return timedelta(0)
    try:
        if isinstance(value, str):
            return durations.parse(value)
    except ValueError:
        pass
    raise PydanticCustomError("duration", "not a duration")


def _go_duration(value: object) -> timedelta:
    return timedelta(microseconds=value // 1000) if type(value) is int else _duration(value)


def _duration_schema(types: str | list[str]) -> WithJsonSchema:
    return WithJsonSchema({"type": types, "pattern": DURATION, "examples": ["30s", "5m", "1h30m"]})


def _number(value: float) -> float:
    return int(value) if value.is_integer() else value


_AS_GO = PlainSerializer(durations.render, return_type=str)
_NOT_NEGATIVE, _POSITIVE = Field(ge=timedelta(0)), Field(gt=timedelta(0))

List: TypeAlias = Annotated[tuple[T, ...], Strict(False)]
Int32 = Annotated[int, Field(ge=-INT32, lt=INT32)]
Count = Annotated[int, Field(ge=0, lt=INT32)]
Positive = Annotated[int, Field(ge=1, lt=INT32)]
Number = Annotated[float, PlainSerializer(_number)]
Quantity = Annotated[str, BeforeValidator(_quantity), WithJsonSchema({"type": ["string", "number"]})]
Duration = Annotated[timedelta, BeforeValidator(_duration), _NOT_NEGATIVE, _duration_schema("string"), _AS_GO]
PositiveDuration = Annotated[timedelta, BeforeValidator(_duration), _POSITIVE, _duration_schema("string"), _AS_GO]
GoDuration = Annotated[
    timedelta, BeforeValidator(_go_duration), _NOT_NEGATIVE, _duration_schema(["string", "integer"]), _AS_GO
]
"""A `time.Duration` in Kueue's API: a number is nanoseconds. `metav1.Duration`, all the others, has no numbers."""

Opaque = Annotated[Any, WithJsonSchema({})]
"""Accepted whatever its value, which is not kept."""


# --- reading models ------------------------------------------------------------------------------------------


@cache
def fields_of(model: type[ConfigModel], version: str = "") -> Mapping[str, FieldInfo]:
    """The fields of a section by their names in the file; with `version` only those that the version has."""
    found = {field.alias or name: field for name, field in model.model_fields.items()}
    if not version:
        return found
    return {name: field for name, field in found.items() if only_version(field) in ("", version)}


def only_version(field: FieldInfo) -> str:
    """The one version that has the field; empty: all."""
    return next((mark.version for mark in metadata(field) if isinstance(mark, Only)), "")


def other_version(field: FieldInfo) -> str:
    """Which version has the field, and what to do in a file of another one."""
    only = next(mark for mark in metadata(field) if isinstance(mark, Only))
    remedy = "remove it" if only.version == V1BETA1 else "remove it, or write that version"
    return f"only {only.version} has it; {remedy}{only.instead and f': {only.instead}'}"


def no_effect_reason(field: FieldInfo) -> str:
    """Why the field has no effect; empty: it has one."""
    return next((mark.why for mark in metadata(field) if isinstance(mark, NoEffect)), "")


def restart_reason(field: FieldInfo) -> str:
    """Why a new value needs a restart; empty: it does not."""
    return next((mark.why for mark in metadata(field) if isinstance(mark, AtStart)), "")


def metadata(field: FieldInfo) -> Iterator[object]:
    """The marks and bounds in the annotations of a field and of its elements."""
    yield from field.metadata
    yield from _metadata(field.annotation)


def _metadata(annotation: Any) -> Iterator[object]:
    for mark in getattr(annotation, "__metadata__", ()):
        yield from mark.metadata if isinstance(mark, FieldInfo) else [mark]
    if not isinstance(annotation, type):
        for part in typing.get_args(annotation):
            yield from _metadata(part)


def core_type(annotation: Any) -> Any:
    """The annotation without metadata and without `| None`."""
    while True:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            annotation = arguments[0]
        elif origin in (types.UnionType, typing.Union):
            annotation = next(choice for choice in arguments if choice is not types.NoneType)
        else:
            return annotation


def element_type(annotation: Any) -> Any:
    """The annotation of the elements of a list or mapping; None for other types."""
    plain = core_type(annotation)
    if typing.get_origin(plain) is tuple:
        return typing.get_args(plain)[0]
    return typing.get_args(plain)[1] if typing.get_origin(plain) is Mapping else None


def is_list(annotation: Any) -> bool:
    """Whether the annotation is of a list."""
    return typing.get_origin(core_type(annotation)) is tuple


def is_literal(annotation: Any) -> bool:
    """Whether the annotation is a Literal of the allowed texts."""
    return typing.get_origin(core_type(annotation)) is typing.Literal


def section_model(annotation: Any) -> type[ConfigModel] | None:
    """The model of a section; None for anything else."""
    plain = core_type(annotation)
    return plain if isinstance(plain, type) and issubclass(plain, ConfigModel) else None
