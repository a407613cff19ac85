"""What `explain` says to a Workload that waits for quota: when enough is released, which start
backfilling promises, or why neither is known.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from queue_manager.api.types import Workload
from queue_manager.cli.explain import lines
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduling.backfill import BackfillRules
from queue_manager.visibility.released_quota_times import KEPT, STOPPING, UNDECLARED
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.unit.visibility.build import at, cluster_queue, flavor, job, local_queue, workload
from tests.unit.visibility.test_explain_record import NAMESPACES, explained, holding

RUNS_LONG = {"maximumExecutionTimeSeconds": 900}


@pytest.mark.parametrize(
    ("running", "seconds", "by", "text"),
    [
        pytest.param(
            [holding("r", "3", **RUNS_LONG), holding("s", "1", maximumExecutionTimeSeconds=300)],
            100,
            900,
            "when default/r has to end, unless others before it take it",
            id="the last one that has to end",
        ),
        pytest.param(
            [holding("r", "2", **RUNS_LONG), holding("s", "2")],
            100,
            900,
            "when default/r has to end, unless others before it take it",
            id="one declares nothing and need not end",
        ),
        pytest.param([holding("r", "4")], 100, None, UNDECLARED, id="not declared"),
        pytest.param([holding("r", "4", **RUNS_LONG)], 950, None, STOPPING, id="overdue"),
    ],
)
def test_a_workload_that_waits_for_quota_is_told_when_enough_is_released(
    running: list[Workload], seconds: float, by: int | None, text: str
) -> None:
    found = explained(job(), workload(requests={"cpu": "2"}), running, seconds)
    assert (found.released_by, found.release) == (at(by) if by is not None else None, text)
    shown = dict(lines(found, at(seconds)))["released"]
    assert bool(shown) == (by is not None), "to one that was not preempted nothing is said if it is not known"


def test_nothing_is_said_of_released_quota_to_one_that_does_not_wait_for_it() -> None:
    """It can never fit; or backfilling promises a start."""
    assert explained(job(), workload(requests={"cpu": "99"}), [holding("r", "4", **RUNS_LONG)]).release == ""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    promised = explained(job(), workload(requests={"cpu": "2"}), [holding("r", "4", **RUNS_LONG)], settings=keeps)
    assert (promised.starts_by, promised.release) == (at(900), "")


def test_quota_that_is_kept_for_a_preemptor_is_not_announced_to_others() -> None:
    """The one that runs is being stopped for `first`, which has the higher priority."""
    above = cluster_queue(namespaceSelector={}, preemption={"withinClusterQueue": "LowerPriority"})
    first = workload("first", requests={"cpu": "4"}, priority=9)
    victim = holding("r", "4", **RUNS_LONG)
    found = explained(job(), workload(requests={"cpu": "2"}, priority=0), [first, victim], above=above)
    assert (found.released_by, found.release) == (None, KEPT)


def test_nothing_is_promised_to_a_head_behind_a_preemptor() -> None:
    """Backfilling is on, and the quota that the victim releases is kept for the Workload of high priority."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    above = cluster_queue(preemption={"withinClusterQueue": "LowerPriority"}, namespaceSelector={})
    preemptor = workload("high", priority=10, requests={"cpu": "4"})
    found = explained(
        job(), workload(requests={"cpu": "2"}), [holding("r", "4"), preemptor], above=above, settings=keeps
    )
    assert found.position is not None
    assert found.position.cluster_queue == 2
    assert (found.kept_for_it, found.starts_by) == (False, None)
    assert "kept for it" not in found.sentence


@pytest.mark.parametrize(("created", "is_first"), [(20, True), (10, False)], ids=["the older head", "the younger one"])
def test_of_two_heads_that_share_quota_the_first_has_a_promise(created: float, is_first: bool) -> None:
    """What is released goes to the older head of the cohort, although its ClusterQueue borrows for it."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    queues = [
        cluster_queue(name, cohortName="c", namespaceSelector={}, quotas={"f": {"cpu": "2"}})
        for name in ("cq", "other")
    ]
    other = workload("o", queueName="o", created=created, requests={"cpu": "2"})
    waits = workload(created=15, requests={"cpu": "2"})
    objects = ClusterObjects(
        workloads=[waits, other, holding("r", "4", **RUNS_LONG)],
        local_queues=[local_queue(), local_queue("o", cluster_queue="other")],
        cluster_queues=queues,
        cohorts=(),
        flavors=[flavor()],
        namespaces=NAMESPACES,
    )
    found = explained(job(), waits, above=queues[0], objects=objects, settings=keeps)
    assert (found.kept_for_it, found.starts_by) == (is_first, at(900) if is_first else None)
    assert ("kept for it" in found.sentence, found.release != "") == (is_first, not is_first)


def test_the_end_of_what_is_being_stopped_is_not_given_as_a_time() -> None:
    """Its pods end in their own time, so the head cannot be promised to start now."""
    keeps = WorkloadSettings(backfill=BackfillRules(timedelta(seconds=60)))
    stopping = holding("r", "4", maximumExecutionTimeSeconds=10)
    found = explained(job(), workload(requests={"cpu": "2"}), [stopping], settings=keeps)
    assert (found.kept_for_it, found.starts_by) == (True, None)
