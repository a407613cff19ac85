"""How long a simulated day takes: 24 virtual hours of retries, evictions and requeues of three Jobs.

The anchor is the same number of API writes made one after another by a client in the same process.
"""

from __future__ import annotations

import asyncio
import time

from queue_manager.engine.resources import CONFIG_MAPS
from queue_manager.simulation.virtual import run_virtual
from queue_manager.simulation.world import World
from tests.simulation.test_a_day import day


async def write(count: int) -> float:
    async with World() as world:
        began = time.perf_counter()
        for number in range(count):
            await world.client.create(CONFIG_MAPS, "default", {"metadata": {"name": f"map-{number}"}})
        await asyncio.sleep(1)
        return time.perf_counter() - began


def main() -> None:
    began = time.perf_counter()
    writes = len(run_virtual(day(1)).history)
    seconds = time.perf_counter() - began
    anchor = run_virtual(write(writes))
    print(f"  24 virtual hours, {writes} API writes      {seconds:8.2f} s")
    print(f"  as many bare creates (anchor)           {anchor:8.2f} s     ratio {seconds / anchor:.1f}")


if __name__ == "__main__":
    main()
