"""Quantities: exact, canonical, saturating; compared with the parser of the Kubernetes client."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from job_controller import quantities
from job_controller.quantities import INT64_MAX, MalformedQuantity, canonical, parse, quantity, to_text

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
NUMBERS = st.from_regex(r"\A[+-]?(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?\Z")
TEXTS = st.builds(str.__add__, NUMBERS, st.sampled_from(SUFFIXES))


def bounded(amount: int) -> int:
    return max(-INT64_MAX, min(INT64_MAX, amount))


def away_from_zero(number: Fraction) -> int:
    return math.ceil(number) if number >= 0 else math.floor(number)


@given(TEXTS)
def test_amounts_are_those_of_the_kubernetes_client_rounded_up(text: str) -> None:
    number = Fraction(Decimal(parse_quantity(text)))
    # Below a billionth nothing is kept; the client keeps it.
    number = Fraction(away_from_zero(number * 10**9), 10**9)
    if text.endswith("i"):
        number = max(-Fraction(INT64_MAX), min(number, Fraction(INT64_MAX)))
    assert parse(text, "memory") == bounded(away_from_zero(number))
    assert parse(text, "cpu") == bounded(away_from_zero(number * 1000))


@given(TEXTS)
def test_the_canonical_text_means_the_same_and_is_final(text: str) -> None:
    value = quantity(text)
    written = canonical(value)
    assert quantity(written).nano == value.nano
    assert canonical(quantity(written)) == written


@given(st.integers(0, 2**53), st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"]))
def test_amounts_survive_being_written(amount: int, resource: str) -> None:
    assert parse(to_text(amount, resource), resource) == amount


@pytest.mark.parametrize(
    ("amount", "resource", "text"),
    [
        (300_000_000, "memory", "300M"),
        (300 * 2**20, "memory", "300Mi"),
        (1_024_000, "ephemeral-storage", "1000Ki"),
        (1_500, "memory", "1500"),
        (2_048, "nvidia.com/gpu", "2048"),
        (3_000, "nvidia.com/gpu", "3k"),
        (3_000, "cpu", "3"),
        (0, "memory", "0"),
    ],
)
def test_bytes_divisible_by_1024_have_a_binary_suffix_and_all_else_a_decimal_one(
    amount: int, resource: str, text: str
) -> None:
    assert to_text(amount, resource) == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("1000m", "1"),
        ("2.0", "2"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("1e3", "1e3"),
        ("12e4", "120e3"),
        ("1E", "1E"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("100n", "1m"),
        ("0.1Ki", "102400m"),
        ("1023", "1023"),
        ("0Gi", "0"),
        ("-1", "-1"),
        (".5", "500m"),
        ("5.", "5"),
        ("+3", "3"),
    ],
)
def test_resources_are_stored_in_canonical_form(text: str, stored: str) -> None:
    assert quantities.canonical_text(text) == stored


@pytest.mark.parametrize(
    "text", ["", "x", "1x", "1 ", " 1", "1K", "1ki", "--1", "1.2.3", "1mi", "0x1", "٣", "e3", "1e"]
)
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(MalformedQuantity, match="quantities must match the regular expression"):
        quantity(text)


@pytest.mark.parametrize("number", [None, True, [], {}])
def test_what_is_neither_text_nor_number_is_refused(number: object) -> None:
    with pytest.raises(MalformedQuantity):
        quantity(number)  # type: ignore[arg-type]


def test_numbers_of_json_are_quantities() -> None:
    assert parse(2, "cpu") == 2000
    assert parse(0.5, "cpu") == 500


@pytest.mark.parametrize("text", ["1e999999999", "9" * 30 + "E", "9" * 900])
def test_huge_amounts_saturate_without_effort(text: str) -> None:
    assert parse(text) == INT64_MAX
    assert parse("-" + text) == -INT64_MAX


@pytest.mark.parametrize("text", ["1000000000000000e900000", "9e400", "1e399", "-1000000e900000"])
def test_a_huge_exponent_is_the_same_when_read_again(text: str) -> None:
    written = quantities.canonical_text(text)
    assert quantities.canonical_text(written) == written
