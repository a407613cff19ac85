"""How pods are ended: by deletion, by force, by a shutdown of the node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_manager.api.api_resources import PODS
from queue_manager.local.agent import escaped_processes
from queue_manager.local.agent.pod_files import Layout
from tests.local.agent.world import Tree, World, condition, running, state, terminated
from tests.waiting import until

POLITE = "trap 'echo bye; exit 0' TERM; touch ready; while :; do sleep 0.02; done"
STUBBORN = "trap '' TERM; touch ready; while :; do sleep 0.02; done"
FINALIZER = ["example.com/wait"]


async def start(world: World, script: str, **spec: Any) -> Tree:
    """A running pod whose script has reached `touch ready`."""
    await world.create(script, **spec)
    pod = await world.when(running)
    await until((world.files(pod) / "work" / "ready").exists)
    return pod


def processes(pod: Tree) -> list[int]:
    return escaped_processes.marked().get(pod["metadata"]["uid"], [])


def sessions(pod: Tree) -> set[int]:
    """The sessions of the pod's processes, some of which may end meanwhile."""
    found = set()
    for pid in processes(pod):
        with contextlib.suppress(ProcessLookupError):
            found.add(os.getsid(pid))
    return found


async def test_a_deleted_pod_ends_and_is_removed(world: World) -> None:
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


COUNTS = "echo start >>starts; trap 'exit 3' TERM; touch ready; while ! [ -e stop ]; do sleep 0.02; done"


def starts(world: World, pod: Tree) -> int:
    return len((world.files(pod) / "work" / "starts").read_text().split())


def finish(world: World, pod: Tree) -> None:
    (world.files(pod) / "work" / "stop").touch()


async def interrupt(world: World, script: str = COUNTS, **spec: Any) -> Tree:
    """A pod that was running when its node was shut down."""
    async with world.running() as agent:
        pod = await start(world, script, **spec)
        await asyncio.wait_for(agent.shutdown(grace=1), 15)
        assert not processes(pod)
    return pod


@pytest.mark.parametrize("script", [COUNTS, STUBBORN])
async def test_a_shutdown_leaves_no_process_and_the_pod_as_it_is(world: World, script: str) -> None:
    pod = await interrupt(world, script)
    assert (await world.pod())["status"] == pod["status"]


async def test_a_shutdown_ends_a_pod_that_is_being_deleted_as_soon_as_the_others(world: World) -> None:
    async with world.running() as agent:
        pod = await deleted(world, grace=1000)
        await asyncio.wait_for(agent.shutdown(grace=1), 15)
        assert not processes(pod)
    await world.gone()


async def test_a_restart_of_the_agent_does_not_lengthen_the_grace_period_of_a_deletion(world: World) -> None:
    grace = 6
    async with world.running():
        pod = await deleted(world, grace)
    end = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
    assert processes(pod)
    await until(lambda: datetime.now(UTC) > end)
    again = time.monotonic()
    async with world.running():
        await until(lambda: not processes(pod))
        assert time.monotonic() - again < grace
        await world.gone()


async def deleted(world: World, grace: int) -> Tree:
    """A pod that ignores the SIGTERM of its deletion."""
    await start(world, STUBBORN, terminationGracePeriodSeconds=grace)
    await world.client.delete(PODS, "default", "pod")
    await until(lambda: _has_event(world, ("Normal", "Killing", "Stopping container main")))
    return await world.pod()


