"""What `sluice show` says of each step, and which Events it adds."""

from __future__ import annotations

import pytest

from queue_manager.api import messages
from queue_manager.visibility.history_texts import events_beside, short_object, step_text
from queue_manager.visibility.job_history import Step
from queue_manager.visibility.show_record import EventRow
from tests.unit.visibility.build import at

VICTIM = messages.preempted("uid-a", "uid-b", "InClusterQueue", "/cq", "/cq")
FOR = "for priority 100 of ClusterQueue cq"


def step(what: str, reason: str = "", message: str = "", status: str = "True", note: str = "") -> Step:
    return Step(at=at(0), object="Workload", what=what, status=status, reason=reason, message=message, note=note)


def event(reason: str, message: str = "", *, seconds: float = 1, count: int = 1, type: str = "Normal") -> EventRow:
    time = at(seconds)
    return EventRow(first=time, last=time, count=count, type=type, reason=reason, object="Job/j", message=message)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (step("Created"), ""),
        (step("QuotaReserved", "QuotaReserved", messages.quota_reserved("cq")), "in cq"),
        (step("Admitted", "Admitted", messages.ADMITTED_MESSAGE), ""),
        (step("PodsReady", "WaitForStart", messages.WAIT_FOR_START_MESSAGE, "False"), "WaitForStart"),
        (step("Evicted", "PodsReadyTimeout", messages.pods_ready_timeout("default/w")), "PodsReadyTimeout"),
        (step("Evicted", "Preempted", VICTIM), f"preempted {FOR}"),
        (step("Preempted", "InClusterQueue", VICTIM), "InClusterQueue"),
        (step("Evicted", "QuotaReserved", messages.previously(VICTIM), "False"), "QuotaReserved"),
        (step("Finished", "Failed", "the tape is torn"), "Failed: the tape is torn"),
        (step("PodsReady", "WaitForRecovery", "x", "False", "its pods were stopped"), "its pods were stopped"),
        (step("Evicted", "DeactivatedDueToRequeuingLimitExceeded", "x"), "gave up after 3 attempts"),
    ],
)
def test_a_step_has_the_message_only_if_it_says_more_than_the_reason(given: Step, text: str) -> None:
    assert step_text(given, 3, FOR) == text


def test_a_preemption_of_which_nothing_is_recorded_keeps_its_message() -> None:
    assert step_text(step("Evicted", "Preempted", VICTIM)) == f"Preempted: {VICTIM}"


def test_the_steps_of_a_former_victim_do_not_name_the_uid_of_the_other() -> None:
    assert step_text(step("Requeued", "Preempted", VICTIM)) == "Preempted"


def test_an_event_that_reports_a_step_is_left_out() -> None:
    steps = [step("Admitted", "Admitted"), step("Failed", "BackoffLimitExceeded", "Job has reached its limit")]
    repeated = [event("Started"), event("BackoffLimitExceeded", "Job has reached its limit", type="Warning")]
    others = [
        event("SuccessfulCreate", "Created pod: j-x"),
        event("Started", seconds=9),  # an earlier or a later attempt
        event("Started", count=2),
    ]
    assert events_beside(steps, [*repeated, *others]) == others


def test_the_job_and_its_workload_are_not_named_again() -> None:
    assert short_object(event("Started"), ("j", "w")) == "Job"
    assert short_object(event("Started"), ("other",)) == "Job/j"
