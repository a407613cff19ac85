"""The published reason of those that are passed over, because an equal Workload was refused, follows that refusal."""

from __future__ import annotations

from queue_manager.api.api_resources import CLUSTER_QUEUES
from queue_manager.api.messages import EQUIVALENT_MESSAGE
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import Cluster, cluster

PASSED_OVER = ("second", "third")
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
