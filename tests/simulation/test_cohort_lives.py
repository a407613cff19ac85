"""Random actions on queues in cohorts keep the invariants: see `cohort_invariants` and `cohort_samples`.

With preemption, fair sharing, backfilling, minimum runtimes, several flavors, other writers and crashes. The lives in
the folder `kept_lives` broke something once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.cohort_lives import life
from tests.simulation.cohort_play import FOLDER, play, read

LIVES, MORE_LIVES, BATCH = 8, 88, 20


@pytest.mark.parametrize("seed", range(LIVES))
def test_a_random_life_keeps_the_invariants(seed: int) -> None:
    play(life(seed))


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(LIVES, MORE_LIVES, BATCH))
def test_many_random_lives_keep_the_invariants(first: int) -> None:
    for seed in range(first, first + BATCH):
        play(life(seed))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_life_that_broke_something_once_keeps_the_invariants(path: Path) -> None:
    play(read(path))
