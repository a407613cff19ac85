"""Quantities and times in stored form, as recorded from a real API server."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_manager.local.schema import string_formats, times_and_quantities

STORED = [
    ("0.5", "500m"),
    ("1000m", "1"),
    ("100000", "100k"),
    ("1e3", "1e3"),
    ("1.5Gi", "1536Mi"),
    ("1024Mi", "1Gi"),
    ("0.5Ki", "512"),
    ("1 ", "1"),
    (".5", "500m"),
    ("1E", "1E"),
    ("12Ei", "9223372036854775807"),
    ("0.0000000001", "1n"),
    ("1e-3", "1e-3"),
    (1, "1"),
    (1.5, "1500m"),
    (2000, "2k"),
    ("0.1Gi", "107374182400m"),
    ("1.00000000001Gi", "1073741824010737419n"),
    ("57E", "57E"),
    ("1e21", "1e21"),
    ("1e101", "100e99"),
    ("1e-101", "1e-9"),
    ("9223372036854775808", "9223372036854775808"),
    ("9" * 65, "9" * 65),
]


@pytest.mark.parametrize(("given_", "stored"), STORED)
def test_quantities_are_stored_in_canonical_form(given_: str | float, stored: str) -> None:
    assert times_and_quantities.quantity(given_) == stored


def test_resource_lists_round_up_to_thousandths() -> None:
    assert times_and_quantities.quantity("0.1m", 3) == "1m"


@pytest.mark.parametrize("text", ["", "abc", "1Zi", "1 2", "--1", "1e", "9" * 1000])
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        times_and_quantities.quantity(text)


@pytest.mark.parametrize("text", ["5kk", "1e", "5i", "--5", "e", "5K"])
def test_a_wrong_suffix_and_a_wrong_form_have_different_messages(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        times_and_quantities.quantity(text)


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", "m", "k", "Mi", "Gi"]))
def test_the_canonical_form_is_the_same_number_and_stays_as_it_is(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    stored = times_and_quantities.quantity(text)
    assert times_and_quantities.number(stored) == times_and_quantities.number(text)
    assert times_and_quantities.quantity(stored) == stored


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**6, max_denominator=10**6))
def test_rounding_is_up(number: Fraction) -> None:
    text = f"{float(number):.12f}"
    assert times_and_quantities.number(times_and_quantities.quantity(text, 3)) >= times_and_quantities.number(text)


def test_a_number_beyond_all_floats_is_infinite() -> None:
    assert times_and_quantities.approximate(times_and_quantities.number("1e320")) == math.inf
    assert times_and_quantities.approximate(times_and_quantities.number("-1e320")) == -math.inf


def test_times_are_cut_to_seconds_in_utc() -> None:
    assert times_and_quantities.time("2026-01-01T01:00:00.9+02:00") == "2025-12-31T23:00:00Z"
    assert times_and_quantities.micro_time("2026-01-01T01:00:00.000001Z") == "2026-01-01T01:00:00.000001Z"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00"])
def test_a_time_outside_of_all_years_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="year out of range"):
        times_and_quantities.time(text)


@pytest.mark.parametrize(
    ("form", "text", "fits"),
    [
        ("duration", "1" * 200_000, False),
        ("duration", "1" * 200_000 + " h", True),
        ("email", " " * 200_000, False),
        ("email", "a" + " " * 200_000, False),
        ("email", "a  b " + " " * 200_000 + "<a@b.c> ", True),
    ],
)
def test_long_texts_are_read_in_linear_time(form: str, text: str, fits: bool) -> None:
    """With backtracking each would take hours."""
    assert string_formats.has_format(text, form) is fits
