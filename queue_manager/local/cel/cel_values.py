"""Values of the Common Expression Language: equality, order and CEL's own types.

Python's values represent CEL's, except that True does not equal 1: int, double and uint compare as numbers, and no
other types compare with each other. Lists that a schema declares as sets or maps are equal in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from queue_manager.local.cel.parser import Uint

Function = Callable[..., Any]  # that a rule can call


class CelError(Exception):
    """An evaluation error, with the server's message."""


class OutOfBudget(Exception):
    """An evaluation that exceeds its budget."""


class Fields(dict[str, Any]):
    """An object or map of a schema. Its values are converted on access: see typed_values.py."""

    schema: Any = MappingProxyType({})


class Items(list[Any]):
    """A list of a schema, whose items are converted on access."""

    schema: Any = MappingProxyType({})
    keys: tuple[str, ...] = ()


class SetList(Items):
    """A list of x-kubernetes-list-type set."""


class MapList(Items):
    """A list of x-kubernetes-list-type map."""


@dataclass(frozen=True, slots=True)
class CelType:
    """The result of type()."""

    name: str


@dataclass(frozen=True, slots=True)
class CelQuantity:
    """A number with a suffix; equal by value."""

    value: Fraction


class Optional:
    """An optional value (CEL's optional_type)."""

    __slots__ = ("present", "value")

    def __init__(self, present: bool, value: Any = None) -> None:
        self.present = present
        self.value = value


NONE = Optional(False)


def no_overload() -> CelError:
    """The error of a function or operator that does not exist for the types of its arguments."""
    return CelError("no such overload")


def is_number(value: Any) -> bool:
    """Whether CEL treats the value as int, uint or double; a bool is not a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Any, right: Any) -> bool:
    """CEL's ==: numbers compare by value across types, other values of different types are unequal."""
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present == right.present and (not left.present or equal(left.value, right.value))
    if isinstance(left, list) and isinstance(right, list):
        return _equal_lists(left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[name]) for name, value in left.items())
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    return type(left) is type(right) and bool(left == right)


def _equal_lists(left: list[Any], right: list[Any]) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, SetList | MapList):
        return all(any(equal(one, other) for other in right) for one in left)
    return all(map(equal, left, right))


def less(left: Any, right: Any) -> bool:
    """Whether `left` is ordered before `right` of the same type. Raises CelError."""
    same = (is_number(left) and is_number(right)) or any(
        isinstance(left, kind) and isinstance(right, kind) for kind in (str, bytes, datetime, timedelta, bool)
    )
    if not same or (isinstance(left, bool) is not isinstance(right, bool)):
        raise no_overload()
    return bool(left < right)


def whole(value: int) -> int:
    """Return `value`, the result of integer arithmetic. Raises CelError if it does not fit in 64 bits."""
    if isinstance(value, Uint):
        if not 0 <= value < 2**64:
            raise CelError("unsigned integer overflow")
    elif not -(2**63) <= value < 2**63:
        raise CelError("integer overflow")
    return value


def type_of(value: Any) -> CelType:
    """The CEL type of a value, as `type()` returns it."""
    if value is None:
        return CelType("null_type")
    if isinstance(value, datetime):
        return CelType("google.protobuf.Timestamp")
    if isinstance(value, timedelta):
        return CelType("google.protobuf.Duration")
    if isinstance(value, CelQuantity):
        return CelType("kubernetes.Quantity")
    names: tuple[tuple[type, str], ...] = (
        (bool, "bool"),
        (Uint, "uint"),
        (int, "int"),
        (float, "double"),
        (str, "string"),
        (bytes, "bytes"),
        (list, "list"),
        (dict, "map"),
        (CelType, "type"),
        (Optional, "optional_type"),
    )
    return CelType(next((name for kind, name in names if isinstance(value, kind)), type(value).__name__))
