"""The clock of the system."""

from __future__ import annotations

from datetime import timedelta

from queue_manager.engine.clock import SystemClock


def test_the_system_clock_returns_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)
