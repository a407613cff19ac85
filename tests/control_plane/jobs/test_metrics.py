"""Both Job controllers count the same Jobs, pods, indexes and policy actions."""

from __future__ import annotations

import asyncio

import pytest

from tests.control_plane.jobs.lockstep import play_once
from tests.control_plane.jobs.scenarios import ALL
from tests.control_plane.jobs.shared_server import BUILT_IN, OURS, SharedServer
from tests.control_plane.server import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(1500)]

CHOSEN = ALL[::4]
ATTEMPTS = 3  # on a very busy machine a Job may take another course, and then the metrics differ


def test_both_controllers_have_the_same_metrics(plane: ControlPlane) -> None:
    async def count(attempt: int) -> tuple[bool, dict[str, dict[str, float]]]:
        async with SharedServer.open(plane) as shared:
            found = await play_once(shared, list(CHOSEN), f"metrics{attempt}", len(CHOSEN) // 2)
            return not any(comparison.differences for comparison in found), shared.counters()

    for attempt in range(ATTEMPTS):
        alike, counters = asyncio.run(count(attempt))
        if alike:
            break
    assert alike
    assert counters[OURS] == counters[BUILT_IN]
