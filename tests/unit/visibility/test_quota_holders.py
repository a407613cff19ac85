"""Whom `explain` names as the holders of the quota that a Job waits for."""

from __future__ import annotations

from tests.unit.visibility.build import job, workload
from tests.unit.visibility.test_explain_record import explained, holding


def test_a_deleted_job_that_still_holds_quota_is_marked() -> None:
    """A new Job has its name."""
    old = holding("j", "4", workload="old", deleted=50)
    found = explained(job(), workload(requests={"cpu": "3"}), [old])
    assert [(row.jobs, row.stopping) for row in found.holders] == [(["default/j (deleted)"], 1)]
