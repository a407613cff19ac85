"""Workloads whose owner reference is gone, with or without the Job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import API, NS, RUNS_WITHOUT_END, Cluster
from tests.local.queue.invariants import is_true

NO_OWNER = {"metadata": {"ownerReferences": None}}


@asynccontextmanager
async def one_runs_one_waits() -> AsyncIterator[Cluster]:
    """`run` uses the whole quota and `wait` is pending; the queue's controllers can be killed."""
    async with World(1, lambda pod: RUNS_WITHOUT_END, separate_queue=True) as world:
        c = Cluster(world, {})
        await c.queues("1")
        await c.submit("run")
        await c.until(c.running, ["run"])
        await c.submit("wait")
        await asyncio.sleep(2)
        yield c


async def delete_as_orphan(c: Cluster, job: str) -> None:
    await c.client.delete(JOBS, NS, job, propagation="Orphan")
    await c.until(lambda: jobs(c), ["wait"])


async def jobs(c: Cluster) -> list[str]:
    return [job["metadata"]["name"] for job in await c.client.list(JOBS, NS)]


async def finished(c: Cluster, name: str) -> list[str]:
    workload = await c.client.get(WORKLOADS, NS, name)
    conditions = workload.get("status", {}).get("conditions", ())
    return [condition["reason"] for condition in conditions if condition["type"] == "Finished"]


def test_quota_is_free_after_an_orphan_deletion_while_the_manager_was_down() -> None:
    async def scenario() -> None:
        async with one_runs_one_waits() as c:
            name = (await c.workload("run"))["metadata"]["name"]
            await c.world.kill()
            await delete_as_orphan(c, "run")
            assert not (await c.client.get(WORKLOADS, NS, name))["metadata"].get("ownerReferences")
            await c.world.start()
            await c.until(c.running, ["wait"])
            assert await finished(c, name) == ["OwnerNotFound"]

    run_virtual(scenario())


@pytest.mark.parametrize("name", ["cut-short", "job-other-12345"])
def test_the_missing_owner_of_a_prebuilt_workload_is_noticed(name: str) -> None:
    """Its name does not contain the Job's, so all Jobs are listed."""

    async def scenario() -> None:
        async with one_runs_one_waits() as c:
            uid = (await c.job("run"))["metadata"]["uid"]
            await c.world.kill()
            await c.create(WORKLOADS, workload(name, labels={"kueue.x-k8s.io/job-uid": uid}))
            await c.world.start()
            await asyncio.sleep(5)
            assert await finished(c, name) == []
            await c.world.kill()
            await delete_as_orphan(c, "run")
            await c.world.start()
            await c.until(lambda: finished(c, name), ["OwnerNotFound"])

    run_virtual(scenario())


@pytest.mark.parametrize("down", [False, True])
def test_a_removed_owner_reference_is_restored_and_the_job_keeps_running(down: bool) -> None:
    async def scenario() -> None:
        async with one_runs_one_waits() as c:
            before = await c.workload("run")
            if down:
                await c.world.kill()
            await c.client.patch(WORKLOADS, NS, before["metadata"]["name"], NO_OWNER)
            if down:
                await c.world.start()
            await c.until(lambda: owners(c, before), before["metadata"]["ownerReferences"])
            await asyncio.sleep(5)
            assert await c.running() == ["run"]
            assert (await c.workload("run"))["metadata"]["uid"] == before["metadata"]["uid"]

    run_virtual(scenario())


async def owners(c: Cluster, workload: dict[str, Any]) -> Any:
    return (await c.client.get(WORKLOADS, NS, workload["metadata"]["name"]))["metadata"].get("ownerReferences")


def test_an_inactive_workload_without_owner_keeps_quota_until_the_stop() -> None:
    """It is evicted, and gives its quota back when its Job has stopped."""

    async def scenario() -> None:
        async with one_runs_one_waits() as c:
            name = (await c.workload("run"))["metadata"]["name"]
            await c.client.patch(WORKLOADS, NS, name, {**NO_OWNER, "spec": {"active": False}})
            await c.until(c.running, ["wait"])
            assert (await c.job("run"))["spec"]["suspend"]
            assert not is_true(await c.workload("run"), "QuotaReserved")

    run_virtual(scenario())


def test_a_workload_without_owner_and_label_is_left_to_its_user() -> None:
    async def scenario() -> None:
        async with one_runs_one_waits() as c:
            await c.create(WORKLOADS, workload("mine"))
            await asyncio.sleep(60)
            assert await finished(c, "mine") == []

    run_virtual(scenario())


def workload(name: str, **meta: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": template}]}
    return {**API, "kind": "Workload", "metadata": {"name": name, "namespace": NS, **meta}, "spec": spec}
