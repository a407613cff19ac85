"""The wall clock. Only the outermost shell reads it; everything else takes a `Clock`."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The current time, timezone-aware, in UTC."""
        return datetime.now(UTC)
