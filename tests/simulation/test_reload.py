"""A new configuration under running and waiting Workloads, on the whole system in virtual time."""

from __future__ import annotations

import asyncio

from queue_manager.configuration import loads
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual import run_virtual
from tests.local.queue.cluster import Cluster, cluster

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
HANGS = PodScript(ready_after=None, ends_after=None)
OFF = "featureGates: {DisableWaitForPodsReady: true}\n"


def take(c: Cluster, body: str) -> None:
    c.world.queue.reconfigure(loads(HEAD + body))


async def is_evicted(c: Cluster, job: str) -> bool:
    found = await c.condition(job, "Evicted")
    return found is not None and found[:2] == ("True", "PodsReadyTimeout")


def test_a_shorter_timeout_counts_for_pods_that_are_waited_for_already() -> None:
    async def story() -> None:
        async with cluster("waitForPodsReady: {timeout: 1h}\n", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await asyncio.sleep(30)
            take(c, "waitForPodsReady: {timeout: 60s}\n")
            await asyncio.sleep(25)
            assert not await is_evicted(c, "a")
            await asyncio.sleep(10)
            assert await is_evicted(c, "a")

    run_virtual(story())


def test_a_longer_timeout_counts_for_pods_that_are_waited_for_already() -> None:
    async def story() -> None:
        async with cluster("waitForPodsReady: {timeout: 60s}\n", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await asyncio.sleep(30)
            take(c, "waitForPodsReady: {timeout: 120s}\n")
            await asyncio.sleep(80)
            assert not await is_evicted(c, "a")
            await asyncio.sleep(20)
            assert await is_evicted(c, "a")

    run_virtual(story())


def test_waiting_switched_on_evicts_nothing_that_runs_and_gives_the_rest_a_whole_timeout() -> None:
    async def story() -> None:
        async with cluster(OFF, b=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.submit("b")
            await asyncio.sleep(3600)
            take(c, "waitForPodsReady: {timeout: 60s}\n")
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

    run_virtual(story())


def test_waiting_switched_off_evicts_nothing_any_more() -> None:
    async def story() -> None:
        async with cluster("waitForPodsReady: {timeout: 60s}\n", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await asyncio.sleep(30)
            take(c, OFF)
            await asyncio.sleep(600)
            assert not await is_evicted(c, "a")

    run_virtual(story())


def test_admission_opens_when_it_is_no_longer_blocked() -> None:
    async def story() -> None:
        async with cluster("waitForPodsReady: {blockAdmission: true}\n", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.submit("b")
            await asyncio.sleep(30)
            assert await c.running() == ["a"]
            take(c, "waitForPodsReady: {blockAdmission: false}\n")
            await c.until(c.running, ["a", "b"], 5)

    run_virtual(story())


def test_a_resource_that_no_longer_counts_lets_the_waiting_in() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1")
            card = {"example.com/gpu": "1"}
            gpu = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", **card}, "limits": card}}
            await c.submit("a", pod={"containers": [gpu]})
            await asyncio.sleep(5)
            assert await c.running() == []
            take(c, "resources: {excludeResourcePrefixes: [example.com]}\n")
            await c.until(c.running, ["a"], 5)

    run_virtual(story())


def test_jobs_without_a_queue_name_are_held_from_then_on() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues()
            take(c, "manageJobsWithoutQueueName: true\n")
            await c.submit("a", queue=None)
            await asyncio.sleep(5)
            assert await c.running() == []

    run_virtual(story())


def test_among_equals_the_order_after_an_eviction_follows_the_new_timestamp() -> None:
    """a was evicted after b came: by Eviction b is first, by Creation a is."""

    async def first(timestamp: str) -> list[str]:
        strategy = "requeuingStrategy: {backoffBaseSeconds: 5}"
        async with cluster(f"waitForPodsReady: {{timeout: 30s, {strategy}}}\n", a=HANGS) as c:
            await c.queues("1")
            await c.submit("a")
            await asyncio.sleep(5)
            await c.submit("b")
            await c.submit("c")
            await asyncio.sleep(45)  # a is evicted and back in line, b runs
            new = f"requeuingStrategy: {{backoffBaseSeconds: 5, timestamp: {timestamp}}}"
            take(c, f"waitForPodsReady: {{timeout: 30s, {new}}}\n")
            return [
                info.key.name.split("-")[1] for info in c.world.queue.quota_cache.queues.cluster_queues["cq"].in_order()
            ]

    assert run_virtual(first("Eviction")) == ["c", "a"]
    assert run_virtual(first("Creation")) == ["a", "c"]


def test_what_is_reported_of_queues_follows() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues()
            assert "kueue_cluster_queue_nominal_quota" not in c.world.metrics.exposition()
            take(c, "metrics: {enableClusterQueueResources: true, localQueueMetrics: {enable: false}}\n")
            text = c.world.metrics.exposition()
            assert "kueue_cluster_queue_nominal_quota" in text
            assert "kueue_local_queue_status{" not in text

    run_virtual(story())
