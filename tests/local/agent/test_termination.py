"""How pods are ended: by deletion, by force, by the node's shutdown."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from queue_manager.engine.resources import PODS
from queue_manager.local.agent import sweep
from tests.local.agent.waiting import until
from tests.local.agent.world import Tree, World, condition, running, state, terminated

POLITE = "trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.02; done"
STUBBORN = "trap '' TERM; touch ready; while :; do sleep 0.02; done"
FINALIZER = ["example.com/wait"]


async def start(world: World, script: str, **spec: Any) -> Tree:
    """A running pod whose script has come as far as `touch ready`."""
    await world.create(script, **spec)
    pod = await world.when(running)
    await until((world.files(pod) / "work" / "ready").exists)
    return pod


def processes(pod: Tree) -> list[int]:
    return sweep.marked().get(pod["metadata"]["uid"], [])


async def test_a_deleted_pod_ends_by_itself_and_is_gone(world: World) -> None:
    async with world.running():
        pod = await start(world, POLITE)
        await world.client.delete(PODS, "default", "pod")
        await world.gone()
        await until(lambda: not processes(pod))
        await until(lambda: not world.files(pod).exists())


async def test_a_deleted_pod_with_a_finalizer_shows_how_it_ended(world: World) -> None:
    async with world.running():
        await start(world, POLITE)
        await world.client.patch(PODS, "default", "pod", {"metadata": {"finalizers": FINALIZER}})
        await world.client.delete(PODS, "default", "pod")
        pod = await world.over()
        assert pod["status"]["phase"] == "Succeeded"
        pod = await world.when(lambda pod: pod["metadata"]["deletionGracePeriodSeconds"] == 0)
        assert (await world.output(pod)).endswith("bye\n")
        await world.client.patch(PODS, "default", "pod", {"metadata": {"finalizers": None}})
        await world.gone()


async def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period(world: World) -> None:
    async with world.running():
        await start(world, STUBBORN)
        await world.client.patch(PODS, "default", "pod", {"metadata": {"finalizers": FINALIZER}})
        begin = time.monotonic()
        await world.client.delete(PODS, "default", "pod", grace_period=1)
        pod = await world.over()
    assert 0.9 < time.monotonic() - begin < 10
    assert pod["status"]["phase"] == "Failed"
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"]) == (137, "Error")
    assert abs((datetime.fromisoformat(terminated(pod)["finishedAt"]) - datetime.now(UTC)).total_seconds()) < 10


async def test_a_pod_deleted_by_force_leaves_no_process(world: World) -> None:
    async with world.running():
        pod = await start(world, STUBBORN)
        await world.client.delete(PODS, "default", "pod", grace_period=0)
        await world.gone()
        await until(lambda: not processes(pod))


async def test_a_shorter_grace_period_overtakes_a_longer_one(world: World) -> None:
    async with world.running():
        pod = await start(world, STUBBORN)
        await world.client.delete(PODS, "default", "pod", grace_period=1000)
        await world.when(lambda pod: pod["metadata"].get("deletionTimestamp"))
        await world.client.delete(PODS, "default", "pod", grace_period=1)
        await world.gone()
        await until(lambda: not processes(pod))


async def test_daemons_end_with_their_pod(world: World) -> None:
    async with world.running():
        pod = await start(world, "setsid sleep 1000 & touch ready; sleep 1000")
        await world.client.delete(PODS, "default", "pod", grace_period=1)
        await world.gone()
        await until(lambda: not processes(pod))


async def test_a_shutdown_fails_pods_and_leaves_no_process(world: World) -> None:
    async with world.running() as agent:
        await world.create("echo ok", name="done")
        done = await world.over("done")
        pods = []
        for name, script in (("polite", POLITE), ("stubborn", STUBBORN)):
            await world.create(script, name=name)
            pod = await world.when(running, name)
            await until((world.files(pod) / "work" / "ready").exists)
            pods.append(pod)
        await asyncio.wait_for(agent.shutdown(grace=1), 15)
        assert not any(processes(pod) for pod in pods)
    message = "Pod was terminated in response to imminent node shutdown."
    for name in ("polite", "stubborn"):
        pod = await world.pod(name)
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Terminated")
        assert pod["status"]["message"] == message
        target = condition(pod, "DisruptionTarget")
        assert (target["status"], target["reason"], target["message"]) == ("True", "TerminationByKubelet", message)
    assert (await world.pod("done"))["status"] == done["status"]


async def test_a_pod_deleted_before_its_containers_could_start_goes(world: World) -> None:
    async with world.running():
        await world.create(container={"command": ["nosuch"]})
        await world.when(lambda pod: pod["status"].get("containerStatuses"))
        await world.client.delete(PODS, "default", "pod")
        await world.gone()


ENDED_BY_ANOTHER = {"status": {"phase": "Failed", "reason": "Mine", "message": "ended by another client"}}


async def test_a_pod_that_another_client_failed_is_ended_and_stays_failed(world: World) -> None:
    """A kubelet never takes a pod out of a terminal phase, and ends what still runs of it."""
    async with world.running():
        pod = await start(world, POLITE)
        await world.client.patch(PODS, "default", "pod", ENDED_BY_ANOTHER, subresource="status")
        after = await world.when(lambda pod: "terminated" in state(pod))
        await until(lambda: not processes(pod))
    assert (after["status"]["reason"], after["status"]["message"]) == ("Mine", "ended by another client")
    assert terminated(after)["exitCode"] == 0  # it has ended well, and the pod is Failed all the same
    assert condition(after, "Ready")["reason"] == "PodFailed"
    assert world.phases(after) == ["Pending", "Running", "Failed"]


async def test_a_pod_that_was_failed_while_no_agent_ran_is_ended_by_the_next(world: World) -> None:
    async with world.running():
        pod = await start(world, POLITE)
    await world.client.patch(PODS, "default", "pod", ENDED_BY_ANOTHER, subresource="status")
    async with world.running():
        after = await world.when(lambda pod: "terminated" in state(pod))
        await until(lambda: not processes(pod))
    assert (await world.output(after)).endswith("bye\n")
    assert world.phases(after) == ["Pending", "Running", "Failed"]
