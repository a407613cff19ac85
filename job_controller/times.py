"""Times that users may write: up to the year 9999, beyond which there is none to compute with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def later(since: datetime, seconds: float) -> datetime:
    """So many seconds after a time; what would be after the last of all times is then."""
    try:
        return since + timedelta(seconds=seconds)
    except OverflowError:
        return LAST
