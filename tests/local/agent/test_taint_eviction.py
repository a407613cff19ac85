"""NoExecute taints: which pods are evicted from a node, and when."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from queue_manager.api.api_resources import NODES, PODS
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH
from tests.local.agent.world import World, condition, running
from tests.waiting import until

FOREVER = "sleep 1000"
SLOW = "trap 'sleep 1; exit 3' TERM; touch ready; while :; do sleep 0.05; done"
BROKEN = {"key": "broken", "value": "yes", "effect": "NoExecute"}
TOLERATES = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}


async def taint(world: World, *taints: dict[str, Any]) -> None:
    await world.client.patch(NODES, "", "node-1", {"spec": {"taints": list(taints) or None}})


async def until_slow(world: World, name: str) -> None:
    """The script has set its trap, so that the pod takes a second to end."""
    pod = await world.when(running, name)
    await until((world.files(pod) / "work" / "ready").exists)


async def test_pods_without_toleration_are_evicted_with_condition_and_event(world: World) -> None:
    async with world.running():
        await world.create(SLOW, "leaves")
        await world.create(FOREVER, "stays", tolerations=[TOLERATES])
        for name in ("leaves", "stays"):
            await world.when(running, name)
        await until_slow(world, "leaves")
        await taint(world, BROKEN)
        going = await world.when(lambda pod: "deletionTimestamp" in pod["metadata"], "leaves")
        disruption = condition(going, "DisruptionTarget")
        assert (disruption["status"], disruption["reason"], disruption["message"]) == (
            "True",
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )
        assert going["status"]["phase"] == "Running", "it ends by itself, within its grace period"

        async def said() -> bool:
            event = ("Normal", "TaintManagerEviction", "Marking for deletion Pod default/leaves")
            return event in await world.events("leaves")

        await until(said)
        await world.gone("leaves")
        assert running(await world.pod("stays"))


async def test_a_pod_keeps_the_first_cause_of_its_disruption(world: World) -> None:
    """KEP-3329: a DisruptionTarget condition that is True is not updated. The pod is deleted all the same."""
    async with world.running():
        await world.create(SLOW)
        await until_slow(world, "pod")
        first = {"type": "DisruptionTarget", "status": "True", "reason": "Mine", "message": "first"}
        status = {"status": {"conditions": [first]}}
        kind = {"subresource": "status", "content_type": STRATEGIC_PATCH}
        await world.client.patch(PODS, "default", "pod", status, **kind)
        await taint(world, BROKEN)
        going = await world.when(lambda pod: "deletionTimestamp" in pod["metadata"])
        disruption = condition(going, "DisruptionTarget")
        assert (disruption["status"], disruption["reason"], disruption["message"]) == ("True", "Mine", "first")
        await world.gone()


async def test_a_pod_stays_for_its_toleration_seconds(world: World) -> None:
    async with world.running():
        await world.create(FOREVER, tolerations=[TOLERATES | {"tolerationSeconds": 2}], terminationGracePeriodSeconds=1)
        await world.when(running)
        before = world.clock.now()
        await taint(world, BROKEN)
        await world.gone()
        assert world.clock.now() - before >= timedelta(seconds=1)


async def test_toleration_seconds_are_not_prolonged_when_the_clock_is_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.running():
        await world.create(FOREVER, tolerations=[TOLERATES | {"tolerationSeconds": 1}], terminationGracePeriodSeconds=1)
        await world.when(running)
        back = world.clock.now() - timedelta(days=31)
        monkeypatch.setattr(world.clock, "now", lambda: back + timedelta(seconds=time.monotonic() - began))
        began = time.monotonic()
        await taint(world, BROKEN)
        await world.gone()


async def test_a_taint_removed_in_time_evicts_no_pod(world: World) -> None:
    async with world.running():
        await world.create(FOREVER, tolerations=[TOLERATES | {"tolerationSeconds": 1000}])
        await world.when(running)
        await taint(world, BROKEN)
        await world.when(lambda pod: True)
        await taint(world)

        async def cancelled() -> bool:
            event = ("Normal", "TaintManagerEviction", "Cancelling deletion of Pod default/pod")
            return event in await world.events()

        await until(cancelled)
        assert running(await world.pod())


async def test_a_pod_of_an_earlier_start_is_evicted(world: World) -> None:
    async with world.running():
        await world.create(FOREVER)
        await world.when(running)
    await taint(world, BROKEN)
    async with world.running():
        await world.gone()
