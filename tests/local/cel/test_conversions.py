"""Conversions of numbers, times and time zones, as a real API server computed them in messages of rules."""

from __future__ import annotations

import json
from pathlib import Path
from zoneinfo import available_timezones

import pytest

from queue_manager.local.cel.cel_values import CelError
from queue_manager.local.cel.parser import SyntaxProblem, parse
from queue_manager.local.cel.program import Scope, compile_text

PLACE = "America/New_York"
WHEN = "timestamp('2026-01-02T03:04:05Z')"
SEEN = [
    ("string(-9007199254740993 % 2)", "-1"),
    ("string(9007199254740993 % -2)", "1"),
    ("string(1000000.0)", "1e+06"),
    ("string(123456789.0)", "1.23456789e+08"),
    ("string(-123456.5)", "-123456.5"),
    ("string(100000.0)", "100000"),
    ("string(0.0001)", "0.0001"),
    ("string(0.00001)", "1e-05"),
    ("string(1e21)", "1e+21"),
    ("string(1.5)", "1.5"),
    ("string(-0.0)", "-0"),
    ("string(1.0 / 0.0)", "+Inf"),
    ("string(-1.0 / 0.0)", "-Inf"),
    ("string(double('nan'))", "NaN"),
    ("string(double('Infinity'))", "+Inf"),
    ("string(double('0x1p-2'))", "0.25"),
    ("string(double('.5e1'))", "5"),
    ("string(double('1_0'))", "10"),
    ("string(int('+5'))", "5"),
    ("string(int(-1.9))", "-1"),
    ("string(uint(1e19))", "10000000000000000000"),
    ("string(uint('5'))", "5"),
    ("'%s'.format([1000000.0])", "1e+06"),
    (f"string({WHEN}.getHours('+02:00'))", "5"),
    (f"string({WHEN}.getHours('02:00'))", "5"),
    (f"string({WHEN}.getHours('-02:30'))", "0"),
    (f"string({WHEN}.getMinutes('-02:30'))", "34"),
    (f"string({WHEN}.getDate('-05:00'))", "1"),
    (f"string({WHEN}.getDayOfWeek('-05:00'))", "4"),
    (f"string({WHEN}.getHours('UTC'))", "3"),
    ("string(timestamp('2026-01-02T03:04:05.123456Z').getMilliseconds())", "123"),
    ("string(duration('123.321s').getMilliseconds())", "123321"),
    ("string(duration('-123.321s').getMilliseconds())", "-123321"),
    ("string(duration('-90m').getHours())", "-1"),
    ("string(duration('1h1m1s').getSeconds())", "3661"),
    ("string(duration('1h30m'))", "5400s"),
    ("string(duration('1500ms'))", "1.5s"),
    ("string(duration('1us'))", "0.000001s"),
    ("string(timestamp('2026-01-02T03:04:05.100Z'))", "2026-01-02T03:04:05.1Z"),
    ("string(timestamp('2026-01-02T03:04:05+02:00'))", "2026-01-02T03:04:05+02:00"),
    ("string('hello'.lastIndexOf('l', 2))", "2"),
    ("string('hello'.lastIndexOf('l', 9))", "-1"),
    ("string('hello'.lastIndexOf('', 2))", "2"),
    ("string('hello'.indexOf('l', 3))", "3"),
    ("string('hello'.indexOf('', 9))", "9"),
]
REFUSED = [
    "int('1_0')",
    "int(' 5')",
    "int('0x10')",
    "int('٣')",
    "int(1e19)",
    "int(double('nan'))",
    "uint(-1)",
    "uint('-1')",
    "uint('+1')",
    "double('1__0')",
    "double('_1')",
    "double(' 1')",
    "double('1e400')",
    "double('')",
    "timestamp('2026-01-02 03:04:05Z')",
    "timestamp('20260102T030405Z')",
    "timestamp('2026-01-02')",
    "timestamp('2026-13-02T03:04:05Z')",
    "timestamp(1.5)",
    "duration('100000000h')",
    "duration('3000000h')",
    f"{WHEN}.getHours('nowhere')",
    f"{WHEN}.getHours('../../etc/passwd')",
    "duration('1h').getHours('UTC')",
    "duration('1h').getDate()",
    "'hello'.indexOf('l', -1)",
    "'hello'.lastIndexOf('l', -1)",
]


def value_of(expression: str) -> object:
    return compile_text(expression, [])(Scope({}, [1_000_000]))


@pytest.mark.parametrize(("expression", "text"), SEEN)
def test_a_conversion_equals_the_recorded_one(expression: str, text: str) -> None:
    assert value_of(expression) == text


@pytest.mark.parametrize("expression", REFUSED)
def test_an_invalid_conversion_is_an_error(expression: str) -> None:
    with pytest.raises(CelError):
        value_of(expression)


GOLDEN = Path(__file__).parents[2] / "golden" / "apply" / "cel-values.jsonl"
RECORDED = [(record["expression"], record["value"]) for record in map(json.loads, GOLDEN.read_text().splitlines())]


@pytest.mark.parametrize(
    ("expression", "text"), [row for row in RECORDED if PLACE not in row[0]], ids=lambda text: str(text)[:60]
)
def test_an_expression_has_the_value_that_the_real_server_gave_it(expression: str, text: str | None) -> None:
    """None: it had no value, and the message of its rule was omitted (as for an empty text)."""
    if text is not None:
        assert value_of(expression) == text
        return
    with pytest.raises(CelError):
        value_of(expression)


@pytest.mark.skipif(PLACE not in available_timezones(), reason="this machine knows no time zones")
def test_a_time_zone_has_its_own_hours() -> None:
    assert value_of(f"{WHEN}.getHours('{PLACE}')") == 22


def test_an_unsigned_literal_may_have_leading_zeros() -> None:
    assert [parse(text) for text in ("06u", "0x1Fu", "18446744073709551615U")] == [
        ("lit", number) for number in (6, 31, 2**64 - 1)
    ]
    with pytest.raises(SyntaxProblem, match="invalid uint literal"):
        parse("18446744073709551616u")
