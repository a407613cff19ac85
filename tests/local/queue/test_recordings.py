"""What the real Kueue did, we do: recorded scenarios played again, compared value by value and event by event.

Three kinds of scenarios are not simply equal. Those that show what we do not have yet wait for it. Those in
which Kueue is wrong are asserted otherwise, each in a test of its name (`test_better_than_kueue`). Those
whose course hangs on how long Kueue takes to stop a Job are asserted by what they are about, in
`test_faster_than_kueue`.
"""

from __future__ import annotations

import pytest

from tests.local.queue import test_better_than_kueue, test_faster_than_kueue
from tests.local.queue.replay import TRACES, differences, load

WAITING_FOR_PREEMPTION = ("h01", "h07", "h08", "h09")
BETTER = (
    *("d01", "d07", "d11", "e01", "f05", "g02", "g16", "i13", "i14", "i15", "m01", "m02", "m05", "m07"),
    *("x02", "x08", "x09", "x12", "x13", "x22", "x25", "x26", "x23", "x27"),
)
FASTER = ("c04", "c05", "c06", "c07")
NAMES = sorted(path.stem for path in TRACES.glob("*.json"))


def short(name: str) -> str:
    return name.split("-")[0]


EQUAL = [n for n in NAMES if short(n) not in (*WAITING_FOR_PREEMPTION, *BETTER, *FASTER)]


@pytest.mark.parametrize("name", EQUAL)
def test_the_recording_is_reproduced(name: str) -> None:
    assert differences(load(name)) == {}


def test_what_is_waited_for_is_known_by_name() -> None:
    waiting = [n for n in NAMES if short(n) in WAITING_FOR_PREEMPTION]
    assert waiting == [
        "h01-preempt-in-clusterqueue",
        "h07-preempt-minimal-set",
        "h08-reclaim-while-borrowing",
        "h09-preempt-victim-slow-pods",
    ]


@pytest.mark.parametrize("name", [*BETTER, *FASTER])
def test_a_recording_that_is_not_reproduced_has_its_own_test(name: str) -> None:
    tests = [*vars(test_better_than_kueue), *vars(test_faster_than_kueue)]
    assert any(test.startswith(f"test_{name}_") for test in tests)


@pytest.mark.parametrize("name", [*BETTER, *FASTER, *WAITING_FOR_PREEMPTION])
def test_nothing_is_excused_that_is_equal(name: str) -> None:
    assert differences(load(name)) != {}
