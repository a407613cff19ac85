"""Suspend, resume, and startTime."""

from __future__ import annotations

from typing import Any

import pytest

from job_controller.sync_steps import DeletePods
from tests.unit.job_controller.build import (
    at,
    condition_texts,
    created,
    deleted,
    events,
    final,
    job,
    pod,
    released,
    run,
    statuses,
)

SUSPENDED: dict[str, Any] = {
    "type": "Suspended",
    "status": "True",
    "reason": "JobSuspended",
    "message": "Job suspended",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def test_job_created_suspended_has_the_condition_and_no_start_time() -> None:
    decision = run(job(suspend=True, started=None))
    status = final(decision)
    assert condition_texts(status) == ["Suspended=True/JobSuspended Job suspended"]
    assert (status.start_time, status.active, status.terminating, status.ready) == (None, 0, 0, 0)
    assert events(decision) == ["Normal Suspended Job suspended"]
    assert created(decision) == []


def test_suspending_deletes_all_active_pods_without_counting_them() -> None:
    decision = run(job(suspend=True, parallelism=3, completions=3), pod("a"), pod("b", "Pending"), pod("c", "Failed"))
    step = decision.steps[0]
    assert isinstance(step, DeletePods)
    assert step.release
    assert sorted(deleted(decision)) == ["a", "b"]
    assert released(decision) == ["c"]
    status = final(decision)
    assert (status.failed, status.active, status.terminating, status.start_time) == (1, 0, 2, None)
    assert condition_texts(status) == ["Suspended=True/JobSuspended Job suspended"]


def test_job_is_not_suspended_while_a_pod_could_not_be_deleted() -> None:
    status = final(run(job(suspend=True, parallelism=2, completions=2), pod("a"), pods_done=True))
    assert status.conditions == ()
    assert (status.active, status.start_time) == (1, at(0))


def test_suspended_job_without_changes_is_not_written() -> None:
    status = {"conditions": [SUSPENDED], "terminating": 0, "ready": 0, "uncountedTerminatedPods": {}}
    assert run(job(suspend=True, started=None, status=status)).steps == ()


def test_resuming_starts_the_clock_anew() -> None:
    decision = run(job(started=None, status={"conditions": [SUSPENDED]}, active_deadline_seconds=5), now=100.5)
    status = final(decision)
    assert condition_texts(status) == ["Suspended=False/JobResumed Job resumed"]
    assert status.start_time == status.conditions[0].last_transition_time == at(100)
    assert events(decision) == ["Normal Resumed Job resumed"]
    assert created(decision) == [None]
    assert decision.requeue_after == 4.5


def test_a_deleted_job_that_is_resumed_keeps_its_start_time() -> None:
    """Suspended stays True on a deleted Job, so every sync would change startTime, which the API server rejects."""
    status = {"conditions": [SUSPENDED], "terminating": 0, "ready": 0, "uncountedTerminatedPods": {}}
    assert run(job(deleted=True, started=3, status=status), now=7).steps == ()


def test_start_time_left_from_before_the_suspension_does_not_meet_the_deadline() -> None:
    decision = run(job(started=0, status={"conditions": [SUSPENDED]}, active_deadline_seconds=5), now=100)
    assert condition_texts(final(decision)) == ["Suspended=False/JobResumed Job resumed"]


def test_deadline_does_not_run_while_suspended() -> None:
    decision = run(job(suspend=True, started=0, active_deadline_seconds=5), now=100)
    assert condition_texts(final(decision)) == ["Suspended=True/JobSuspended Job suspended"]
    assert decision.requeue_after is None


def test_suspended_job_without_work_completes() -> None:
    decision = run(job(suspend=True, completions=0, started=None))
    status = final(decision)
    assert [c.type for c in status.conditions] == ["SuccessCriteriaMet", "Complete"]
    assert status.start_time is None
    assert events(decision) == ["Normal Completed Job completed"]


@pytest.mark.parametrize("limit", [0, 1])
def test_job_that_ends_while_suspended_gets_a_start_time(limit: int) -> None:
    """The API server rejects a finished Job without startTime."""
    status = {"conditions": [SUSPENDED], "failed": 2}
    decision = run(job(suspend=True, started=None, backoff_limit=limit, status=status), now=7)
    assert [c.type for c in final(decision).conditions] == ["Suspended", "FailureTarget", "Failed"]
    assert final(decision).start_time == at(7)


def test_job_that_ends_at_its_resumption_is_resumed_all_the_same() -> None:
    status = {"conditions": [SUSPENDED], "failed": 2}
    decision = run(job(started=None, backoff_limit=1, status=status), now=7)
    first = statuses(decision)[0]
    assert [(c.type, c.status) for c in first.conditions] == [("Suspended", "False"), ("FailureTarget", "True")]
    assert events(decision)[0] == "Normal Resumed Job resumed"


def test_resuming_a_job_that_was_never_reported_suspended_is_no_event() -> None:
    assert events(run(job(started=None))) == []
