"""A Workload that is passed over with an equal one gets a reason too, if it waits long."""

from __future__ import annotations

from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import cluster

PASSED_OVER = (
    "False",
    "WaitingForQuota",
    "Bypassed scheduling evaluation because an equivalent workload recently failed",
)


def test_an_equal_workload_gets_a_reason_when_it_has_waited_for_a_period() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.submit("runs")
            await c.until(c.running, ["runs"])
            await c.submit("first")
            await c.submit("second")
            await c.until(lambda: c.condition("second", "QuotaReserved"), PASSED_OVER, seconds=32)

    run_virtual(scenario())
