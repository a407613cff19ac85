"""Conditions of a Job: which entry is read, and which fields an update keeps."""

from __future__ import annotations

import pytest

from job_controller.conditions import find, finished, put
from job_controller.model import Condition, JobStatus
from tests.unit.job_controller.build import at


def said(type: str, status: str = "True", second: float | None = 1, text: str = "m") -> Condition:
    time = None if second is None else at(second)
    return Condition(type, status, reason="R", message=text, last_probe_time=time, last_transition_time=time)


OTHER = said("Other")


def test_equal_condition_changes_nothing() -> None:
    before = (OTHER, said("Suspended"))
    assert put(before, "Suspended", "True", "R", "m", at(9)) is before


@pytest.mark.parametrize(
    ("old", "since"),
    [
        (said("Suspended", "True", text="old words"), 1),
        (said("Suspended", "True", None, text="old words"), 9),
        (said("Suspended", "False"), 9),
        (said("Suspended", "Unknown", text="old words"), 9),
    ],
)
def test_the_transition_time_moves_with_the_status_alone(old: Condition, since: float) -> None:
    changed = put((old, OTHER), "Suspended", "True", "R", "m", at(9))
    new = Condition("Suspended", "True", reason="R", message="m", last_probe_time=at(9), last_transition_time=at(since))
    assert changed == (new, OTHER)


@pytest.mark.parametrize(("reason", "message"), [("New", "m"), ("R", "new")])
def test_other_reason_or_message_is_written(reason: str, message: str) -> None:
    [changed] = put((said("Suspended"),), "Suspended", "True", reason, message, at(9))
    assert (changed.reason, changed.message, changed.last_transition_time) == (reason, message, at(1))


def test_a_condition_that_is_not_there_comes_last() -> None:
    assert [c.type for c in put((OTHER,), "Suspended", "True", "R", "m", at(9))] == ["Other", "Suspended"]


def test_of_several_of_one_type_a_true_one_counts_and_is_the_one_that_changes() -> None:
    doubled = (said("X", "False"), said("X", "True"), said("X", "Unknown"))
    assert find(doubled, "X") is doubled[1]
    assert find(doubled[::2], "X") is doubled[0]
    assert find((OTHER,), "X") is None
    changed = put(doubled, "X", "True", "R", "new", at(9))
    assert [(c.status, c.message) for c in changed] == [("False", "m"), ("True", "new"), ("Unknown", "m")]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((OTHER, said("Complete")), "Complete"),
        ((said("FailureTarget"), said("Failed")), "Failed"),
        ((said("Complete", "False"), said("Failed")), "Failed"),
        ((said("Complete", "False"), said("Failed", "Unknown")), None),
        ((said("SuccessCriteriaMet"), said("FailureTarget"), said("Suspended")), None),
        ((), None),
    ],
)
def test_a_job_has_finished_by_its_true_terminal_condition(
    conditions: tuple[Condition, ...], expected: str | None
) -> None:
    found = finished(JobStatus(conditions=conditions))
    assert (found and found.type) == expected
