"""Times as the API stores them (whole seconds, UTC, up to the year 9999), and when a wait from a recorded time starts.

A recorded time may lie in the future: the clock was set back after the time was recorded.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


# The clocks of a cluster are assumed to differ by less. A recorded time further ahead of the clock was written before
# the clock was set back.
CLOCK_SKEW = timedelta(seconds=5)


def effective_start(time: datetime, before: datetime | None, now: datetime) -> datetime:
    """When a wait starts that counts from a recorded `time`: at that time, unless it lies in the future.

    A recorded time more than CLOCK_SKEW ahead means that the clock was set back. The wait then starts when that is
    first observed, so that it takes its own length instead of lasting until the clock has caught up
    (BEHAVIOUR.md#b41-clock). `before` is the previous result for the same time, None at first.
    """
    begins = time if time <= now + CLOCK_SKEW else now
    return begins if before is None else min(begins, before)


class WaitStart(NamedTuple):
    """A recorded time, and when a wait starts that counts from it."""

    time: datetime
    effective: datetime


def wait_start(time: datetime, before: WaitStart | None, now: datetime) -> WaitStart:
    """The start of a wait from a recorded time. `before` is the previous result, for this or another time; None at
    first.
    """
    known = before.effective if before is not None and before.time == time else None
    return WaitStart(time, effective_start(time, known, now))


def later(wait_start: datetime, seconds: float) -> datetime:
    """The time `seconds` after `wait_start`, at most LATEST."""
    try:
        return wait_start + timedelta(seconds=seconds)
    except OverflowError:
        return LATEST


def earlier(wait_start: datetime, span: timedelta) -> datetime:
    """The time `span` before `wait_start`, at least EARLIEST."""
    try:
        return wait_start - span
    except OverflowError:
        return EARLIEST


def timestamp(time: datetime) -> str:
    """The text of a metav1.Time: whole seconds, UTC."""
    return _second(int(time.timestamp() // 1))


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """The text of a Unix time. Cached, because many objects change in the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"
