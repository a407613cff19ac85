"""Requeuing beyond Kueue, on the whole system in virtual time: bounds, deadlines, causes, the record of attempts."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from queue_manager.engine.resources import JOBS
from queue_manager.engine.transport import ApiError
from queue_manager.simulation.kubelet import Outcome
from tests.local.queue.cluster import NS, Cluster, cluster
from tests.local.queue.places import run

pytestmark = pytest.mark.usefixtures("place")

HANGS = Outcome(ready_after=None, ends_after=None)
NO_NODE = Outcome(ready_after=None, ends_after=None, no_node="0/2 nodes are available: 2 Insufficient cpu.")
TIMEOUT, LIMIT = "sluice/pods-ready-timeout", "sluice/requeuing-limit"
BOUNDS = "waitForPodsReady:\n  timeout: 100s\n  overrides: {minTimeout: 5s, maxTimeout: 1h, maxBackoffLimitCount: 3}\n"


def waiting(strategy: str, **more: str) -> str:
    extra = "".join(f"\n  {key}: {value}" for key, value in more.items())
    return f"waitForPodsReady:\n  timeout: 100s\n  requeuingStrategy: {{{strategy}}}{extra}\n"


async def history(c: Cluster, job: str) -> dict[str, Any]:
    return (await c.workload(job))["status"].get("requeueHistory", {})  # type: ignore[no-any-return]


async def target(c: Cluster, job: str) -> tuple[str, str] | None:
    found = await c.condition(job, "Evicted")
    return found[:2] if found else None


def test_a_job_sets_its_own_timeout_and_limit_within_bounds() -> None:
    async def story() -> None:
        async with cluster(BOUNDS, a=HANGS, b=HANGS) as c:
            await c.queues()
            await c.submit("a", annotations={TIMEOUT: "5s", LIMIT: "0"})
            await c.submit("b")
            assert (await c.workload("a"))["metadata"]["annotations"].items() >= {TIMEOUT: "5s", LIMIT: "0"}.items()
            await asyncio.sleep(7)
            assert await target(c, "a") == ("True", "DeactivatedDueToRequeuingLimitExceeded")
            assert await target(c, "b") is None

    run(story())


def test_a_change_of_the_annotation_is_followed_by_the_workload() -> None:
    async def story() -> None:
        async with cluster(BOUNDS, a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.client.patch(JOBS, NS, "a", {"metadata": {"annotations": {TIMEOUT: "5s"}}})
            await c.until(lambda: target(c, "a"), ("True", "PodsReadyTimeout"), seconds=7)

    run(story())


@pytest.mark.parametrize(
    ("config", "notes", "text"),
    [
        (BOUNDS, {TIMEOUT: "2h"}, "must be from 5s to 1h0m0s"),
        (BOUNDS, {LIMIT: "many"}, "must be an integer from 0 to 3"),
        ("", {TIMEOUT: "10s"}, "waitForPodsReady.overrides"),
    ],
)
def test_admission_refuses_what_is_out_of_bounds(config: str, notes: dict[str, str], text: str) -> None:
    async def story() -> None:
        async with cluster(config) as c:
            await c.queues()
            with pytest.raises(ApiError, match="sluice/") as refused:
                await c.submit("a", annotations=notes)
            assert refused.value.status in (403, 422)
            assert text in refused.value.message
            (path,) = notes
            assert f"metadata.annotations[{path}]" in refused.value.message

    run(story())


@pytest.mark.virtual_time
def test_where_no_admission_runs_the_job_is_told_once_and_the_configuration_applies() -> None:
    async def story() -> None:
        async with cluster(BOUNDS, a=HANGS) as c:
            c.world.admission.clear()
            await c.queues()
            await c.submit("a", annotations={TIMEOUT: "2h"}, suspend=True)
            await asyncio.sleep(99)
            assert await target(c, "a") is None
            await c.until(lambda: target(c, "a"), ("True", "PodsReadyTimeout"), seconds=3)
            assert TIMEOUT not in (await c.workload("a"))["metadata"]["annotations"]
            told = [e for e in await c.events("a") if e[1] == "InvalidOverride"]
            assert len(told) == 1
            assert told[0][0] == "Warning"
            assert f"metadata.annotations[{TIMEOUT}]" in told[0][2]

    run(story())


@pytest.mark.virtual_time
def test_it_is_given_up_when_its_time_is_over_in_the_middle_of_a_backoff() -> None:
    """Tries of 100 s, waits of 60, 120, 240 s: the third wait is from 480 s to 720 s after the first admission."""

    async def story() -> None:
        async with cluster(waiting("giveUpAfter: 600s"), a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await asyncio.sleep(598)
            assert await target(c, "a") == ("True", "PodsReadyTimeout")
            await asyncio.sleep(4)
            assert await target(c, "a") == ("True", "DeactivatedDueToRequeuingLimitExceeded")
            workload = await c.workload("a")
            assert workload["spec"]["active"] is False
            assert "requeueState" not in workload["status"]
            assert await c.condition("a", "QuotaReserved") == (
                "False",
                "Deactivated",
                "The workload is deactivated",
            )
            before = len(c.world.history)
            await asyncio.sleep(3600)
            assert len(c.world.history) == before

    run(story())


@pytest.mark.virtual_time
def test_pods_that_no_node_takes_have_their_own_timeout_and_cause() -> None:
    async def story() -> None:
        async with cluster(waiting("backoffBaseSeconds: 1000", unschedulableTimeout="20s"), a=NO_NODE, b=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.submit("b")
            await asyncio.sleep(22)
            evicted = await c.condition("a", "Evicted")
            assert evicted is not None
            assert evicted[1] == "PodsReadyTimeout"
            assert evicted[2].endswith(f"; no node could take one of its pods: {NO_NODE.no_node}")
            assert await target(c, "b") is None
            await asyncio.sleep(80)
            assert await target(c, "b") == ("True", "PodsReadyTimeout")
            causes = {}
            for job in "ab":
                (row,) = (await c.workload(job))["status"]["schedulingStats"]["evictions"]
                causes[job] = (row["reason"], row["underlyingCause"])
            assert causes == {"a": ("PodsReadyTimeout", "Unschedulable"), "b": ("PodsReadyTimeout", "WaitForStart")}
            for cause in ("Unschedulable", "WaitForStart"):
                labels = {"cluster_queue": "cq", "reason": "PodsReadyTimeout", "underlying_cause": cause}
                counter = c.world.metrics.value("kueue_evicted_workloads_total", {**labels, "priority_class": ""})
                assert counter == 1

    run(story())


@pytest.mark.virtual_time
def test_the_last_ten_attempts_are_on_the_workload_and_cost_no_write() -> None:
    async def story() -> None:
        async with cluster(waiting("backoffBaseSeconds: 1, backoffMaxSeconds: 2"), a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await asyncio.sleep(1300)
            status = (await c.workload("a"))["status"]
            tried = status["requeueHistory"]["attempts"]
            assert status["requeueState"]["count"] == 12
            assert len(tried) == 10
            assert {(t["reason"], t["cause"]) for t in tried} == {("PodsReadyTimeout", "WaitForStart")}
            assert all(one["retryAt"] <= other["start"] for one, other in pairwise(tried))

    run(story())
