"""What `explain` says of a limit that keeps a Workload from using idle quota."""

from __future__ import annotations

import pytest

from tests.unit.queueing import builders
from tests.unit.queueing.builders import cohort
from tests.unit.visibility.build import cluster_queue, job, workload
from tests.unit.visibility.test_explain_record import explained, holding


@pytest.mark.parametrize(
    ("cpu", "sentence", "change"),
    [
        (
            "1",
            "It requests 1 cpu, and ClusterQueue cq has 0 cpu of flavor f free, because of a borrowing limit.",
            "an admin raises the borrowing limit of Cohort low",
        ),
        (
            "3",
            "It requests 3 cpu, and ClusterQueue cq can never use more than 2 cpu of flavor f.",
            "an admin raises the borrowing limit of Cohort low",
        ),
    ],
    ids=["it waits", "it can never fit"],
)
def test_the_limit_of_a_cohort_above_is_named(cpu: str, sentence: str, change: str) -> None:
    """Of the four cpus of Cohort top the queue may use two, and does."""
    top = cluster_queue("lender", cohortName="top", quotas={"f": {"cpu": "4"}})
    above = cluster_queue(cohortName="low", namespaceSelector={}, quotas={"f": {"cpu": "0"}})
    low = cohort("low", "top", {"f": {"cpu": {"nominalQuota": "0", "borrowingLimit": "2"}}})
    running = [holding("r", "2")]
    around = {"above": above, "cluster_queues": [top], "cohorts": [low, cohort("top")]}
    found = explained(job(), workload(requests={"cpu": cpu}), running, **around)
    assert (found.sentence, change in found.changes) == (sentence, True)


@pytest.mark.parametrize(
    ("cpu", "changes"),
    [
        ("3", ["an admin raises the lending limit of ClusterQueue lender"]),
        ("7", []),
    ],
    ids=["all quota suffices", "all quota is less"],
)
def test_a_lending_limit_that_lets_it_never_fit_is_named(cpu: str, changes: list[str]) -> None:
    """The other ClusterQueue lends none of its four cpus, so of six cpus the queue may use two."""
    quotas = {"f": {"cpu": {"nominalQuota": "4", "lendingLimit": "0"}}}
    lender = builders.cluster_queue("lender", cohortName="all", quotas=quotas)
    above = cluster_queue(cohortName="all", namespaceSelector={}, quotas={"f": {"cpu": "2"}})
    found = explained(job(), workload(requests={"cpu": cpu}), above=above, cluster_queues=[lender])
    assert [change for change in found.changes if "limit" in change] == changes
