"""Pods that name their node themselves: a pod that does not fit fails, unless it is critical."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from queue_manager.api.api_resources import PODS
from queue_manager.local.agent import escaped_processes
from queue_manager.local.agent.node_admission import (
    Admitted,
    NodeDecision,
    Preempting,
    Rejected,
    Resident,
    admit,
    admit_critical,
    victims,
)
from queue_manager.local.node_registration import node_specs
from queue_manager.scheduling.amounts import Amounts
from tests.local.agent.world import Tree, World, condition, running
from tests.waiting import until

MI = 1 << 20
NODE: Amounts = {"cpu": 4000, "memory": 1000 * MI, "pods": 3}
FOREVER = "sleep 1000"
SLOW = "trap '' TERM; touch ready; while :; do sleep 0.05; done"  # runs until the end of its grace period
HERE = {"nodeName": "node-1"}
CRITICAL = "system-cluster-critical"


def short(resource: str, requested: int, used: int, capacity: int) -> Rejected:
    return Rejected(
        f"OutOf{resource}",
        f"Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}",
    )


@pytest.mark.parametrize(
    ("wanted", "used", "answer"),
    [
        ({"cpu": 4000}, {}, Admitted()),
        ({"cpu": 5000}, {"cpu": 1000, "pods": 1}, short("cpu", 5000, 1000, 4000)),
        ({"memory": 600 * MI}, {"memory": 500 * MI}, short("memory", 600 * MI, 500 * MI, 1000 * MI)),
        ({}, {"pods": 3}, short("pods", 1, 3, 3)),
        ({"memory": 2000 * MI, "cpu": 5000}, {"pods": 3}, short("pods", 1, 3, 3)),
        ({"cpu": 0}, {"cpu": 9000}, Admitted()),
        ({"ephemeral-storage": 1}, {}, short("ephemeral-storage", 1, 0, 0)),
        ({"example.com/gpu": 1}, {}, Admitted()),
    ],
    ids=["fits", "cpu", "memory", "pods", "pods first", "asks for nothing", "node has none", "not this node's to give"],
)
def test_a_pod_is_refused_by_the_first_resource_that_is_short(
    wanted: Amounts, used: Amounts, answer: NodeDecision
) -> None:
    assert admit(wanted, NODE, used) == answer


def test_an_extended_resource_of_the_node_counts() -> None:
    assert admit({"example.com/gpu": 2}, NODE | {"example.com/gpu": 1}, {}) == short("example.com/gpu", 2, 0, 1)


def resident(name: str, memory: int = 0, cpu: int = 0) -> Resident:
    qualities = {"e": "BestEffort", "b": "Burstable", "g": "Guaranteed"}
    return Resident(name, qualities[name[0]], {"memory": memory, "cpu": cpu})


SOME = [
    resident("e1"),
    resident("b100", 100),
    resident("b300", 300, 1000),
    resident("g100", 100),
    resident("g300", 300),
]


@pytest.mark.parametrize(
    ("needs", "chosen"),
    [
        ({"pods": 1}, ["e1"]),
        ({"memory": 50}, ["b100"]),
        ({"memory": 100}, ["b100"]),
        ({"memory": 200}, ["b300"]),
        ({"memory": 301}, ["b300", "b100"]),
        ({"memory": 401}, ["b300", "b100", "g100"]),  # all that is not guaranteed gives 400
        ({"memory": 550}, ["b300", "g300"]),
        ({"memory": 800}, ["b300", "b100", "g300", "g100"]),
        ({"cpu": 500}, ["b300"]),
        ({"cpu": 500, "pods": 2}, ["b300", "e1"]),
        ({"pods": 2}, ["e1", "b100"]),
    ],
)
def test_victims_are_the_fewest_pods_of_the_lowest_class(needs: dict[str, int], chosen: Sequence[str]) -> None:
    assert sorted(pod.uid for pod in victims(needs, SOME)) == sorted(chosen)


@pytest.mark.parametrize(
    ("used", "leaving", "others", "answer"),
    [
        ({"cpu": 1000, "pods": 1}, {}, [resident("b1", cpu=1000)], Admitted()),
        ({"cpu": 3000, "pods": 1}, {"cpu": 3000, "pods": 1}, [resident("b1", cpu=3000)], Preempting(["b1"])),
        ({"cpu": 3000, "pods": 1}, {}, [], Preempting([])),
        (
            {"cpu": 3000, "pods": 2},
            {"cpu": 3000, "pods": 2},
            [resident("b1", cpu=500)],
            Rejected(
                "UnexpectedAdmissionError",
                "Unexpected error while attempting to recover from admission failure: preemption: error finding a set "
                "of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 500), ]",
            ),
        ),
    ],
    ids=["fits", "ends another", "waits for one that leaves", "no pods are enough"],
)
def test_a_critical_pod_makes_room(
    used: Amounts, leaving: Amounts, others: Sequence[Resident], answer: NodeDecision
) -> None:
    assert admit_critical({"cpu": 2000}, NODE, used, leaving, others) == answer


# --- with processes ---


def asks(cpu: str) -> dict[str, object]:
    return {"resources": {"requests": {"cpu": cpu}}}


async def there_is(world: World, name: str, *event: str) -> None:
    async def look() -> bool:
        return event in await world.events(name)

    await until(look)


async def test_a_pod_that_names_a_full_node_fails_with_the_missing_resource(world: World) -> None:
    async with world.running():
        await world.create(FOREVER, "first", container=asks("1"))
        await world.when(running, "first")
        await world.create(FOREVER, "second", container=asks("5"), **HERE)
        second = await world.over("second")
        message = "Node didn't have enough resource: cpu, requested: 5000, used: 1000, capacity: 4000"
        status = second["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
        assert status["message"] == f"Pod was rejected: {message}"
        assert not condition(second, "DisruptionTarget")
        assert "containerStatuses" not in status
        assert status["startTime"]
        await there_is(world, "second", "Warning", "OutOfcpu", message)
        assert not world.files(second).exists()
        await world.create("true", "third", container=asks("3"), **HERE)
        assert (await world.over("third"))["status"]["phase"] == "Succeeded", "the one refused holds no room"


@pytest.mark.parametrize(
    ("reason", "container", "capacity"),
    [
        ("OutOfmemory", {"resources": {"requests": {"memory": "2Gi"}}}, {"memory": "1Gi"}),
        (
            "OutOfexample.com/gpu",
            {"resources": {"limits": {"example.com/gpu": "2"}}},
            {"extra": [("example.com/gpu", "1")]},
        ),
    ],
)
async def test_any_resource_can_be_short(
    world: World, reason: str, container: Tree, capacity: dict[str, object]
) -> None:
    async with world.running(node_specs(cpu="4", **({"memory": "8Gi"} | capacity))):  # type: ignore[arg-type]
        await world.create(FOREVER, container=container, **HERE)
        assert (await world.over())["status"]["reason"] == reason


async def test_running_pods_keep_their_resources_when_the_agent_restarts(world: World) -> None:
    async with world.running():
        await world.create(FOREVER, "first", container=asks("3"), **HERE)
        await world.when(running, "first")
    await world.create(FOREVER, "second", container=asks("3"), **HERE)
    async with world.running():
        assert (await world.over("second"))["status"]["reason"] == "OutOfcpu"
        first = await world.pod("first")
        assert running(first), first["status"]


async def test_a_critical_pod_preempts_others_within_their_grace_period(world: World) -> None:
    async with world.running():
        await world.create(FOREVER, "stays", container=asks("1"))
        await world.when(running, "stays")
        victim = await world.create(SLOW, "victim", container=asks("3"), terminationGracePeriodSeconds=2)
        await world.when(running, "victim")
        await world.create(FOREVER, "critical", container=asks("2"), priorityClassName=CRITICAL, **HERE)
        await there_is(world, "victim", "Warning", "Preempting", "Preempted in order to admit critical pod")
        await world.when(running, "critical")
        victim = await world.pod("victim")
        status = victim["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Preempting"), "it was over before the other began"
        assert status["message"] == "Preempted in order to admit critical pod"
        target = condition(victim, "DisruptionTarget")
        assert (target["status"], target["reason"], target["message"]) == (
            "True",
            "TerminationByKubelet",
            "Pod was preempted by Kubelet to accommodate a critical pod.",
        )
        stays = await world.pod("stays")
        assert running(stays), stays["status"]["containerStatuses"][0]["state"]
        await until(lambda: victim["metadata"]["uid"] not in escaped_processes.marked())


async def test_resources_freed_for_a_critical_pod_are_reserved_for_it(world: World) -> None:
    async with world.running():
        await world.create(SLOW, "victim", container=asks("3"), terminationGracePeriodSeconds=8)
        victim = await world.when(running, "victim")
        await until((world.files(victim) / "work" / "ready").exists)
        await world.create(FOREVER, "critical", container=asks("3"), priorityClassName=CRITICAL, **HERE)
        await there_is(world, "victim", "Warning", "Preempting", "Preempted in order to admit critical pod")
        await world.create(FOREVER, "other", container=asks("1"), **HERE)
        assert (await world.over("other"))["status"]["reason"] == "OutOfcpu", "1 would be free until the victim is gone"
        await world.when(running, "critical")


async def test_a_critical_pod_created_while_no_agent_ran_starts(world: World) -> None:
    async with world.running():
        await world.create(SLOW, "victim", container=asks("3"), terminationGracePeriodSeconds=1)
        await world.when(running, "victim")
    await world.create(FOREVER, "critical", container=asks("2"), priorityClassName=CRITICAL, **HERE)
    async with world.running():
        await world.when(running, "critical")
        status = (await world.pod("victim"))["status"]
        assert status.get("reason") == "Preempting", json.dumps(status)


async def test_a_critical_pod_larger_than_the_node_is_refused(world: World) -> None:
    async with world.running():
        await world.create(FOREVER, "first", container=asks("1"))
        await world.when(running, "first")
        await world.create(FOREVER, "critical", container=asks("5"), priorityClassName=CRITICAL, **HERE)
        assert (await world.over("critical"))["status"]["reason"] == "UnexpectedAdmissionError"
        first = await world.pod("first")
        assert running(first), first["status"]
        await world.client.delete(PODS, "default", "critical")
        await world.gone("critical")


async def test_a_pod_bound_by_placement_is_never_refused(world: World) -> None:
    """On a full node, one pod follows another as fast as they end."""
    names = [f"pod-{i}" for i in range(40)]
    async with world.running(node_specs(2, cpu="2", memory="8Gi")):
        for name in names:
            await world.create("true", name, container=asks("1"))
        for name in names:
            assert (await world.over(name, 60.0))["status"]["phase"] == "Succeeded"
