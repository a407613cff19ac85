"""Minimum runtimes on the whole system, in virtual time: no preemption before their end, and one right after it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from queue_manager.api.api_resources import JOBS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from queue_manager.configuration import loads
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.queue.cluster import API, NS, Cluster, cluster
from tests.simulation.test_clock_set_back import clock

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
CONFIG = "preemption: {maxMinRuntime: 1h}\n"
MIN_RUNTIME = "sluice/min-runtime"
CLASS = "kueue.x-k8s.io/priority-class"
RUNS_ON = PodScript(ready_after=0.2, ends_after=None)
LOWER = {"withinClusterQueue": "LowerPriority"}
LATE_SECONDS = 2  # of an eviction: the admission is recorded in whole seconds, and the write takes time


async def low_runs(c: Cluster, minimum: str | None, of_class: str | None = None) -> None:
    """Job low runs in all of the quota, with this annotation and one of its class."""
    await c.queues("2", preemption=LOWER)
    meta = {"name": "low", "annotations": {MIN_RUNTIME: of_class} if of_class is not None else {}}
    await c.create(WORKLOAD_PRIORITY_CLASSES, {**API, "kind": "WorkloadPriorityClass", "metadata": meta, "value": 1})
    await c.apply_class("high", 100)
    own = {MIN_RUNTIME: minimum} if minimum is not None else {}
    await c.submit("low", "2", labels={CLASS: "low"}, annotations=own)
    await c.until(c.running, ["low"])


async def low_and_high(c: Cluster, minimum: str | None, of_class: str | None = None) -> None:
    """As `low_runs`, and Job high waits for that quota."""
    await low_runs(c, minimum, of_class)
    await c.submit("high", "2", labels={CLASS: "high"})


async def since(c: Cluster, type: str) -> datetime | None:
    """When this condition of low became True; None if it is not True."""
    conditions = (await c.workload("low")).get("status", {}).get("conditions", ())
    times = [d["lastTransitionTime"] for d in conditions if d["type"] == type and d["status"] == "True"]
    return datetime.fromisoformat(times[0]) if times else None


async def preempted_after(c: Cluster, most: float) -> float:
    """Seconds from the admission of low to its preemption, which is awaited for `most` seconds."""
    admitted = await since(c, "Admitted")
    assert admitted is not None
    return (await evicted_at(c, most) - admitted).total_seconds()


async def evicted_at(c: Cluster, most: float) -> datetime:
    """When low was preempted, which is awaited for `most` seconds."""
    for _ in range(int(most * 4)):
        evicted = await since(c, "Evicted")
        if evicted is not None:
            assert await since(c, "Preempted") == evicted
            return evicted
        await asyncio.sleep(0.25)
    raise AssertionError(f"not preempted within {most} s")


@pytest.mark.parametrize(
    ("own", "of_class", "seconds"),
    [("10m", None, 600), (None, "5m", 300), ("10m", "5m", 600), ("1m", "5m", 60), (None, None, 0)],
)
def test_a_job_runs_for_its_minimum_and_is_preempted_right_after(own, of_class, seconds) -> None:
    async def scenario() -> None:
        async with cluster(CONFIG, low=RUNS_ON, high=RUNS_ON) as c:
            await low_and_high(c, own, of_class)
            assert seconds <= await preempted_after(c, seconds + 10) <= seconds + LATE_SECONDS
            await c.until(c.running, ["high"])

    run_virtual(scenario())


def test_a_preemptor_that_comes_later_does_not_wait_longer() -> None:
    async def scenario() -> None:
        async with cluster(CONFIG, low=RUNS_ON, high=RUNS_ON) as c:
            await low_runs(c, "10m")
            await asyncio.sleep(500)
            await c.submit("high", "2", labels={CLASS: "high"})
            assert 600 <= await preempted_after(c, 120) <= 600 + LATE_SECONDS
        async with cluster(CONFIG, low=RUNS_ON, high=RUNS_ON) as c:
            await low_runs(c, "10m")
            await asyncio.sleep(700)
            await c.submit("high", "2", labels={CLASS: "high"})
            assert 700 <= await preempted_after(c, 10) <= 703

    run_virtual(scenario())


@pytest.mark.parametrize("down", [1, 400])
def test_a_restart_changes_no_minimum(down) -> None:
    """400 s: it ends while no manager runs."""

    async def scenario() -> None:
        async with World(1, lambda pod: RUNS_ON, loads(HEAD + CONFIG), separate_queue=True) as world:
            c = Cluster(world, {})
            await low_and_high(c, "5m")
            await asyncio.sleep(100)
            await world.kill()
            await asyncio.sleep(down)
            await world.start()
            seconds = max(300, 100 + down)
            assert seconds <= await preempted_after(c, 310) <= seconds + 3

    run_virtual(scenario())


@pytest.mark.parametrize(("noticed", "most"), [("timer", 200 + 300), ("jump", 300), ("restart", 300)])
def test_a_clock_that_is_set_back_prolongs_a_minimum_once(noticed: str, most: float) -> None:
    """It lasts its own length from when the jump is noticed, and not until the clock has caught up."""

    async def scenario() -> None:
        with clock() as settable:
            async with World(1, lambda pod: RUNS_ON, loads(HEAD + CONFIG), separate_queue=True) as world:
                c = Cluster(world, {})
                await low_and_high(c, "5m")
                await asyncio.sleep(100)
                settable.by = timedelta(days=1)
                match noticed:
                    case "restart":
                        await world.kill()
                        await world.start()
                    case "jump":
                        assert world._manager is not None
                        world._manager[0].resync_delayed()
                started = asyncio.get_running_loop().time()
                await evicted_at(c, most + 10)
                assert most - 10 <= asyncio.get_running_loop().time() - started

    run_virtual(scenario())


def test_a_new_bound_applies_to_what_runs() -> None:
    """Without the bound the annotation is not allowed, and has no effect."""

    async def scenario() -> None:
        async with cluster(CONFIG, low=RUNS_ON, high=RUNS_ON) as c:
            await low_and_high(c, "10m")
            await asyncio.sleep(60)
            assert await since(c, "Evicted") is None
            c.world.queue.reconfigure(loads(HEAD))
            assert await preempted_after(c, 5) < 65

    run_virtual(scenario())


def test_a_minimum_written_on_the_workload_counts_up_to_the_bound() -> None:
    """The Workload belongs to its user, who may write any annotation."""

    async def scenario() -> None:
        async with cluster("preemption: {maxMinRuntime: 2m}\n", low=RUNS_ON, high=RUNS_ON) as c:
            await c.queues("2", preemption=LOWER)
            await c.apply_class("high", 100)
            await c.submit("like", "2")
            await c.until(c.running, ["like"])
            meta = {"name": "low", "namespace": NS, "annotations": {MIN_RUNTIME: "24h"}}
            spec = (await c.workload("like"))["spec"]
            await c.create(WORKLOADS, {**API, "kind": "Workload", "metadata": meta, "spec": spec})
            await c.client.delete(JOBS, NS, "like", propagation="Background")
            await c.submit("low", "2", labels={"kueue.x-k8s.io/prebuilt-workload-name": "low"})
            await c.until(c.running, ["low"])
            await c.submit("high", "2", labels={CLASS: "high"})
            assert 120 <= await preempted_after(c, 130) <= 120 + LATE_SECONDS

    run_virtual(scenario())


def test_a_changed_annotation_of_the_class_reaches_what_runs() -> None:
    async def scenario() -> None:
        async with cluster(CONFIG, low=RUNS_ON, high=RUNS_ON) as c:
            await low_and_high(c, None, "10m")
            await asyncio.sleep(60)
            patch = {"metadata": {"annotations": {MIN_RUNTIME: "2m"}}}
            await c.client.patch(WORKLOAD_PRIORITY_CLASSES, "", "low", patch)
            assert 120 <= await preempted_after(c, 70) <= 120 + LATE_SECONDS

    run_virtual(scenario())


def test_other_evictions_come_all_the_same() -> None:
    async def scenario() -> None:
        hangs = PodScript(ready_after=None, ends_after=None)
        async with cluster(CONFIG + "waitForPodsReady: {timeout: 60s}\n", low=hangs) as c:
            await low_and_high(c, "10m")
            await asyncio.sleep(63)
            found = await c.condition("low", "Evicted")
            assert found is not None
            assert found[:2] == ("True", "PodsReadyTimeout")

    run_virtual(scenario())


@pytest.mark.parametrize(
    ("config", "text", "answer"),
    [(CONFIG, "61m", "must be at most 1h0m0s"), (CONFIG, "soon", "must be a duration"), ("", "1m", "maxMinRuntime")],
)
def test_admission_refuses_a_minimum_that_is_not_allowed(config, text, answer) -> None:
    async def scenario() -> None:
        async with cluster(config) as c:
            await c.queues()
            with pytest.raises(ApiError) as refused:
                await c.submit("a", annotations={MIN_RUNTIME: text})
            assert refused.value.status in (403, 422)
            assert f"metadata.annotations[{MIN_RUNTIME}]" in refused.value.message
            assert answer in refused.value.message

    run_virtual(scenario())


def test_a_minimum_of_a_class_beyond_a_lowered_bound_counts_up_to_it() -> None:
    """The webhook for classes refuses it only when it is written."""

    async def scenario() -> None:
        async with cluster("preemption: {maxMinRuntime: 3h}\n", low=RUNS_ON, high=RUNS_ON) as c:
            await low_runs(c, None, "2h")
            c.world.queue.reconfigure(loads(HEAD + CONFIG))
            await c.submit("high", "2", labels={CLASS: "high"})
            assert 3600 <= await preempted_after(c, 3700) <= 3600 + LATE_SECONDS
            messages = [text for _, reason, text in await c.events("low") if reason == "InvalidOverride"]
            assert messages == [
                f'WorkloadPriorityClass low: metadata.annotations[{MIN_RUNTIME}]: Invalid value: "2h": '
                "must be at most 1h0m0s; the configuration applies"
            ]

    run_virtual(scenario())


def test_nothing_is_tried_while_all_wait_for_the_end_of_a_minimum() -> None:
    async def scenario() -> None:
        async with cluster(CONFIG, low=RUNS_ON, high=RUNS_ON) as c:
            await low_and_high(c, "30m")
            await asyncio.sleep(10)
            before = c.world.queue.scheduler.cycles
            await asyncio.sleep(1700)
            assert c.world.queue.scheduler.cycles == before
            assert 1800 <= await preempted_after(c, 120) <= 1800 + LATE_SECONDS
            await c.until(c.running, ["high"])
            job = await c.client.get(JOBS, NS, "low")
            assert job["spec"]["suspend"]

    run_virtual(scenario())


def test_ends_in_the_same_second_lead_to_one_try() -> None:
    async def scenario() -> None:
        async with cluster(CONFIG, high=RUNS_ON, **{f"low{i}": RUNS_ON for i in range(12)}) as c:
            await c.queues("12", preemption=LOWER)
            await c.submit("blocker", "12")
            await c.until(c.running, ["blocker"])
            for i in range(12):
                await c.submit(f"low{i}", annotations={MIN_RUNTIME: "5m"})
            await c.submit("equal", "12")  # of the same priority: it may not preempt
            await c.client.delete(JOBS, NS, "blocker", propagation="Background")
            await c.until(c.running, sorted(f"low{i}" for i in range(12)))
            await asyncio.sleep(40)  # a period after these admissions the numbers of `equal` are right
            before = c.world.queue.scheduler.cycles
            await asyncio.sleep(250)
            assert c.world.queue.scheduler.cycles == before
            await asyncio.sleep(20)
            assert before < c.world.queue.scheduler.cycles <= before + 2

    run_virtual(scenario())
