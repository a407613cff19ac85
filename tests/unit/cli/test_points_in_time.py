"""The times that --since takes."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta, timezone

import pytest

from queue_manager.cli.arguments.argument_types import past_time
from queue_manager.cli.points_in_time import point_in_time

ZONE = timezone(timedelta(hours=2))
SUMMER = timezone(timedelta(hours=3))
NOW = datetime(2026, 3, 1, 10, 30, tzinfo=ZONE)


def zoned(at: datetime) -> datetime:
    """Add the zone of a place with summer time from April."""
    return at.replace(tzinfo=SUMMER if at.month in range(4, 10) else ZONE)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2h", datetime(2026, 3, 1, 8, 30, tzinfo=ZONE)),
        ("1h30m", datetime(2026, 3, 1, 9, 0, tzinfo=ZONE)),
        ("3d", datetime(2026, 2, 26, 10, 30, tzinfo=ZONE)),
        ("1w", datetime(2026, 2, 22, 10, 30, tzinfo=ZONE)),
        ("today", datetime(2026, 3, 1, tzinfo=ZONE)),
        ("Yesterday", datetime(2026, 2, 28, tzinfo=ZONE)),
        ("08:15", datetime(2026, 3, 1, 8, 15, tzinfo=ZONE)),
        ("23:00", datetime(2026, 2, 28, 23, 0, tzinfo=ZONE)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=ZONE)),
        ("2026-01-31T08:30", datetime(2026, 1, 31, 8, 30, tzinfo=ZONE)),
        ("2026-01-31T08:30:00Z", datetime(2026, 1, 31, 8, 30, tzinfo=UTC)),
    ],
)
def test_a_time_is_of_the_zone_of_the_user_unless_it_names_one(text: str, at: datetime) -> None:
    assert point_in_time(text, NOW, zoned) == at


def test_a_date_has_the_offset_of_its_own_season() -> None:
    july = datetime(2026, 7, 1, 10, 30, tzinfo=SUMMER)
    assert point_in_time("2026-01-31", july, zoned).utcoffset() == timedelta(hours=2)
    assert point_in_time("today", july, zoned).utcoffset() == timedelta(hours=3)


@pytest.mark.parametrize("text", ["", "tomorrow", "-2h", "2x", "25:00", "2026-13-01", "h", "5", "99999999999h"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time such as 2h, 3d"):
        past_time(text)
