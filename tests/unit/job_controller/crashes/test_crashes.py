"""Whatever happens to the controller, the Job reaches the same result, and each pod is counted once."""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.unit.job_controller.crashes.mortal import Fate, When
from tests.unit.job_controller.crashes.play import End, play
from tests.unit.job_controller.crashes.scenarios import SCENARIOS, Scenario

EACH_SCENARIO = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
LATE = (
    Fate(delay=3.0),
    Fate(delay=0.7),
    Fate(cut=1),
    Fate(cut=4),
    Fate(delay=2.0, cut=3),
    Fate(cut=1, forgotten=True),
    Fate(cut=3, forgotten=True),
    Fate(delay=2.0, cut=2, forgotten=True),
)


def check(scenario: Scenario, undisturbed: End, fate: Fate) -> None:
    found = play(scenario, fate)
    assert not found.faults, (scenario.name, fate, found.faults)
    assert (found.job, found.pods) == (undisturbed.job, undisturbed.pods), (scenario.name, fate)


@EACH_SCENARIO
def test_scenario_ends_and_every_pod_is_counted_once(scenario: Scenario) -> None:
    end = play(scenario, Fate())
    assert not end.faults
    assert any(text.startswith(("Complete=True", "Failed=True")) for text in end.job["conditions"])
    assert not any("tracked" in text for text in end.pods)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("before", marks=pytest.mark.thorough),
        pytest.param("after", marks=pytest.mark.exhaustive),
    ],
)
@EACH_SCENARIO
def test_death_before_or_after_any_write_changes_nothing(scenario: Scenario, first: When) -> None:
    """By turns before and after a write; `first`: of the first one."""
    undisturbed = play(scenario, Fate())
    turns: tuple[When, When] = ("before", "after") if first == "before" else ("after", "before")
    for number, when in zip(range(1, undisturbed.writes + 1), cycle(turns), strict=False):
        check(scenario, undisturbed, Fate(death=(number, when)))


@pytest.mark.thorough
@EACH_SCENARIO
@pytest.mark.parametrize("fate", LATE, ids=str)
def test_late_and_broken_watches_change_nothing(scenario: Scenario, fate: Fate) -> None:
    check(scenario, play(scenario, Fate()), fate)


@pytest.mark.thorough
@EACH_SCENARIO
def test_death_with_late_watches_changes_nothing(scenario: Scenario) -> None:
    undisturbed = play(scenario, Fate())
    for number in range(1, undisturbed.writes + 1, 2):
        check(scenario, undisturbed, Fate(death=(number, "after"), delay=1.5))
