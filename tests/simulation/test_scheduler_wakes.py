"""After any change of a Workload the scheduler is woken if a cycle finds something to try, and else mostly not."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import msgspec
from msgspec import structs

from queue_manager.api import condition_types
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.types import Condition, Workload
from queue_manager.scheduler.released_quota import PAUSE_SECONDS
from queue_manager.simulation.virtual_time import run_virtual
from tests.simulation.stores import crowded_settings, crowded_store, started
from tests.unit.queueing.builders import condition

STORES = 150
CHANGES = 6


def changed(rng: Random, workloads: list[Workload], revision: int) -> list[Workload]:
    """One is gone, has finished, or has a new condition that the scheduler does not read."""
    at = rng.randrange(len(workloads))
    some = workloads[at]
    kind = rng.choice(("gone", condition_types.FINISHED, "Example"))
    if kind == "gone":
        return workloads[:at] + workloads[at + 1 :]
    added = msgspec.convert(condition(kind, "True"), Condition)
    status = structs.replace(some.status, conditions=(*some.status.conditions, added))
    meta = structs.replace(some.metadata, resource_version=str(revision))
    return [*workloads[:at], structs.replace(some, status=status, metadata=meta), *workloads[at + 1 :]]


async def play(rng: Random, seen: Counter[tuple[bool, bool]]) -> None:
    objects = crowded_store(rng)
    runtime, quota_cache, scheduler = started(objects, crowded_settings(rng))
    workloads = list(objects.workloads)
    for revision in range(2, 2 + CHANGES):
        while scheduler.cycle():
            pass
        quota_cache.changed.clear()
        workloads = changed(rng, workloads, revision)
        runtime.cache(WORKLOADS, Workload).reset(workloads, revision)
        await asyncio.sleep(2 * PAUSE_SECONDS)
        cycles, woken = scheduler.cycles, quota_cache.changed.is_set()
        scheduler.cycle()
        seen[woken, scheduler.cycles > cycles] += 1
        assert woken or scheduler.cycles == cycles
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def test_no_change_after_which_a_workload_may_be_tried_leaves_the_scheduler_asleep() -> None:
    seen: Counter[tuple[bool, bool]] = Counter()
    for seed in range(STORES):
        run_virtual(play(Random(seed), seen))
    assert seen[True, True] > STORES, seen
    assert seen[False, False] > STORES / 2, seen
