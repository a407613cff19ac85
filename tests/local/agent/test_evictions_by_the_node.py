"""Node-pressure eviction: a node short of memory evicts the pod that exceeds its requests most."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import EVENTS, NODES
from queue_manager.local.agent import escaped_processes, proc_memory
from queue_manager.local.agent.eviction_loop import Evictor
from queue_manager.local.agent.eviction_order import (
    ContainerUse,
    PodUse,
    PressurePolicy,
    evict,
    eviction_message,
    ranked,
)
from queue_manager.local.agent.pod_status import Termination
from queue_manager.local.agent.pod_worker import PodWorker
from queue_manager.local.node_registration import node_specs
from queue_manager.scheduling.amounts import Amounts
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.agent.world import Tree, World, condition, running, terminated
from tests.waiting import until

MI = 1 << 20
PYTHON = shlex.quote(sys.executable)
CRITICAL = 2_000_000_000


def pod(name: str, used: int, requested: int = 0, priority: int = 0) -> PodUse:
    return PodUse(name, used * MI, requested * MI, priority, [ContainerUse("main", used * MI, requested * MI, "")])


@pytest.mark.parametrize(
    ("pods", "order"),
    [
        ([pod("within", 500, 600), pod("above", 20, 10)], ["above", "within"]),
        ([pod("equal", 500, 500), pod("above", 20, 10)], ["above", "equal"]),
        ([pod("high", 500, priority=5), pod("low", 10, priority=1)], ["low", "high"]),
        ([pod("high", 500, priority=5), pod("within", 10, 20, priority=1)], ["high", "within"]),
        ([pod("little", 500, 490), pod("much", 200, 100)], ["much", "little"]),
        ([pod("near", 90, 100), pod("far", 10, 100)], ["near", "far"]),
        ([pod("b", 10), pod("a", 10)], ["a", "b"]),
    ],
    ids=["above", "equal is not above", "lower priority", "above before priority", "most above", "nearest", "by uid"],
)
def test_pods_above_their_requests_are_evicted_first(pods: Sequence[PodUse], order: list[str]) -> None:
    assert [found.uid for found in ranked(pods)] == order


@pytest.mark.parametrize(
    ("pods", "victim"),
    [
        ([pod("a", 900)], None),
        ([pod("a", 901)], "a"),
        ([pod("a", 2000)], "a"),
        ([pod("critical", 950, priority=CRITICAL)], None),
        ([pod("critical", 950, priority=CRITICAL), pod("within", 10, 20)], "within"),
        ([], None),
    ],
    ids=["enough is left", "too little is left", "nothing is left", "all are critical", "critical ones stay", "no pod"],
)
def test_one_pod_is_evicted_below_the_threshold(pods: Sequence[PodUse], victim: str | None) -> None:
    eviction = evict(1000 * MI, 100 * MI, pods)
    assert (eviction.uid if eviction else None) == victim


def test_the_message_is_that_of_a_kubelet() -> None:
    containers = [
        ContainerUse("main", 300 * MI + 4096, 100 * MI, "100Mi"),
        ContainerUse("modest", 10 * MI, 10 * MI, "10Mi"),
        ContainerUse("other", 5000, 0, "0"),
    ]
    assert eviction_message(100 * MI, 52_400 * 1024, containers) == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52400Ki. "
        "Container main was using 307204Ki, request is 100Mi, has larger consumption of memory. "
        "Container other was using 5000, request is 0, has larger consumption of memory. "
    )


def test_the_message_is_in_the_status_and_in_the_condition() -> None:
    eviction = evict(1000 * MI, 100 * MI, [pod("a", 2000)])
    assert eviction is not None
    assert eviction.verdict.reason == "Evicted"
    assert eviction.verdict.disruption == eviction.verdict.message
    assert "available: 0. " in eviction.verdict.message


# --- memory from /proc ---


def test_shared_memory_is_divided_among_its_processes() -> None:
    pid = os.getpid()
    assert 0 < proc_memory.proportional(pid) <= proc_memory.resident(pid)


def test_an_ended_process_uses_no_memory() -> None:
    gone = 2**22 + 1
    assert (proc_memory.resident(gone), proc_memory.proportional(gone)) == (0, 0)


# --- with processes ---

NODE = node_specs(cpu="4", memory="128Mi")
QUICK = PressurePolicy(period=0.1, threshold=32 * MI)
HOLD = "import time; held = b'x' * ({} << 20); open('ready', 'w').close(); time.sleep(1000)"


def holding(size: int, request: str = "") -> dict[str, Any]:
    """A container that allocates so many MiB."""
    resources = {"resources": {"requests": {"memory": request}}} if request else {}
    return {"command": [sys.executable, "-S", "-c", HOLD.format(size)]} | resources


async def start(world: World, name: str, container: dict[str, Any], **spec: Any) -> Tree:
    await world.create(name=name, container=container, **spec)
    found = await world.when(running, name)
    await until((world.files(found) / "work" / "ready").exists)
    return found


async def test_the_pod_that_takes_more_than_it_requested_is_evicted(world: World) -> None:
    async with world.running(NODE, QUICK):
        modest = await start(world, "modest", holding(10, "64Mi"))
        await world.create(name="greedy", container=holding(100, "8Mi"), terminationGracePeriodSeconds=1000)
        greedy = await world.over("greedy")
        status = greedy["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        begin = "The node was low on resource: memory. Threshold quantity: 32Mi, available: "
        assert status["message"].startswith(begin)
        assert re.search(
            r"Container main was using \d+[KM]i, request is 8Mi, has larger consumption of memory\. $",
            status["message"],
        )
        target = condition(greedy, "DisruptionTarget")
        assert (target["status"], target["reason"], target["message"]) == (
            "True",
            "TerminationByKubelet",
            status["message"],
        )
        assert terminated(greedy)["exitCode"] in (137, 143)
        await until(lambda: greedy["metadata"]["uid"] not in escaped_processes.marked())

        async def said() -> bool:
            return ("Warning", "Evicted", status["message"]) in await world.events("greedy")

        await until(said)
        await until(lambda: node_said(world, "Warning", "EvictionThresholdMet", "Attempting to reclaim memory"))
        assert running(await world.pod("modest"))
        assert modest["metadata"]["uid"] in escaped_processes.marked()


async def node_said(world: World, *event: str) -> bool:
    found = await world.client.list(EVENTS, "default")
    about = {"kind": "Node", "name": "node-1", "uid": "node-1"}
    return event in [
        (e["type"], e["reason"], e["message"]) for e in found if about.items() <= e["involvedObject"].items()
    ]


async def test_memory_of_daemons_counts_and_is_freed(world: World) -> None:
    """The process with the memory has left its container's session."""
    script = f'setsid {PYTHON} -S -c "{HOLD.format(100)}" & sleep 1000'
    async with world.running(NODE, QUICK):
        await world.create(script)
        evicted = await world.over()
        assert evicted["status"]["reason"] == "Evicted"
        assert "Container main was using " in evicted["status"]["message"]
        await until(lambda: evicted["metadata"]["uid"] not in escaped_processes.marked())


