"""CEL's accessors of timestamps and durations: getFullYear(), getHours(), getSeconds() and the like."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from queue_manager.local.cel.cel_values import CelError, Function, no_overload


def _get_part(name: str) -> Function:
    def part(value: Any, *zone: Any) -> int:
        if isinstance(value, timedelta) and name in _SPANS and not zone:
            return int(value / _SPANS[name])
        if not isinstance(value, datetime):
            raise no_overload()
        return _PARTS[name](value.astimezone(_zone(*zone)))

    return part


def _zone(name: str = "UTC") -> tzinfo:
    """Return the time zone of a name such as Europe/Berlin or of an offset such as -02:30. Raises CelError."""
    offset = _OFFSET.fullmatch(name)
    try:
        if offset is None:
            return ZoneInfo(name or "UTC")
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-span if offset[1] == "-" else span)
    except (KeyError, ValueError, OSError) as error:
        raise CelError(f"unknown time zone {name}") from error


_OFFSET = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{1,2})")
_SPANS = {
    "getHours": timedelta(hours=1),
    "getMinutes": timedelta(minutes=1),
    "getSeconds": timedelta(seconds=1),
    "getMilliseconds": timedelta(milliseconds=1),
}
_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda t: t.year,
    "getMonth": lambda t: t.month - 1,
    "getDate": lambda t: t.day,
    "getDayOfMonth": lambda t: t.day - 1,
    "getDayOfWeek": lambda t: t.isoweekday() % 7,
    "getDayOfYear": lambda t: t.timetuple().tm_yday - 1,
    "getHours": lambda t: t.hour,
    "getMinutes": lambda t: t.minute,
    "getSeconds": lambda t: t.second,
    "getMilliseconds": lambda t: t.microsecond // 1000,
}

METHODS: dict[str, Function] = {name: _get_part(name) for name in _PARTS}
