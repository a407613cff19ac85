"""Both Job controllers count the same Jobs, pods, indexes and policy actions."""

from __future__ import annotations

import asyncio

import pytest

from tests.control_plane.jobs.arena import BUILT_IN, OURS, Arena
from tests.control_plane.jobs.match import play_once
from tests.control_plane.jobs.scenarios import ALL
from tests.control_plane.server import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(1500)]

CHOSEN = ALL[::4]
ATTEMPTS = 3  # a machine so busy that a Job took another course says nothing about metrics


def test_metrics_of_both_are_the_same(plane: ControlPlane) -> None:
    async def count(attempt: int) -> tuple[bool, dict[str, dict[str, float]]]:
        async with Arena.open(plane) as arena:
            found = await play_once(arena, list(CHOSEN), f"metrics{attempt}", len(CHOSEN) // 2)
            return not any(comparison.differences for comparison in found), arena.counters()

    for attempt in range(ATTEMPTS):
        alike, counters = asyncio.run(count(attempt))
        if alike:
            break
    assert alike
    assert counters[OURS] == counters[BUILT_IN]
