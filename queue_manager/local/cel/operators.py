"""Operators and conversions of the Common Expression Language.

A function whose arguments do not match raises CelError("no such overload"); a Python TypeError counts as that.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from queue_manager.local.cel.cel_values import CelError, MapList, SetList, equal, is_number, no_overload, type_of, whole
from queue_manager.local.cel.parser import Uint

# --- operators -----------------------------------------------------------------------------------------------


def add(left: Any, right: Any) -> Any:
    """CEL's +: numbers, strings, bytes, lists and times; sets and maps of a schema merge. Raises CelError."""
    if isinstance(left, SetList) and isinstance(right, list):
        return SetList([*left, *(item for item in right if not any(equal(item, one) for one in left))])
    if isinstance(left, MapList) and isinstance(right, list):
        return _add_by_key(left, right)
    if isinstance(left, list) and isinstance(right, list):
        return left + right
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return left + right  # type: ignore[operator]
    return arithmetic(left, right, lambda a, b: a + b)


def _add_by_key(left: MapList, right: list[Any]) -> MapList:
    out = MapList(left)
    out.keys = left.keys
    for item in right:
        key = [item.get(name) for name in left.keys]
        at = next((at for at, one in enumerate(out) if [one.get(name) for name in left.keys] == key), None)
        if at is None:
            out.append(item)
        else:
            out[at] = item
    return out


def subtract(left: Any, right: Any = None) -> Any:
    """CEL's -, with one argument the negation. Raises CelError for other types and on overflow."""
    if right is None:
        if not is_number(left) or isinstance(left, Uint):
            raise no_overload()
        return whole(-left) if isinstance(left, int) else -left
    if isinstance(left, datetime) and isinstance(right, datetime | timedelta):
        return left - right
    if isinstance(left, timedelta) and isinstance(right, timedelta):
        return left - right
    return arithmetic(left, right, lambda a, b: a - b)


def arithmetic(left: Any, right: Any, operation: Callable[[Any, Any], Any]) -> Any:
    """Apply `operation` to two numbers of one type. Raises CelError for other types and on overflow."""
    if not is_number(left) or not is_number(right):
        raise no_overload()
    if isinstance(left, float) and isinstance(right, float):
        return operation(left, right)
    if isinstance(left, float) or isinstance(right, float) or isinstance(left, Uint) is not isinstance(right, Uint):
        raise no_overload()
    result = operation(int(left), int(right))
    return whole(Uint(result)) if isinstance(left, Uint) and result >= 0 else _signed(left, result)


def _signed(left: int, result: int) -> int:
    if isinstance(left, Uint):
        raise CelError("unsigned integer overflow")
    return whole(result)


def divide(left: Any, right: Any) -> Any:
    """CEL's /: integers are truncated towards zero. Raises CelError for an integer division by zero."""
    if isinstance(left, float) and isinstance(right, float):
        return left / right if right else math.copysign(math.inf, left) if left else math.nan
    if is_number(right) and right == 0:
        raise CelError("division by zero")
    return arithmetic(left, right, lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def modulo(left: Any, right: Any) -> Any:
    """CEL's %: the result has the sign of the dividend. Raises CelError for doubles and for a modulus of zero."""
    if isinstance(left, float) or isinstance(right, float):
        raise no_overload()
    if is_number(right) and right == 0:
        raise CelError("modulus by zero")
    return arithmetic(left, right, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1))


def is_in(item: Any, where: Any) -> bool:
    """CEL's `in`: an item of a list, or a key of a map. Raises CelError for other containers."""
    if isinstance(where, dict):
        return not isinstance(item, list | dict) and item in where
    if not isinstance(where, list):
        raise no_overload()
    return any(equal(item, one) for one in where)


def negate(value: Any) -> bool:
    """CEL's !. Raises CelError unless the value is a bool."""
    if not isinstance(value, bool):
        raise no_overload()
    return not value


# --- conversions ---------------------------------------------------------------------------------------------


def size(value: Any) -> int:
    """CEL's size(): the number of code points, bytes, elements or entries. Raises CelError for other types."""
    if not isinstance(value, str | bytes | list | dict):
        raise no_overload()
    return len(value)


