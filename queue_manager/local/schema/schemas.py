"""The shapes of the built-in kinds: strict decoding, normal form, merge keys.

A kind is a tree of `Shape`s made from data/types.json, which is taken from a real API server by
tests/control_plane/generate_schemas.py. One walk over an object does what that server's decoder does: it
refuses wrong JSON types with its words, finds unknown and repeated fields, drops them, and brings times and
quantities into the form they are stored in (spec: job-controller-measured.md, section 2.1).

A wrong type does not end the walk, the first of them is reported; a value with a syntax of its own (a time, a
quantity) that does not parse ends it at once and wins. That is the order of the server.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from job_controller.fields import Json
from queue_manager.local.errors import bad_request
from queue_manager.local.schema import values
from queue_manager.local.schema.fitting import Fit
from queue_manager.local.schema.jsontext import Repeated
from queue_manager.local.schema.memo import Passed, text_of

INT_LIMITS = {"int32": 2**31, "int64": 2**63}
# Parts with a decoder of their own, by the last word of their type.
_SPECIAL = {
    "Time": "time",
    "MicroTime": "microtime",
    "Quantity": "quantity",
    "IntOrString": "intstr",
    "FieldsV1": "any",
    "RawExtension": "any",
    "JSON": "any",
}
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_PYTHON = {"string": str, "bool": bool}
# Large parts that come again and again in the same words.
_REMEMBERED = frozenset(("PodSpec", "JobSpec"))
# Parts of most objects that are written, no two of them alike.
_FITTED = frozenset(("ObjectMeta", "PodStatus", "JobStatus"))


# The way from the root to a value: (before, step). A step is a field, a map key or a list index.
Trail = tuple[Any, Any]


class Shape:
    """What a value must look like."""

    __slots__ = (
        "fields",
        "fit",
        "form",
        "go",
        "item",
        "keep",
        "key",
        "keys",
        "limit",
        "list_type",
        "passed",
        "python",
        "strategy",
    )

    def __init__(self, form: str, go: str = "") -> None:
        self.form = form  # object, map, list, string, bool, int32, int64, number, bytes, or one of _SPECIAL
        self.go = go  # the server's name of the type, as its errors print it
        self.fields: dict[str, Field] = {}
        self.item: Shape | None = None
        self.key = ""  # patchMergeKey
        self.strategy: frozenset[str] = frozenset()  # patchStrategy: merge, replace, retainKeys
        self.list_type = ""  # map, set or atomic
        self.keys: tuple[str, ...] = ()
        self.keep = False  # an empty list or map is stored
        self.limit = INT_LIMITS.get(form, 0)
        self.python = _PYTHON.get(form)
        self.passed: Passed | None = None  # values that are as they should be
        self.fit: Fit | None = None  # a test that only such values pass


class Field:
    __slots__ = ("go_path", "name", "owner", "shape")

    def __init__(self, name: str, shape: Shape, owner: str, go_path: str) -> None:
        self.name = name
        self.shape = shape
        self.owner = owner  # the server's name of the struct it is in
        self.go_path = go_path  # the name, behind the struct it is inlined from


class Undecodable(Exception):
    """A value that ends decoding."""


@cache
def definitions() -> dict[str, Json]:
    """All types by their OpenAPI name."""
    text = resources.files("queue_manager.local").joinpath("data", "types.json").read_bytes()
    tree: dict[str, Json] = json.loads(text)
    return tree


@cache
def _struct(name: str) -> Shape:
    word = name.rsplit(".", 1)[1]
    special = (
        "any" if name.startswith(_CRD + "JSON") and "properties" not in definitions()[name] else _SPECIAL.get(word)
    )
    if special:
        return Shape(special, f"v1.{word}")
    shape = Shape("object", f"v1.{word}")
    if word in _REMEMBERED:
        shape.passed = Passed()
    _STRUCTS.append((name, shape))
    return shape


_STRUCTS: list[tuple[str, Shape]] = []


def shape_of(name: str) -> Shape:
    """The shape of a type, complete with all it refers to. Recursive types refer to themselves."""
    shape, fitted = _struct(name), []
    while _STRUCTS:
        pending, target = _STRUCTS.pop()
        definition = definitions()[pending]
        required = definition.get("required", ())
        owner = definition.get("x-go-name", pending.rsplit(".", 1)[1])
        for field, schema in definition.get("properties", {}).items():
            inner = _part(schema, schema.get("x-go-type", ""), schema.get("x-go-item", ""))
            inner.keep = field in required
            target.fields[field] = Field(field, inner, owner, schema.get("x-go-path", field))
        if pending.rsplit(".", 1)[1] in _FITTED:
            fitted.append(target)
    for target in fitted:
        target.fit = Fit(structural(target))
    return shape


_STRUCTURAL: dict[str, Json] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "time": {"type": "string", "format": "date-time"},
}


def structural(shape: Shape) -> Json:
    """A schema of values that a walk leaves as they are; of what it may change there is none (an unknown format)."""
    match shape.form:
        case "object":
            return {"type": "object", "properties": {name: structural(f.shape) for name, f in shape.fields.items()}}
        case "list" if shape.item is not None:
            return {"type": "array", "items": structural(shape.item), "minItems": 0 if shape.keep else 1}
        case "map" if shape.item is not None:
            values = structural(shape.item)
            return {"type": "object", "additionalProperties": values, "minProperties": 0 if shape.keep else 1}
    return _STRUCTURAL.get(shape.form, {"type": "string", "format": shape.form})


def _part(schema: Json, go: str, go_item: str = "") -> Shape:
    if "$ref" in schema:
        target = _struct(schema["$ref"])
        if target.form == "any" or not (schema.keys() - {"$ref", "default", "x-go-type", "x-go-item", "x-go-path"}):
            return target
        shape = Shape(target.form, target.go)
        shape.fields = target.fields
        shape.passed = target.passed
    elif "items" in schema:
        shape = Shape("list", go)
        shape.item = _part(schema["items"], go_item or go.removeprefix("[]"))
    elif "additionalProperties" in schema:
        shape = Shape("map", go)
        shape.item = _part(schema["additionalProperties"], go_item)
    else:
        shape = Shape(_form(schema), go or schema.get("format") or schema["type"])
    shape.strategy = frozenset(filter(None, schema.get("x-kubernetes-patch-strategy", "").split(",")))
    shape.key = schema.get("x-kubernetes-patch-merge-key", "")
    shape.list_type = schema.get("x-kubernetes-list-type", "")
    shape.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return shape


def _form(schema: Json) -> str:
    kind, width = schema.get("type"), schema.get("format")
    if kind == "string":
        return "bytes" if width == "byte" else "string"
    if kind == "integer":
        return str(width or "int64")
    return {"boolean": "bool", "number": "number", "array": "list"}.get(str(kind), "any")


_EMPTY: dict[str, Json] = {"list": [], "map": {}}
_NOTHING: Mapping[str, Json] = {}


class Walk:
    """One pass over one object."""

    __slots__ = ("unknown", "wrong")

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong = ""

    def object(self, shape: Shape, value: Json, trail: Trail | None, old: Mapping[str, Json] = _NOTHING) -> None:
        fields = shape.fields
        names = value.names if type(value) is Repeated else value
        doomed: list[str] = []
        seen: set[str] | None = set() if type(value) is Repeated else None
        for name in names:
            field = fields.get(name)
            if seen is not None:
                if name in seen:
                    self.unknown.append(f'duplicate field "{json_path((trail, name))}"')
                    continue
                seen.add(name)
            if field is None:
                self.unknown.append(f'unknown field "{json_path((trail, name))}"')
                doomed.append(name)
                continue
            item = value[name]
            inner = field.shape
            if type(item) is inner.python or (name in old and item == old[name]):
                continue
            if item is None or (not item and not inner.keep and item == _EMPTY.get(inner.form)):
                doomed.append(name)
                continue
            changed = self.value(inner, item, (trail, field))
            if changed is not item:
                value[name] = changed
        for name in doomed:
            value.pop(name, None)

    def value(self, shape: Shape, item: Json, trail: Trail) -> Json:
        """Check one value; the answer is what to store for it."""
        form = shape.form
        kind = type(item)
        if kind is dict or kind is Repeated:
            if form == "object":
                if shape.passed is not None:
                    self._remembered(shape, shape.passed, item, trail)
                elif shape.fit is None or not shape.fit.once(item):
                    self.object(shape, item, trail)
            elif form == "map":
                self._map(shape, item, trail)
            elif form != "any":
                self._compound("object", shape, trail)
        elif kind is list:
            if form == "list":
                self._list(shape, item, trail)
            elif form != "any":
                self._compound("array", shape, trail)
        else:
            return self._scalar(shape, item, trail)
        return item

    def _remembered(self, shape: Shape, passed: Passed, item: Json, trail: Trail) -> None:
        """An object that may have passed before: then nothing in it is unknown, wrong, or to be changed."""
        text = text_of(item)
        if text in passed:
            return
        unknown, wrong = len(self.unknown), self.wrong
        self.object(shape, item, trail)
        if len(self.unknown) == unknown and self.wrong == wrong and text_of(item) == text:
            passed.add(text)

    def _compound(self, found: str, shape: Shape, trail: Trail) -> None:
        """A list or object where there should be none."""
        if shape.form == "quantity":
            raise Undecodable(values.QUANTITY_FORMAT)
        if shape.form in ("time", "microtime", "intstr"):
            raise Undecodable(place(found, "int32" if shape.form == "intstr" else "string", trail))
        self.mismatch(found, shape, trail)

    def _list(self, shape: Shape, items: list[Json], trail: Trail) -> None:
        inner = shape.item
        assert inner is not None
        for index, item in enumerate(items):
            if type(item) is inner.python:
                continue
            if type(item) is dict and inner.form == "object":
                self.object(inner, item, (trail, index))
                continue
            changed = zero(inner) if item is None else self.value(inner, item, (trail, index))
            if changed is not item:
                items[index] = changed

    def _map(self, shape: Shape, items: dict[str, Json], trail: Trail) -> None:
        inner = shape.item
        assert inner is not None
        if type(items) is Repeated:
            seen: set[str] = set()
            for name in items.names:
                if name in seen:
                    self.unknown.append(f'duplicate field "{json_path((trail, name))}"')
                seen.add(name)
        for name, item in items.items():
            if type(item) is inner.python:
                continue
            if inner.form == "quantity" and type(item) is not dict:
                items[name] = quantity(item, 3)
                continue
            items[name] = zero(inner) if item is None else self.value(inner, item, (trail, name))

    def _scalar(self, shape: Shape, item: Json, trail: Trail) -> Json:
        form = shape.form
        kind = type(item)
        if form == "any" or kind is shape.python:
            return item
        if kind is int and shape.limit and -shape.limit <= item < shape.limit:
            return item
        if form == "number" and kind in (int, float):
            return item
        if form == "quantity":
            return quantity(item)
        if form == "intstr" and (kind is str or (kind is int and -(2**31) <= item < 2**31)):
            return item
        if kind is str and form in ("time", "microtime", "bytes"):
            return self._text(form, item)
        name = {str: "string", bool: "bool"}.get(kind, "number")
        if name == "number" and (shape.limit or form == "intstr"):
            name = f"number {number(item)}"
        if form in ("time", "microtime", "intstr"):
            raise Undecodable(place(name, "int32" if form == "intstr" else "string", trail))
        self.mismatch(name, shape, trail)
        return item

    def _text(self, form: str, item: str) -> str:
        try:
            if form == "bytes":
                base64.b64decode(item, validate=True)
                return item
            return values.time(item) if form == "time" else values.micro_time(item)
        except binascii.Error:
            bad = next((i for i, c in enumerate(item) if not (c.isascii() and (c.isalnum() or c in "+/="))), len(item))
            raise Undecodable(f"illegal base64 data at input byte {bad}") from None
        except ValueError as error:
            raise Undecodable(str(error)) from None

    def mismatch(self, found: str, shape: Shape, trail: Trail) -> None:
        self.wrong = self.wrong or place(found, shape.go, trail)


def quantity(item: Json, digits: int = 9) -> str:
    if type(item) not in (str, int, float):
        raise Undecodable(values.QUANTITY_FORMAT)
    try:
        return values.quantity(item, digits)
    except ValueError as error:
        raise Undecodable(str(error)) from None


def zero(shape: Shape) -> Json:
    """What the server makes of a null in a list or map."""
    if shape.form == "object":
        return {}
    return {"string": "", "bool": False, "int32": 0, "int64": 0, "number": 0, "quantity": "0"}.get(shape.form)


def number(item: float) -> str:
    return json.dumps(item)


def place(found: str, go: str, trail: Trail) -> str:
    """Where and what, in the words of Go's decoder: list indexes and map keys are left out."""
    steps = _steps(trail)
    fields = [step for step in steps if isinstance(step, Field)]
    path = ".".join(step.go_path for step in fields)
    return f"json: cannot unmarshal {found} into Go struct field {fields[-1].owner}.{path} of type {go}"


