"""The request that creates a pod takes long, and its Job is stopped or deleted meanwhile.

Until the request is answered no cache contains the pod. The API server may execute it after the Job was deleted, and
the garbage collector ends such a pod only then: the quota of its Job is in use all that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any

import msgspec
import pytest

from job_controller import quantities
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from queue_manager.engine.transport_protocol import ApiError, Relay, Request, Response, Transport
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, RUNS_WITHOUT_END, Cluster

Delay = Callable[[], float]


class SlowCreates(Relay):
    """Creates pods so many seconds after they were requested."""

    def __init__(self, inner: Transport, delay: Delay) -> None:
        super().__init__(inner)
        self._delay = delay

    async def request(self, request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/pods"):
            await asyncio.sleep(self._delay())
        return await self._inner.request(request)


def peak(history: Iterable[bytes]) -> tuple[int, list[str]]:
    """The highest usage of pods at one time in milli-cpu, and the pods that had it."""
    using: dict[str, int] = {}
    most: tuple[int, list[str]] = (0, [])
    for line in history:
        what, resource, data = line.split(b" ", 2)
        if resource != b"pods":
            continue
        pod = msgspec.json.decode(data)
        if what == b"DELETED" or pod["status"]["phase"] in ("Succeeded", "Failed"):
            using.pop(pod["metadata"]["uid"], None)
        else:
            using[pod["metadata"]["uid"]] = cpu_of(pod)
        most = max(most, (sum(using.values()), sorted(using)))
    return most


def cpu_of(pod: dict[str, Any]) -> int:
    return quantities.parse(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "cpu")


async def deleted(c: Cluster) -> None:
    await c.client.delete(JOBS, NS, "a", propagation="Background")


async def deactivated(c: Cluster) -> None:
    await c.client.patch(WORKLOADS, NS, (await c.workload("a"))["metadata"]["name"], {"spec": {"active": False}})


async def workload_deleted(c: Cluster) -> None:
    await c.client.delete(WORKLOADS, NS, (await c.workload("a"))["metadata"]["name"])


async def deleted_with_its_queue(c: Cluster) -> None:
    queue = await c.client.get(CLUSTER_QUEUES, "", "cq")
    await deleted(c)
    await c.client.delete(CLUSTER_QUEUES, "", "cq")
    await asyncio.sleep(2)
    await recreate(c, queue)


async def recreate(c: Cluster, queue: dict[str, Any]) -> None:
    """Recreate a ClusterQueue as soon as the deleted one is gone, which is when nothing holds quota in it."""
    tree = {name: queue[name] for name in ("apiVersion", "kind", "spec")}
    for _ in range(100):
        try:
            await c.create(CLUSTER_QUEUES, {**tree, "metadata": {"name": "cq"}})
        except ApiError as error:
            if error.status != 409:
                raise
            await asyncio.sleep(1)
        else:
            return
    raise AssertionError("the ClusterQueue does not go")


@pytest.mark.parametrize(
    "ended", [deleted, deactivated, workload_deleted, deleted_with_its_queue], ids=lambda ended: ended.__name__
)
def test_quota_is_in_use_while_a_pod_is_being_created(ended: Callable[[Cluster], Awaitable[None]]) -> None:
    """`a` ends while its pod is being created for ten seconds; `b` gets the quota only after that pod is gone."""

    async def scenario() -> None:
        delays = iter([10.0])

        def through(transport: Transport) -> Transport:
            return SlowCreates(transport, lambda: next(delays, 0.0))

        async with World(1, lambda pod: RUNS_WITHOUT_END, wrap_transport=through) as world:
            c = Cluster(world, {})
            await c.queues("1")
            await c.submit("a", "50m")
            await c.until(c.running, ["a"])
            await c.submit("b", "1")
            await asyncio.sleep(1)
            await ended(c)
            await c.until(c.running, ["b"], seconds=60)
            await asyncio.sleep(15)
            assert peak(world.history)[0] == 1000, peak(world.history)

    run_virtual(scenario())


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(5, 20))]
)
def test_pods_stay_within_quota_with_slow_creates_and_replaced_queues(seed: int) -> None:
    """Jobs of 50 to 1000 milli-cpu are created, deleted and deactivated at random while a queue is replaced."""

    async def scenario() -> None:
        rng, chance = Random(seed), Random(seed + 1000)
        script = PodScript(ready_after=0.2, ends_after=6.0)

        def through(transport: Transport) -> Transport:
            return SlowCreates(transport, lambda: chance.choice((0.0, 0.5, 3.0)))

        async with World(seed, lambda pod: script, wrap_transport=through) as world:
            c = Cluster(world, {})
            await c.queues("1")
            for number in range(40):
                await c.submit(f"j{number}", rng.choice(("50m", "300m", "1")))
                await asyncio.sleep(rng.choice((0.05, 0.4, 2.0)))
                await random_moves(c, rng)
            await asyncio.sleep(60)
            assert peak(world.history)[0] <= 1000, peak(world.history)

    run_virtual(scenario())


async def random_moves(c: Cluster, rng: Random) -> None:
    victims = await c.running()
    what = rng.random()
    if what < 0.35 and victims:
        await c.client.delete(JOBS, NS, rng.choice(victims), propagation="Background")
    elif what < 0.45 and victims:
        workload = await c.workload(rng.choice(victims))
        await c.client.patch(WORKLOADS, NS, workload["metadata"]["name"], {"spec": {"active": False}})
    elif what < 0.55:
        queue = await c.client.get(CLUSTER_QUEUES, "", "cq")
        for name in victims:
            await c.client.delete(JOBS, NS, name, propagation="Background")
        await c.client.delete(CLUSTER_QUEUES, "", "cq")
        await recreate(c, queue)
