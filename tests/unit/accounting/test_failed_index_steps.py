"""The failed indexes that ended a Job, in the history."""

from __future__ import annotations

import msgspec
import pytest

from job_controller.model import Job
from queue_manager.accounting.failed_index_steps import MAX_CHARACTERS, failed_indexes_message, recorded_indexes
from queue_manager.accounting.job_summary import cause_and_end, summary
from queue_manager.accounting.record_types import StepKind
from tests.unit.accounting.history_samples import admitted, at, pod, step
from tests.unit.accounting.history_samples import job as record

FAILED = pod("p2", seconds=40, name="train-2-aaaaa", phase="Failed", exit_code=1, message="exit 1: boom")
RETRIED = pod("p1", seconds=50, name="train-1-bbbbb", phase="Failed", exit_code=4, message="exit 4: busy")


def job(failed: str) -> Job:
    tree = {"spec": {"completions": 10_000, "template": {}}, "status": {"failedIndexes": failed}}
    return msgspec.convert(tree, Job)


@pytest.mark.parametrize(
    ("failed", "reason", "message"),
    [
        ("2", "FailedIndexes", "index 2 failed"),
        ("1,4-6", "MaxFailedIndexesExceeded", "indexes 1,4-6 failed"),
        ("2", "PodFailurePolicy", ""),
        ("", "FailedIndexes", ""),
    ],
)
def test_the_step_names_the_indexes_that_ended_the_job(failed: str, reason: str, message: str) -> None:
    assert failed_indexes_message(job(failed), reason) == message


def test_of_very_many_indexes_the_first_are_kept() -> None:
    message = failed_indexes_message(job(",".join(map(str, range(0, 1000, 2)))), "FailedIndexes")
    assert len(message) < MAX_CHARACTERS + 40
    known = recorded_indexes(step(StepKind.FINISHED, 60, 0, reason="FailedIndexes", message=message))
    assert known is not None
    assert known.known.intervals == [(index, index) for index in range(0, 2 * len(known.known), 2)]
    assert len(known.known) > 100
    assert known.text == "500 indexes failed"


@pytest.mark.parametrize(
    ("message", "cause", "code", "shown"),
    [
        ("index 2 failed", "exit 1: boom", 1, "index 2 failed: exit 1: boom; FailedIndexes"),
        ("indexes 2,4 failed", "exit 1: boom", 1, "indexes 2,4 failed, one with exit 1: boom; FailedIndexes"),
        ("index 3 failed", "FailedIndexes: index 3 failed", None, "FailedIndexes: index 3 failed"),
        # as an older Sluice recorded it
        ("Job has failed indexes", "exit 4: busy", 4, "exit 4: busy; FailedIndexes"),
    ],
)
def test_the_pods_of_the_failed_indexes_are_the_cause(message: str, cause: str, code: int | None, shown: str) -> None:
    end = step(StepKind.FINISHED, 60, 0, reason="FailedIndexes", message=message)
    found = summary(record(), (admitted(10), end), (FAILED, RETRIED), at(100))
    assert (found.cause, found.exit_code, cause_and_end(found)) == (cause, code, shown)
