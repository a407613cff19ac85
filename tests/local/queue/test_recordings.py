"""Scenarios recorded with the real Kueue are replayed and compared value by value and Event by Event.

Two kinds of scenarios are excepted: those in which Kueue is wrong (`test_better_than_kueue`), and those whose course
depends on Kueue's delays (`test_faster_than_kueue`).
"""

from __future__ import annotations

import pytest

from tests.local.queue import test_better_than_kueue, test_faster_than_kueue
from tests.local.queue.replay import TRACES, differences, load

BETTER = (
    *("b01", "b02", "b03", "b07", "d01", "d07", "d11", "e01", "f05", "g02", "g16", "h08", "i07", "i13", "i14", "i15"),
    *("m01", "m02", "m05", "m07", "x02", "x08", "x09", "x12", "x13", "x22", "x25", "x26", "x23", "x27"),
)
FASTER = ("c04", "c05", "c06", "c07")
NAMES = sorted(path.stem for path in TRACES.glob("*.json"))


def short(name: str) -> str:
    return name.split("-")[0]


EQUAL = [n for n in NAMES if short(n) not in (*BETTER, *FASTER)]


@pytest.mark.parametrize("name", EQUAL)
def test_the_recording_is_reproduced(name: str) -> None:
    assert differences(load(name)) == {}


@pytest.mark.parametrize("name", [*BETTER, *FASTER])
def test_each_excepted_recording_has_its_own_test(name: str) -> None:
    tests = [*vars(test_better_than_kueue), *vars(test_faster_than_kueue)]
    assert any(test.startswith(f"test_{name}_") for test in tests)


@pytest.mark.parametrize("name", [*BETTER, *FASTER])
def test_no_excepted_recording_is_reproduced(name: str) -> None:
    assert differences(load(name)) != {}
