"""A new configuration while Workloads run and are pending, on the whole system in virtual time."""

from __future__ import annotations

import asyncio

from queue_manager.configuration import loads
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import Cluster, cluster

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
HANGS = PodScript(ready_after=None, ends_after=None)
OFF = "featureGates: {DisableWaitForPodsReady: true}\n"


def reconfigure(c: Cluster, body: str) -> None:
    c.world.queue.reconfigure(loads(HEAD + body))


async def is_evicted(c: Cluster, job: str) -> bool:
    found = await c.condition(job, "Evicted")
    return found is not None and found[:2] == ("True", "PodsReadyTimeout")


def test_a_shorter_timeout_applies_to_pods_that_are_starting() -> None:
    async def scenario() -> None:
        async with cluster("waitForPodsReady: {timeout: 1h}\n", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await asyncio.sleep(30)
            reconfigure(c, "waitForPodsReady: {timeout: 60s}\n")
            await asyncio.sleep(25)
            assert not await is_evicted(c, "a")
            await asyncio.sleep(10)
            assert await is_evicted(c, "a")

    run_virtual(scenario())


def test_a_longer_timeout_applies_to_pods_that_are_starting() -> None:
    async def scenario() -> None:
        async with cluster("waitForPodsReady: {timeout: 60s}\n", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await asyncio.sleep(30)
            reconfigure(c, "waitForPodsReady: {timeout: 120s}\n")
            await asyncio.sleep(80)
            assert not await is_evicted(c, "a")
            await asyncio.sleep(20)
            assert await is_evicted(c, "a")

    run_virtual(scenario())


def test_enabling_pods_ready_gives_unready_pods_a_full_timeout() -> None:
    """Running Workloads are not evicted."""

    async def scenario() -> None:
        async with cluster(OFF, b=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.submit("b")
            await asyncio.sleep(3600)
            reconfigure(c, "waitForPodsReady: {timeout: 60s}\n")
            await asyncio.sleep(50)
            assert await c.condition("a", "PodsReady") == (
                "True",
                "Started",
                "All pods reached readiness and the workload is running",
            )
            assert not await is_evicted(c, "b")
            await asyncio.sleep(20)
            assert await is_evicted(c, "b")
            assert not await is_evicted(c, "a")

    run_virtual(scenario())


def test_disabling_pods_ready_ends_its_evictions() -> None:
    async def scenario() -> None:
        async with cluster("waitForPodsReady: {timeout: 60s}\n", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await asyncio.sleep(30)
            reconfigure(c, OFF)
            await asyncio.sleep(600)
            assert not await is_evicted(c, "a")

    run_virtual(scenario())


def test_disabling_block_admission_admits_pending_workloads() -> None:
    async def scenario() -> None:
        async with cluster("waitForPodsReady: {blockAdmission: true}\n", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.submit("b")
            await asyncio.sleep(30)
            assert await c.running() == ["a"]
            reconfigure(c, "waitForPodsReady: {blockAdmission: false}\n")
            await c.until(c.running, ["a", "b"], 5)

    run_virtual(scenario())


def test_excluding_a_resource_admits_workloads_that_lacked_it() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            card = {"example.com/gpu": "1"}
            gpu = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", **card}, "limits": card}}
            await c.submit("a", pod={"containers": [gpu]})
            await asyncio.sleep(5)
            assert await c.running() == []
            reconfigure(c, "resources: {excludeResourcePrefixes: [example.com]}\n")
            await c.until(c.running, ["a"], 5)

    run_virtual(scenario())


def test_enabling_jobs_without_queue_name_suspends_new_ones() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            reconfigure(c, "manageJobsWithoutQueueName: true\n")
            await c.submit("a", queue=None)
            await asyncio.sleep(5)
            assert await c.running() == []

    run_virtual(scenario())


def test_the_new_timestamp_setting_orders_evicted_workloads() -> None:
    """a was evicted after b came: by Eviction b is first, by Creation a is."""

    async def first(timestamp: str) -> list[str]:
        strategy = "requeuingStrategy: {backoffBaseSeconds: 5}"
        async with cluster(f"waitForPodsReady: {{timeout: 30s, {strategy}}}\n", a=HANGS) as c:
            await c.queues("1")
            await c.submit("a")
            await asyncio.sleep(5)
            await c.submit("b")
            await c.submit("c")
            await asyncio.sleep(45)  # a is evicted and pending again, b runs
            new = f"requeuingStrategy: {{backoffBaseSeconds: 5, timestamp: {timestamp}}}"
            reconfigure(c, f"waitForPodsReady: {{timeout: 30s, {new}}}\n")
            return [
                info.key.name.split("-")[1] for info in c.world.queue.quota_cache.queues.cluster_queues["cq"].in_order()
            ]

    assert run_virtual(first("Eviction")) == ["c", "a"]
    assert run_virtual(first("Creation")) == ["a", "c"]


def test_metrics_of_queues_follow_the_configuration() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            assert "kueue_cluster_queue_nominal_quota" not in c.world.metrics.exposition()
            reconfigure(c, "metrics: {enableClusterQueueResources: true, localQueueMetrics: {enable: false}}\n")
            text = c.world.metrics.exposition()
            assert "kueue_cluster_queue_nominal_quota" in text
            assert "kueue_local_queue_status{" not in text

    run_virtual(scenario())
