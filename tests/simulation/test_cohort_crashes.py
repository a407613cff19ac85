"""Preemptions over levels of cohorts, by fair sharing, and beside a large head for which backfilling keeps quota.

As `test_preemption_crashes`, with the queue's controllers killed before and after every single write. Here the order of
the admissions is judged, too: in each story a Workload waits that would use what is kept for another one, and that is
before it in the order of the queues. So the quota must still be kept after the restart.
"""

from __future__ import annotations

import asyncio

import pytest

from queue_manager.api import reasons
from queue_manager.simulation.kubelet import PodScript
from tests.local.queue.cluster import Cluster
from tests.simulation.crashes import (
    LONG,
    SHORT,
    Rules,
    Scenario,
    classes,
    crash_at_writes,
    hold,
    is_finished,
    release,
    runs,
    sampled,
    submit,
    waits_for,
)
from tests.simulation.test_fair_sharing import add_cohort, add_queue

RECLAIM = {"preemption": {"reclaimWithinCohort": "Any"}}
LOWER = {"preemption": {"withinClusterQueue": "LowerPriority"}}
STEADY = PodScript(ready_after=0.2, ends_after=25.0)
MEDIUM = PodScript(ready_after=0.2, ends_after=15.0, stops_within=1.5)
FAST, SLOW = (PodScript(ready_after=0.2, ends_after=10.0, stops_within=seconds) for seconds in (0.5, 2.5))  # to stop
SECOND_STOPS = 0.7  # s, after its eviction
NEXT_SECOND = 1.1  # s; reservations, and times in the queue, are compared by whole seconds
AGED_SECONDS = 3.1  # more than the headAge of BACKFILL, with a creation in whole seconds
SAMPLED_EVERY = 22  # these stories are longer than those of one ClusterQueue
BACKFILL = "backfill: {headAge: 2s}\n"
FINAL, INITIAL = (
    f"fairSharing: {{preemptionStrategies: [{strategy}]}}\n"
    for strategy in ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
)


async def one_after_the_other(c: Cluster, queue: str, **cpus: str) -> None:
    """These Jobs run, each with a later reservation than the one before it."""
    for name, cpu in cpus.items():
        await submit(c, name, cpu, "low", queue)
        await runs(c, name)
        await asyncio.sleep(NEXT_SECOND)


async def an_earlier_one_is_held(c: Cluster, queue: str) -> None:
    """Job `other` is pending, and before all that are submitted from now on; its LocalQueue is held."""
    await hold(c, queue)
    await submit(c, "other", "1", "low", queue)
    await asyncio.sleep(NEXT_SECOND)


async def two_levels(c: Cluster) -> None:
    """Cohort `left` has 2 cpus, cohort `right` has 1; ClusterQueue cq in a leaf below `left`, `beside` in `left`."""
    await c.queues("0", cohortName="leaf", **RECLAIM)
    await add_cohort(c, "root", "0")
    await add_cohort(c, "left", "2", parentName="root")
    await add_cohort(c, "leaf", "0", parentName="left")
    await add_cohort(c, "right", "1", parentName="root")
    await add_queue(c, "beside", "0", cohortName="left")
    await add_queue(c, "far", "0", cohortName="right")
    await classes(c)


async def a_leaf_reclaims_what_a_cohort_above_it_has_lent(c: Cluster) -> None:
    """`own` takes back both cpus of `left` from `far`; one is free before the other, and `beside` must not use it."""
    await two_levels(c)
    c.outcomes |= {"first": STEADY, "second": SLOW, "third": FAST, "own": SHORT, "other": SHORT}
    await one_after_the_other(c, "far", first="1", second="1", third="1")
    await an_earlier_one_is_held(c, "beside")
    await submit(c, "own", "2", "low")
    await waits_for(c, "own", reasons.WAITING_FOR_PREEMPTED)
    await release(c, "beside")


