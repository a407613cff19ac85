"""Random actions on queues in cohorts keep the invariants: see `cohort_invariants` and `cohort_samples`.

With preemption, fair sharing, backfilling, minimum runtimes, several flavors, other writers, crashes, and admins who
replace queues and flavors and close cycles of Cohorts. Each check must have judged as often as LEAST says, so that none
becomes vacuous when the lives change. The lives in the folder `kept_lives` broke something once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.simulation.cohort_lives import MORE_LENGTH, life
from tests.simulation.cohort_play import FOLDER, play, read

LIVES, MORE_LIVES, BATCH = 8, 48, 20
LONG_LIVES = range(100, 112)
# How often the checks must have judged in the lives of one test: about half as often as they did when it was written.
LEAST = {
    "S1": 150,
    "S1 below a cycle": 3,
    "S2": 2500,
    "S3": 150,
    "S4": 10_000,
    "S5": 150,
    "S6": 50,
    "S7": 6,
    "S7 kept": 4,
    "S7 minimal": 6,
    "S7 minimum runtime": 1,
    "S8": 12,
    "S9": 15,
    "S10": 150,
    "S11": 70,
    "S12": 70,
    "S13": 500,
    "S21": 20,
    "S22": 25,
    "S23": 20,
    "S24 ClusterQueue": 1,
    "S24 ClusterQueue in use": 10,
    "S25 condition": 140,
    "S26 numbers": 150,
    "S26 ExceedsMaxQuota": 25,
    "S26 WaitingForQuota": 100,
    "S27": 8000,
    "InClusterQueue": 12,
    "InCohortReclamation": 1,
    "L1": 90,
    "L1 quiet": 200,
    "L3": 120,
    "L6": 15,
}
MORE = {
    "InCohortFairSharing": 1,
    "S12 deleted": 1,
    "S25 annotation": 5,
    "S25 finalizer": 3,
    "S26 NoMatchingFlavor": 10,
}
LEAST_OF_MANY = LEAST | MORE


def check(seeds: range, least: Mapping[str, int]) -> None:
    """Play these lives. Raises Broken, with the number of the life in a note."""
    checked: Counter[str] = Counter()
    for seed in seeds:
        try:
            checked += play(life(seed)).checked
        except Exception as error:
            error.add_note(f"life {seed}")
            raise
    assert not {what: f"{checked[what]} of {number}" for what, number in least.items() if checked[what] < number}


def test_random_lives_keep_the_invariants() -> None:
    check(range(LIVES), LEAST)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(LIVES, MORE_LIVES, BATCH))
def test_many_random_lives_keep_the_invariants(first: int) -> None:
    check(range(first, first + BATCH), LEAST_OF_MANY)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", LONG_LIVES)
def test_long_random_lives_keep_the_invariants(seed: int) -> None:
    """Many Workloads wait at a time, and what one decision leaves behind meets the next."""
    checked = play(life(seed, MORE_LENGTH)).checked
    assert checked["S2"] > 100


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_life_that_broke_something_once_keeps_the_invariants(path: Path) -> None:
    play(read(path))
