"""What others write on the same objects stays: their finalizers, and the conditions that they add."""

from __future__ import annotations

import asyncio

import pytest

from job_controller.model import Key
from queue_manager.api.api_resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, Resource
from queue_manager.configuration import loads
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, RUNS_WITHOUT_END, Cluster, cluster, condition
from tests.local.queue.test_features import PREBUILT, make_prebuilt
from tests.simulation.test_few_writes import Crowd

OURS, THEIRS = "kueue.x-k8s.io/resource-in-use", "example.com/mine"
CONFIG = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


class Interferer(Relay):
    """Another writer adds a condition to each object of a resource immediately before a status write of the manager."""

    def __init__(self, inner: Transport, resource: Resource, namespace: str) -> None:
        super().__init__(inner)
        self._client, self._resource, self._namespace = RestClient(inner), resource, namespace
        self.added: dict[str, int] = {}  # by name: how many conditions it has got

    async def request(self, request: Request) -> Response:
        path = self._resource.path(self._namespace) + "/"
        if request.method == "PATCH" and request.path.startswith(path) and request.path.endswith("/status"):
            await self._add(request.path.split("/")[-2])
        return await super().request(request)

    async def _add(self, name: str) -> None:
        number = self.added.get(name, 0)
        if number == 3:  # then the manager can write
            return
        self.added[name] = number + 1
        found = await self._client.get(self._resource, self._namespace, name)
        added = {
            "type": f"Seen{number}",
            "status": "True",
            "reason": "Seen",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"conditions": [*found.get("status", {}).get("conditions", ()), added]}
        await self._client.patch(self._resource, self._namespace, name, {"status": status}, subresource="status")


def test_conditions_that_others_add_while_a_status_is_written_stay() -> None:
    async def scenario() -> None:
        lines: list[Interferer] = []

        def wrap(transport: Transport) -> Transport:
            lines.append(Interferer(transport, WORKLOADS, NS))
            return lines[-1]

        async with World(1, None, loads(CONFIG), separate_queue=True, wrap_transport=wrap) as world:
            crowd = Crowd(world, [])
            await crowd.cluster.queues("1")
            for name in ("fits", "waits"):
                await crowd.create(name, 1)

            async def reserved() -> list[str]:
                found = [await world.client.get(WORKLOADS, NS, name) for name in ("fits", "waits")]
                states = [condition(each.get("status", {}), "QuotaReserved") for each in found]
                return [state[0] if state is not None else "" for state in states]

            await crowd.cluster.until(reserved, ["True", "False"], seconds=120)
            assert [line.added for line in lines if line.added] == [{"fits": 3, "waits": 3}]
            for name in ("fits", "waits"):
                conditions = (await world.client.get(WORKLOADS, NS, name))["status"]["conditions"]
                assert {f"Seen{n}" for n in range(3)} <= {each["type"] for each in conditions}

    run_virtual(scenario())


@pytest.mark.parametrize(("resource", "key"), [(CLUSTER_QUEUES, Key("", "cq")), (LOCAL_QUEUES, Key(NS, "lq"))], ids=str)
def test_conditions_that_others_add_to_queues_stay(resource: Resource, key: Key) -> None:
    async def scenario() -> None:
        def wrap(transport: Transport) -> Transport:
            return Interferer(transport, resource, key.namespace)

        async with World(1, None, loads(CONFIG), separate_queue=True, wrap_transport=wrap) as world:
            crowd = Crowd(world, [])
            await crowd.cluster.queues("1")

            async def types() -> set[str]:
                found = await world.client.get(resource, *key)
                return {each["type"] for each in found.get("status", {}).get("conditions", ())}

            await crowd.cluster.until(types, {"Active", "Seen0", "Seen1", "Seen2"}, seconds=120)

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("resource", "key"), [(CLUSTER_QUEUES, Key("", "cq")), (RESOURCE_FLAVORS, Key("", "default"))], ids=str
)
def test_finalizers_of_others_stay_on_queues_and_flavors(resource: Resource, key: Key) -> None:
    async def finalizers(c: Cluster) -> list[str]:
        return sorted((await c.client.get(resource, *key))["metadata"].get("finalizers", []))

    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.until(lambda: finalizers(c), [OURS])
            await c.client.patch(resource, *key, {"metadata": {"finalizers": [OURS, THEIRS]}})
            await c.client.delete(LOCAL_QUEUES, NS, "lq")
            await c.client.delete(CLUSTER_QUEUES, "", "cq")
            if resource != CLUSTER_QUEUES:
                await c.client.delete(resource, *key)
            await c.until(lambda: finalizers(c), [THEIRS])
            await asyncio.sleep(60)
            assert await finalizers(c) == [THEIRS]

    run_virtual(scenario())


class Keeper(Relay):
    """Another writer adds its finalizer to a Workload immediately before the manager writes a list of finalizers."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._client = RestClient(inner)
        self.kept: list[str] = []

    async def request(self, request: Request) -> Response:
        path = WORKLOADS.path(NS) + "/"
        name = request.path.removeprefix(path)
        is_list = request.method == "PATCH" and b'"finalizers"' in (request.body or b"")
        if request.path.startswith(path) and is_list and name not in self.kept:
            self.kept.append(name)
            finalizers = (await self._client.get(WORKLOADS, NS, name))["metadata"].get("finalizers", ())
            await self._client.patch(WORKLOADS, NS, name, {"metadata": {"finalizers": [*finalizers, THEIRS]}})
        return await super().request(request)


@pytest.mark.parametrize(
    ("is_prebuilt", "remain"), [(False, [THEIRS]), (True, [THEIRS, OURS])], ids=["released", "taken over"]
)
def test_a_finalizer_that_another_adds_at_the_same_time_stays(is_prebuilt: bool, remain: list[str]) -> None:
    async def scenario() -> None:
        lines: list[Keeper] = []

        def wrap(transport: Transport) -> Transport:
            lines.append(Keeper(transport))
            return lines[-1]

        async with World(1, lambda _: RUNS_WITHOUT_END, loads(CONFIG), separate_queue=True, wrap_transport=wrap) as w:
            c = Cluster(w, {})
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            name = (await c.workload("a"))["metadata"]["name"]
            if is_prebuilt:
                await make_prebuilt(c, "a")
                name = "pre"
                await c.submit("b", labels=PREBUILT)
            else:
                await c.succeed("a")

            async def finalizers() -> list[str]:
                return list((await c.client.get(WORKLOADS, NS, name))["metadata"].get("finalizers", ()))

            await c.until(finalizers, remain)
            assert [line.kept for line in lines if line.kept] == [[name]]

    run_virtual(scenario())


@pytest.mark.parametrize("ends_by", ["success of its Job", "deletion"])
def test_finalizers_of_others_stay_on_workloads(ends_by: str) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues()
            await c.submit("a")
            await c.until(c.running, ["a"])
            name = (await c.workload("a"))["metadata"]["name"]
            await c.client.patch(WORKLOADS, NS, name, {"metadata": {"finalizers": [OURS, THEIRS]}})
            if ends_by == "deletion":
                await c.client.delete(WORKLOADS, NS, name)
            else:
                await c.succeed("a")

            async def finalizers() -> list[str]:
                return list((await c.client.get(WORKLOADS, NS, name))["metadata"].get("finalizers", ()))

            await c.until(finalizers, [THEIRS])

    run_virtual(scenario())
