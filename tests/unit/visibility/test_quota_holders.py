"""Whom `explain` names as the holders of the quota that a Job waits for."""

from __future__ import annotations

from queue_manager.visibility.scheduler_judgement import ClusterObjects
from tests.unit.visibility.build import cluster_queue, flavor, job, local_queue, workload
from tests.unit.visibility.test_explain_record import NAMESPACES, explained, holding


def test_a_deleted_job_that_still_holds_quota_is_marked() -> None:
    """A new Job has its name."""
    old = holding("j", "4", workload="old", deleted=50)
    found = explained(job(), workload(requests={"cpu": "3"}), [old])
    assert [(row.jobs, row.stopping) for row in found.holders] == [(["default/j (deleted)"], 1)]


def test_a_lender_holds_what_it_uses_beyond_what_it_does_not_lend() -> None:
    """It lends one of its 6 cpus, so the end of what runs there releases nothing unless it uses the sixth."""
    quota = {"name": "cpu", "nominalQuota": "6", "lendingLimit": "1"}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    own = cluster_queue(cohortName="c", namespaceSelector={})
    lender = cluster_queue("lender", cohortName="c", namespaceSelector={}, resourceGroups=[group])
    for used, holders in (("5", ["cq"]), ("6", ["cq", "lender"])):
        waits = workload(requests={"cpu": "4"})
        objects = ClusterObjects(
            workloads=[waits, holding("r", "4"), holding("lent", used, cluster_queue="lender")],
            local_queues=[local_queue(), local_queue("lender", cluster_queue="lender")],
            cluster_queues=[own, lender],
            flavors=[flavor()],
            namespaces=NAMESPACES,
        )
        found = explained(job(), waits, above=own, objects=objects)
        assert [row.cluster_queue for row in found.holders] == holders
