"""Times as the API has them: whole seconds in UTC, none after the year 9999."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def later(since: datetime, seconds: float) -> datetime:
    """So many seconds after a time; what would be after the last of all times is then."""
    try:
        return since + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


def timestamp(time: datetime) -> str:
    """metav1.Time, as it is written: whole seconds, UTC."""
    return _second(int(time.timestamp() // 1))


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Many objects are made, and change, in the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"
