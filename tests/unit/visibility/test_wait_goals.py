"""How waiting for a Job ends, for each goal and state."""

from __future__ import annotations

import pytest

from queue_manager.visibility.job_states import JobState
from queue_manager.visibility.wait_goals import Goal, Result, result_of
from tests.unit.visibility.build import job, wire

ALL = tuple(Goal)
TABLE: list[tuple[JobState, tuple[Result | None, Result | None, Result | None]]] = [
    (JobState.SUCCEEDED, (Result.REACHED, Result.REACHED, Result.REACHED)),
    (JobState.FAILED, (Result.FAILED, Result.FAILED, Result.FAILED)),
    (JobState.RUNNING, (None, Result.REACHED, Result.REACHED)),
    (JobState.STARTING, (None, Result.REACHED, None)),
    (JobState.REFUSED, (Result.NEVER, Result.NEVER, Result.NEVER)),
    (JobState.SUSPENDED, (Result.NEVER, Result.NEVER, Result.NEVER)),
    (JobState.DEACTIVATED, (Result.STOPPED, Result.STOPPED, Result.STOPPED)),
    *((state, (None, None, None)) for state in (JobState.PENDING, JobState.RESERVED, JobState.BACKOFF)),
    *((state, (None, None, None)) for state in (JobState.EVICTED, JobState.DELETING)),
]


@pytest.mark.parametrize(("state", "results"), TABLE, ids=[state for state, _ in TABLE])
def test_each_state_ends_waiting_or_not(state: JobState, results: tuple[Result | None, ...]) -> None:
    assert tuple(result_of(job(), state, goal, never=False) for goal in ALL) == results


def test_a_failed_job_that_ran_has_reached_its_start_but_not_its_end() -> None:
    ran = job(status={"startTime": wire(5)})
    assert [result_of(ran, JobState.FAILED, goal, never=False) for goal in ALL] == ["failed", "reached", "reached"]


def test_a_failed_job_without_a_started_pod_was_admitted_only() -> None:
    its = job(status={"startTime": wire(5)})
    results = [result_of(its, JobState.FAILED, goal, never=False, has_run=False) for goal in ALL]
    assert results == ["failed", "reached", "failed"]


def test_a_job_between_two_tries_was_admitted() -> None:
    retried = job(suspend=False, status={"failed": 1})
    assert [result_of(retried, JobState.BACKOFF, goal, never=False) for goal in ALL] == [None, "reached", None]


def test_an_obstacle_that_stays_ends_waiting_only_while_the_job_is_pending() -> None:
    assert result_of(job(), JobState.PENDING, Goal.FINISHED, never=True) == Result.NEVER
    assert result_of(job(), JobState.RUNNING, Goal.FINISHED, never=True) is None
