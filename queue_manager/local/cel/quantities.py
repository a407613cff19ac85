"""Functions of quantities: numbers with a suffix, as Kubernetes writes amounts of resources."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from queue_manager.local.cel.texts import as_text
from queue_manager.local.cel.values import CelError, Function, Quantity, no_overload, whole
from queue_manager.local.schema.values import parse_quantity


def quantity(value: Any) -> Quantity:
    try:
        return Quantity(parse_quantity(as_text(value))[0])
    except ValueError as error:
        raise CelError(str(error)) from error


def _amount(value: Any) -> Fraction:
    if isinstance(value, Quantity):
        return value.value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    raise no_overload()


def _compare_to(left: Quantity, right: Any) -> int:
    mine, other = _amount(left), _amount(right)
    return (mine > other) - (mine < other)


def _as_integer(value: Quantity) -> int:
    if _amount(value).denominator != 1:
        raise CelError("cannot convert value to integer")
    return whole(int(_amount(value)))


METHODS: dict[str, Function] = {
    "isGreaterThan": lambda left, right: _compare_to(left, right) > 0,
    "isLessThan": lambda left, right: _compare_to(left, right) < 0,
    "compareTo": _compare_to,
    "isInteger": lambda value: _amount(value).denominator == 1,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_amount(value)),
    "sign": lambda value: (_amount(value) > 0) - (_amount(value) < 0),
    "add": lambda left, right: Quantity(_amount(left) + _amount(right)),
    "sub": lambda left, right: Quantity(_amount(left) - _amount(right)),
}
