"""What is free leaves each preemptor what its own victims release, whatever the victims of others release.

`PlannedUsage.free` chooses the claims that count one after the other; the reference tries every set of them.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from queue_manager.scheduler.admission_loop import Scheduler
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduling.planned_usage import PlannedUsage
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.simulation.recount import free
from tests.simulation.stores import crowded_settings, crowded_store, look_at_rest

STORES, MORE_STORES = 800, 8000


def compare(objects: ClusterObjects, quota_cache: QuotaCache, seen: Counter[str]) -> None:
    """Count in `seen` where the claims leave less than the usage now and the planned one."""
    state = quota_cache.state
    holdings, reserved = list(state.holdings.values()), list(state.reservations.values())
    if sum(bool(r.victims) for r in reserved) < 2:
        return
    with PlannedUsage(state) as planned:
        nodes = [queue.node for queue in state.queues.values()]
        found = {(node, fr): planned.free(node, fr) for node in nodes for fr in node.quotas}
        certain = {(node, fr): min(node.available(fr), planned.free_now(node, fr)) for node, fr in found}
    for (node, fr), amount in found.items():
        assert amount == free(objects, holdings, reserved, ("cq", node.name), fr)
        seen["compared"] += 1
        seen["claimed"] += amount < certain[node, fr]
        seen["own"] += amount > certain[node, fr]


def check(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        rng = Random(seed)
        objects, settings = crowded_store(rng), crowded_settings(rng)

        def look(scheduler: Scheduler, quota_cache: QuotaCache, objects: ClusterObjects = objects) -> None:
            compare(objects, quota_cache, seen)

        look_at_rest(objects, settings, rng, look)
    assert min(seen["compared"], 100 * seen["claimed"]) > len(seeds) // 2, seen


def test_what_is_free_is_what_every_preemptor_can_spare() -> None:
    check(range(STORES))


@pytest.mark.exhaustive
def test_in_many_stores_what_is_free_is_what_every_preemptor_can_spare() -> None:
    check(range(STORES, MORE_STORES))
