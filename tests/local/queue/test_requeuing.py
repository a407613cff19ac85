"""Requeuing beyond Kueue, on the whole system: bounds, deadlines, causes, the record of attempts."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from queue_manager.api.api_resources import JOBS
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import NS, Cluster, cluster
from tests.local.queue.environments import VIRTUAL_TIME, rest, run

pytestmark = pytest.mark.usefixtures("environment")

HANGS = PodScript(ready_after=None, ends_after=None)
NO_NODE = PodScript(ready_after=None, ends_after=None, no_node="0/2 nodes are available: 2 Insufficient cpu.")
TIMEOUT, LIMIT = "sluice/pods-ready-timeout", "sluice/requeuing-limit"
BOUNDS = "waitForPodsReady:\n  timeout: 100s\n  overrides: {minTimeout: 5s, maxTimeout: 1h, maxBackoffLimitCount: 3}\n"


def waiting(strategy: str, **more: str) -> str:
    extra = "".join(f"\n  {key}: {value}" for key, value in more.items())
    return f"waitForPodsReady:\n  requeuingStrategy: {{{strategy}}}{extra}\n"


async def target(c: Cluster, job: str) -> tuple[str, str] | None:
    found = await c.condition(job, "Evicted")
    return found[:2] if found else None


async def overrides(c: Cluster, job: str) -> dict[str, str]:
    notes = (await c.workload(job))["metadata"]["annotations"]
    return {name: notes[name] for name in (TIMEOUT, LIMIT)}


@VIRTUAL_TIME
def test_a_job_sets_its_own_timeout_and_limit_within_bounds() -> None:
    async def scenario() -> None:
        async with cluster(BOUNDS, a=HANGS, b=HANGS) as c:
            await c.queues()
            await c.submit("a", annotations={TIMEOUT: "5s", LIMIT: "0"})
            await c.submit("b")
            await c.until(lambda: overrides(c, "a"), {TIMEOUT: "5s", LIMIT: "0"})
            await c.until(lambda: target(c, "a"), ("True", "DeactivatedDueToRequeuingLimitExceeded"), seconds=7)
            assert await target(c, "b") is None

    run(scenario())


@VIRTUAL_TIME
def test_a_fractional_timeout_causes_no_syncs_before_it_ends() -> None:
    async def scenario() -> None:
        async with cluster("waitForPodsReady: {timeout: 2500ms}", a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: target(c, "a"), ("True", "PodsReadyTimeout"), seconds=5)

    run(scenario())


def test_a_changed_override_annotation_updates_the_workload() -> None:
    async def scenario() -> None:
        async with cluster(BOUNDS, a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.client.patch(JOBS, NS, "a", {"metadata": {"annotations": {TIMEOUT: "5s"}}})
            await c.until(lambda: target(c, "a"), ("True", "PodsReadyTimeout"), seconds=7)

    run(scenario())


@pytest.mark.parametrize(
    ("config", "notes", "text"),
    [
        (BOUNDS, {TIMEOUT: "2h"}, "must be from 5s to 1h0m0s"),
        (BOUNDS, {LIMIT: "many"}, "must be an integer from 0 to 3"),
        ("", {TIMEOUT: "10s"}, "waitForPodsReady.overrides"),
    ],
)
def test_admission_refuses_overrides_out_of_bounds(config: str, notes: dict[str, str], text: str) -> None:
    async def scenario() -> None:
        async with cluster(config) as c:
            await c.queues()
            with pytest.raises(ApiError, match="sluice/") as refused:
                await c.submit("a", annotations=notes)
            assert refused.value.status in (403, 422)
            assert text in refused.value.message
            (path,) = notes
            assert f"metadata.annotations[{path}]" in refused.value.message

    run(scenario())


def test_without_webhook_an_invalid_override_is_one_event_and_has_no_effect() -> None:
    async def scenario() -> None:
        async with cluster(BOUNDS.replace("timeout: 100s", "timeout: 8s"), a=HANGS) as c:
            c.world.admission.clear()
            await c.queues()
            await c.submit("a", annotations={TIMEOUT: "2h"}, suspend=True)
            await c.until(lambda: target(c, "a"), ("True", "PodsReadyTimeout"), seconds=11)
            assert TIMEOUT not in (await c.workload("a"))["metadata"]["annotations"]
            recorded = [e for e in await c.events("a") if e[1] == "InvalidOverride"]
            assert len(recorded) == 1
            assert recorded[0][0] == "Warning"
            assert f"metadata.annotations[{TIMEOUT}]" in recorded[0][2]

    run(scenario())


@VIRTUAL_TIME
def test_give_up_after_ends_a_backoff() -> None:
    """Tries of 2 s, backoffs of 1, 2, 4, 8 s, and the time of each stop: giveUpAfter of 15 s ends in the fourth
    backoff.
    """

    async def scenario() -> None:
        strategy = "giveUpAfter: 15s, backoffBaseSeconds: 1"
        async with cluster(waiting(strategy, timeout="2s"), a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: target(c, "a"), ("True", "PodsReadyTimeout"), seconds=4)
            await c.until(lambda: target(c, "a"), ("True", "DeactivatedDueToRequeuingLimitExceeded"), seconds=16)
            workload = await c.workload("a")
            assert workload["spec"]["active"] is False
            assert "requeueState" not in workload["status"]
            await c.until(
                lambda: c.condition("a", "QuotaReserved"), ("False", "Deactivated", "The workload is deactivated")
            )
            await asyncio.sleep(2)
            before = len(c.world.history)
            await rest(3600)
            assert len(c.world.history) == before

    run(scenario())


@VIRTUAL_TIME
def test_unschedulable_pods_have_their_own_timeout_and_cause() -> None:
    async def scenario() -> None:
        config = waiting("backoffBaseSeconds: 1000", timeout="10s", unschedulableTimeout="2s")
        async with cluster(config, a=NO_NODE, b=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.submit("b")
            await c.until(lambda: target(c, "a"), ("True", "PodsReadyTimeout"), seconds=4)
            evicted = await c.condition("a", "Evicted")
            assert evicted is not None
            assert evicted[2].endswith(f"; no node could take one of its pods: {NO_NODE.no_node}")
            assert await target(c, "b") is None
            await c.until(lambda: target(c, "b"), ("True", "PodsReadyTimeout"), seconds=12)
            causes = {}
            for job in "ab":
                (row,) = (await c.workload(job))["status"]["schedulingStats"]["evictions"]
                causes[job] = (row["reason"], row["underlyingCause"])
            assert causes == {"a": ("PodsReadyTimeout", "Unschedulable"), "b": ("PodsReadyTimeout", "WaitForStart")}
            for cause in ("Unschedulable", "WaitForStart"):
                labels = {"cluster_queue": "cq", "reason": "PodsReadyTimeout", "underlying_cause": cause}
                counter = c.world.metrics.value("kueue_evicted_workloads_total", {**labels, "priority_class": ""})
                assert counter == 1

    run(scenario())


@VIRTUAL_TIME
def test_the_workload_records_its_last_ten_attempts_without_extra_writes() -> None:
    async def count(c: Cluster) -> int:
        return (await c.workload("a"))["status"].get("requeueState", {}).get("count", 0)  # type: ignore[no-any-return]

    async def scenario() -> None:
        async with cluster(waiting("backoffBaseSeconds: 1, backoffMaxSeconds: 1", timeout="1s"), a=HANGS) as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: count(c), 12, seconds=60)
            tried = (await c.workload("a"))["status"]["requeueHistory"]["attempts"]
            assert len(tried) == 10
            assert {(t["reason"], t["cause"]) for t in tried} == {("PodsReadyTimeout", "WaitForStart")}
            assert all(one["retryAt"] <= other["start"] for one, other in pairwise(tried))

    run(scenario())


def test_a_workload_past_give_up_after_is_not_admitted_after_its_stop() -> None:
    """Evicted after 2 s; requeueAt and the end of giveUpAfter are 1 s later; the quota is free another second later."""

    async def scenario() -> None:
        slow = PodScript(ready_after=None, ends_after=None, stops_within=2.0)
        async with cluster(waiting("giveUpAfter: 3s, backoffBaseSeconds: 1", timeout="2s"), a=slow) as c:
            await c.queues()
            await c.submit("a")
            await c.until(lambda: target(c, "a"), ("True", "DeactivatedDueToRequeuingLimitExceeded"), seconds=10)
            name = (await c.workload("a"))["metadata"]["name"]
            assert len([e for e in await c.events(name) if e[1] == "QuotaReserved"]) == 1
            attempts = (await c.workload("a"))["status"]["requeueHistory"]["attempts"]
            assert [one["reason"] for one in attempts] == ["PodsReadyTimeout"]

    run(scenario())
