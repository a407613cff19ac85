"""What `explain` says of running Workloads that are not preempted for a Job, and of policies that would not help."""

from __future__ import annotations

from typing import Any

from queue_manager.lifecycle.workload_settings import WorkloadSettings
from tests.unit.visibility.build import cluster_queue, job, workload
from tests.unit.visibility.test_explain_record import explained, holding


def preempting(**policies: Any) -> Any:
    return cluster_queue(cohortName="all", namespaceSelector={}, preemption=policies)


def test_a_threshold_that_excludes_all_candidates_is_named() -> None:
    """The Workload has to borrow; all that runs in the lender has a lower priority, above the threshold."""
    limited = {"policy": "LowerPriority", "maxPriorityThreshold": 20}
    above = preempting(reclaimWithinCohort="LowerPriority", borrowWithinCohort=limited)
    other = cluster_queue("other", cohortName="all", namespaceSelector={})
    running = [holding("r", "8", cluster_queue="other", priority=50)]
    waiting = workload(requests={"cpu": "6"}, priority=100)
    found = explained(job(), waiting, running, above=above, cluster_queues=[other])
    [check] = found.preemptions
    assert (check.verdict, check.candidates) == ("AboveThreshold", 0)
    assert check.text.endswith("maxPriorityThreshold 20 excludes them")
    advice = "an admin allows it to preempt (borrowWithinCohort: LowerPriority without maxPriorityThreshold of"
    assert any(change.startswith(advice) for change in found.changes)


def test_fair_sharing_that_protects_all_candidates_is_named() -> None:
    """Both queues would borrow: the share of the pending one would be the larger one."""
    above = preempting(reclaimWithinCohort="Any")
    others = [cluster_queue(name, cohortName="all", namespaceSelector={}) for name in ("other", "idle")]
    running = [holding(f"r{i}", "2", cluster_queue="other") for i in range(3)]
    running += [holding(f"own{i}", "2") for i in range(3)]
    fair = WorkloadSettings(fair_sharing=("LessThanOrEqualToFinalShare", "LessThanInitialShare"))
    waiting = workload(requests={"cpu": "2"}, priority=1)
    found = explained(job(), waiting, running, above=above, cluster_queues=others, settings=fair)
    assert [(c.cluster_queue, c.verdict, c.candidates) for c in found.preemptions] == [
        ("cq", "PolicyNever", 0),
        ("other", "Shares", 0),
    ]


def test_no_policy_is_advised_under_which_it_would_not_start() -> None:
    """What runs has the same priority and is older, so no value of withinClusterQueue lets it be stopped."""
    found = explained(job(), workload(requests={"cpu": "3"}), [holding("old", "4")])
    assert found.changes == ["running Workloads release 3 cpu of flavor f"]


def test_who_may_preempt_a_part_of_it_needs_less_to_be_released() -> None:
    """One cpu of `high` suffices: `low` is stopped then."""
    above = cluster_queue(namespaceSelector={}, preemption={"withinClusterQueue": "LowerPriority"})
    running = [holding("low", "2"), holding("high", "2", priority=9)]
    found = explained(job(), workload(requests={"cpu": "3"}, priority=5), running, above=above)
    assert found.changes == [
        "running Workloads release 3 cpu of flavor f, or less if it can then preempt the rest",
        "it gets a priority above 9",
    ]
    none = explained(job(), workload(requests={"cpu": "3"}), running, above=above)
    assert none.changes[0] == "running Workloads release 3 cpu of flavor f"
