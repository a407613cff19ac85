"""Durations are read and printed as by Go."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_manager import durations


@pytest.mark.parametrize(
    ("text", "seconds", "printed"),
    [
        ("0", 0, "0s"),
        ("0s", 0, "0s"),
        ("5m", 300, "5m0s"),
        ("1h30m", 5400, "1h30m0s"),
        ("-1s", -1, "-1s"),
        ("+2s", 2, "2s"),
        ("1.5s", 1.5, "1.5s"),
        (".5m", 30, "30s"),
        ("100ms", 0.1, "100ms"),
        ("250us", 0.00025, "250µs"),
        ("1500µs", 0.0015, "1.5ms"),
        ("36h", 129600, "36h0m0s"),
        ("0" * 5000 + "2s", 2, "2s"),
        ("0.5" + "0" * 5000 + "s", 0.5, "500ms"),
    ],
)
def test_a_duration_is_read_and_printed_as_go_does(text: str, seconds: float, printed: str) -> None:
    assert durations.parse(text) == timedelta(seconds=seconds)
    assert durations.render(timedelta(seconds=seconds)) == printed


@pytest.mark.parametrize("text", ["", "soon", "5", "5 m", "m", "1d", "-", "1h-3m", "1s ", "٣s", "1e3s", "9" * 30 + "h"])
def test_a_text_that_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not|longer"):
        durations.parse(text)


@pytest.mark.parametrize("text", ["1" * 200_000, "1" * 200_000 + "s", "1." + "1" * 200_000, "1s" * 100_000 + "1"])
def test_a_long_text_is_refused_at_once(text: str) -> None:
    """Annotations of Jobs may be long, and the process that reads them serves all users."""
    with pytest.raises(ValueError, match=r"not|longer"):
        durations.parse(text)


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_a_printed_duration_reads_back(microseconds: int) -> None:
    duration = timedelta(microseconds=microseconds)
    assert durations.parse(durations.render(duration)) == duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(0, 0), (3, 3), (0.5, 0.5), ("3s", 3), ("1h30m", 5400), ("0", 0), (timedelta(minutes=2), 120)],
)
def test_an_argument_is_seconds_or_a_text_or_a_timedelta(value: durations.Duration, seconds: float) -> None:
    assert durations.argument_seconds("timeout", value) == seconds


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("soon", "'soon' is not a duration such as"),
        ("3", "'3' is not a duration such as"),
        ("-3s", "'-3s' is negative"),
        (-3, "-3 is negative"),
        (timedelta(seconds=-1), "is negative"),
        (float("nan"), "nan is neither a number of seconds nor a duration"),
        (float("inf"), "inf is neither"),
        (True, "True is neither"),
        (b"3s", "b'3s' is neither"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_name_of_its_parameter(value: float, why: str) -> None:
    with pytest.raises(ValueError, match=f"^timeout: {re.escape(why)}|^timeout: .* {re.escape(why)}"):
        durations.argument_seconds("timeout", value)
