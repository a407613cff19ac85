"""Ages in kubectl's format (apimachinery duration.HumanDuration)."""

from __future__ import annotations

from datetime import datetime

from job_controller.api_rules import stored_form

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


# Per upper bound in seconds: the unit to show, and a smaller unit to add unless its value is 0.
_STEPS = (
    (2 * MINUTE, (1, "s"), None),
    (10 * MINUTE, (MINUTE, "m"), (1, "s")),
    (3 * HOUR, (MINUTE, "m"), None),
    (8 * HOUR, (HOUR, "h"), (MINUTE, "m")),
    (2 * DAY, (HOUR, "h"), None),
    (8 * DAY, (DAY, "d"), (HOUR, "h")),
    (2 * YEAR, (DAY, "d"), None),
    (8 * YEAR, (YEAR, "y"), (DAY, "d")),
)


def format_age(seconds: float) -> str:
    """Two or three significant figures: `119s`, `5m30s`, `90m`, `7h5m`, `47h`, `6d3h`, `700d`, `3y20d`."""
    if seconds < 0:
        return "<invalid>" if int(seconds) < -1 else "0s"
    whole = int(seconds)
    for below, (unit, letter), smaller in _STEPS:
        if whole < below:
            text = f"{whole // unit}{letter}"
            rest = whole % unit // smaller[0] if smaller else 0
            return f"{text}{rest}{smaller[1]}" if smaller and rest else text
    return f"{whole // YEAR}y"


def parse_time(text: str | None) -> datetime | None:
    """A timestamp of an object; None if it is absent or malformed."""
    return stored_form.parse_time(text) if text else None


def since(text: str | None, now: datetime) -> str:
    """The age of a stored timestamp."""
    time = parse_time(text)
    return format_age((now - time).total_seconds()) if time else "<unknown>"
