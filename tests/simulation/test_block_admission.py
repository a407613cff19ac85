"""blockAdmission holds back admissions and nothing else."""

from __future__ import annotations

import asyncio

from queue_manager.api.api_resources import CLUSTER_QUEUES
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import API, Cluster, cluster

CONFIG = "waitForPodsReady: {timeout: 1h, blockAdmission: true}\n"
SLOW = PodScript(ready_after=30.0, ends_after=60.0)
HIGH = {"kueue.x-k8s.io/priority-class": "high"}
BLOCKED = ("False", "WaitingForPodsReady", "waiting for all admitted workloads to be in PodsReady condition")


async def second_queue(c: Cluster, cpu: str) -> None:
    quota = [{"name": "cpu", "nominalQuota": cpu}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quota}]}
    spec = {"namespaceSelector": {}, "cohortName": "co", "resourceGroups": [group]}
    await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq2"}, "spec": spec})
    await c.local_queue("lq2", "cq2")


def test_heads_that_fit_only_one_at_a_time_cost_no_cycle_while_admission_is_blocked() -> None:
    """Each would fit, and the second would not after the first: neither is admitted, and neither is tried again."""

    async def scenario() -> None:
        async with cluster(CONFIG, slow=SLOW) as c:
            await c.queues("2", cohortName="co")
            await second_queue(c, "0")
            await c.submit("slow")
            await c.until(c.running, ["slow"])
            await c.submit("first", queue="lq")
            await c.submit("second", queue="lq2")
            await c.until(lambda: c.condition("first", "QuotaReserved"), BLOCKED)
            await asyncio.sleep(1)
            cycles = c.world.queue.scheduler.cycles
            await asyncio.sleep(10)
            assert c.world.queue.scheduler.cycles == cycles
            await c.until(c.running, ["first", "slow"], seconds=60)

    run_virtual(scenario())


def test_another_queue_updates_reasons_and_counts_while_admission_is_blocked() -> None:
    async def scenario() -> None:
        async with cluster(CONFIG, slow=SLOW) as c:
            await c.queues("2", cohortName="co")
            await second_queue(c, "0")
            await c.submit("slow")
            await c.until(c.running, ["slow"])
            await c.submit("first")
            await c.until(lambda: c.condition("first", "QuotaReserved"), BLOCKED)
            await c.submit("huge", "9", queue="lq2")
            never = (
                "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously "
                "considered podsets requests (0) + current podset request (9) > maximum capacity (2)"
            )
            await c.until(lambda: c.condition("huge", "QuotaReserved"), ("False", "ExceedsMaxQuota", never), seconds=5)
            await c.until(lambda: pending(c, "cq2"), 1, seconds=5)

    run_virtual(scenario())


async def pending(c: Cluster, name: str) -> int:
    return int((await c.client.get(CLUSTER_QUEUES, "", name))["status"]["pendingWorkloads"])


def test_a_preemptor_that_is_blocked_is_still_known_as_one() -> None:
    """Its victim has stopped while the pod of `slow` is not ready: a restart finds that the quota is kept for it."""

    async def scenario() -> None:
        async with cluster(CONFIG, slow=SLOW) as c:
            await c.queues("2", preemption={"withinClusterQueue": "LowerPriority"})
            await c.apply_class("high", 100)
            await c.submit("victim")
            await c.until(c.running, ["victim"])
            await c.submit("slow", labels=HIGH)
            await c.until(c.running, ["slow", "victim"])
            await c.submit("preemptor", labels=HIGH)
            await c.until(c.running, ["slow"])
            await asyncio.sleep(5)
            status = await c.condition("preemptor", "QuotaReserved")
            assert status is not None
            assert status[:2] == ("False", "WaitingForPreemptedWorkloads")
            await c.until(c.running, ["preemptor", "slow"], seconds=60)

    run_virtual(scenario())