async def test_a_pod_that_ignores_sigterm_is_evicted(world: World) -> None:
    script = f"trap '' TERM; {PYTHON} -S -c \"{HOLD.format(100)}\""
    async with world.running(NODE, QUICK):
        await world.create(script, terminationGracePeriodSeconds=1000)
        evicted = await world.over()
        assert evicted["status"]["reason"] == "Evicted"
        await until(lambda: evicted["metadata"]["uid"] not in escaped_processes.marked())


async def test_critical_pods_are_not_evicted(world: World) -> None:
    async with world.running(NODE, QUICK):
        await start(world, "critical", holding(100), priorityClassName="system-node-critical")
        await world.create(name="small", container=holding(1, "1Mi"))
        assert (await world.over("small"))["status"]["reason"] == "Evicted"
        assert running(await world.pod("critical"))


async def test_each_node_has_its_own_memory(world: World) -> None:
    async with world.running(node_specs(2, cpu="4", memory="128Mi"), QUICK):
        await start(world, "here", holding(60), nodeName="node-1")
        await start(world, "there", holding(60, "100Mi"), nodeName="node-2")
        await world.create(name="greedy", container=holding(60), nodeName="node-2")
        assert (await world.over("greedy"))["status"]["reason"] == "Evicted"
        assert running(await world.pod("here"))
        assert running(await world.pod("there"))


