"""Durations in Go's syntax, as `time.ParseDuration` reads and `Duration.String` prints them: "300ms", "1h30m", "0".

The configuration, Job annotations, command-line options and arguments of the Python client use this format.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta

Duration = float | str | timedelta  # an argument of a Python function: seconds, a text for `parse`, or a timedelta
ZERO = timedelta(0)
MAX_NANOSECONDS = 2**63 - 1  # nanoseconds, about 292 years: the range of Go's int64 Duration
EXAMPLES = 'a duration such as "30s", "5m" or "1h30m"'

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
# The input is untrusted. A number must match in only one way: otherwise a long text without a unit makes the regular
# expression backtrack exponentially.
_part = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_whole = re.compile(rf"[+-]?(?:{_part.pattern})+", re.ASCII).fullmatch


def parse(text: str) -> timedelta:
    """Return the duration, truncated to microseconds. Raises ValueError where `time.ParseDuration` fails."""
    if text in ("0", "+0", "-0"):
        return ZERO
    if _whole(text) is None:
        raise ValueError(f"{text!r} is not {EXAMPLES}")
    nanoseconds = sum(_nanoseconds(number, unit) for number, unit in _part.findall(text))
    if nanoseconds > MAX_NANOSECONDS:
        raise ValueError(f"{text!r} is longer than 292 years")
    return timedelta(microseconds=(-nanoseconds if text.startswith("-") else nanoseconds) // 1000)


def seconds(text: str) -> float:
    """Return the seconds of a duration that is not negative. Raises ValueError."""
    found = parse(text).total_seconds()
    if found < 0:
        raise ValueError(f"{text!r} is negative")
    return found


def argument_seconds(name: str, value: Duration) -> float:
    """Return the seconds of the argument for the parameter `name`.

    Raises ValueError, which begins with that name, for other values than a Duration and for a negative one.
    """
    if isinstance(value, str):
        try:
            return seconds(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{name}: {value!r} is neither a number of seconds nor {EXAMPLES}")
    if number < 0:
        raise ValueError(f"{name}: {value!r} is negative")
    return float(number)


def _nanoseconds(number: str, unit: str) -> int:
    whole, _, decimals = number.partition(".")
    whole, decimals = whole.lstrip("0"), decimals[:18]  # more decimals are below a nanosecond, even of hours
    if len(whole) > len(str(MAX_NANOSECONDS)):
        return MAX_NANOSECONDS + 1
    scale: int = 10 ** len(decimals)
    return int(whole + decimals or "0") * _UNITS[unit] // scale


def render(duration: timedelta) -> str:
    """Format a duration as Go's `Duration.String` does: "1h30m0s", "5m0s", "1.5s", "100ms", "0s"."""
    microseconds = duration // timedelta(microseconds=1)
    sign, left = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if left == 0:
        return "0s"
    if left < 1000:
        return f"{sign}{left}µs"
    if left < 10**6:
        return f"{sign}{_decimal(left, 1000)}ms"
    minutes, rest = divmod(left, 60 * 10**6)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, 10**6)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).zfill(len(str(unit)) - 1).rstrip('0')}"
