"""Jobs are queued in the order of their creation, although the API server answers concurrent requests in any order."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.scheduling.queue_order import queue_time, rank
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, Cluster

SUBMITTED = 60  # Jobs
QUEUED = {"kueue.x-k8s.io/queue-name": "lq"}


class UnevenServer(Relay):
    """Handles each write after a random time of up to a second."""

    def __init__(self, inner: Transport, rng: Random) -> None:
        super().__init__(inner)
        self._rng = rng

    async def request(self, request: Request) -> Response:
        if request.method != "GET":
            await asyncio.sleep(self._rng.uniform(0, 1))
        return await super().request(request)


def order_of_queue(seed: int, outage: float) -> tuple[list[int], list[Workload]]:
    """Submit Jobs within three seconds. With an `outage` no manager runs meanwhile and so many seconds longer. Then
    all Jobs are edited, before most of them have a Workload. Returns the numbers of the Jobs by the rank of their
    Workloads, and the Workloads by number.
    """

    async def scenario() -> tuple[list[int], list[Workload]]:
        rng = Random(seed)
        async with World(
            seed, None, separate_queue=True, wrap_transport=lambda inner: UnevenServer(inner, rng)
        ) as world:
            cluster = Cluster(world, {})
            await cluster.queues("1")
            if outage:
                await world.kill()
            names = [f"j{rng.randrange(10**6)}-{number}" for number in range(SUBMITTED)]
            for name in names:
                await cluster.submit(name, "2", queue=None, labels=QUEUED)
                await asyncio.sleep(0.04)
            if outage:
                await asyncio.sleep(outage)
                await world.start()
            for name in reversed(names):
                await world.client.patch(JOBS, NS, name, {"metadata": {"labels": {"edited": "true"}}})
            await asyncio.sleep(100)
            found = {number_of(w): w for w in await world.client.list(WORKLOADS, NS, type=Workload)}
            assert len(found) == SUBMITTED
            return sorted(found, key=lambda n: rank(found[n], queue_time(found[n]))), [found[n] for n in sorted(found)]

    return run_virtual(scenario())


def number_of(workload: Workload) -> int:
    return int(workload.metadata.owner_references[0].name.split("-")[1])


@pytest.mark.parametrize("outage", [0, 10])
@pytest.mark.parametrize("seed", range(3))
def test_jobs_are_queued_in_the_order_of_their_creation(seed: int, outage: float) -> None:
    order, workloads = order_of_queue(seed, outage)
    assert order == list(range(SUBMITTED))
    created = [w.metadata.creation_timestamp for w in workloads]
    assert created != sorted(created), "their Workloads have to be created in another order"
