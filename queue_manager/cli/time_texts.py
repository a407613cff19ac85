"""How commands print times: past ones in UTC, as the API does; deadlines in local time, with the time left."""

from __future__ import annotations

from datetime import datetime

from job_controller.times import timestamp
from queue_manager.cli.output import duration

LOCAL = "%Y-%m-%d %H:%M:%S"


def format_time(at: datetime | None) -> str:
    """`2026-01-01T12:04:30Z`, or `-`."""
    return "-" if at is None else timestamp(at)


def local_time(at: datetime | None) -> str:
    """`2026-01-31 08:30:00` in the reader's time zone, or `-`."""
    return "-" if at is None else at.astimezone().strftime(LOCAL)


def local_clock(at: datetime | None, now: datetime) -> str:
    """`08:30:00` in the reader's time zone, with the date if that is not today's, or `-`."""
    if at is None:
        return "-"
    local = at.astimezone()
    return local.strftime("%H:%M:%S" if local.date() == now.astimezone().date() else LOCAL)


def span(seconds: float | None) -> str:
    """A duration: `3m20s`, or `-`."""
    return "-" if seconds is None else duration(seconds)


def ago(at: datetime | None, now: datetime) -> str:
    """The time that has passed: `3m20s`, or `-`."""
    return "-" if at is None else duration((now - at).total_seconds())


def ahead(at: datetime | None, now: datetime) -> str:
    """Format a future time as `in 12s`, or `now` if it is due."""
    if at is None:
        return "-"
    left = (at - now).total_seconds()
    return f"in {duration(left)}" if left >= 1 else "now"


def deadline(at: datetime | None, now: datetime) -> str:
    """`12:04:30, in 3m20s` in the reader's time zone, with the date if that is not today's; `12:04:30, now` if due."""
    return "-" if at is None else f"{local_clock(at, now)}, {ahead(at, now)}"
