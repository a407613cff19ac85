"""The queue's controllers are killed before and after every single write and restarted, and nothing is lost.

Each scenario first runs undisturbed, and its writes are counted. Then it runs again for each write; all controllers of
the queue die right before or right after that write reaches the store, and start anew half a second later. The end must
be the same, and the invariants must hold all the way.
"""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import JOBS, WORKLOADS
from tests.local.queue.cluster import NS, Cluster
from tests.local.queue.invariants import is_true
from tests.simulation.crashes import NEVER, SHORT, Scenario, crash_at_writes, sampled, until_workload


async def admitted_and_finished(c: Cluster) -> None:
    await c.queues("2")
    c.outcomes["a"] = SHORT
    await c.submit("a")


async def evicted_and_requeued(c: Cluster) -> None:
    await c.queues("2")
    c.outcomes |= {"a": NEVER, "b": NEVER}
    await c.submit("a", "2")
    await c.submit("b", "1")
    await until_workload(c, "a", lambda w: (w["status"].get("requeueState") or {}).get("count") == 1)
    c.outcomes |= {"a": SHORT, "b": SHORT}


async def deactivated_and_reactivated(c: Cluster) -> None:
    await c.queues("2")
    c.outcomes["a"] = NEVER
    await c.submit("a")
    await until_workload(c, "a", lambda w: w["spec"]["active"] is False and "admission" not in w["status"])
    c.outcomes["a"] = SHORT
    await _set_active(c, "a", True)


async def deactivated_and_reactivated_by_its_user(c: Cluster) -> None:
    await c.queues("2")
    await c.submit("a")
    await until_workload(c, "a", lambda w: is_true(w, "PodsReady"))
    await _set_active(c, "a", False)
    await until_workload(c, "a", lambda w: "admission" not in w["status"])
    await _set_active(c, "a", True)


async def deleted_while_another_waits(c: Cluster) -> None:
    await c.queues("2")
    await c.submit("a", "2")
    await c.submit("b", "2")
    await until_workload(c, "a", lambda w: is_true(w, "PodsReady"))
    await c.client.delete(JOBS, NS, "a", propagation="Background")


SCENARIOS: tuple[Scenario, ...] = (
    admitted_and_finished,
    evicted_and_requeued,
    deactivated_and_reactivated,
    deactivated_and_reactivated_by_its_user,
    deleted_while_another_waits,
)


async def _set_active(c: Cluster, job: str, active: bool) -> None:
    name = (await c.workload(job))["metadata"]["name"]
    await c.client.patch(WORKLOADS, NS, name, {"spec": {"active": active}})


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_at_some_writes_does_not_change_the_end(scenario: Scenario) -> None:
    crash_at_writes(scenario, sampled(SCENARIOS.index(scenario)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_at_any_write_does_not_change_the_end(scenario: Scenario) -> None:
    crash_at_writes(scenario)
