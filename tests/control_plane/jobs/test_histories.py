"""Generated histories end the same under both Job controllers, which are killed and restarted meanwhile.

`make compare-jobs N=5000` plays more of them.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.control_plane.jobs.__main__ import wave
from tests.control_plane.jobs.lockstep import Comparison
from tests.control_plane.jobs.shared_server import SharedServer
from tests.control_plane.jobs.shrink import shrink
from tests.control_plane.server import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(1500)]

NUMBER = int(os.environ.get("SLUICE_HISTORIES", "150"))
SEED = 20260101


def test_generated_histories_end_the_same(plane: ControlPlane) -> None:
    async def play() -> tuple[list[Comparison], Comparison | None]:
        async with SharedServer.open(plane) as shared:
            found = await wave(shared, NUMBER, SEED)
            return found, await shrink(shared, found[0], "shrink") if found else None

    found, smallest = asyncio.run(play())
    assert not found, "\n".join([*map(str, found), f"made smaller: {smallest}"])
