"""Recordings whose course depends on the time that Kueue takes to stop a Job and to requeue inadmissible Workloads.

Each takes Kueue a second and Sluice none, so the recorded steps come too late for Sluice. The recordings are about the
order of Workloads, which is asserted here with the same settings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import Cluster, cluster
from tests.local.queue.environments import VIRTUAL_TIME, run

pytestmark = pytest.mark.usefixtures("environment")

NEVER = PodScript(ready_after=None, ends_after=None)
QUICK = PodScript(ready_after=0.1, ends_after=None)


def settings(timeout: int, timestamp: str) -> str:
    strategy = f"{{backoffBaseSeconds: 1, timestamp: {timestamp}}}"
    return f"waitForPodsReady:\n  timeout: {timeout}s\n  requeuingStrategy: {strategy}\n"


def test_c04_after_an_eviction_the_pending_workload_starts() -> None:
    async def scenario() -> None:
        async with cluster(settings(2, "Eviction"), first=NEVER, second=QUICK) as c:
            await c.queues("1")
            await c.submit("first")
            await c.submit("second")
            await c.until(c.running, ["second"])
            assert (await c.workload("first"))["status"]["requeueState"]["count"] == 1

    run(scenario())


def test_c05_by_creation_the_younger_starts_only_while_the_older_backs_off() -> None:
    async def scenario() -> None:
        async with cluster(settings(2, "Creation"), first=NEVER, second=NEVER) as c:
            await c.queues("1")
            await c.submit("first")
            await c.submit("second")
            await c.until(c.running, ["second"])
            await c.until(c.running, ["first"])
            assert (await c.workload("first"))["status"]["requeueState"]["count"] == 1

    run(scenario())


@pytest.mark.parametrize(("base", "stop"), [(0, 0.0), (1, 1.5)])
def test_c05_by_creation_the_older_goes_again_if_its_stop_outlasts_its_backoff(base: int, stop: float) -> None:
    async def scenario() -> None:
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

    run(scenario())


async def _tries(c: Cluster, job: str) -> int:
    """How often the pods of the Job were not ready in time."""
    return int((await c.workload(job))["status"].get("requeueState", {}).get("count", 0))


async def _name(c: Cluster, job: str) -> str:
    return str((await c.workload(job))["metadata"]["name"])


async def _after_backoff(timestamp: str) -> list[str]:
    """`first` was evicted and its backoff is over, `second` never ran; both are pending behind `hi`."""
    async with cluster(settings(3, timestamp), first=NEVER, second=NEVER, hi=PodScript(0.1, 6.0)) as c:
        await c.queues("1")
        await c.apply_class("high", 100)
        await c.submit("first")
        await c.submit("second")
        await c.submit("hi", labels={"kueue.x-k8s.io/priority-class": "high"})
        await c.until(c.running, ["hi"])
        await c.until(lambda: c.condition("first", "Requeued"), ("True", "BackoffFinished", FINISHED))
        await c.until(lambda: c.condition("hi", "Finished"), ("True", "Succeeded", DONE))
        await c.until(lambda: _first_of(c.running), True)
        return await c.running()


async def _first_of(running: Callable[[], Awaitable[list[str]]]) -> bool:
    return bool(await running())


PREVIOUSLY = "Previously: Exceeded the PodsReady timeout ns/{}"
FINISHED = "The workload backoff was finished"
DONE = "Reached expected number of succeeded pods"


@VIRTUAL_TIME
def test_c06_by_eviction_the_one_that_never_ran_goes_first() -> None:
    assert run(_after_backoff("Eviction")) == ["second"]


def test_c07_by_creation_the_older_one_goes_first() -> None:
    assert run(_after_backoff("Creation")) == ["first"]
