"""Times as the API has them: whole seconds in UTC, none after the year 9999."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


# Two clocks of one cluster differ by less. A recorded time that is further ahead of the clock is older than the last
# setting of that clock, back to the right time or away from it.
SKEW = timedelta(seconds=5)


def counted_from(time: datetime, before: datetime | None, now: datetime) -> datetime:
    """Where a wait begins that counts from `time`: there, unless the clock has been set back to before it.

    Then it begins when that was noticed, and is no longer than it should be from then on, instead of going on until
    the clock has caught up. `before` is the previous answer for the same time, None at first.
    """
    begins = time if time <= now + SKEW else now
    return begins if before is None else min(begins, before)


class Since(NamedTuple):
    """A recorded time, and where a wait begins that counts from it."""

    time: datetime
    counted: datetime


def since(time: datetime, before: Since | None, now: datetime) -> Since:
    """`before` is the previous answer, about this time or another one; None at first."""
    known = before.counted if before is not None and before.time == time else None
    return Since(time, counted_from(time, known, now))


def later(since: datetime, seconds: float) -> datetime:
    """So many seconds after a time; what would be after the last of all times is then."""
    try:
        return since + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


def earlier(since: datetime, span: timedelta) -> datetime:
    """So long before a time; what would be before the first of all times is then."""
    try:
        return since - span
    except OverflowError:
        return FIRST


def timestamp(time: datetime) -> str:
    """metav1.Time, as it is written: whole seconds, UTC."""
    return _second(int(time.timestamp() // 1))


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Many objects are made, and change, in the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"
