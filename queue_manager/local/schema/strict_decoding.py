"""Strict decoding of the built-in kinds, and the form in which their objects are stored.

One walk over an object and the shape of its kind (`builtin_types`) does what the decoder of an API server does
(sigs.k8s.io/json in strict mode): it rejects wrong JSON types with the same messages, finds unknown and repeated
fields, drops them, and converts times and quantities to their stored form.

A wrong type does not end the walk, and only the first one is reported. A time or quantity that cannot be parsed ends
the walk immediately, and its error is reported instead. That is the order of the API server.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from job_controller.json_tree import Json
from queue_manager.local.schema import times_and_quantities
from queue_manager.local.schema.builtin_types import Field, Shape, shape_of
from queue_manager.local.schema.json_parsing import Repeated
from queue_manager.local.schema.validation_cache import Passed, text_of
from queue_manager.local.status_errors import bad_request

# The path from the root to a value: (parent path, step). A step is a field, a map key or a list index.
Trail = tuple[Any, Any]


class Undecodable(Exception):
    """A value whose error ends decoding."""


_EMPTY: dict[str, Json] = {"list": [], "map": {}}
_NOTHING: Mapping[str, Json] = {}


class Walk:
    """One pass that decodes an object: collects its unknown fields (`unknown`) and the first wrong type (`wrong`)."""

    __slots__ = ("unknown", "wrong")

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong = ""

    def object(self, shape: Shape, value: Json, trail: Trail | None, old: Mapping[str, Json] = _NOTHING) -> None:
        """Decode an object in place. Fields that are as in `old`, its stored state, are skipped. Raises Undecodable."""
        fields = shape.fields
        names = value.names if type(value) is Repeated else value
        invalid: list[str] = []
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
                invalid.append(name)
                continue
            item = value[name]
            inner = field.shape
            if type(item) is inner.python or (name in old and item == old[name]):
                continue
            if item is None or (not item and not inner.keep and item == _EMPTY.get(inner.form)):
                invalid.append(name)
                continue
            changed = self.value(inner, item, (trail, field))
            if changed is not item:
                value[name] = changed
        for name in invalid:
            value.pop(name, None)

    def value(self, shape: Shape, item: Json, trail: Trail) -> Json:
        """Check one value and return its stored form."""
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
        """Check an object unless its text is cached: then it has no error or unknown field and is stored unchanged."""
        text = text_of(item)
        if text in passed:
            return
        unknown = len(self.unknown)
        self.object(shape, item, trail)
        # `wrong` is the first error of the whole walk.
        if len(self.unknown) == unknown and not self.wrong and text_of(item) == text:
            passed.add(text)

    def _compound(self, found: str, shape: Shape, trail: Trail) -> None:
        """Report a list or object in place of a scalar."""
        if shape.form == "quantity":
            raise Undecodable(times_and_quantities.QUANTITY_FORMAT)
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
            return times_and_quantities.time(item) if form == "time" else times_and_quantities.micro_time(item)
        except binascii.Error:
            bad = next((i for i, c in enumerate(item) if not (c.isascii() and (c.isalnum() or c in "+/="))), len(item))
            raise Undecodable(f"illegal base64 data at input byte {bad}") from None
        except ValueError as error:
            raise Undecodable(str(error)) from None

    def mismatch(self, found: str, shape: Shape, trail: Trail) -> None:
        """Record a value of the wrong type, unless one was found before."""
        self.wrong = self.wrong or place(found, shape.go, trail)


def quantity(item: Json, digits: int = 9) -> str:
    """The canonical text of a quantity. Raises Undecodable."""
    if type(item) not in (str, int, float):
        raise Undecodable(times_and_quantities.QUANTITY_FORMAT)
    try:
        return times_and_quantities.quantity(item, digits)
    except ValueError as error:
        raise Undecodable(str(error)) from None


def zero(shape: Shape) -> Json:
    """Return the value that the server stores for a null in a list or map."""
    if shape.form == "object":
        return {}
    return {"string": "", "bool": False, "int32": 0, "int64": 0, "number": 0, "quantity": "0"}.get(shape.form)


def number(item: float) -> str:
    """A number as JSON text."""
    return json.dumps(item)


def place(found: str, go: str, trail: Trail) -> str:
    """Return location and type as Go's decoder reports them: without list indexes and map keys."""
    steps = _steps(trail)
    fields = [step for step in steps if isinstance(step, Field)]
    path = ".".join(step.go_path for step in fields)
    return f"json: cannot unmarshal {found} into Go struct field {fields[-1].owner}.{path} of type {go}"


def json_path(trail: Trail | None) -> str:
    """The path to a field, such as spec.containers[0].name."""
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
        """The shape of the kind, looked up at the first use."""
        if self._shape is None:
            self._shape = shape_of(self.definition)
        return self._shape

    def check(self, body: Json, old: Json | None = None) -> list[str]:
        """Return unknown and repeated fields, in their order. Raises StatusError 400 on a wrong type.

        Changes `body` in place: drops these fields, nulls and empty lists, and converts times and quantities to stored
        form.
        """
        walk = Walk()
        problem = self.refusal(body, walk, old)
        if problem:
            raise bad_request(
                f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}: {problem}'
            )
        return walk.unknown

    def prune(self, body: Json) -> None:
        """See `Schema.prune`. Raises StatusError 400 on a wrong type."""
        self.check(body)

    def refusal(self, body: Json, walk: Walk, old: Json | None = None) -> str:
        """Return the error if a body cannot be decoded, otherwise ""."""
        try:
            walk.object(self.shape, body, None, old or _NOTHING)
        except Undecodable as error:
            return str(error)
        return walk.wrong
