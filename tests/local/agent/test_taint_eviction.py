"""NoExecute taints: which pods are evicted from a node, and when."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from job_controller.times import WaitStart
from queue_manager.api.resources import NODES, PODS
from queue_manager.engine.transport import STRATEGIC_PATCH
from queue_manager.local.controllers.taint_eviction import Tainted, evicted_at, no_execute
from tests.local.agent.world import World, condition, running
from tests.waiting import until

FOREVER = "sleep 1000"
T0 = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = {"key": "broken", "value": "yes", "effect": "NoExecute"}
TOLERATES = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def since(taint: dict[str, Any], seconds: float) -> Tainted:
    return Tainted(taint, WaitStart(at(seconds), at(seconds)))


@pytest.mark.parametrize(
    ("tolerations", "bound", "due"),
    [
        ([], 0, 5),
        ([TOLERATES], 0, None),
        ([TOLERATES | {"tolerationSeconds": 10}], 0, 15),
        ([TOLERATES | {"tolerationSeconds": 10}], 60, 70),
        ([TOLERATES | {"tolerationSeconds": 0}], 0, 5),
        ([TOLERATES | {"tolerationSeconds": -3}], 0, 5),
        ([TOLERATES | {"tolerationSeconds": 10}, TOLERATES], 0, 15),
        ([TOLERATES | {"tolerationSeconds": 2**63 - 1}], 0, None),
        ([TOLERATES | {"effect": "NoSchedule"}], 0, 5),
    ],
    ids=[
        "none",
        "for ever",
        "for a time",
        "bound later",
        "0 s",
        "less than 0 s",
        "the first counts",
        "ages",
        "other effect",
    ],
)
def test_a_pod_stays_as_long_as_it_tolerates(tolerations: list[Any], bound: float, due: float | None) -> None:
    assert evicted_at(tolerations, [since(BROKEN, 5)], at(bound)) == (None if due is None else at(due))


def test_the_earliest_untolerated_taint_counts() -> None:
    other = {"key": "other", "effect": "NoExecute"}
    tolerations = [
        TOLERATES | {"tolerationSeconds": 100},
        {"key": "other", "operator": "Exists", "tolerationSeconds": 30},
    ]
    assert evicted_at(tolerations, [since(BROKEN, 0), since(other, 50)], at(0)) == at(80)


def test_a_taint_counts_from_its_time_or_from_when_it_was_first_seen() -> None:
    timed = BROKEN | {"timeAdded": "2026-01-01T00:00:07Z"}
    assert no_execute([timed], [], at(90)) == [since(timed, 7)]
    first = no_execute([BROKEN, {"key": "a", "effect": "NoSchedule"}], [], at(10))
    assert no_execute([BROKEN], first, at(90)) == [since(BROKEN, 10)]


@pytest.mark.parametrize("timed", [{}, {"timeAdded": "2026-01-02T00:00:00Z"}], ids=["first seen", "timeAdded"])
def test_a_taint_counts_from_now_when_the_clock_was_set_back(timed: dict[str, Any]) -> None:
    before = no_execute([BROKEN | timed], [], at(86_400))
    (back,) = no_execute([BROKEN | timed], before, at(0))
    assert back.start.effective == at(0)
    assert no_execute([BROKEN | timed], [back], at(30)) == [back]


async def taint(world: World, *taints: dict[str, Any]) -> None:
    await world.client.patch(NODES, "", "node-1", {"spec": {"taints": list(taints) or None}})


async def test_pods_without_toleration_are_evicted_with_condition_and_event(world: World) -> None:
    async with world.running():
        await world.create("trap 'sleep 1; exit 3' TERM; while :; do sleep 0.05; done", "leaves")
        await world.create(FOREVER, "stays", tolerations=[TOLERATES])
        for name in ("leaves", "stays"):
            await world.when(running, name)
        await taint(world, BROKEN)
        going = await world.when(lambda pod: "deletionTimestamp" in pod["metadata"], "leaves")
        told = condition(going, "DisruptionTarget")
        assert (told["status"], told["reason"], told["message"]) == (
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
        await world.create("trap 'sleep 1; exit 3' TERM; while :; do sleep 0.05; done")
        await world.when(running)
        first = {"type": "DisruptionTarget", "status": "True", "reason": "Mine", "message": "first"}
        status = {"status": {"conditions": [first]}}
        kind = {"subresource": "status", "content_type": STRATEGIC_PATCH}
        await world.client.patch(PODS, "default", "pod", status, **kind)
        await taint(world, BROKEN)
        going = await world.when(lambda pod: "deletionTimestamp" in pod["metadata"])
        told = condition(going, "DisruptionTarget")
        assert (told["status"], told["reason"], told["message"]) == ("True", "Mine", "first")
        await world.gone()


async def test_a_pod_stays_for_its_toleration_seconds(world: World) -> None:
    async with world.running():
        await world.create(FOREVER, tolerations=[TOLERATES | {"tolerationSeconds": 2}], terminationGracePeriodSeconds=1)
        await world.when(running)
        before = world.clock.now()
        await taint(world, BROKEN)
        await world.gone()
        assert world.clock.now() - before >= timedelta(seconds=1)


async def test_a_pod_stays_no_longer_than_its_toleration_seconds_when_the_clock_is_set_back(
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
