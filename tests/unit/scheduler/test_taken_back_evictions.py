"""An eviction that was decided and is not written is taken back: what the status says holds again."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.types import ClusterQueue, LocalQueue, Workload
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock
from tests.simulation.stores import NoServer
from tests.unit.queueing.builders import cluster_queue, condition, local_queue, workload

ASSIGNED = {"name": "main", "flavors": {"cpu": "default"}, "count": 1}


def running(version: int, *others: dict) -> Workload:
    """It holds quota. `others`: further conditions."""
    admission = {"clusterQueue": "cq", "podSetAssignments": [ASSIGNED]}
    holds = (condition("QuotaReserved", "True"), condition("Admitted", "True"))
    found = workload(conditions=(*holds, *others), status={"admission": admission})
    return replace(found, metadata=replace(found.metadata, resource_version=str(version)))


@pytest.mark.parametrize(
    ("others", "evicted"), [((), False), ((condition("Evicted", "True", "PodsReadyTimeout"),), True)]
)
def test_a_victim_that_was_evicted_for_another_reason_meanwhile_stays_evicted(others, evicted) -> None:
    async def scenario() -> None:
        runtime = Runtime(NoServer(), virtual_clock(), Random(0))
        quota_cache = QuotaCache(runtime, WorkloadSettings())
        runtime.cache(CLUSTER_QUEUES, ClusterQueue).reset([cluster_queue()], 1)
        runtime.cache(LOCAL_QUEUES, LocalQueue).reset([local_queue()], 1)
        workloads = runtime.cache(WORKLOADS, Workload)
        workloads.reset([running(1)], 1)
        [uid] = quota_cache.state.holdings
        quota_cache.state.mark_evicted(uid)
        workloads.reset([running(2, *others)], 2)
        assert quota_cache.state.holdings[uid].evicted
        quota_cache.take_back_eviction(quota_cache.state.holdings[uid])
        assert quota_cache.state.holdings[uid].evicted == evicted

    run_virtual(scenario())
