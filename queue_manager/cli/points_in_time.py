"""Reads the points in time that commands take (--since, --until). Pure: the time now and the zone are arguments.

2h, 90m, 3d, 1w    so long ago
today, yesterday   at 00:00
08:30              the last time it was 08:30
2026-01-31         at 00:00
2026-01-31T08:30   with seconds and a zone if wanted: 2026-01-31T08:30:00Z
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, time, timedelta

from queue_manager import durations

_DAYS = re.compile(r"(\d{1,5})([dw])", re.ASCII)
_DAYS_OF = {"d": 1, "w": 7}
_DAYS_AGO = {"today": 0, "yesterday": 1}


def point_in_time(text: str, now: datetime, zoned: Callable[[datetime], datetime] = datetime.astimezone) -> datetime:
    """Return the time that `text` means. `now`: in the user's zone.

    `zoned` adds the user's zone to a time without one, whose offset from UTC may be another one than that of `now`.
    Raises ValueError, or OverflowError for years that do not exist.
    """
    wanted = text.strip()
    if wanted.lower() in _DAYS_AGO:
        return zoned(datetime.combine(now.date() - timedelta(days=_DAYS_AGO[wanted.lower()]), time()))
    span = _span(wanted)
    if span is not None:
        return now - span
    found = _of_clock(wanted, now.replace(tzinfo=None)) or datetime.fromisoformat(wanted)
    return zoned(found) if found.tzinfo is None else found


def _span(text: str) -> timedelta | None:
    days = _DAYS.fullmatch(text)
    if days is not None:
        return timedelta(days=int(days[1]) * _DAYS_OF[days[2]])
    try:
        found = durations.parse(text)
    except ValueError:
        return None
    return found if found >= timedelta() else None


def _of_clock(text: str, now: datetime) -> datetime | None:
    try:
        found = datetime.combine(now.date(), time.fromisoformat(text)) if ":" in text[:3] else None
    except ValueError:
        return None
    return found - timedelta(days=1) if found is not None and found > now else found
