"""Compare the two Job controllers on generated histories: python -m tests.control_plane.jobs N [SEED]

Prints progress, and for each difference the smallest history that shows it. Twice in each wave both controllers are
killed and started again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator

from tests.control_plane.jobs.generate import histories
from tests.control_plane.jobs.lockstep import Comparison, compare
from tests.control_plane.jobs.shared_server import SharedServer
from tests.control_plane.jobs.shrink import shrink
from tests.control_plane.server import ControlPlane

WAVE = 300
SHRUNK = 5  # how many differences of one wave are shrunk
RESTARTS = (0.3, 0.7)  # fractions of a wave after which both controllers restart


async def wave(shared: SharedServer, number: int, seed: int) -> list[Comparison]:
    """Play `number` histories; returns the differences."""
    restarts = _Restarts(shared)
    played = await compare(shared, histories(number, seed), f"wave{seed}", reached=restarts.reached)
    await restarts.done()
    return [one for one in played if one.differences]


class _Restarts:
    """Restarts both controllers when the given fractions of a wave have been played."""

    def __init__(self, shared: SharedServer) -> None:
        self._shared = shared
        self._due: Iterator[float] = iter(RESTARTS)
        self._next: float | None = next(self._due)
        self._tasks: list[asyncio.Task[None]] = []

    def reached(self, part: float) -> None:
        if self._next is not None and part >= self._next:
            self._next = next(self._due, None)
            self._tasks.append(asyncio.create_task(self._shared.restart()))

    async def done(self) -> None:
        await asyncio.gather(*self._tasks)


async def main(total: int, seed: int) -> int:
    logging.basicConfig(format="%(message)s")
    differing = done = 0
    with ControlPlane.start() as plane:
        async with SharedServer.open(plane) as shared:
            while done < total:
                began = time.monotonic()
                found = await wave(shared, min(WAVE, total - done), seed)
                done += min(WAVE, total - done)
                differing += len(found)
                print(f"{done} histories, {differing} differ, {time.monotonic() - began:.0f} s", flush=True)
                for comparison in found:
                    print(comparison, flush=True)
                for position, comparison in enumerate(found[:SHRUNK]):
                    small = await shrink(shared, comparison, f"shrink{seed}-{position}")
                    print(f"made smaller: {small}", flush=True)
                seed += 1
    return 1 if differing else 0


if __name__ == "__main__":
    count, first = (int(sys.argv[1]) if len(sys.argv) > 1 else 300), (int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    sys.exit(asyncio.run(main(count, first)))
