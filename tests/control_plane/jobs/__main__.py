"""Compare the two Job controllers on many generated histories: python -m tests.control_plane.jobs N [SEED]

Prints progress, and each difference with the smallest history that shows it. Half-way through each wave both
controllers are killed and started again.
"""

from __future__ import annotations

import asyncio
import sys
import time

from tests.control_plane.jobs.arena import Arena
from tests.control_plane.jobs.generate import histories
from tests.control_plane.jobs.player import Comparison, compare
from tests.control_plane.jobs.shrink import shrink
from tests.control_plane.server import ControlPlane

WAVE = 300
SHRUNK = 5  # differences of one wave that are made smaller


async def wave(arena: Arena, number: int, seed: int, *, restarts: bool) -> list[Comparison]:
    """The differences of so many histories."""
    disturbance = asyncio.create_task(_disturb(arena)) if restarts else None
    found = [c for c in await compare(arena, histories(number, seed), f"wave{seed}") if c.differences]
    if disturbance is not None:
        disturbance.cancel()
    return found


async def _disturb(arena: Arena) -> None:
    await asyncio.sleep(20)
    await arena.restart()


async def main(total: int, seed: int) -> int:
    differing = done = 0
    with ControlPlane.start() as plane:
        async with Arena.open(plane) as arena:
            while done < total:
                began = time.monotonic()
                found = await wave(arena, min(WAVE, total - done), seed, restarts=True)
                done += min(WAVE, total - done)
                differing += len(found)
                print(f"{done} histories, {differing} differ, {time.monotonic() - began:.0f} s", flush=True)
                for comparison in found:
                    print(comparison, flush=True)
                for position, comparison in enumerate(found[:SHRUNK]):
                    small = await shrink(arena, comparison, f"shrink{seed}-{position}")
                    print(f"made smaller: {small}", flush=True)
                seed += 1
    return 1 if differing else 0


if __name__ == "__main__":
    count, first = (int(sys.argv[1]) if len(sys.argv) > 1 else 300), (int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    sys.exit(asyncio.run(main(count, first)))
