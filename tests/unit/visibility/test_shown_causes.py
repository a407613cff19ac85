"""The key `cause` of all commands and notices."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from job_controller.model import Job
from queue_manager.accounting.job_summary import summary
from queue_manager.accounting.record_types import StepKind, StepRecord
from queue_manager.accounting.step_reading import workload_records
from queue_manager.api.types import Workload
from queue_manager.cli.explanation_reading import with_pods
from queue_manager.cli.named_targets import JobTarget
from queue_manager.notifications.notices import of_job, of_workload
from queue_manager.visibility.cause_groups import has_cause
from queue_manager.visibility.deactivated_jobs import deactivated_jobs
from queue_manager.visibility.explain_record import explain
from queue_manager.visibility.explained_case import Surroundings
from queue_manager.visibility.job_states import job_rows
from queue_manager.visibility.predictions import PredictionContext
from queue_manager.visibility.show_record import job_view
from queue_manager.visibility.wire_types import Pod
from tests.unit.accounting import history_samples as samples
from tests.unit.visibility.build import Tree, at, cond, job, pod, workload

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
TOO_LONG = "The workload is deactivated due to exceeding the maximum execution time"
RETRIES = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
CHECK = "Admission check(s): budget, were rejected"
BOOM = "exit 3: boom"
CRASHED = [pod(phase="Failed", exit=3, owner="j")]


def failed(reason: str, message: str) -> Job:
    return job(conditions=[cond("Failed", reason=reason, message=message, seconds=9)])


def inactive(reason: str, message: str, **more: object) -> Workload:
    attempts: list[Tree] = [{"reason": reason, "podCause": more.pop("pod_cause", "")}]
    return workload(
        active=False,
        conditions=[cond("Evicted", reason=reason, message=message, seconds=9)],
        status={"requeueHistory": {"attempts": attempts}},
        **more,
    )


RUN_TIME = inactive("DeactivatedDueToMaximumExecutionTimeExceeded", TOO_LONG, pod_cause=BOOM)
NEVER_READY = inactive("DeactivatedDueToRequeuingLimitExceeded", f"{RETRIES}; {BOOM}", pod_cause=BOOM)
UNKNOWN = inactive("DeactivatedDueToRequeuingLimitExceeded", RETRIES)
BY_ROOT, BY_ROOT_AT_ONCE = (
    inactive(
        "Deactivated", "The workload is deactivated", annotations={"sluice/deactivated-by": "0:root"}, pod_cause=cause
    )
    for cause in (BOOM, "ContainerCreating: container main has not started")
)
REJECTED = inactive("DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {CHECK}")


@pytest.mark.parametrize(
    ("a_job", "its", "pods", "cause"),
    [
        (failed("BackoffLimitExceeded", "limit"), workload(), CRASHED, "exit 3"),
        (failed("BackoffLimitExceeded", "limit"), workload(), [], "BackoffLimitExceeded: limit"),
        (failed("DeadlineExceeded", "too long"), workload(), CRASHED, "DeadlineExceeded: too long (before: exit 3)"),
        (failed("DeadlineExceeded", "too long"), workload(), [], "DeadlineExceeded: too long"),
        (job(), RUN_TIME, [], "maximum execution time exceeded (before: exit 3: boom)"),
        (job(), NEVER_READY, [], BOOM),
        (job(), UNKNOWN, [], "pods not ready"),
        (job(), BY_ROOT, [], "by root (before: exit 3: boom)"),
        (job(), BY_ROOT_AT_ONCE, [], "by root"),
        (job(), REJECTED, [], CHECK),
    ],
)
def test_an_end_has_one_cause_in_all_outputs(a_job: Job, its: Workload, pods: list[Pod], cause: str) -> None:
    (row,) = job_rows([a_job], [its], at(60), pods)
    view = job_view(a_job, its, pods, (), PredictionContext(), at(60))
    found = with_pods(explain(a_job, its, Surroundings(), at(60)), JobTarget(a_job, its), pods, None, at(60))
    assert (row.cause, view.cause, found.cause) == (cause, cause, cause)
    assert (row.reason, row.message) == (view.reason, view.message) == (found.reason, found.message)
    assert [each.cause for each in deactivated_jobs([its], (), at(60))] == ([] if its.spec.active else [cause])
    assert recorded(row.reason, row.message, its, pods) == cause
    notice = of_job(None, a_job, LONG_AGO, its, pods) or of_workload(None, its, LONG_AGO, at(60), a_job)
    assert notice is not None
    assert notice.cause == cause


def test_a_failed_job_has_the_command_for_its_logs_as_long_as_there_are_some() -> None:
    over = failed("BackoffLimitExceeded", "limit")
    for pods, command in ((CRASHED, "sluice logs j --failed"), ([], "")):
        found = explain(over, workload(), Surroundings(), at(60))
        assert with_pods(found, JobTarget(over, workload()), pods, None, at(60)).log_command == command


def recorded(reason: str, message: str, its: Workload, pods: list[Pod]) -> str:
    """The cause in the history."""
    kind = StepKind.FINISHED if its.spec.active else StepKind.DEACTIVATED
    end = samples.step(kind, 9, reason=reason.removeprefix("DeactivatedDueTo"), message=message)
    if kind is StepKind.DEACTIVATED:
        [end] = [one for one in workload_records(None, its, at(60)) if isinstance(one, StepRecord)]
    dead = [samples.pod(exit_code=3, phase="Failed", message="exit 3") for _ in pods]
    return summary(samples.job(), [end], dead, samples.at(60)).cause


@pytest.mark.parametrize(
    ("its", "text"),
    [
        (RUN_TIME, "MaximumExecution"),
        (RUN_TIME, "DeactivatedDueToMaximumExecutionTimeExceeded: The workload is deactivated"),
        (RUN_TIME, "exceeding the maximum execution time"),
        (RUN_TIME, "maximum execution time exceeded"),
        (RUN_TIME, "run time"),
        (NEVER_READY, "RequeuingLimitExceeded"),
        (NEVER_READY, "boom"),
        (BY_ROOT, "by a user"),
        (BY_ROOT, "The workload is deactivated by root"),
    ],
)
def test_why_selects_a_job_by_what_any_command_says(its: Workload, text: str) -> None:
    (row,) = deactivated_jobs([its], (), at(60))
    assert has_cause(row, text)


def test_why_does_not_select_a_job_by_what_is_not_its_cause() -> None:
    [never_ready] = deactivated_jobs([NEVER_READY], (), at(60))
    assert not has_cause(never_ready, "pods not ready")
