"""The agent dies and another one takes over: no pod is lost, and none runs twice."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from queue_manager.api.api_resources import PODS
from queue_manager.local.agent import escaped_processes
from queue_manager.local.agent.pod_files import Layout
from queue_manager.local.agent.pod_status import PREEMPTED, Termination
from tests.local.agent.world import Tree, World, condition, running, state, terminated
from tests.waiting import until

UNTIL_TOLD = "echo $$ >>starts; while ! [ -e stop ]; do sleep 0.02; done; exit 7"


async def started(world: World) -> Tree:
    async with world.running():
        await world.create(UNTIL_TOLD)
        pod = await world.when(running)
        await until((world.files(pod) / "work" / "starts").exists)
    return pod


def stop(world: World, pod: Tree) -> None:
    (world.files(pod) / "work" / "stop").touch()


def starts(world: World, pod: Tree) -> int:
    return len((world.files(pod) / "work" / "starts").read_text().split())


async def test_an_exit_code_from_while_no_agent_ran_is_picked_up(world: World) -> None:
    pod = await started(world)
    stop(world, pod)
    await until((world.files(pod) / "0.exit").exists)
    async with world.running():
        after = await world.over()
    assert terminated(after)["exitCode"] == 7
    assert terminated(after)["startedAt"] == state(pod)["running"]["startedAt"]
    assert starts(world, pod) == 1


async def test_a_running_container_is_adopted_without_a_write(world: World) -> None:
    """The file with its pid is written by its shell as well, perhaps in the second after the one that was reported."""
    pod = await started(world)
    later = time.time() + 2
    os.utime(world.files(pod) / "0.pid", (later, later))
    async with world.running():
        stop(world, pod)
        after = await world.over()
    assert terminated(after)["exitCode"] == 7
    assert starts(world, pod) == 1
    assert world.writes_of(after) == 4  # created, bound, running, ended: none for the restart


async def test_a_container_that_was_killed_meanwhile_is_failed(world: World) -> None:
    pod = await started(world)
    escaped_processes.kill({pod["metadata"]["uid"]})
    # Before SIGKILL takes effect the next agent could adopt the process, and would report Error.
    await until(lambda: pod["metadata"]["uid"] not in escaped_processes.marked())
    async with world.running():
        after = await world.over()
    assert after["status"]["phase"] == "Failed"
    assert (terminated(after)["exitCode"], terminated(after)["reason"]) == (137, "ContainerStatusUnknown")
    assert starts(world, pod) == 1


async def over_at(world: World, place: Path) -> None:
    """End the pod and sweep with an agent that finds the pod's files at another path."""
    world.directory = place
    async with world.running() as agent:
        after = await world.over()
        await agent.shutdown()
    assert (terminated(after)["exitCode"], terminated(after)["reason"]) == (137, "ContainerStatusUnknown")


async def test_a_copy_of_a_data_directory_leaves_the_originals_processes_alone(world: World) -> None:
    """The pods in a copy have the same UIDs as those of the original."""
    pod, original = await started(world), world.directory
    copy = original / "copy"
    shutil.copytree(original / "pods", copy / "pods")
    await over_at(world, copy)
    assert escaped_processes.kill({pod["metadata"]["uid"]}, (original / "pods").resolve()) > 0


async def test_processes_of_a_directory_that_was_moved_are_ended(world: World) -> None:
    """No other agent would end them, and their output would be lost."""
    pod, moved = await started(world), world.directory / "moved"
    moved.mkdir()
    (world.directory / "pods").rename(moved / "pods")
    await over_at(world, moved)
    await until(lambda: pod["metadata"]["uid"] not in escaped_processes.marked())


async def test_processes_of_a_pod_that_is_gone_are_ended(world: World) -> None:
    pod = await started(world)
    await world.client.delete(PODS, "default", "pod", grace_period=0)
    async with world.running():
        await until(lambda: pod["metadata"]["uid"] not in escaped_processes.marked())
        await until(lambda: not world.files(pod).exists())


async def test_a_pod_deleted_while_no_agent_ran_is_ended_and_goes(world: World) -> None:
    pod = await started(world)
    await world.client.delete(PODS, "default", "pod", grace_period=1)
    async with world.running():
        await world.gone()
        await until(lambda: pod["metadata"]["uid"] not in escaped_processes.marked())


async def test_a_pod_that_waits_for_placement_is_placed_by_the_next_one(world: World) -> None:
    await world.create("exit 0")
    async with world.running():
        assert (await world.over())["status"]["phase"] == "Succeeded"


TELLS_WHEN_ASKED = "trap 'touch asked' TERM; touch starts; while ! [ -e stop ]; do sleep 0.02; done; exit 7"
EVICTED = Termination("Evicted", "low on memory", disruption="low on memory")


@pytest.mark.parametrize("restarts", ["Never", "Always"])
@pytest.mark.parametrize("verdict", [EVICTED, PREEMPTED])
async def test_a_pod_ended_by_an_agent_that_dies_fails_for_the_same_reason(
    world: World, verdict: Termination, restarts: str
) -> None:
    """The process ends between the two agents: its exit code alone would report an ordinary failure, or a restart."""
    async with world.running() as agent:
        await world.create(TELLS_WHEN_ASKED, restartPolicy=restarts)
        pod = await world.when(running)
        await until((world.files(pod) / "work" / "starts").exists)
        agent._end_for(pod["metadata"]["uid"], verdict)
        await until((world.files(pod) / "work" / "asked").exists)
    stop(world, pod)
    await until((world.files(pod) / "0.exit").exists)
    async with world.running():
        after = await world.over()
    status, target = after["status"], condition(after, "DisruptionTarget")
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", verdict.reason, verdict.message)
    assert (target["reason"], target["message"]) == ("TerminationByKubelet", verdict.disruption)
    assert terminated(after)["exitCode"] == 7


async def test_the_next_agent_ends_a_pod_whose_end_was_decided(world: World) -> None:
    """Whether or not it had got a SIGTERM from the first agent."""
    async with world.running() as agent:
        await world.create(UNTIL_TOLD)
        pod = await world.when(running)
        order = agent.layout.stop_order(pod["metadata"]["uid"])
    order.write_text('{"verdict":{"reason":"Evicted","message":"low on memory","disruption":""},"grace":1}')
    async with world.running():
        assert (await world.over())["status"]["reason"] == "Evicted"


async def test_a_container_survives_kill_9_of_the_process_that_started_it(tmp_path: Path) -> None:
    """A real process starts a container and is killed; the exit code is recorded all the same."""
    program = f"""
import os, signal
from pathlib import Path
from queue_manager.local.agent import supervisor
from queue_manager.local.agent.output_pipes import OutputPipes
from queue_manager.local.agent.pod_files import Layout
layout = Layout(Path({str(tmp_path)!r}))
layout.create("uid", "main")
run = layout.run("uid", "main", 0)
script = "while ! [ -e stop ]; do sleep 0.02; done; exit 9"
supervisor.spawn(run, ["/bin/sh", "-c", script], {{"PATH": "/usr/bin:/bin"}}, str(run.work), OutputPipes())
os.kill(os.getpid(), signal.SIGKILL)
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=Path(__file__).parents[3])
    assert await parent.wait() == -signal.SIGKILL
    run = Layout(tmp_path).run("uid", "main", 0)
    known = run.read_pid()
    assert known is not None
    os.kill(known[0], 0)
    (run.work / "stop").touch()
    await until(run.read_exit)
    assert (run.read_exit() or (None,))[0] == 9
