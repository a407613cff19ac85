"""A manager starts and finds a pending Workload that differs from its Job, which was edited while no manager ran."""

from __future__ import annotations

import asyncio

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, Cluster, versions


class SlowUpdates(Relay):
    """Updates of Workloads arrive after the writes of their status: a manager that starts syncs many Jobs."""

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and "/workloads/" in request.path and not request.path.endswith("/status"):
            await asyncio.sleep(1)
        return await super().request(request)


@pytest.mark.parametrize("edit", ["labels", "requests"])
def test_a_pending_workload_is_admitted_once_it_follows_its_edited_job(edit: str) -> None:
    """It was admitted with the old template, which the update of the Workload conflicted with; then it was replaced."""

    async def scenario() -> None:
        async with World(1, separate_queue=True, wrap_transport=SlowUpdates) as world:
            c = Cluster(world, {})
            await c.queues("0")
            await c.submit("a", suspend=True)
            await c.until(lambda: c.condition("a", "QuotaReserved"), WAITS)
            before = (await c.workload("a"))["metadata"]["uid"]
            await world.kill()
            await c.client.patch(JOBS, NS, "a", {"spec": {"template": EDITS[edit]}})
            await set_quota(c, "4")
            await world.start()
            await c.until(lambda: is_running(c), True)
            await asyncio.sleep(1)
            workload = await c.workload("a")
            assert workload["metadata"]["uid"] == before
            template = workload["spec"]["podSets"][0]["template"]
            assert template["metadata"].get("labels", {}).get("edited") == ("yes" if edit == "labels" else None)
            assert template["spec"]["containers"][0]["resources"]["requests"]["cpu"] == CPU[edit]
            assert {each["metadata"]["uid"] for each in versions(c, WORKLOADS)} == {before}

    run_virtual(scenario())


def container(cpu: str) -> dict[str, object]:
    return {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}


EDITS = {"labels": {"metadata": {"labels": {"edited": "yes"}}}, "requests": {"spec": {"containers": [container("2")]}}}
CPU = {"labels": "1", "requests": "2"}
WAITS = (
    "False",
    "ExceedsMaxQuota",
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered "
    "podsets requests (0) + current podset request (1) > maximum capacity (0)",
)


async def is_running(c: Cluster) -> bool:
    return await c.running() == ["a"]


async def set_quota(c: Cluster, cpu: str) -> None:
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"resourceGroups": groups}})
