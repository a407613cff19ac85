"""The attempts that `sluice show` lists: from records in the status, from Events, the newest from conditions."""

from __future__ import annotations

from datetime import datetime

import pytest

from queue_manager.api.types import Workload
from queue_manager.visibility.attempt_counts import count_attempts, count_budget_attempts
from queue_manager.visibility.attempt_rows import attempt_rows
from tests.unit.visibility.build import (
    ADMISSION,
    LIMIT,
    TIMED_OUT,
    Tree,
    admitted,
    at,
    cond,
    event,
    evictions,
    requeue,
    wire,
    workload,
)

HOLDS: Tree = {"admission": ADMISSION}


def rows(its: Workload, *events: tuple[str, float]) -> list[tuple[int, datetime | None, datetime | None, str]]:
    found = attempt_rows(its, [event(reason, seconds=seconds) for reason, seconds in events])
    return [(row.number, row.admitted, row.ended, row.cause) for row in found]


ONCE = evictions(("PodsReadyTimeout", "WaitForStart", 1))


def test_each_attempt_is_listed_and_the_newest_from_the_conditions() -> None:
    its = workload(conditions=admitted(40), status={**ONCE, **HOLDS})
    events = [("Admitted", 0), ("EvictedDueToPodsReadyTimeout", 30), ("Admitted", 40)]
    assert rows(its, *events) == [(1, at(0), at(30), "PodsReadyTimeout"), (2, at(40), None, "")]


def test_attempts_whose_events_expired_are_counted_and_not_listed() -> None:
    its = workload(conditions=admitted(4000), status={**evictions(("PodsReadyTimeout", "WaitForStart", 7)), **HOLDS})
    assert rows(its) == [(8, at(4000), None, "")]


def test_an_eviction_without_event_yet_is_listed() -> None:
    assert rows(workload(conditions=[TIMED_OUT], status=ONCE), ("Admitted", 0)) == [
        (1, at(0), at(30), "PodsReadyTimeout")
    ]


def test_each_attempt_has_the_time_of_the_next_one() -> None:
    its = workload(conditions=[TIMED_OUT], status={**evictions(("PodsReadyTimeout", "", 2)), **requeue(2, 90)})
    events = [
        event("Admitted", seconds=0),
        event("EvictedDueToPodsReadyTimeout", seconds=5),
        event("Admitted", seconds=9),
    ]
    assert [row.next_retry for row in attempt_rows(its, events)] == [at(9), at(90)]


def test_the_last_ten_attempts_are_listed() -> None:
    its = workload(conditions=admitted(1000), status={**evictions(("PodsReadyTimeout", "", 12)), **HOLDS})
    events = [pair for i in range(12) for pair in (("Admitted", i * 10), ("EvictedDueToPodsReadyTimeout", i * 10 + 5))]
    found = rows(its, *events)
    assert [number for number, *_ in found] == list(range(4, 14))


def test_recorded_attempts_take_precedence_over_events() -> None:
    record = {
        "requeueHistory": {
            "attempts": [
                {
                    "start": wire(0),
                    "end": wire(30),
                    "reason": "PodsReadyTimeout",
                    "cause": "Unschedulable",
                    "retryAt": wire(90),
                }
            ]
        }
    }
    its = workload(conditions=admitted(95), status={**evictions(("PodsReadyTimeout", "", 4)), **record, **HOLDS})
    assert rows(its, ("Admitted", 1)) == [
        (4, at(0), at(30), "PodsReadyTimeout (Unschedulable)"),
        (5, at(95), None, ""),
    ]


