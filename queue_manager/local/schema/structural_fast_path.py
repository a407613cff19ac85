"""Fast path of structural schemas: test in a single pass, in C, that a value needs no further processing.

Nearly every value that is written has no unknown field, no default to set, no error and no duplicate. For such a value
the walks of structural_schemas.py visit every field and change nothing. So a schema is converted to a `msgspec` type
that accepts only values on which none of the walks would act. A value that the type rejects may still be valid, and is
walked. Parts of a schema that have no such type (oneOf, formats other than date-time, ...) accept nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from job_controller.json_tree import Json
from queue_manager.local.schema.cpu_time_limits import shortcut
from queue_manager.local.schema.patterns import compiled
from queue_manager.local.schema.validation_cache import Passed, text_of

Test = Callable[[Json], bool]

_UNDERSTOOD = frozenset(
    """
    type description title example externalDocs default nullable format enum pattern minLength maxLength minimum
    maximum minItems maxItems minProperties maxProperties properties additionalProperties items required
    x-kubernetes-int-or-string x-kubernetes-preserve-unknown-fields x-kubernetes-validations
    x-kubernetes-list-type x-kubernetes-list-map-keys x-kubernetes-map-type
    """.split()  # noqa: SIM905 - one word a line is no better
)
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
# A time as an API server stores it. Rejects February 29, which the walk then checks.
_TIME = (
    "^(?!0000)[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z\Z"
)
_WHOLE = {"int32": 2**31, "int64": 2**63, "": 2**63}


class _NoType(Exception):
    """The schema cannot be expressed as a `msgspec` type."""


class Fit:
    """A test that a value passes only if no walk of the schema would act on it. Compiled on first use."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._passed = Passed()

    @cached_property
    def _type(self) -> Any:
        try:
            return _type_of(self._schema)
        except _NoType:
            return None

    @cached_property
    def _further(self) -> Test | None:
        return _further(self._schema)

    def __call__(self, value: Json) -> bool:
        """Whether no walk would act on the value. False also where the schema or the value has no fast path."""
        if self._type is None:
            return False
        text = text_of(value)
        if text in self._passed:  # each walk runs this test, and many objects are alike
            return True
        if not shortcut(self._takes, value):  # a value with many long strings
            return False
        self._passed.add(text)
        return True

    def once(self, value: Json) -> bool:
        """Test a value that is tested only once: the result is not cached, and repeated names do not pass."""
        return self._type is not None and text_of(value) is not None and self._takes(value)

    def _takes(self, value: Json) -> bool:
        try:
            msgspec.convert(value, self._type)
        except msgspec.ValidationError:
            return False
        return self._further is None or self._further(value)


def _type_of(schema: Json) -> Any:
    """Convert a schema to a type. Raises _NoType."""
    either = bool(schema.get("x-kubernetes-int-or-string"))
    if either and schema.get("anyOf") == _INT_OR_STRING:
        schema = {name: value for name, value in schema.items() if name != "anyOf"}
    if not schema.keys() <= _UNDERSTOOD:
        raise _NoType
    found = _one_of(schema["enum"]) if "enum" in schema else _plain(schema, "int-or-string" if either else "")
    return _either(found, None) if schema.get("nullable") else found


def _one_of(values: list[Json]) -> Any:
    if not values or not all(isinstance(value, str) for value in values):
        raise _NoType
    return Literal[tuple(values)]


def _plain(schema: Json, form: str) -> Any:
    match form or schema.get("type"):
        case "string":
            return _string(schema)
        case "integer":
            return _integer(schema)
        case "int-or-string" if "type" not in schema:
            return _either(_integer(schema), _string(schema))
        case "boolean":
            return bool
        case "array":
            items = schema.get("items")
            bounds = _bounds(schema, min_length="minItems", max_length="maxItems")
            return _with(_list_of(_type_of(items) if isinstance(items, dict) else Any), bounds)
        case "object":
            return _object(schema)
        case None if schema.get("x-kubernetes-preserve-unknown-fields"):
            return Any
    raise _NoType


