"""Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact integers, and their canonical text (upstream
resource.Quantity).

Amounts are integers: milli for cpu, whole units for all other resources. Fractions of a unit are rounded away from
zero, amounts beyond 64 bits saturate.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

INT64_MAX = 2**63 - 1
MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

Style = Literal["decimal", "binary", "exponent"]

_parts = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,9}))?", re.ASCII).fullmatch

_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_TEXT = {0: "", **{exponent: suffix for suffix, exponent in _DECIMAL.items()}}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_TEXT = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_NANO = 10**9
# Larger decimal exponents yield zero or saturate anyway; computing them would exhaust memory.
_LARGEST_EXPONENT = 400
_LARGEST = 10 ** (_LARGEST_EXPONENT + 9)


class MalformedQuantity(ValueError):
    """The value is not a quantity. The message is that of Go's resource.ParseQuantity; `text` is the value."""

    def __init__(self, text: object) -> None:
        super().__init__(MALFORMED)
        self.text = text


class Quantity(NamedTuple):
    """An exact value in units of 10^-9, and the format it was written in (resource.Format)."""

    nano: int
    style: Style

    def scaled(self, exponent: int) -> int:
        """The value in units of 10**exponent (-9..0), rounded away from zero, saturated at 64 bits."""
        amount = _round_up(self.nano, 10 ** (9 + exponent))
        return max(-INT64_MAX, min(INT64_MAX, amount))

    def rounded(self, decimals: int) -> Quantity:
        """The value rounded away from zero to at most so many decimals (0..9)."""
        unit = 10 ** (9 - decimals)
        return Quantity(_round_up(self.nano, unit) * unit, self.style)


def quantity(value: str | int | float) -> Quantity:
    """Parse a quantity from a JSON string or number. Raises MalformedQuantity."""
    return _parse(value if isinstance(value, str) else _number_text(value))


def _number_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedQuantity(value)
    return repr(value)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _parts(text) if len(text) < 1000 else None
    if match is None:
        raise MalformedQuantity(text)
    sign, number, suffix, exponent = match.groups()
    whole, _, decimals = number.partition(".")
    mantissa = int(whole + decimals or "0")
    style: Style = "decimal"
    power = 9 - len(decimals)
    if exponent is not None:
        style, power = "exponent", power + max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, int(exponent)))
    elif suffix in _BINARY:
        style, mantissa = "binary", mantissa << _BINARY[suffix]
    elif suffix:
        power += _DECIMAL[suffix]
    nano = mantissa * 10**power if power >= 0 else _round_up(mantissa, 10**-power)
    if style == "exponent":
        nano = min(nano, _LARGEST)  # the canonical text would have a greater exponent than is read
    if style == "binary":
        nano = min(nano, INT64_MAX * _NANO)
        style = "decimal" if nano < _NANO else "binary"
    return Quantity(-nano if sign == "-" else nano, style)


def _round_up(amount: int, divisor: int) -> int:
    """Divide, rounding away from zero."""
    return -(-amount // divisor) if amount >= 0 else amount // divisor


def parse(value: str | int | float, resource: str = "") -> int:
    """The amount of a named resource: cpu in milli, all others in units. Raises MalformedQuantity."""
    return quantity(value).scaled(-3 if resource == "cpu" else 0)


@lru_cache(maxsize=4096)  # the same few amounts are in the message of every refusal
def to_text(amount: int, resource: str = "") -> str:
    """The text of an amount as `parse` returns it.

    Byte amounts divisible by 1024 get a binary suffix, all others a decimal one, as in resources.ResourceQuantity of
    Kueue. Kueue writes other byte amounts as plain digits.
    """
    if resource == "cpu":
        return canonical(Quantity(amount * 10**6, "decimal"))
    return canonical(Quantity(amount * _NANO, "binary" if is_bytes(resource) and amount % 1024 == 0 else "decimal"))


def is_bytes(resource: str) -> bool:
    """Whether the resource is measured in bytes."""
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def canonical(value: Quantity) -> str:
    """The canonical text that an API server stores: no fraction, the largest suffix that keeps the value exact."""
    nano, style = value
    if nano == 0:
        return "0"
    if style == "binary" and abs(nano) >= 1024 * _NANO and nano % _NANO == 0:
        amount, step = nano // _NANO, 0
        while amount % 1024 == 0 and step < 6:
            amount, step = amount // 1024, step + 1
        return f"{amount}{_BINARY_TEXT[step]}"
    amount, power = nano, -9
    while amount % 1000 == 0 and (power < 18 or style == "exponent"):
        amount, power = amount // 1000, power + 3
    if style == "exponent":
        return f"{amount}e{power}" if power else str(amount)
    return f"{amount}{_DECIMAL_TEXT[power]}"


@lru_cache(maxsize=4096)
def canonical_text(text: str) -> str:
    """A quantity as an API server stores resources: at most milli, canonical. Raises MalformedQuantity."""
    return canonical(_parse(text).rounded(3))


def exact(value: str | int | float) -> Fraction:
    """The exact value, to compare quantities of different formats. Raises MalformedQuantity."""
    return Fraction(quantity(value).nano, _NANO)
