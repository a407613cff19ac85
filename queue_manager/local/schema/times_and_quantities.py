"""Times and quantities: parse them and convert them to their stored form.

Errors are `ValueError`s with the texts of the API server's decoder (metav1.Time, resource.Quantity).
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache

from job_controller import quantities

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
    """Return a metav1.Time in stored form: whole seconds, UTC."""
    if _CANONICAL_TIME.fullmatch(text) and text[:4] != "0000":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return text
    return _moment(text, TIME).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def micro_time(text: str) -> str:
    """Return a metav1.MicroTime in stored form: microseconds, UTC."""
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
    """Split the text along the layout. Fractional seconds are accepted even if the layout has none."""
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


# --- quantities: the decoder accepts surrounding blanks and has two errors ------------------------------

QUANTITY_FORMAT = quantities.MALFORMED
_ANY_SUFFIX = re.compile(r"[+-]?[0-9]*(?:\.[0-9]*)?[eEinumkKMGTP]*[-+]?[0-9]*", re.ASCII)


def number(value: str | int | float) -> Fraction:
    """Return the exact value of a quantity."""
    return Fraction(_quantity(value).nano, 10**9)


def approximate(exact: Fraction) -> float:
    """Return the value as a float; infinite beyond its range."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@lru_cache(4096, typed=True)
def quantity(value: str | int | float, digits: int = 9) -> str:
    """Return the canonical text of a quantity, rounded up to `digits` decimals (3 in resource lists)."""
    return quantities.canonical(_quantity(value).rounded(digits))


def _quantity(value: str | int | float) -> quantities.Quantity:
    text = str(value).strip(" ")
    try:
        return quantities.quantity(text)
    except quantities.MalformedQuantity:
        if text and _ANY_SUFFIX.fullmatch(text):
            raise ValueError("unable to parse quantity's suffix") from None
        raise