@pytest.mark.parametrize(
    ("active", "requeued", "retry"),
    [(False, [], None), (True, [cond("Requeued", reason="Reactivated", seconds=50)], 50), (True, [], 90)],
)
def test_a_deactivation_in_the_backoff_is_no_attempt_and_ends_the_wait(
    active: bool, requeued: list[Tree], retry: float | None
) -> None:
    tried = {"start": wire(0), "end": wire(30), "reason": "PodsReadyTimeout", "retryAt": wire(90)}
    counts = evictions(("PodsReadyTimeout", "WaitForStart", 1), ("Deactivated", "RequeuingLimitExceeded", 1))
    its = workload(
        active=active,
        conditions=[cond("Evicted", reason=LIMIT, seconds=40), *requeued],
        status={**counts, "requeueHistory": {"attempts": [tried]}},
    )
    (row,) = attempt_rows(its, [])
    assert row.number == 1
    assert row.next_retry == (None if retry is None else at(retry))


def test_no_attempt_follows_the_end_of_the_job() -> None:
    """The Job failed while its Workload was evicted."""
    tried = {"start": wire(0), "end": wire(30), "reason": "PodsReadyTimeout", "retryAt": wire(32)}
    ended = [cond("Evicted", reason="PodsReadyTimeout", seconds=30), cond("Finished", reason="Failed", seconds=30)]
    its = workload(conditions=ended, status={"requeueHistory": {"attempts": [tried]}})
    assert [row.next_retry for row in attempt_rows(its, [])] == [None]


def test_a_job_that_ends_before_its_eviction_has_stopped_it_ended_its_attempt() -> None:
    tried = {"start": wire(0), "end": wire(30), "reason": "PodsReadyTimeout", "podCause": "", "retryAt": wire(32)}
    ended = [cond("Evicted", reason="PodsReadyTimeout", seconds=30), cond("Finished", reason="Failed", seconds=30)]
    history = {"attempts": [tried], "podCause": "exit 3: boom"}
    its = workload(conditions=[*admitted(0), *ended], status={"requeueHistory": history, **HOLDS})
    [row] = attempt_rows(its, [])
    assert (row.ended, row.cause, row.pod_cause, row.next_retry) == (at(30), "Failed", "exit 3: boom", None)


def test_an_early_retry_has_its_actual_time() -> None:
    tried = {"start": wire(0), "end": wire(30), "reason": "PodsReadyTimeout", "retryAt": wire(90)}
    counts = evictions(("PodsReadyTimeout", "WaitForStart", 1))
    its = workload(conditions=admitted(50), status={**counts, "requeueHistory": {"attempts": [tried]}, **HOLDS})
    assert [row.next_retry for row in attempt_rows(its, [])] == [at(50), None]


def test_the_end_of_the_job_ends_its_last_attempt() -> None:
    its = workload(conditions=[*admitted(40), cond("Finished", reason="Succeeded", seconds=50)], status=HOLDS)
    assert rows(its) == [(1, at(40), at(50), "Succeeded")]


def test_events_of_an_earlier_workload_of_the_name_are_ignored() -> None:
    assert attempt_rows(workload(), [event("Admitted", uid="another")]) == []


def test_an_attempt_lasts_until_its_quota_is_released() -> None:
    tried = {"start": wire(0), "end": wire(30), "reason": "Preempted", "cause": "", "retryAt": wire(32)}
    stops = workload(
        conditions=[*admitted(0), cond("Evicted", reason="Preempted", seconds=30)],
        status={"requeueHistory": {"attempts": [tried]}, **HOLDS},
    )
    assert rows(stops) == [(1, at(0), None, "Preempted")]
    released = workload(
        conditions=[cond("Admitted", "False", seconds=120), cond("Evicted", reason="Preempted", seconds=30)],
        status={"requeueHistory": {"attempts": [{**tried, "ranSeconds": 120}]}},
    )
    assert rows(released) == [(1, at(0), at(120), "Preempted")]


def test_deactivations_by_a_user_end_attempts_and_budgets() -> None:
    tries = [{"start": wire(start), "end": wire(start + 9), "reason": "Deactivated"} for start in (0, 20)]
    status = {**evictions(("Deactivated", "", 2)), "requeueHistory": {"attempts": tries}}
    its = workload(active=False, conditions=[cond("Evicted", reason="Deactivated", seconds=29)], status=status)
    assert (count_attempts(its), count_budget_attempts(its)) == (2, 1)
