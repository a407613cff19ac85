"""The published reason of those that are passed over, because an equal Workload was refused, follows that refusal."""

from __future__ import annotations

import asyncio

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, WORKLOAD_PRIORITY_CLASSES
from queue_manager.api.messages import EQUIVALENT_MESSAGE, PENDING_EVALUATION_MESSAGE
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import API, NS, Cluster, cluster

PASSED_OVER = ("second", "third")
NEEDS = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, {} more needed"
HIGH = {**API, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 9}
REASONS = {"4": "WaitingForQuota", "2": "ExceedsMaxQuota", "5": "WaitingForQuota"}  # by quota


async def resize(c: Cluster, cpu: str) -> None:
    quota = [{"name": "cpu", "nominalQuota": cpu}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quota}]}
    await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"resourceGroups": [group]}})


def test_a_changed_quota_changes_the_reason_of_all_equal_workloads() -> None:
    async def scenario() -> None:
        async with cluster("pendingReasonPeriod: 5s\n") as c:
            await c.queues("4")
            await c.submit("running", cpu="4")
            await c.until(c.running, ["running"])
            for name in ("first", *PASSED_OVER):
                await c.submit(name, cpu="3")
            for cpu, reason in REASONS.items():
                await resize(c, cpu)
                for name in PASSED_OVER:
                    answer = ("False", reason, EQUIVALENT_MESSAGE)
                    await c.until(lambda job=name: c.condition(job, "QuotaReserved"), answer, 10)

    run_virtual(scenario())


def test_one_that_is_passed_over_from_now_on_keeps_no_numbers_of_its_own() -> None:
    """`last` was refused for 2 cpus, and is passed over for `first`, a victim that is before it, and needs 1 more."""

    async def scenario() -> None:
        async with cluster("pendingReasonPeriod: 5s\n") as c:
            await c.queues("4", preemption={"withinClusterQueue": "LowerPriority"})
            for name in ("first", "second", "last"):
                await c.submit(name, cpu="2")
                await asyncio.sleep(1)
            refused = ("False", "WaitingForQuota", NEEDS.format(2))
            await c.until(lambda: c.condition("last", "QuotaReserved"), refused, 10)
            await c.create(WORKLOAD_PRIORITY_CLASSES, HIGH)
            await c.submit("high", cpu="3", labels={"kueue.x-k8s.io/priority-class": "high"})
            await c.until(c.running, ["high"], 60)
            await c.until(lambda: c.condition("first", "QuotaReserved"), (*refused[:2], NEEDS.format(1)), 10)
            for name in ("second", "last"):
                passed_over = ("False", "WaitingForQuota", EQUIVALENT_MESSAGE)
                await c.until(lambda job=name: c.condition(job, "QuotaReserved"), passed_over, 10)

    run_virtual(scenario())


@pytest.mark.parametrize("config", ["pendingReasonPeriod: 0s\n", "pendingReasonPeriod: 5s\nbackfill: {headAge: 1h}\n"])
def test_numbers_follow_what_others_take(config: str) -> None:
    """Also where a release of quota has all refused Workloads tried."""

    async def scenario() -> None:
        async with cluster(config) as c:
            await c.queues("8")
            await c.submit("running", cpu="6")
            await c.until(c.running, ["running"])
            await c.submit("refused", cpu="5")
            for needed in (3, 4):
                answer = ("False", "WaitingForQuota", NEEDS.format(needed))
                await c.until(lambda answer=answer: c.condition("refused", "QuotaReserved"), answer, 12)
                await c.submit(f"small-{needed}")

    run_virtual(scenario())


def test_an_overtaken_head_of_a_strictfifo_queue_does_not_lack_quota() -> None:
    """All is free, and `first`, refused before, waits for `huge`, which never fits."""

    async def scenario() -> None:
        async with cluster("pendingReasonPeriod: 5s\n") as c:
            await c.queues("4", queueingStrategy="StrictFIFO")
            await c.create(WORKLOAD_PRIORITY_CLASSES, HIGH)
            await c.submit("running", cpu="4")
            await c.until(c.running, ["running"])
            await c.submit("first")
            refused = ("False", "WaitingForQuota", NEEDS.format(1))
            await c.until(lambda: c.condition("first", "QuotaReserved"), refused, 10)
            await c.submit("huge", cpu="9", labels={"kueue.x-k8s.io/priority-class": "high"})
            behind = ("False", "PendingEvaluation", PENDING_EVALUATION_MESSAGE)
            await c.until(lambda: c.condition("first", "QuotaReserved"), behind, 10)
            await c.client.delete(JOBS, NS, "running", propagation="Background")
            await asyncio.sleep(20)
            assert await c.condition("first", "QuotaReserved") == behind
            await c.client.delete(JOBS, NS, "huge", propagation="Background")
            await c.until(c.running, ["first"])

    run_virtual(scenario())
