"""How commands print times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from queue_manager.cli.time_texts import deadline

NOW = datetime(2026, 1, 1, 21, 0, tzinfo=UTC)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (200, "22:03:20, in 3m20s"),
        (0, "22:00:00, now"),
        (-5, "21:59:55, now"),
        (7200, "2026-01-02 00:00:00, in 2h00m"),
    ],
)
def test_a_deadline_is_a_time_of_day_with_the_rest(berlin: None, seconds: float, text: str) -> None:
    assert deadline(NOW + timedelta(seconds=seconds), NOW) == text


def test_an_unknown_deadline_is_a_dash() -> None:
    assert deadline(None, NOW) == "-"
