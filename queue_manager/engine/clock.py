"""The wall clock of a running program. Everything below the outermost shell takes a `Clock` instead."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """The time of this machine."""

    def now(self) -> datetime:
        """The current time, timezone-aware, in UTC."""
        return datetime.now(UTC)
