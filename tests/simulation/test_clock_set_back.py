"""A clock that is set back while Workloads are evicted or back off: no wait lasts until the clock is right again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from job_controller.ports import Clock
from job_controller.times import CLOCK_SKEW
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.configuration import loads
from queue_manager.simulation import world as simulated
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock
from queue_manager.simulation.world import World
from tests.local.queue.cluster import NS, Cluster
from tests.local.queue.invariants import History
from tests.simulation.test_order_after_backoff import config

HANGS = PodScript(ready_after=None, ends_after=None)
TIMEOUT, BASE, MAXIMUM = 3, 2, 8
KIND = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
STRATEGY = f"{{backoffBaseSeconds: {BASE}, backoffMaxSeconds: {MAXIMUM}}}"
CONFIG = f"{KIND}waitForPodsReady: {{timeout: {TIMEOUT}s, requeuingStrategy: {STRATEGY}}}\n"
ROUND_SECONDS = (
    TIMEOUT + MAXIMUM + CLOCK_SKEW.total_seconds() + 2
)  # from any moment to the end of the next attempt, with its stop


class SetBack:
    """A clock and the time by which it was set back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by = timedelta(0)

    def now(self) -> datetime:
        return self._clock.now() - self.by


@contextmanager
def clock() -> Iterator[SetBack]:
    """The clock of all Worlds that are made meanwhile."""
    settable = SetBack(virtual_clock())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated, "virtual_clock", lambda: settable)
        yield settable


def tries(world: World) -> list[int]:
    """Timeouts of each Workload so far."""
    held = world.queue.quota_cache._workloads.values()
    return [sum(e.count or 0 for e in w.status.scheduling_stats.evictions) for w in held if w.status.scheduling_stats]


@settings(max_examples=10, deadline=None)
@given(
    moment=st.integers(10, 250).map(lambda tenths: tenths / 10),
    back=st.sampled_from([1, 7, 60, 3600, 86400, 31 * 86400]),
    restarts=st.booleans(),
)
def test_every_workload_is_retried_within_its_own_backoff(moment: float, back: int, restarts: bool) -> None:
    """Without a restart the timer of the current wait ends first, so it may take one wait more."""

    async def scenario() -> None:
        with clock() as settable:
            async with World(1, lambda pod: HANGS, loads(CONFIG), separate_queue=True) as world:
                c = Cluster(world, {})
                await c.queues("2")
                await c.submit("a")
                await c.submit("b")
                await asyncio.sleep(moment)
                if restarts:
                    await world.kill()
                settable.by = timedelta(seconds=back)
                if restarts:
                    await world.start()
                    await asyncio.sleep(0.1)
                before = tries(world)
                await asyncio.sleep(ROUND_SECONDS if restarts else 2 * ROUND_SECONDS)
                assert len(tries(world)) == 2
                assert sum(tries(world)) >= sum(before) + 2
                assert all(now > then for then, now in zip(before, tries(world), strict=False))
                History(2, base=BASE, maximum=MAXIMUM).check(world.history)

    run_virtual(scenario())


def test_an_execution_time_takes_no_longer_than_its_maximum() -> None:
    async def scenario() -> None:
        with clock() as settable:
            async with World(1, lambda pod: PodScript(0.2, None), loads(CONFIG), separate_queue=True) as world:
                c = Cluster(world, {})
                await c.queues()
                await c.submit("a", labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"})
                await c.until(c.running, ["a"])
                settable.by = timedelta(days=1)
                due = ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
                await c.until(lambda: _evicted(c), due, seconds=60 + 60 + 2)

    run_virtual(scenario())


async def _evicted(c: Cluster) -> tuple[str, str] | None:
    found = await c.condition("a", "Evicted")
    return found[:2] if found else None


def test_a_timeout_that_a_reload_switches_on_takes_no_longer_than_its_seconds() -> None:
    async def scenario() -> None:
        with clock() as settable:
            async with World(1, lambda pod: HANGS, loads(KIND), separate_queue=True) as world:
                c = Cluster(world, {})
                await c.queues()
                await c.submit("a")
                await c.until(lambda: _admitted(c), True, seconds=5)
                world.queue.reconfigure(loads(f"{KIND}waitForPodsReady: {{timeout: 60s}}\n"))
                settable.by = timedelta(days=1)
                await c.until(lambda: _evicted(c), ("True", "PodsReadyTimeout"), seconds=60 + 60 + 2)

    run_virtual(scenario())


def test_a_finished_workload_is_deleted_after_its_retention() -> None:
    async def scenario() -> None:
        with clock() as settable:
            kept = f"{KIND}objectRetentionPolicies: {{workloads: {{afterFinished: 60s}}}}\n"
            async with World(1, lambda pod: PodScript(0.1, 0.2), loads(kept), separate_queue=True) as world:
                c = Cluster(world, {})
                await c.queues()
                await c.submit("a")
                await c.until(lambda: _finished(c), True, seconds=5)
                settable.by = timedelta(days=31)
                await asyncio.sleep(60 + 60 + 2)
                assert await c.client.list(WORKLOADS, NS) == []

    run_virtual(scenario())


async def _admitted(c: Cluster) -> bool:
    return await c.condition("a", "Admitted") is not None


async def _finished(c: Cluster) -> bool:
    return await c.condition("a", "Finished") is not None


def test_the_times_are_corrected_in_one_write() -> None:
    async def scenario() -> None:
        with clock() as settable:
            long = loads(KIND + config("Eviction", 1000, 2))
            async with World(1, lambda pod: HANGS, long, separate_queue=True) as world:
                c = Cluster(world, {})
                await c.queues()
                await c.submit("a")
                await c.until(lambda: _requeued(c), "PodsReadyTimeout")
                await world.kill()
                settable.by = timedelta(days=1)
                await world.start()
                await asyncio.sleep(5)
                state = (await c.workload("a"))["status"]
                wait = datetime.fromisoformat(state["requeueState"]["requeueAt"]) - world.clock.now()
                assert timedelta(seconds=990) <= wait <= timedelta(seconds=1000)
                revision = world.store.revision
                await world.kill()
                await world.start()
                await asyncio.sleep(900)
                assert world.store.revision == revision

    run_virtual(scenario())


async def _requeued(c: Cluster) -> str:
    found = await c.condition("a", "Requeued")
    return found[1] if found else ""


def test_a_failed_pod_is_replaced_after_its_own_delay() -> None:
    async def scenario() -> None:
        with clock() as settable:
            async with World(1, lambda pod: PodScript(0.1, 0.5, exit_code=1)) as world:
                c = Cluster(world, {})
                await c.queues()
                await c.submit("a", backoffLimit=5)
                await c.until(lambda: _failures(c), 1, seconds=5)
                settable.by = timedelta(days=31)
                await c.until(lambda: _failures(c), 2, seconds=10 + 10 + 3)
                await c.until(lambda: _failures(c), 3, seconds=20 + 3)

    run_virtual(scenario())


async def _failures(c: Cluster) -> int:
    return int((await c.client.get(JOBS, NS, "a")).get("status", {}).get("failed", 0))
