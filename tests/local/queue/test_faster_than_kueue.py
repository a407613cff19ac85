"""Recorded scenarios whose course hangs on how long Kueue takes to stop a Job and to sweep its queue.

A stop takes Kueue a second and the sweep another; ours take none, so the recorded steps come too late for us.
What the recordings are about is who goes first, and that is asserted here with the same settings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import Cluster, cluster
from tests.local.queue.places import run

pytestmark = pytest.mark.usefixtures("place")

NEVER = PodScript(ready_after=None, ends_after=None)
QUICK = PodScript(ready_after=0.1, ends_after=None)


def settings(timeout: int, timestamp: str) -> str:
    strategy = f"{{backoffBaseSeconds: 1, timestamp: {timestamp}}}"
    return f"waitForPodsReady:\n  timeout: {timeout}s\n  requeuingStrategy: {strategy}\n"


def test_c04_after_an_eviction_the_one_that_waits_starts() -> None:
    async def story() -> None:
        async with cluster(settings(2, "Eviction"), first=NEVER, second=QUICK) as c:
            await c.queues("1")
            await c.submit("first")
            await c.submit("second")
            await c.until(c.running, ["second"])
            assert (await c.workload("first"))["status"]["requeueState"]["count"] == 1

    run(story())


def test_c05_by_creation_the_younger_one_starts_only_while_the_older_one_is_in_backoff() -> None:
    async def story() -> None:
        async with cluster(settings(2, "Creation"), first=NEVER, second=NEVER) as c:
            await c.queues("1")
            await c.submit("first")
            await c.submit("second")
            await c.until(c.running, ["second"])
            await c.until(c.running, ["first"])
            assert (await c.workload("first"))["status"]["requeueState"]["count"] == 1

    run(story())


@pytest.mark.parametrize(("base", "stop"), [(0, 0.0), (1, 1.5)])
def test_c05_by_creation_the_older_one_goes_again_if_its_backoff_is_over_when_its_job_has_stopped(
    base: int, stop: float
) -> None:
    async def story() -> None:
        slow = PodScript(ready_after=None, ends_after=None, stops_within=stop)
        config = settings(2, "Creation").replace("backoffBaseSeconds: 1", f"backoffBaseSeconds: {base}")
        async with cluster(config, first=slow, second=slow) as c:
            await c.queues("1")
            await c.submit("first")
            await c.submit("second")
            await c.until(lambda: _tries(c, "first"), 1)
            await c.until(
                lambda: c.condition("first", "Evicted"),
                ("False", "QuotaReserved", PREVIOUSLY.format(await _name(c, "first"))),
            )
            assert await _tries(c, "second") == 0
            await c.until(c.running, ["first"])

    run(story())


async def _tries(c: Cluster, job: str) -> int:
    """How often its pods were not ready in time."""
    return int((await c.workload(job))["status"].get("requeueState", {}).get("count", 0))


async def _name(c: Cluster, job: str) -> str:
    return str((await c.workload(job))["metadata"]["name"])


async def _after_backoff(timestamp: str) -> list[str]:
    """`first` was evicted and its backoff is over; `second` never ran; both waited behind `hi`."""
    async with cluster(settings(3, timestamp), first=NEVER, second=NEVER, hi=PodScript(0.1, 6.0)) as c:
        await c.queues("1")
        await c.apply_class("high", 100)
        await c.submit("first")
        await c.submit("second")
        await c.submit("hi", labels={"kueue.x-k8s.io/priority-class": "high"})
        await c.until(c.running, ["hi"])
        await c.until(lambda: c.condition("first", "Requeued"), ("True", "BackoffFinished", FINISHED))
        await c.until(lambda: c.condition("hi", "Finished"), ("True", "Succeeded", DONE))
        await c.until(lambda: _somebody(c.running), True)
        return await c.running()


async def _somebody(running: Callable[[], Awaitable[list[str]]]) -> bool:
    return bool(await running())


PREVIOUSLY = "Previously: Exceeded the PodsReady timeout ns/{}"
FINISHED = "The workload backoff was finished"
DONE = "Reached expected number of succeeded pods"


def test_c06_by_eviction_the_one_that_never_ran_goes_first() -> None:
    assert run(_after_backoff("Eviction")) == ["second"]


def test_c07_by_creation_the_older_one_goes_first() -> None:
    assert run(_after_backoff("Creation")) == ["first"]
