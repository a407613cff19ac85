"""Functions of quantities: numbers with a suffix, as Kubernetes writes amounts of resources."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from queue_manager.local.cel.cel_values import CelError, CelQuantity, Function, no_overload
from queue_manager.local.cel.text_functions import as_text
from queue_manager.local.schema import times_and_quantities


def quantity(value: Any) -> CelQuantity:
    """Parse a Kubernetes quantity. Raises CelError."""
    try:
        return CelQuantity(times_and_quantities.number(as_text(value)))
    except ValueError as error:
        raise CelError(str(error)) from error


def _amount(value: Any) -> Fraction:
    if isinstance(value, CelQuantity):
        return value.value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    raise no_overload()


def _compare_to(left: CelQuantity, right: Any) -> int:
    mine, other = _amount(left), _amount(right)
    return (mine > other) - (mine < other)


def _is_integer(value: CelQuantity) -> bool:
    amount = _amount(value)
    return amount.denominator == 1 and -(2**63) <= amount < 2**63


def _as_integer(value: CelQuantity) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return int(_amount(value))


METHODS: dict[str, Function] = {
    "isGreaterThan": lambda left, right: _compare_to(left, right) > 0,
    "isLessThan": lambda left, right: _compare_to(left, right) < 0,
    "compareTo": _compare_to,
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: times_and_quantities.approximate(_amount(value)),
    "sign": lambda value: (_amount(value) > 0) - (_amount(value) < 0),
    "add": lambda left, right: CelQuantity(_amount(left) + _amount(right)),
    "sub": lambda left, right: CelQuantity(_amount(left) - _amount(right)),
}