async def pressure(world: World) -> Tree:
    """The condition of the node."""
    node = await world.client.get(NODES, "", "node-1")
    return next(c for c in node["status"]["conditions"] if c["type"] == "MemoryPressure")


async def pressed(world: World) -> bool:
    return bool((await pressure(world))["status"] == "True")


ASKS = {"resources": {"requests": {"cpu": "1m"}}}
TOLERATES = [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}]


async def test_a_node_under_memory_pressure_gets_no_best_effort_pods(world: World) -> None:
    async with world.running(NODE, QUICK):
        await world.create(name="greedy", container=holding(100))
        await world.over("greedy")
        await until(lambda: pressed(world))
        reported = await pressure(world)
        assert (reported["reason"], reported["message"]) == (
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
        )
        await world.create("true", "nothing")
        waits = await world.when(lambda pod: condition(pod, "PodScheduled").get("reason") == "Unschedulable", "nothing")
        assert condition(waits, "PodScheduled")["message"] == (
            "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/memory-pressure: }."
        )
        await world.create("true", "something", container=ASKS)
        await world.create("true", "bearing", tolerations=TOLERATES)
        await world.create("true", "direct", nodeName="node-1")
        for name, phase in (("something", "Succeeded"), ("bearing", "Succeeded"), ("direct", "Failed")):
            assert (await world.over(name))["status"]["phase"] == phase, name
        direct = (await world.pod("direct"))["status"]
        assert direct["reason"] == "Evicted"
        assert direct["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
        assert (await world.pod("nothing"))["status"]["phase"] == "Pending"


async def test_memory_pressure_ends_some_time_after_the_eviction(world: World) -> None:
    async with world.running(NODE, replace(QUICK, transition=1)):
        await world.create(name="greedy", container=holding(100))
        await world.over("greedy")
        for state in ("NodeHasInsufficientMemory", "NodeHasSufficientMemory"):
            await until(partial(node_said, world, "Normal", state, f"Node node-1 status is now: {state}"))
        assert (await pressure(world))["reason"] == "KubeletHasSufficientMemory"
        await world.create("true", "nothing")
        assert (await world.over("nothing"))["status"]["phase"] == "Succeeded"


async def test_a_new_agent_resets_the_memory_pressure_of_an_earlier_one(world: World) -> None:
    async with world.running(NODE, QUICK):
        await world.create(name="greedy", container=holding(100))
        await world.over("greedy")
        await until(lambda: pressed(world))
    async with world.running(NODE, QUICK):
        await world.create("true", "nothing")
        await world.over("nothing")
        assert not await pressed(world)


class IdleNodes:
    """Nodes on which nothing runs; counts how often they are sampled."""

    asked = 0

    def pods(self) -> list[PodWorker]:
        self.asked += 1
        return []

    def held(self, uid: str) -> None: ...

    def allocatable(self, node: str) -> Amounts:
        return {}

    def threshold_met(self, node: str) -> None: ...

    def evict(self, uid: str, verdict: Termination) -> None: ...


def test_the_memory_of_an_idle_node_is_not_sampled() -> None:
    """After the last container has ended there is one more sample, and then none in a day."""

    async def a_day() -> int:
        nodes = IdleNodes()
        evictor = Evictor(nodes, nodes, PressurePolicy(), Path("pods"))
        watching = asyncio.create_task(evictor.run())
        evictor.wake()
        await asyncio.sleep(86_400)
        watching.cancel()
        return nodes.asked

    assert run_virtual(a_day()) == 1
