"""An admission or eviction whose write was lost leaves no trace, not even in the status of the queues."""

from __future__ import annotations

import asyncio
from typing import Any

from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import API, NS, RUNS_WITHOUT_END, Cluster

HELD_SECONDS = 5.0  # longer than changes are batched before a queue's status is written


class LosesStatusWrites(Relay):
    """When switched on, it holds a status write of a Workload for a while and then loses the connection without a
    response.
    """

    deaf = False

    async def request(self, request: Request) -> Response:
        if self.deaf and request.method == "PATCH" and "/workloads/" in request.path:
            await asyncio.sleep(HELD_SECONDS)
            raise ConnectionResetError("lost")
        return await super().request(request)


def test_queues_do_not_count_an_admission_that_was_lost() -> None:
    """The Workload is the same before and after, so no watch event reaches the queues."""

    async def scenario() -> None:
        lines: list[LosesStatusWrites] = []

        def through(transport: Any) -> LosesStatusWrites:
            lines.append(LosesStatusWrites(transport))
            return lines[-1]

        async with World(1, separate_queue=True, wrap_transport=through) as world:
            c = Cluster(world, {})
            await c.queues("0")
            await c.submit("a")
            await c.until(lambda: counts(c), [(1, 0), (1, 0)])
            lines[0].deaf = True
            await set_quota(c, "1")
            await c.until(lambda: counts(c), [(0, 1), (0, 1)], seconds=HELD_SECONDS)
            await set_quota(c, "0")
            await asyncio.sleep(1)
            lines[0].deaf = False
            await c.until(lambda: counts(c), [(1, 0), (1, 0)], seconds=2 * HELD_SECONDS)

    run_virtual(scenario())


class LosesEvictions(Relay):
    """Loses the connection at each of the first `left` evictions."""

    left = 3

    async def request(self, request: Request) -> Response:
        if self.left and request.method == "PATCH" and b"InCohortReclamation" in (request.body or b""):
            self.left -= 1
            raise ConnectionResetError("lost")
        return await super().request(request)


def test_an_eviction_that_was_lost_does_not_count_as_a_preemption() -> None:
    """A Workload is stopped for the same other one of no higher priority at most twice: `borrower` never was."""

    async def scenario() -> None:
        async with World(1, lambda pod: RUNS_WITHOUT_END, separate_queue=True, wrap_transport=LosesEvictions) as world:
            c = Cluster(world, {})
            preemption = {"reclaimWithinCohort": "Any"}
            await c.queues("1", cohortName="co", preemption=preemption)
            spec = (await c.client.get(CLUSTER_QUEUES, "", "cq"))["spec"]
            await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq2"}, "spec": spec})
            await c.local_queue("lq2", "cq2")
            await c.submit("borrower", cpu="2")
            await c.until(c.running, ["borrower"])
            await c.submit("owner", cpu="1", queue="lq2")
            await c.until(c.running, ["owner"], seconds=60)

    run_virtual(scenario())


async def counts(c: Cluster) -> list[tuple[int, int]]:
    """(pending, reserving) of the ClusterQueue and of the LocalQueue."""
    found = [await c.client.get(CLUSTER_QUEUES, "", "cq"), await c.client.get(LOCAL_QUEUES, NS, "lq")]
    return [(queue["status"]["pendingWorkloads"], queue["status"]["reservingWorkloads"]) for queue in found]


async def set_quota(c: Cluster, cpu: str) -> None:
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"resourceGroups": groups}})