async def one_victim_stops_for_two_leaves(c: Cluster) -> None:
    """`wide` releases the quota for `one` and `two`, which are in two cohorts; `beside` must not use any of it."""
    await two_levels(c)
    await add_cohort(c, "leaf2", "0", parentName="left")
    await add_queue(c, "lq2", "0", cohortName="leaf2", **RECLAIM)
    c.outcomes |= {"first": STEADY, "wide": SLOW, "one": SHORT, "two": SHORT, "other": SHORT}
    await one_after_the_other(c, "far", first="1", wide="2")
    await an_earlier_one_is_held(c, "beside")
    await submit(c, "one", "1", "low")
    await submit(c, "two", "1", "low", "lq2")
    for job in ("one", "two"):
        await waits_for(c, job, reasons.WAITING_FOR_PREEMPTED)
    await release(c, "beside")


async def three_that_only_borrow(c: Cluster, cpu: str) -> None:
    """ClusterQueues cq, `modest` and `third` share the cpus of their cohort; only `modest` preempts."""
    await c.queues("0", cohortName="all")
    await add_cohort(c, "all", cpu)
    await add_queue(c, "modest", "0", cohortName="all", **RECLAIM)
    await add_queue(c, "third", "0", cohortName="all")
    await classes(c)


async def a_fair_share_of_two_victims(c: Cluster) -> None:
    """`fair` takes 2 of 5 cpus; one victim stops before the other, and `third` has a lower share than `modest`."""
    await three_that_only_borrow(c, "5")
    c.outcomes |= {"w": STEADY, "y": SLOW, "z": FAST, "fair": SHORT, "other": SHORT}
    await one_after_the_other(c, "lq", w="3", y="1", z="1")
    await an_earlier_one_is_held(c, "third")
    await submit(c, "fair", "2", "low", "modest")
    await waits_for(c, "fair", reasons.WAITING_FOR_PREEMPTED)
    await release(c, "third")


async def a_fair_share_by_the_initial_share(c: Cluster) -> None:
    """`fair` takes 3 of 4 cpus from a Workload of 3, which the other strategy does not allow."""
    await three_that_only_borrow(c, "4")
    c.outcomes |= {"a": STEADY, "big": SLOW, "fair": SHORT, "other": SHORT}
    await one_after_the_other(c, "lq", a="1", big="3")
    await an_earlier_one_is_held(c, "third")
    await submit(c, "fair", "3", "low", "modest")
    await waits_for(c, "fair", reasons.WAITING_FOR_PREEMPTED)
    await release(c, "third")


async def a_large_head_is_passed_by_the_short_only(c: Cluster) -> None:
    """`long` must pass `large` neither beside `first`, nor while `first` stops for `urgent`, nor after that."""
    await c.queues("2", **LOWER)
    await classes(c)
    first = PodScript(ready_after=0.2, ends_after=8.0, stops_within=1.5)
    c.outcomes |= {"first": first, "brief": SHORT, "urgent": SHORT, "large": SHORT, "long": LONG}
    await submit(c, "first", "1", "mid", longest=60)
    await runs(c, "first")
    await submit(c, "large", "2", "mid")
    await waits_for(c, "large", reasons.WAITING_FOR_QUOTA)
    await asyncio.sleep(AGED_SECONDS)
    await submit(c, "long", "1", "mid")
    await submit(c, "brief", "1", "mid", longest=10)
    await is_finished(c, "brief")
    await submit(c, "urgent", "2", "high")


