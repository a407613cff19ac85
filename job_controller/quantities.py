"""Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact integers, and their canonical text.

Amounts are integers of some unit: milli for cpu, whole units for everything else. Fractions of a unit count as
a whole one (asking for a little means getting some), amounts beyond 64 bits count as the largest that fits.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

INT64_MAX = 2**63 - 1
MALFORMED = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # Go's wording
)

Style = Literal["decimal", "binary", "exponent"]

_parts = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,9}))?", re.ASCII).fullmatch

_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_TEXT = {0: "", **{exponent: suffix for suffix, exponent in _DECIMAL.items()}}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_TEXT = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_NANO = 10**9
# A decimal exponent this large can only mean zero, saturation or an attempt to fill the memory.
_LARGEST_EXPONENT = 400


class MalformedQuantity(ValueError):
    """The text is no quantity."""

    def __init__(self, text: object) -> None:
        super().__init__(MALFORMED)
        self.text = text


class Quantity(NamedTuple):
    """An exact value, in billionths, and the style it was written in."""

    nano: int
    style: Style

    def scaled(self, exponent: int) -> int:
        """The value in units of 10**exponent (-9..0), rounded away from zero, kept within 64 bits."""
        amount = _round_up(self.nano, 10 ** (9 + exponent))
        return max(-INT64_MAX, min(INT64_MAX, amount))

    def rounded(self, decimals: int) -> Quantity:
        """With so many decimals (0..9) at most, rounded away from zero."""
        unit = 10 ** (9 - decimals)
        return Quantity(_round_up(self.nano, unit) * unit, self.style)


def quantity(value: str | int | float) -> Quantity:
    """Parse a quantity as JSON may carry it (text or number). Raises MalformedQuantity."""
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
    if style == "binary":
        nano = min(nano, INT64_MAX * _NANO)
        style = "decimal" if nano < _NANO else "binary"
    return Quantity(-nano if sign == "-" else nano, style)


def _round_up(amount: int, divisor: int) -> int:
    """Divide, rounding away from zero."""
    return -(-amount // divisor) if amount >= 0 else amount // divisor


def parse(value: str | int | float, resource: str = "") -> int:
    """The amount of a named resource: cpu in milli, anything else in units. Raises MalformedQuantity."""
    return quantity(value).scaled(-3 if resource == "cpu" else 0)


def to_text(amount: int, resource: str = "") -> str:
    """The text of an amount as `parse` returns it: bytes that are divisible by 1024 with a binary suffix, all other
    amounts with a decimal one (`resources.ResourceQuantity` of Kueue, except that it shows such bytes as digits)."""
    if resource == "cpu":
        return canonical(Quantity(amount * 10**6, "decimal"))
    return canonical(Quantity(amount * _NANO, "binary" if is_bytes(resource) and amount % 1024 == 0 else "decimal"))


def is_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def canonical(value: Quantity) -> str:
    """The one text an API server stores for a value: no fraction, the largest suffix that keeps it exact."""
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
    """A quantity rewritten as an API server stores resources: to milli, in canonical form."""
    return canonical(_parse(text).rounded(3))


def exact(value: str | int | float) -> Fraction:
    """The exact value, for comparisons across styles. Raises MalformedQuantity."""
    return Fraction(quantity(value).nano, _NANO)
