"""Time of a simulated day: 24 virtual hours of retries, evictions and requeues of three Jobs.

Once with the default backoffLimit, where a Job has failed after seven pods, and once with a Job that fails without end,
a pod every ten minutes. The anchors are as many API writes, made one after another by a client in the same process.
"""

from __future__ import annotations

import asyncio
import time

from queue_manager.api.api_resources import CONFIG_MAPS
from queue_manager.engine.process_tuning import tune_garbage_collector
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.simulation.test_one_day import day


async def write(count: int) -> float:
    async with World() as world:
        began = time.perf_counter()
        for number in range(count):
            await world.client.create(CONFIG_MAPS, "default", {"metadata": {"name": f"map-{number}"}})
        await asyncio.sleep(1)
        return time.perf_counter() - began


def main() -> None:
    tune_garbage_collector()
    print(f"  {'24 virtual hours':44}{'writes':>8}{'s':>8}{'bare creates, s (anchor)':>28}{'ratio':>8}")
    for name, limit in (("of retries by default", 6), ("with a pod more every ten minutes", 1000)):
        began = time.perf_counter()
        writes = len(run_virtual(day(1, limit)).history)
        seconds = time.perf_counter() - began
        anchor = run_virtual(write(writes))
        print(f"  {name:44}{writes:8}{seconds:8.2f}{anchor:28.2f}{seconds / anchor:8.1f}")


if __name__ == "__main__":
    main()
