"""The parts of times and durations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from queue_manager.local.cel.values import Function


def _get_part(name: str) -> Function:
    def part(value: Any, zone: str = "UTC") -> int:
        if isinstance(value, timedelta):
            total = int(value.total_seconds())
            scale = {"getHours": 3600, "getMinutes": 60, "getSeconds": 1}
            if name == "getMilliseconds":
                return value.microseconds // 1000
            return total // scale[name] if total >= 0 else -(-total // scale[name])
        moment = value.astimezone(UTC)
        return int(_PARTS[name](moment))

    return part


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
