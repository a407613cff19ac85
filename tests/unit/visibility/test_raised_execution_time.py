"""What is to be done about a Job that ran too long, before and after its maximum execution time has been raised."""

from __future__ import annotations

import pytest

from queue_manager.api import keys
from queue_manager.api.types import Workload
from queue_manager.visibility.deactivated_jobs import deactivated_jobs
from tests.unit.visibility.build import at, cond, job, wire, workload
from tests.unit.visibility.test_explain_record import explained

TOO_LONG = "DeactivatedDueToMaximumExecutionTimeExceeded"


def ran_too_long(limit: int | None, *runs: int, earlier: str = "Preempted", in_total: int = 0) -> Workload:
    """`limit`: that of now. `runs`: seconds until each eviction. `earlier`: the reason of all but the last."""
    whys = [*[earlier] * (len(runs) - 1), TOO_LONG]
    attempts = [
        {"start": wire(0), "end": wire(ran), "reason": why, "ranSeconds": ran if why == earlier else ran + 30}
        for ran, why in zip(runs, whys, strict=True)
    ]
    status = {"requeueHistory": {"attempts": attempts, "ranSeconds": in_total}}
    more = {} if limit is None else {"maximumExecutionTimeSeconds": limit}
    return workload(active=False, conditions=[cond("Evicted", reason=TOO_LONG)], status=status, **more)


@pytest.mark.parametrize(
    ("its", "ran", "now"),
    [
        (ran_too_long(600, 6), 6, "raised since: it may run for 600 s"),
        (ran_too_long(None, 6), 6, "removed since: it may run for any time"),
        (ran_too_long(600, 400, 100), 500, "raised since: it may run for 600 s"),
        (ran_too_long(600, 599, 9, earlier=TOO_LONG), 9, "raised since: it may run for 600 s"),
    ],
    ids=["raised", "removed", "several runs", "an earlier deactivation"],
)
def test_a_label_that_has_been_raised_is_no_next_step_again(its: Workload, ran: int, now: str) -> None:
    """What it exceeded is not recorded, only how long it ran: after the last activation, until the eviction."""
    found, [row] = explained(job(), its), deactivated_jobs([its], [], at(100))
    assert found.sentence == (
        f"It ran for {ran} s, longer than its maximum execution time at that time, so it is deactivated, "
        f"out of the queue. Its label has been {now}."
    )
    assert found.changes == ["it is reactivated (sluice reactivate j)"]
    assert found.next_command == "sluice reactivate j"
    assert row.action == "its maximum execution time is longer now: sluice reactivate j"


@pytest.mark.parametrize(
    "its",
    [ran_too_long(6, 6), ran_too_long(600, 400, 200), ran_too_long(600, *[60] * 9, 50, in_total=800)],
    ids=["one run", "several runs", "more runs than are recorded"],
)
def test_a_limit_that_may_be_the_exceeded_one_is_to_be_raised(its: Workload) -> None:
    found, [row] = explained(job(), its), deactivated_jobs([its], [], at(100))
    assert f"maximum execution time of {its.spec.maximum_execution_time_seconds} s" in found.sentence
    assert found.next_command.endswith(f"{keys.MAX_EXEC_TIME}=SECONDS")
    assert row.action.startswith(f"raise the Job's label {keys.MAX_EXEC_TIME}, then")
