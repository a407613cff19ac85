"""A reservation ends when its preemptor cannot use it any more, and an assumption when the Workload holds no quota."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from msgspec.structs import replace

from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from queue_manager.api.types import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.queueing.outcomes import await_victims
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduling.cycle import Admit, Preempt, run_cycle
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock
from tests.simulation.stores import NoServer
from tests.unit.queueing.builders import at, cluster_queue, condition, flavor, local_queue, workload

ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "flavors": {"cpu": "default"}, "count": 1}],
}
HOLDS = (condition("QuotaReserved", "True"), condition("Admitted", "True"))
WAITS = (condition("QuotaReserved", "False"), condition("Admitted", "False"))


def version(number: int, name: str, **more) -> Workload:
    found = workload(name, requests={"cpu": "2"}, **more)
    return replace(found, metadata=replace(found.metadata, resource_version=str(number)))


def running(number: int, name: str, *others) -> Workload:
    return version(number, name, conditions=(*HOLDS, *others), status={"admission": ADMISSION})


@asynccontextmanager
async def quota_cache(*pending: Workload) -> AsyncIterator[tuple[QuotaCache, Cache[Workload]]]:
    """ClusterQueue cq has 2 cpus."""
    runtime = Runtime(NoServer(), virtual_clock(), Random(0))
    found = QuotaCache(runtime, WorkloadSettings())
    runtime.cache(RESOURCE_FLAVORS, ResourceFlavor).reset([flavor()], 1)
    queue = cluster_queue(quotas={"default": {"cpu": "2"}}, preemption={"withinClusterQueue": "LowerPriority"})
    runtime.cache(CLUSTER_QUEUES, ClusterQueue).reset([queue, cluster_queue("other")], 1)
    held = local_queue("held", "other", stopPolicy="Hold")
    runtime.cache(LOCAL_QUEUES, LocalQueue).reset([local_queue(), held], 1)
    workloads = runtime.cache(WORKLOADS, Workload)
    workloads.reset(pending, 2)
    yield found, workloads


def preempts(cache: QuotaCache) -> None:
    [outcome] = run_cycle(cache.state, cache.heads(at(1)), at(1))
    assert isinstance(outcome, Preempt)
    await_victims(cache.state, cache.queues, outcome)
    assert outcome.info.uid in cache.state.reservations


@pytest.mark.parametrize("queue", ["held", "missing"])
def test_a_preemptor_that_leaves_its_queue_keeps_no_quota_there(queue: str) -> None:
    async def scenario() -> None:
        preemptor = {"priority": 10}
        async with quota_cache(running(1, "victim"), version(2, "preemptor", **preemptor)) as (cache, workloads):
            preempts(cache)
            workloads.observe(version(3, "preemptor", queue=queue, **preemptor))
            assert not cache.state.reservations

    run_virtual(scenario())


def test_a_preemptor_that_another_process_admits_keeps_nothing_for_later() -> None:
    async def scenario() -> None:
        async with quota_cache(running(1, "victim"), version(2, "preemptor", priority=10)) as (cache, workloads):
            preempts(cache)
            workloads.observe_deleted(version(3, "victim"))
            workloads.observe(running(4, "preemptor"))
            assert not cache.state.reservations

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("newest", "pends"),
    [
        pytest.param(running(4, "w", condition("Finished", "True")), False, id="finished"),
        pytest.param(version(4, "w", conditions=WAITS), True, id="evicted, and released"),
    ],
)
def test_an_admission_that_is_over_before_its_response_comes_holds_nothing(newest: Workload, pends: bool) -> None:
    async def scenario() -> None:
        async with quota_cache(version(2, "w")) as (cache, workloads):
            [outcome] = run_cycle(cache.state, cache.heads(at(1)), at(1))
            assert isinstance(outcome, Admit)
            cache.assume(outcome)
            workloads.observe(running(3, "w"))
            workloads.observe(newest)
            workloads.apply_response(running(3, "w"))
            cache.resolve_assumption(outcome.info)
            assert not cache.state.holdings
            assert (outcome.info.key in cache.queues) == pends

    run_virtual(scenario())