async def test_an_interrupted_pod_runs_again_at_the_next_start(world: World) -> None:
    """It is not Failed and was not restarted by its policy, so it costs its Job no retry."""
    pod = await interrupt(world)
    async with world.running():
        await until(lambda: starts(world, pod) == 2)
        again = await world.when(lambda pod: pod["status"]["containerStatuses"][0]["lastState"])
        status = again["status"]["containerStatuses"][0]
        assert (status["restartCount"], "running" in status["state"]) == (0, True)
        ended = status["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (3, "NodeShutdown")
        message = "Container main was ended by a shutdown of its node and starts again"
        await until(lambda: _has_event(world, ("Normal", "NodeShutdown", message)))
        finish(world, pod)
        after = await world.over()
    assert (after["status"]["phase"], terminated(after)["exitCode"]) == ("Succeeded", 0)
    assert world.phases(after) == ["Pending", "Running", "Succeeded"]
    assert starts(world, pod) == 2


async def _has_event(world: World, event: tuple[str, str, str]) -> bool:
    return event in await world.events()


async def test_an_interrupted_container_keeps_its_log_and_its_number_of_restarts(world: World) -> None:
    script = "echo run >>starts; [ -e tried ] || { touch tried; exit 4; }; echo on; touch ready; sleep 1000"
    pod = await interrupt(world, script, restartPolicy="OnFailure")
    async with world.running():
        await until(lambda: starts(world, pod) == 3)
        again = await world.when(lambda pod: state(pod).get("running") and condition(pod, "Ready")["status"] == "True")
        assert again["status"]["containerStatuses"][0]["restartCount"] == 1
        await until(lambda: _prints(world, again, "on\non\n"))


async def _prints(world: World, pod: Tree, text: str) -> bool:
    return await world.output(pod) == text


async def test_containers_that_ended_before_the_shutdown_do_not_run_again(world: World) -> None:
    done = {"name": "init", "image": "x", "command": ["sh", "-c", f"echo init >>{world.directory}/init"]}
    second = {"name": "second", "image": "x", "command": ["sh", "-c", f"echo second >>{world.directory}/second"]}
    async with world.running() as agent:
        main = {"name": "main", "image": "x", "command": ["/bin/sh", "-c", COUNTS]}
        await world.create(initContainers=[done], containers=[main, second])
        pod = await world.when(lambda pod: "terminated" in state(pod, "second") and running(pod))
        await until((world.files(pod) / "work" / "ready").exists)
        await asyncio.wait_for(agent.shutdown(grace=1), 15)
    async with world.running():
        await until(lambda: starts(world, pod) == 2)
        finish(world, pod)
        after = await world.over()
    assert after["status"]["phase"] == "Succeeded"
    assert [(world.directory / name).read_text().split() for name in ("init", "second")] == [["init"], ["second"]]


async def test_a_pod_deleted_during_or_after_a_shutdown_is_removed(world: World) -> None:
    await interrupt(world)
    await world.client.delete(PODS, "default", "pod")
    async with world.running():
        await world.gone()


async def test_an_agent_killed_while_it_restarts_an_interrupted_pod(world: World) -> None:
    """The files of the interrupted start are removed, the new start has none yet, and the status is Running."""
    pod = await interrupt(world)
    Layout(world.directory / "pods").run(pod["metadata"]["uid"], "main", 0).reset()
    async with world.running():
        await until(lambda: starts(world, pod) == 2)
        finish(world, pod)
        assert (await world.over())["status"]["phase"] == "Succeeded"


async def test_processes_left_by_an_aborted_shutdown_end_before_their_restart(world: World) -> None:
    """A second Ctrl-C or a crash came after the pod was to end and before it ended."""
    script = f"echo start >>starts; {STUBBORN}"
    async with world.running() as agent:
        pod = await start(world, script, terminationGracePeriodSeconds=1)
        stopping = asyncio.create_task(agent.shutdown(grace=1))
        await until((world.files(pod) / "0.end").exists)
        stopping.cancel()
    async with world.running():
        await until(lambda: starts(world, pod) == 2)
        assert len(sessions(pod)) == 1


async def test_a_pod_deleted_before_its_containers_started_is_removed(world: World) -> None:
    async with world.running():
        await world.create(container={"command": None})
        await world.when(lambda pod: pod["status"].get("containerStatuses"))
        await world.client.delete(PODS, "default", "pod")
        await world.gone()


ENDED_BY_ANOTHER = {"status": {"phase": "Failed", "reason": "Mine", "message": "ended by another client"}}


async def test_a_pod_that_another_client_failed_is_ended_and_stays_failed(world: World) -> None:
    """A kubelet never resets a terminal phase, and ends what still runs of the pod."""
    async with world.running():
        pod = await start(world, POLITE)
        await world.client.patch(PODS, "default", "pod", ENDED_BY_ANOTHER, subresource="status")
        after = await world.when(lambda pod: "terminated" in state(pod))
        await until(lambda: not processes(pod))
    assert (after["status"]["reason"], after["status"]["message"]) == ("Mine", "ended by another client")
    assert terminated(after)["exitCode"] == 0  # its process succeeded, and the pod stays Failed
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
