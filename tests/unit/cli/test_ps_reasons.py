"""The reason of `sluice ps`: the cause of the pods first, once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from queue_manager.api import messages
from queue_manager.cli import ps
from queue_manager.cli.time_texts import deadline
from queue_manager.visibility.job_states import JobRow, JobState, job_row
from tests.unit.visibility.build import at, job

BOOM = "exit 3: boom"
LIMIT = "DeactivatedDueToRequeuingLimitExceeded"
EVICTED = f"{messages.pods_ready_timeout('ns/j')}; {BOOM}"


def row(reason: str, message: str, cause: str = BOOM, **more: object) -> JobRow:
    plain = msgspec.structs.replace(job_row(job(), None, at(0)), state=JobState.STARTING)
    return msgspec.structs.replace(plain, reason=reason, message=message, cause=cause, budget_attempts=3, **more)


@pytest.mark.parametrize(
    ("its", "text"),
    [
        (row("WaitForStart", messages.WAIT_FOR_START_MESSAGE), BOOM),
        (row("", ""), BOOM),
        (row("PodsReadyTimeout", EVICTED), f"{BOOM}; its pods were not ready in time"),
        (row("PendingEvaluation", EVICTED), f"{BOOM}; its pods were not ready in time"),
        (row(LIMIT, "given up"), f"{BOOM}; gave up after 3 attempts"),
        (row(LIMIT, "given up", cause=""), "its pods were not ready in time; gave up after 3 attempts"),
        (row("BackoffLimitExceeded", "Job has reached the specified backoff limit"), f"{BOOM}; BackoffLimitExceeded"),
        (row("PodsReadyTimeout", "x", cause=""), "PodsReadyTimeout: x"),
    ],
)
def test_the_cause_is_first_and_said_once(its: JobRow, text: str) -> None:
    assert ps.reason(its) == text


def test_a_backoff_ends_at_a_time() -> None:
    later = datetime.now(UTC) + timedelta(days=2)
    due, text = ps.reason(row("PodsReadyTimeout", EVICTED, retry_at=later)).rsplit("; ", 1)[1].split(", in ")
    assert due == f"retry at {deadline(later, datetime.now(UTC)).partition(', ')[0]}"
    assert text.startswith(("1d", "2d"))


def test_a_backoff_that_is_over_has_no_time() -> None:
    assert ps.reason(row("PodsReadyTimeout", EVICTED, retry_at=at(0))).endswith(", now")


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RESERVED])
def test_the_cause_of_an_attempt_that_is_over_comes_last_and_is_marked(state: JobState) -> None:
    assert ps.reason(row("WaitingForQuota", "x", state=state)) == f"WaitingForQuota: x; last attempt: {BOOM}"
    assert ps.reason(row("", "", state=state)) == f"last attempt: {BOOM}"