def _string(schema: Json) -> Any:
    bounds = _bounds(schema, min_length="minLength", max_length="maxLength")
    form = schema.get("format")
    if form == "date-time" and "pattern" not in schema:
        bounds["pattern"] = _TIME
    elif form:
        raise _NoType
    return _with(str, bounds)


def _integer(schema: Json) -> Any:
    limit = _WHOLE.get(schema.get("format", ""))
    if limit is None:
        raise _NoType
    least, most = schema.get("minimum", -limit), schema.get("maximum", limit - 1)
    if least != int(least) or most != int(most):
        raise _NoType
    return Annotated[int, Meta(ge=max(int(least), -limit), le=min(int(most), limit - 1))]


def _object(schema: Json) -> Any:
    fields, more = schema.get("properties") or {}, schema.get("additionalProperties")
    free = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or more is True
    if not fields:
        if schema.get("required"):
            raise _NoType
        bounds = _bounds(schema, min_length="minProperties", max_length="maxProperties")
        if free:
            return _with(dict[str, Any], bounds)
        if isinstance(more, dict):
            return _with(_map_of(_type_of(more)), bounds)
    if more not in (None, False, True) or {"minProperties", "maxProperties"} & schema.keys():
        raise _NoType
    needed = {*(schema.get("required") or ()), *(name for name, child in fields.items() if "default" in child)}
    if not needed <= fields.keys():
        raise _NoType
    members: list[tuple[str, Any, Any]] = []
    for name, child in fields.items():
        try:
            kind = _type_of(child)
        except _NoType:
            if name in needed:
                raise
            continue  # the type rejects objects that have this field
        member = f"f{len(members)}"
        if name in needed:
            members.append((member, kind, msgspec.field(name=name)))
        else:
            members.append((member, _either(kind, msgspec.UnsetType), msgspec.field(default=UNSET, name=name)))
    return msgspec.defstruct("Fields", members, forbid_unknown_fields=not free, kw_only=True)


def _bounds(schema: Json, **names: str) -> dict[str, Any]:
    return {ours: schema[theirs] for ours, theirs in names.items() if theirs in schema}


# Types that are created at run time cannot be written as annotations.


def _either(one: Any, other: Any) -> Any:
    return one | other


def _list_of(item: Any) -> Any:
    return GenericAlias(list, (item,))


def _map_of(value: Any) -> Any:
    return GenericAlias(dict, (str, value))


def _with(kind: Any, bounds: dict[str, Any]) -> Any:
    return Annotated[kind, Meta(**bounds)] if bounds else kind


# --- patterns, and lists that are maps or sets ---------------------------------------------------------------


def _further(schema: Json) -> Test | None:
    """Return a test that strings match their patterns, and that no item of a set or map list occurs twice.

    None if the schema has neither patterns nor such lists.
    """
    if schema.get("pattern"):
        search = compiled(schema["pattern"]).search
        return lambda value: not isinstance(value, str) or search(value) is not None
    kind = schema.get("type")
    if kind == "array" and isinstance(schema.get("items"), dict):
        return _further_items(schema, _further(schema["items"]))
    if kind != "object":
        return None
    below = {name: test for name, child in (schema.get("properties") or {}).items() if (test := _further(child))}
    more = schema.get("additionalProperties")
    other = _further(more) if isinstance(more, dict) else None
    if other is not None:
        return lambda value: value is None or all(map(other, value.values()))
    if below:
        return lambda value: value is None or all(below[name](value[name]) for name in below if name in value)
    return None


def _further_items(schema: Json, item: Test | None) -> Test | None:
    how, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys") or ())

    def test(value: Json) -> bool:
        if value is None:
            return True
        if how == "map" and not _unique([tuple([one.get(key) for key in keys]) for one in value]):
            return False
        if how == "set" and not _unique(value):
            return False
        return item is None or all(map(item, value))

    return test if item is not None or how in ("map", "set") else None


def _unique(values: Iterable[Json]) -> bool:
    """Return whether no value occurs twice; False if the values cannot be hashed, so that the walk compares them."""
    values = list(values)
    try:
        return len(set(values)) == len(values)
    except TypeError:
        return False