async def nothing_is_preempted_for_what_a_large_head_waits_for(c: Cluster) -> None:
    """`large` of cq waits until `small` of `beside` ends; `late` could preempt `small`, and would delay `large`."""
    await c.queues("0", cohortName="all")
    await add_cohort(c, "all", "2")
    await add_queue(c, "beside", "0", cohortName="all", **LOWER)
    await classes(c)
    c.outcomes |= {"first": LONG, "small": PodScript(ready_after=0.2, ends_after=9.0), "large": SHORT, "late": SHORT}
    await submit(c, "first", "1", "mid", longest=60)
    await submit(c, "small", "1", "low", "beside", longest=60)
    await runs(c, "first", "small")
    await submit(c, "large", "2", "mid")
    await waits_for(c, "large", reasons.WAITING_FOR_QUOTA)
    await asyncio.sleep(AGED_SECONDS)
    await submit(c, "late", "1", "mid", "beside")


async def what_one_victim_leaves_over_is_no_excuse(c: Cluster) -> None:
    """`wide` will leave over what `other` needs; until then `other` must not use what `second` released for `pair`."""
    await c.queues("4", **LOWER)
    await c.local_queue("late", "cq")
    await classes(c)
    c.outcomes |= {"wide": MEDIUM, "first": MEDIUM, "second": FAST, "pair": SHORT, "single": SHORT, "other": SHORT}
    await an_earlier_one_is_held(c, "late")
    await one_after_the_other(c, "lq", wide="2", first="1", second="1")
    await submit(c, "pair", "2", "mid")
    await waits_for(c, "pair", reasons.WAITING_FOR_PREEMPTED)
    await submit(c, "single", "1", "mid", "late")
    await asyncio.sleep(SECOND_STOPS)
    await release(c, "late")


RECLAIMED, BY_SHARE = "InCohortReclamation", "InCohortFairSharing"
STORIES: dict[Scenario, Rules] = {
    a_leaf_reclaims_what_a_cohort_above_it_has_lent: Rules(
        quota=3,
        in_cohorts=True,
        admissions=("first", "second", "third", "own", "other", "second", "third"),
        preemptions=(f"second {RECLAIMED}", f"third {RECLAIMED}"),
    ),
    one_victim_stops_for_two_leaves: Rules(
        quota=3,
        in_cohorts=True,
        admissions=("first", "wide", "one", "two", "other", "wide"),
        preemptions=(f"wide {RECLAIMED}",),
    ),
    a_fair_share_of_two_victims: Rules(
        FINAL,
        quota=5,
        in_cohorts=True,
        admissions=("w", "y", "z", "fair", "other", "y", "z"),
        preemptions=(f"y {BY_SHARE}", f"z {BY_SHARE}"),
    ),
    a_fair_share_by_the_initial_share: Rules(
        INITIAL,
        quota=4,
        in_cohorts=True,
        admissions=("a", "big", "fair", "other", "big"),
        preemptions=(f"big {BY_SHARE}",),
    ),
    a_large_head_is_passed_by_the_short_only: Rules(
        BACKFILL,
        in_cohorts=True,
        admissions=("first", "brief", "urgent", "first", "large", "long"),
        preemptions=("first InClusterQueue",),
    ),
    nothing_is_preempted_for_what_a_large_head_waits_for: Rules(
        BACKFILL, in_cohorts=True, admissions=("first", "small", "large", "late")
    ),
    what_one_victim_leaves_over_is_no_excuse: Rules(
        quota=4,
        in_cohorts=True,
        admissions=("wide", "first", "second", "pair", "single", "other", "wide", "first", "second"),
        preemptions=("first InClusterQueue", "second InClusterQueue", "wide InClusterQueue"),
    ),
}
FIRST = dict(
    zip(STORIES, (9, 7, 1, 2, 0, 0, 0), strict=True)
)  # of the writes that are sampled: some while victims stop


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_crash_at_some_writes_of_a_story_in_cohorts_changes_nothing(story: Scenario) -> None:
    crash_at_writes(story, sampled(FIRST[story], SAMPLED_EVERY), STORIES[story])


@pytest.mark.exhaustive
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_crash_at_any_write_of_a_story_in_cohorts_changes_nothing(story: Scenario) -> None:
    crash_at_writes(story, rules=STORIES[story])
