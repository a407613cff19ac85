"""The recorded answers of the API server and Kueue's webhooks are those of the embedded server with our rules."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.validation_replay import RECORDS, check, replay


async def ask() -> dict[str, dict[str, Any]]:
    """The answers of one server without controllers."""
    async with World(1, None, separate_queue=True) as world:
        await world.kill()
        return await replay(world.client)


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    return run_virtual(ask())


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["case"])
def test_the_answer_is_the_recorded_one(record: dict[str, Any], answers: dict[str, dict[str, Any]]) -> None:
    check(record, answers)
