"""Scalar values with a syntax of their own: times and quantities, checked and brought into the stored form.

Errors are `ValueError`s with the texts of the API server's decoder (spec: job-controller-measured.md, 2.1).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache

TIME = "2006-01-02T15:04:05Z07:00"
MICRO_TIME = "2006-01-02T15:04:05.000000Z07:00"

_CANONICAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_LAYOUT = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d"),
    (".000000", r"\.\d{6}"),
    ("Z07:00", r"Z|[+-]\d\d:\d\d"),
)
_TOKENS = tuple((element, re.compile(pattern, re.ASCII)) for element, pattern in _LAYOUT)
_FRACTION = re.compile(r"[.,]\d+", re.ASCII)


def time(text: str) -> str:
    """A metav1.Time: whole seconds, UTC."""
    if _CANONICAL_TIME.fullmatch(text) and text[:4] != "0000":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return text
    return _moment(text, TIME).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def micro_time(text: str) -> str:
    """A metav1.MicroTime: microseconds, UTC."""
    return _moment(text, MICRO_TIME).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _moment(text: str, layout: str) -> datetime:
    parts = _split(text, layout)
    year, month, day, hour, minute, second = (int(parts[index]) for index in (0, 2, 4, 6, 8, 10))
    for name, wrong in (
        ("month", not 1 <= month <= 12),
        ("day", day < 1 or (1 <= month <= 12 and day > _days(year, month))),
        ("hour", hour > 23),
        ("minute", minute > 59),
        ("second", second > 59),
    ):
        if wrong:
            raise ValueError(f'parsing time "{text}": {name} out of range')
    zone = parts[-1]
    micros = int(parts[11][1:7].ljust(6, "0")) if parts[11] else 0
    moment = datetime(max(year, 1), month, day, hour, minute, second, micros, UTC)
    if zone != "Z":
        local = datetime.fromisoformat(moment.replace(tzinfo=None).isoformat() + zone)
        try:
            moment = local.astimezone(UTC)
        except OverflowError as error:  # before the year 1, or after 9999
            raise ValueError(f'parsing time "{text}": year out of range') from error
    return moment


def _split(text: str, layout: str) -> list[str]:
    """The text cut along the layout. An optional fraction of seconds is taken where the layout has none."""
    rest, parts = text, []
    for element, pattern in _TOKENS:
        if element == ".000000" and layout == TIME:
            match = _FRACTION.match(rest)
            parts.append(match[0] if match else "")
            rest = rest[len(parts[-1]) :]
            continue
        match = pattern.match(rest)
        if match is None:
            raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"')
        parts.append(match[0])
        rest = rest[match.end() :]
    if rest:
        raise ValueError(f'parsing time "{text}": extra text: "{rest}"')
    return parts


def _days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


# --- quantities --------------------------------------------------------------------------------------------

QUANTITY_FORMAT = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)", re.ASCII)
_MAX = 2**63 - 1


@lru_cache(4096, typed=True)
def parse_quantity(value: str | int | float) -> tuple[Fraction, str]:
    """The number and its family: "decimal", "binary" or "exponent". Bounded: |n| <= 2^63 - 1, >= 1n apart."""
    text = str(value).strip()
    match = _QUANTITY.fullmatch(text) if len(text) <= 64 else None
    if match is None or not (match[2] or match[3]):
        raise ValueError(QUANTITY_FORMAT)
    sign, whole, part, suffix = match[1], match[2] or "0", match[3] or "", match[4]
    number = Fraction(int(whole + part), 10 ** len(part))
    exponent = _EXPONENT.fullmatch(suffix)
    if suffix in _DECIMAL:
        number, family = number * Fraction(10) ** _DECIMAL[suffix], "decimal"
    elif suffix in _BINARY:
        number, family = number * 1024 ** _BINARY[suffix], "binary"
    elif exponent and abs(int(exponent[1])) <= 100:
        number, family = number * Fraction(10) ** int(exponent[1]), "exponent"
    else:
        raise ValueError("unable to parse quantity's suffix")
    number = min(_round_up(number, 9), Fraction(_MAX))
    return (-number if sign == "-" else number), family


@lru_cache(4096)
def quantity(value: str | int | float, digits: int = 9) -> str:
    """The canonical text of a quantity, rounded up to so many decimals (resource lists: 3)."""
    number, family = parse_quantity(value)
    return format_quantity(_round_up(number, digits), family)


def _round_up(number: Fraction, digits: int) -> Fraction:
    """Away from zero, as amounts are."""
    scaled = number * 10**digits
    whole = -(-abs(scaled).numerator // scaled.denominator)
    return Fraction(whole if scaled >= 0 else -whole, 10**digits)


def format_quantity(number: Fraction, family: str = "decimal") -> str:
    if number == 0:
        return "0"
    if family == "binary" and abs(number) >= 1024:
        whole = -(-abs(number).numerator // number.denominator) * (1 if number > 0 else -1)
        power = 0
        while power < 6 and whole % 1024 == 0:
            whole, power = whole // 1024, power + 1
        return f"{whole}{_BINARY_SUFFIX.get(power, '')}"
    power = 0
    while number.denominator != 1:
        number, power = number * 1000, power - 3
    whole = number.numerator
    while whole % 1000 == 0 and power < 18:
        whole, power = whole // 1000, power + 3
    if family == "exponent":
        return f"{whole}e{power}" if power else str(whole)
    return f"{whole}{_SUFFIX[power]}"
