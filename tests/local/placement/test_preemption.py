"""A pod of higher priority preempts lower ones, with real processes."""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import PODS, PRIORITY_CLASSES
from queue_manager.engine.transport_protocol import ApiError
from tests.local.agent.world import World, condition, running
from tests.waiting import until

FOREVER = "sleep 1000"
SLOW = "trap '' TERM; touch trapped; while :; do sleep 0.05; done"  # runs until the end of its grace period


def cpu(amount: str) -> dict[str, object]:
    return {"resources": {"requests": {"cpu": amount}}}


async def trapped(world: World, name: str) -> None:
    """Wait until the shell has set its trap: before that, SIGTERM ends it at once."""
    pod = await world.when(running, name)
    await until((world.files(pod) / "work" / "trapped").exists)


async def classes(world: World) -> None:
    for name, value in (("low", 1), ("middle", 5), ("high", 9)):
        await world.priority(name, value)


async def test_a_pod_of_higher_priority_evicts_the_fewest_of_the_lowest(world: World) -> None:
    await classes(world)
    async with world.running():
        for name, priority in (("one", "low"), ("two", "low"), ("three", "middle"), ("four", "middle")):
            await world.create(FOREVER, name, container=cpu("1"), priorityClassName=priority)
            await world.when(running, name)
        await world.create(FOREVER, "urgent", container=cpu("1"), priorityClassName="high")
        urgent = await world.when(running, "urgent")
        await world.gone("two")
        for name in ("one", "three", "four"):
            assert running(await world.pod(name)), "what can stay stays; of equals the older ones"
    assert "nominatedNodeName" not in urgent["status"]


async def test_a_victim_gets_its_condition_and_event_before_it_ends(world: World) -> None:
    await classes(world)
    async with world.running():
        victim = await world.create(
            SLOW, "victim", container=cpu("3"), priorityClassName="low", terminationGracePeriodSeconds=2
        )
        await trapped(world, "victim")
        urgent = await world.create(FOREVER, "urgent", container=cpu("3"), priorityClassName="high")
        going = await world.when(lambda pod: "deletionTimestamp" in pod["metadata"], "victim")
        disruption = condition(going, "DisruptionTarget")
        assert (disruption["status"], disruption["reason"], disruption["message"]) == (
            "True",
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )
        waits = await world.when(lambda pod: pod["status"].get("nominatedNodeName"), "urgent")
        assert waits["status"]["nominatedNodeName"] == "node-1"
        assert condition(waits, "PodScheduled")["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        await world.when(running, "urgent")

        async def said() -> bool:
            message = f"Preempted by pod {urgent['metadata']['uid']} on node node-1"
            return ("Normal", "Preempted", message) in await world.events("victim")

        await until(said)
    assert victim["metadata"]["uid"] != urgent["metadata"]["uid"]


async def test_resources_of_victims_are_reserved_for_the_preemptor(world: World) -> None:
    """A small pod of low priority that comes while the victims end one after the other stays pending."""
    await classes(world)
    async with world.running():
        await world.create(FOREVER, "quick", container=cpu("2"), priorityClassName="low")
        await world.create(SLOW, "slow", container=cpu("2"), priorityClassName="low", terminationGracePeriodSeconds=3)
        for name in ("quick", "slow"):
            await world.when(running, name)
        await world.create(FOREVER, "urgent", container=cpu("4"), priorityClassName="high")
        await world.gone("quick")
        await world.create(FOREVER, "small", container=cpu("1"), priorityClassName="low")
        await world.when(lambda pod: condition(pod, "PodScheduled").get("reason") == "Unschedulable", "small")
        await world.when(running, "urgent")
        assert "nodeName" not in (await world.pod("small"))["spec"]


@pytest.mark.parametrize("other", [{"priorityClassName": "high"}, {"priorityClassName": "polite"}])
async def test_equal_priority_or_policy_never_preempts_no_pod(world: World, other: dict[str, object]) -> None:
    await classes(world)
    await world.priority("polite", 100, preemptionPolicy="Never")
    async with world.running():
        await world.create(FOREVER, "first", container=cpu("3"), priorityClassName="high")
        await world.when(running, "first")
        await world.create(FOREVER, "second", container=cpu("3"), **other)
        pod = await world.when(lambda pod: condition(pod, "PodScheduled"), "second")
        assert "nominatedNodeName" not in pod["status"]
        assert running(await world.pod("first"))


async def test_a_nomination_outlives_a_restart(world: World) -> None:
    await classes(world)
    async with world.running():
        await world.create(SLOW, "victim", container=cpu("4"), priorityClassName="low", terminationGracePeriodSeconds=3)
        await trapped(world, "victim")
        await world.create(FOREVER, "urgent", container=cpu("4"), priorityClassName="high")
        await world.when(lambda pod: pod["status"].get("nominatedNodeName"), "urgent")
    await world.create(FOREVER, "small", container=cpu("1"), priorityClassName="low")
    async with world.running():
        await world.when(running, "urgent")
        assert "nodeName" not in (await world.pod("small"))["spec"]


async def test_a_pod_has_the_priority_of_its_class_or_the_default_class(world: World) -> None:
    await classes(world)
    given = await world.create("true", "given", priorityClassName="middle")
    assert (given["spec"]["priority"], given["spec"]["preemptionPolicy"]) == (5, "PreemptLowerPriority")
    assert (await world.create("true", "plain"))["spec"]["priority"] == 0
    system = await world.create("true", "system", priorityClassName="system-node-critical")
    assert system["spec"]["priority"] == 2_000_001_000
    await world.client.patch(PRIORITY_CLASSES, "", "low", {"globalDefault": True})
    plain = await world.create("true", "plain-again")
    assert (plain["spec"]["priority"], plain["spec"]["priorityClassName"]) == (1, "low")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "none"}, 'pods "pod" is forbidden: no PriorityClass with name none was found'),
        (
            {"priorityClassName": "low", "priority": 7},
            'pods "pod" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority '
            "admission controller computed 1 from the given PriorityClass name",
        ),
    ],
)
async def test_a_priority_that_differs_from_its_class_is_refused(
    world: World, spec: dict[str, object], message: str
) -> None:
    await classes(world)
    with pytest.raises(ApiError) as refused:
        await world.create(**spec)
    assert (refused.value.status, refused.value.message) == (403, message)
    assert await world.client.list(PODS, "default") == []
