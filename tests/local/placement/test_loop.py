"""Placement on the embedded API server: the node of each pod, and the reasons of pods that do not fit."""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import NODES, PODS
from queue_manager.local.node_registration import node_specs, register
from tests.local.agent.world import Tree, World, condition, running

BIG = {"resources": {"requests": {"cpu": "3"}}}
FOREVER = "sleep 1000"


def unschedulable(pod: Tree) -> bool:
    return condition(pod, "PodScheduled").get("reason") == "Unschedulable"


async def test_an_unschedulable_pod_gets_one_event_and_is_placed_once_it_fits(world: World) -> None:
    async with world.running():
        await world.create(FOREVER, "first", container=BIG)
        await world.when(running, "first")
        await world.create("true", "second", container=BIG)
        pod = await world.when(unschedulable, "second")
        message = "0/1 nodes are available: 1 Insufficient cpu."
        assert condition(pod, "PodScheduled")["message"] == message
        assert pod["status"]["phase"] == "Pending"
        assert await world.first_event("second") == ("Warning", "FailedScheduling", message)
        await world.create("true", "small")  # a change that does not help the second pod
        await world.over("small")
        assert world.writes_of(await world.pod("second")) == 2
        await world.client.delete(PODS, "default", "first", grace_period=1)
        assert (await world.over("second"))["status"]["phase"] == "Succeeded"
        assert condition(await world.pod("second"), "PodScheduled")["status"] == "True"


async def test_finished_pods_use_no_resources(world: World) -> None:
    async with world.running():
        for name in ("first", "second"):
            await world.create("true", name, container=BIG)
            await world.over(name)


async def test_higher_priority_goes_first(world: World) -> None:
    for name, priority in (("low", 1), ("high", 5)):
        await world.priority(name, priority)
        await world.create(FOREVER, name, container=BIG, priorityClassName=name)
    async with world.running():
        await world.when(running, "high")
        await world.when(unschedulable, "low")


async def test_pods_spread_over_nodes(world: World) -> None:
    async with world.running(node_specs(2, cpu="4", memory="8Gi")):
        for name in ("first", "second"):
            await world.create(FOREVER, name, container=BIG)
        nodes = [(await world.when(running, name))["spec"]["nodeName"] for name in ("first", "second")]
    assert sorted(nodes) == ["node-1", "node-2"]


async def test_a_gated_pod_waits_for_its_gate(world: World) -> None:
    async with world.running():
        await world.create("true", "gated", schedulingGates=[{"name": "example.com/gate"}])
        await world.create("true", "free")
        await world.over("free")
        assert "nodeName" not in (await world.pod("gated"))["spec"]
        await world.client.patch(PODS, "default", "gated", {"spec": {"schedulingGates": None}})
        await world.over("gated")


async def test_a_node_that_becomes_schedulable_gets_the_pending_pods(world: World) -> None:
    async with world.running():
        await world.client.patch(NODES, "", "node-1", {"spec": {"unschedulable": True}})
        await world.create("true")
        pod = await world.when(unschedulable)
        assert "node(s) were unschedulable" in condition(pod, "PodScheduled")["message"]
        await world.client.patch(NODES, "", "node-1", {"spec": {"unschedulable": None}})
        await world.over()


async def test_registering_the_same_nodes_again_writes_nothing(world: World) -> None:
    specs = node_specs(2, cpu="4", memory="8Gi")
    await register(world.client, specs, world.clock.now())
    before = world.store.revision
    await register(world.client, specs, world.clock.now())
    assert world.store.revision == before


async def test_registering_nodes_with_other_flags_updates_them(world: World) -> None:
    await register(world.client, node_specs(3, cpu="4", extra=[("example.com/gpu", "2")]), world.clock.now())
    await register(world.client, node_specs(1, cpu="500m", memory="1Gi"), world.clock.now())
    nodes = await world.client.list(NODES)
    assert [node["metadata"]["name"] for node in nodes] == ["node-1"]
    assert nodes[0]["status"]["allocatable"] == {"cpu": "500m", "memory": "1Gi", "pods": "1k"}


@pytest.mark.parametrize(("count", "cpu"), [(0, "1"), (1, "0"), (1, "-1"), (1, "many")])
def test_impossible_nodes_are_refused(count: int, cpu: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        node_specs(count, cpu)
