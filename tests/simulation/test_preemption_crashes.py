"""Preemptions, with the queue's controllers killed before and after every single write: nothing is lost or done twice.

As `test_queue_crashes`: the end is that of the undisturbed scenario. On the way the invariants hold, also those of
preemption: no victim twice, and the quota that victims release goes to their preemptor.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.queue.cluster import API, NS, RUNS_WITHOUT_END, Cluster, cluster
from tests.simulation.crashes import (
    LONG,
    SHORT,
    SLOW_TO_STOP,
    Scenario,
    classes,
    crash_at_writes,
    hold,
    is_evicted,
    release,
    runs,
    sampled,
    submit,
)

LOWER = {"withinClusterQueue": "LowerPriority"}
BOSSES = ("boss-1", "boss-2")


async def one_queue(c: Cluster, **spec: Any) -> None:
    await c.queues("2", preemption=LOWER, **spec)
    await classes(c)


async def cohort_of_two(c: Cluster, **preemption: Any) -> None:
    """ClusterQueues cq and cq2 with 1 cpu each; LocalQueues lq and lq2."""
    await c.queues("1", cohortName="co", preemption=preemption)
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "1"}]}],
    }
    spec = {"namespaceSelector": {}, "cohortName": "co", "resourceGroups": [group], "preemption": preemption}
    await c.create(CLUSTER_QUEUES, {**API, "kind": "ClusterQueue", "metadata": {"name": "cq2"}, "spec": spec})
    await c.local_queue("lq2", "cq2")
    await classes(c)


async def a_lower_priority_gives_way(c: Cluster) -> None:
    await one_queue(c)
    c.outcomes |= {"low": LONG, "high": SHORT}
    await submit(c, "low", "2", "low")
    await runs(c, "low")
    await submit(c, "high", "2", "high")


async def only_one_of_two_is_needed(c: Cluster) -> None:
    await one_queue(c)
    c.outcomes |= {"first": LONG, "second": LONG, "high": SHORT}
    await submit(c, "first", "1", "low")
    await asyncio.sleep(1.1)
    await submit(c, "second", "1", "low")
    await runs(c, "first", "second")
    await submit(c, "high", "1", "high")


async def two_victims_for_one(c: Cluster) -> None:
    await one_queue(c)
    c.outcomes |= {"first": LONG, "second": SLOW_TO_STOP, "high": SHORT}
    await submit(c, "first", "1", "low")
    await submit(c, "second", "1", "mid")
    await runs(c, "first", "second")
    await submit(c, "high", "2", "high")


async def a_victim_takes_its_time_to_stop(c: Cluster) -> None:
    await one_queue(c)
    c.outcomes |= {"low": SLOW_TO_STOP, "high": SHORT}
    await submit(c, "low", "2", "low")
    await runs(c, "low")
    await submit(c, "high", "2", "high")
    await is_evicted(c, "low")
    await submit(c, "other", "1", "low")  # must not take what becomes free first
    c.outcomes["other"] = SHORT


async def a_borrower_is_reclaimed_from(c: Cluster) -> None:
    await cohort_of_two(c, reclaimWithinCohort="Any")
    c.outcomes |= {"borrower": LONG, "own": SHORT}
    await submit(c, "borrower", "2", "high")
    await runs(c, "borrower")
    await submit(c, "own", "1", "low", "lq2")


async def reclaiming_while_borrowing(c: Cluster) -> None:
    within = {"policy": "LowerPriority", "maxPriorityThreshold": 60}
    await cohort_of_two(c, reclaimWithinCohort="LowerPriority", borrowWithinCohort=within)
    c.outcomes |= {"borrower": LONG, "big": SHORT}
    await submit(c, "borrower", "2", "low")
    await runs(c, "borrower")
    await submit(c, "big", "2", "high", "lq2")


async def the_preemptor_is_deleted_while_its_victim_stops(c: Cluster) -> None:
    await one_queue(c)
    c.outcomes |= {"low": SLOW_TO_STOP, "high": SHORT}
    await submit(c, "low", "2", "low")
    await runs(c, "low")
    await submit(c, "high", "2", "high")
    await is_evicted(c, "low")
    await c.client.delete(JOBS, NS, "high", propagation="Background")


async def a_higher_priority_arrives_meanwhile(c: Cluster) -> None:
    await one_queue(c)
    c.outcomes |= {"low": SLOW_TO_STOP, "mid": SHORT, "high": SHORT}
    await submit(c, "low", "2", "low")
    await runs(c, "low")
    await submit(c, "mid", "2", "mid")
    await is_evicted(c, "low")
    await submit(c, "high", "2", "high")


async def the_victim_is_deleted_while_it_stops(c: Cluster) -> None:
    await one_queue(c)
    c.outcomes |= {"low": SLOW_TO_STOP, "high": SHORT}
    await submit(c, "low", "2", "low")
    await runs(c, "low")
    await submit(c, "high", "2", "high")
    await is_evicted(c, "low")
    await c.client.delete(JOBS, NS, "low", propagation="Background")


async def an_older_one_of_equal_priority_comes_back(c: Cluster) -> None:
    await c.queues("2", preemption={"withinClusterQueue": "LowerOrNewerEqualPriority"})
    await classes(c)
    await c.local_queue("lq2")
    c.outcomes |= {"old": SHORT, "new": LONG}
    await hold(c, "lq")
    await submit(c, "old", "2", "low")
    await asyncio.sleep(2)
    await submit(c, "new", "2", "low", "lq2")
    await runs(c, "new")
    await release(c, "lq")


async def a_strict_head_preempts(c: Cluster) -> None:
    await one_queue(c, strategy="StrictFIFO")
    c.outcomes |= {"low": LONG, "high": SHORT, "later": SHORT}
    await submit(c, "low", "2", "low")
    await runs(c, "low")
    await submit(c, "high", "1", "high")
    await submit(c, "later", "1", "mid")


SCENARIOS: tuple[Scenario, ...] = (
    a_lower_priority_gives_way,
    only_one_of_two_is_needed,
    two_victims_for_one,
    a_victim_takes_its_time_to_stop,
    a_borrower_is_reclaimed_from,
    reclaiming_while_borrowing,
    the_preemptor_is_deleted_while_its_victim_stops,
    a_higher_priority_arrives_meanwhile,
    the_victim_is_deleted_while_it_stops,
    an_older_one_of_equal_priority_comes_back,
    a_strict_head_preempts,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_at_some_writes_of_a_preemption_does_not_change_the_end(scenario: Scenario) -> None:
    crash_at_writes(scenario, sampled(SCENARIOS.index(scenario)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_crash_at_any_write_of_a_preemption_does_not_change_the_end(scenario: Scenario) -> None:
    crash_at_writes(scenario)


def test_the_bound_of_reclaims_counts_those_before_a_restart() -> None:
    """`owner` reclaims its quota from `borrower`, and is preempted in turn, so that `borrower` starts again. Twice."""

    async def scenario() -> None:
        async with cluster(borrower=RUNS_WITHOUT_END, owner=RUNS_WITHOUT_END, **dict.fromkeys(BOSSES, SHORT)) as c:
            await cohort_of_two(c, reclaimWithinCohort="Any", **LOWER)
            await submit(c, "borrower", "2", "high")
            await c.until(c.running, ["borrower"])
            await submit(c, "owner", "1", "low", "lq2")
            for boss in BOSSES:
                await c.until(c.running, ["owner"])
                await submit(c, boss, "2", "high", "lq2")
                await c.until(c.running, [boss])
                await hold(c, "lq2")
                await c.until(c.running, ["borrower"])
                await c.world.kill()
                await c.world.start()
                await release(c, "lq2")
            await asyncio.sleep(60)
            assert await c.running() == ["borrower"]
            assert (await c.condition("owner", "QuotaReserved"))[:2] == ("False", "WaitingForQuota")

    run_virtual(scenario())