_DIGITS, _SIGNED = re.compile(r"[0-9]+"), re.compile(r"[+-]?[0-9]+")
_MANY = r"[0-9]+(?:_[0-9]+)*"  # underscores are accepted in decimals, not in integers
_DECIMAL = re.compile(rf"[+-]?(?:{_MANY}\.?(?:{_MANY})?|\.{_MANY})(?:e[+-]?{_MANY})?", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]+", re.IGNORECASE)
_ENDLESS = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)


def to_int(value: Any) -> int:
    """CEL's int(): seconds since the epoch for a timestamp; doubles are truncated. Raises CelError out of range."""
    if isinstance(value, datetime):
        return int(value.timestamp())
    return whole(_integral(value, _SIGNED, "int"))


def to_uint(value: Any) -> Uint:
    """CEL's uint(). Raises CelError for negative values and out of range."""
    return Uint(whole(Uint(_integral(value, _DIGITS, "uint"))))


def _integral(value: Any, digits: re.Pattern[str], wanted: str) -> int:
    """Convert a number or numeric text to an integer, truncating decimals."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise no_overload()
    try:
        if not isinstance(value, str) or digits.fullmatch(value):
            return int(value)
    except (ValueError, OverflowError):
        pass
    raise CelError(f"type conversion error from '{type_of(value).name}' to '{wanted}'")


def to_double(value: Any) -> float:
    """CEL's double(), of numbers and strings. Raises CelError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise no_overload()
    if not isinstance(value, str):
        return float(value)
    number = math.inf
    with suppress(OverflowError):
        if _HEXADECIMAL.fullmatch(value):
            number = float.fromhex(value)
        elif _ENDLESS.fullmatch(value):
            return float(value)
        elif _DECIMAL.fullmatch(value):
            number = float(value)
    if math.isinf(number):
        raise CelError("type conversion error from 'string' to 'double'")
    return number


def to_string(value: Any) -> str:
    """CEL's string(). Raises CelError for types without a text form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _shortest(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime):
        moment, offset = value.replace(tzinfo=None).isoformat(), value.isoformat()[-6:]
        moment = moment.rstrip("0") if "." in moment else moment
        return moment + ("Z" if offset == "+00:00" else offset)
    if isinstance(value, timedelta):
        return f"{_plainly(value.total_seconds())}s"
    if isinstance(value, int | str):
        return str(value)
    if isinstance(
        value, ipaddress.IPv4Address | ipaddress.IPv6Address | ipaddress.IPv4Interface | ipaddress.IPv6Interface
    ):
        return str(value)
    raise no_overload()


def _shortest(value: float) -> str:
    """A number in the format of Go's %g: 1.5, 100000, 1e+06."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    exponent = Decimal(repr(value)).adjusted() if value else 0
    if -4 <= exponent < 6:
        return _plainly(value)
    first, *rest = map(str, digits)
    mantissa = f"{first}.{''.join(rest)}" if rest else first
    return f"{'-' if sign else ''}{mantissa}e{exponent:+03d}"


def _plainly(value: float) -> str:
    """A number without an exponent, with as few digits as needed."""
    return f"{Decimal(repr(value)).normalize():f}"


def to_bool(value: Any) -> bool:
    """CEL's bool(), which accepts the strings of Go's strconv.ParseBool. Raises CelError."""
    if isinstance(value, bool):
        return value
    if value in ("true", "True", "TRUE", "t", "1"):
        return True
    if value in ("false", "False", "FALSE", "f", "0"):
        return False
    raise CelError(f"type conversion error from '{type_of(value).name}' to 'bool'")


def timestamp(value: Any) -> datetime:
    """CEL's timestamp(), of an RFC 3339 string or seconds since the epoch. Raises CelError."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    if not isinstance(value, str):
        raise no_overload()
    with suppress(ValueError):
        if _RFC_3339.fullmatch(value):
            return datetime.fromisoformat(value)
    raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")


_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_LONGEST = (2**63 - 1) / 10**9  # seconds; Go counts nanoseconds
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:h|ms|us|µs|ns|m|s))+|[-+]?0")
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|ns|m|s)")


def duration(value: Any) -> timedelta:
    """CEL's duration(), of a string such as 1h30m. Raises CelError if it is malformed or out of range."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise no_overload()
    if not _DURATION.fullmatch(value):
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _DURATION_PART.findall(value))
    if seconds > _LONGEST:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return timedelta(seconds=-seconds if value.startswith("-") else seconds)