def json_path(trail: Trail | None) -> str:
    path = ""
    for step in _steps(trail):
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            name = step.name if isinstance(step, Field) else step
            path += f".{name}" if path else name
    return path


def _steps(trail: Trail | None) -> list[Any]:
    steps = []
    while trail is not None:
        steps.append(trail[1])
        trail = trail[0]
    return steps[::-1]


class TypedSchema:
    """The `Schema` of a built-in kind."""

    def __init__(self, definition: str, kind: str, version: str) -> None:
        self.definition = definition
        self._kind = kind
        self._version = version
        self._shape: Shape | None = None

    @property
    def shape(self) -> Shape:
        if self._shape is None:
            self._shape = shape_of(self.definition)
        return self._shape

    def check(self, body: Json, old: Json | None = None) -> list[str]:
        """Unknown and repeated fields, in their order. In place: these are dropped, times and quantities brought
        into stored form, nulls and empty lists left out. Raises StatusError 400 on a wrong type."""
        walk = Walk()
        problem = self.refusal(body, walk, old)
        if problem:
            raise bad_request(
                f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}: {problem}'
            )
        return walk.unknown

    def prune(self, body: Json) -> None:
        self.check(body)

    def refusal(self, body: Json, walk: Walk, old: Json | None = None) -> str:
        """Why a body cannot be decoded, or nothing."""
        try:
            walk.object(self.shape, body, None, old or _NOTHING)
        except Undecodable as error:
            return str(error)
        return walk.wrong
