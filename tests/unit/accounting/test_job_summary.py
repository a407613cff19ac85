"""What the steps and pods of a Job add up to, and Jobs to a report."""

from __future__ import annotations

import pytest

from queue_manager.accounting.job_summary import JobOutcome, JobSummary, Waste, cause_and_end, summary
from queue_manager.accounting.record_types import PodRecord, StepKind, StepRecord
from queue_manager.accounting.usage_report import percentile, usage_rows
from queue_manager.cli.history import COLUMNS
from tests.unit.accounting.history_samples import admitted, at, finished, job, pod, step


def of(*steps: StepRecord, pods: tuple[PodRecord, ...] = (), uid: str = "j1", user: str = "anna") -> JobSummary:
    return summary(job(uid, user=user), steps, pods, at(1000))


def released(seconds: float, attempt: int = 1) -> StepRecord:
    return step(StepKind.RELEASED, seconds, attempt)


LIFE = (
    admitted(10),
    step(StepKind.PREEMPTED, 20, reason="InClusterQueue"),
    released(25),
    step(StepKind.REQUEUED, 25),
    admitted(40, 2),
    step(StepKind.EVICTED, 70, 2, reason="PodsReadyTimeout"),
    released(71, 2),
    admitted(80, 3),
    finished(180),
)


def test_quota_counts_from_admission_to_release_and_waste_by_cause() -> None:
    found = of(*reversed(LIFE), pods=(pod(cpu_seconds=50.0), pod("p2", cpu_seconds=25.0), pod("p3")))
    assert (found.state, found.attempts, found.preemptions, found.evictions) == (JobOutcome.SUCCEEDED, 3, 1, 1)
    assert (found.first_wait_seconds, found.run_seconds) == (10, 15 + 31 + 100)
    assert found.cpu_requested_seconds == 2 * (15 + 31 + 100)
    assert found.cpu_used_seconds == 75.0
    assert found.wasted_seconds == {Waste.FAILED: 0, Waste.PREEMPTED: 30, Waste.NOT_READY: 62, Waste.OTHER: 0}


def test_a_job_that_failed_by_an_eviction_names_it_unless_a_later_pod_failed() -> None:
    evicted = pod(exit_code=143, phase="Deleted", message="pod evicted", seconds=20)
    stopped = pod("p2", exit_code=143, phase="Deleted", seconds=30)
    later = pod("p3", exit_code=3, phase="Failed", seconds=25)
    end = (admitted(10), finished(40, "BackoffLimitExceeded"))
    assert of(*end, pods=(evicted, stopped)).cause == "pod evicted"
    assert of(*end, pods=(evicted, stopped, later)).cause == "exit 3"
    late = of(admitted(10), finished(40, "DeadlineExceeded"), pods=(evicted,))
    assert late.cause == "DeadlineExceeded (before: pod evicted)"


def test_a_running_attempt_counts_until_now() -> None:
    found = of(admitted(10))
    assert (found.state, found.run_seconds, found.cpu_used_seconds) == (JobOutcome.RUNNING, 990, None)
    assert sum(found.wasted_seconds.values()) == 0


EVICTED = step(StepKind.EVICTED, 30, reason="PodsReadyTimeout")


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ((step(StepKind.DEACTIVATED, 50, 2), released(55, 2)), 40),
        ((released(55, 2),), 45),
        ((EVICTED, step(StepKind.REQUEUED, 60, 2)), 20),
        ((EVICTED, admitted(60, 2), finished(61)), 20 + 1),
        ((admitted(60, 2), released(61, 2)), 50 + 1),
        ((EVICTED, step(StepKind.DELETED, 500, 0)), 20),
        ((step(StepKind.DELETED, 500, 0),), 490),
        ((EVICTED, finished(35, "DeadlineExceeded")), 25),
    ],
    ids=[
        "of a later attempt only the end is known",
        "only the release of a later attempt",
        "the release is missing, a requeue is known",
        "the release is missing, a later admission is known",
        "nothing of the end is known but a later admission",
        "the release is missing, and the Job was deleted",
        "only the deletion is known",
        "ended before the eviction had stopped it",
    ],
)
def test_an_attempt_with_missing_steps_ends_with_what_is_known(steps: tuple[StepRecord, ...], seconds: float) -> None:
    """And never grows later."""
    found = [summary(job(), (admitted(10), *steps), (), now) for now in (at(1000), at(5000))]
    assert [(each.run_seconds, each.ran_seconds) for each in found] == [(seconds, seconds)] * 2


def test_the_waste_of_an_attempt_is_that_of_the_known_end_only() -> None:
    assert of(admitted(10), step(StepKind.PREEMPTED, 20, 2)).wasted_seconds[Waste.PREEMPTED] == 20
    unknown = of(admitted(10), admitted(20, 2), finished(30, "DeadlineExceeded"))
    assert (unknown.wasted_seconds[Waste.FAILED], sum(unknown.wasted_seconds.values())) == (20, 20)


def test_an_evicted_job_runs_until_its_quota_is_released() -> None:
    assert of(admitted(10), EVICTED).run_seconds == 990


def test_the_time_in_which_the_cluster_was_stopped_is_neither_run_nor_quota() -> None:
    stop, start = step(StepKind.INTERRUPTED, 30, 0), step(StepKind.CONTINUED, 80, 0)
    assert of(admitted(10), stop).run_seconds == 20
    assert of(admitted(10), step(StepKind.INTERRUPTED, 15, 0), stop, start).run_seconds == 940
    found = of(admitted(10), stop, start)
    assert (found.state, found.cause, found.run_seconds) == (JobOutcome.RUNNING, "", 940)
    ended = of(admitted(10), stop, start, finished(100, "DeadlineExceeded"))
    assert (ended.run_seconds, ended.cpu_requested_seconds, ended.wasted_seconds[Waste.FAILED]) == (40, 80, 80)


HELD = step(StepKind.HELD, 5, occurrence=1, reason="Suspended", message="LocalQueue pre is inactive")
RESUMED = step(StepKind.RESUMED, 7, occurrence=2)


@pytest.mark.parametrize("reason", ["LocalQueueStopped", "ClusterQueueStopped"])
def test_a_released_queue_is_no_cause_any_more(reason: str) -> None:
    drained = (admitted(1), step(StepKind.EVICTED, 2, reason=reason), released(3))
    assert cause_and_end(of(HELD)) == "Suspended: LocalQueue pre is inactive"
    assert (of(HELD, RESUMED).state, of(HELD, RESUMED).cause) == (JobOutcome.PENDING, "")
    assert (cause_and_end(of(*drained)), cause_and_end(of(*drained, HELD, RESUMED))) == (reason, "")


def test_a_released_queue_leaves_the_cause_before_its_hold_and_any_later_one() -> None:
    lost = (admitted(1), step(StepKind.PREEMPTED, 2, reason="InClusterQueue"))
    again = step(StepKind.HELD, 9, occurrence=3, reason="Suspended")
    assert cause_and_end(of(*lost, HELD, RESUMED)) == "InClusterQueue"
    assert (of(HELD, RESUMED, again).state, of(HELD, RESUMED, again).reason) == (JobOutcome.HELD, "Suspended")


def test_a_held_job_that_is_deactivated_stays_so_until_it_is_reactivated() -> None:
    by_user = step(StepKind.DEACTIVATED, 7, reason="Deactivated", message="by root")
    back = step(StepKind.REACTIVATED, 8, occurrence=3)
    held = step(StepKind.HELD, 8, occurrence=4, reason="Suspended")
    assert of(HELD, by_user, RESUMED).state is JobOutcome.DEACTIVATED
    assert of(HELD, by_user, RESUMED).message == "by root"
    assert of(HELD, by_user, back).state is JobOutcome.PENDING
    assert (of(HELD, by_user, back, held).state, of(HELD, by_user, back, held).reason) == (JobOutcome.HELD, "Suspended")


@pytest.mark.parametrize(
    ("steps", "state", "cause"),
    [
        ((), JobOutcome.PENDING, ""),
        ((step(StepKind.HELD, 1, reason="Suspended"),), JobOutcome.HELD, "Suspended"),
        ((step(StepKind.HELD, 1), step(StepKind.RESUMED, 1)), JobOutcome.PENDING, ""),
        ((admitted(1), step(StepKind.CONTAINER_FAILED, 2, 0, message="boom")), JobOutcome.RUNNING, ""),
        (LIFE[:3], JobOutcome.PENDING, "InClusterQueue"),
        ((admitted(1), finished(2, "DeadlineExceeded")), JobOutcome.FAILED, "DeadlineExceeded"),
        ((admitted(1), step(StepKind.DELETED, 2, 0, message="gone")), JobOutcome.DELETED, "gone"),
        (
            (step(StepKind.DEACTIVATED, 2, reason="X"), released(3), step(StepKind.DELETED, 4, 0)),
            JobOutcome.DEACTIVATED,
            "X",
        ),
        (
            (step(StepKind.DEACTIVATED, 2, reason="X"), step(StepKind.DELETED, 4, 0, message="Cancelled by anna")),
            JobOutcome.DEACTIVATED,
            "X",
        ),
        ((step(StepKind.DEACTIVATED, 2), step(StepKind.REACTIVATED, 3)), JobOutcome.PENDING, ""),
    ],
)
def test_the_state_is_that_of_the_last_step_that_changed_it(
    steps: tuple[StepRecord, ...], state: str, cause: str
) -> None:
    found = of(*steps)
    assert (found.state, cause_and_end(found)) == (state, cause)


def test_the_cause_of_a_failure_begins_with_the_last_failed_pod() -> None:
    pods = (
        pod("p1", exit_code=1, seconds=5),
        pod("p2", exit_code=3, seconds=9, message="exit 3: boom"),
        pod("p3", seconds=20),
    )
    pods += (pod("p4", exit_code=143, seconds=30, phase="Deleted"),)  # stopped, which is no failure of its own
    found = of(admitted(1), finished(10, "BackoffLimitExceeded"), pods=pods)
    assert (found.exit_code, found.cause, found.reason) == (3, "exit 3: boom", "BackoffLimitExceeded")


def test_a_deletion_is_the_end_of_a_job_whose_pod_had_failed() -> None:
    gone = step(StepKind.DELETED, 90, 0)
    crashed = pod(phase="Deleted", exit_code=143, message="restarted after exit 3: boom")
    assert of(admitted(10), gone, pods=(crashed,)).cause == "deleted (before: exit 3: boom)"
    assert of(admitted(10), gone, pods=(pod(phase="Deleted", exit_code=143),)).cause == ""


def test_the_exit_code_is_the_highest_of_the_pods_that_failed() -> None:
    pods = (
        pod("p1", exit_code=4, seconds=5),
        pod("p2", exit_code=3, seconds=9),
        pod("p3", exit_code=143, phase="Deleted"),
    )
    assert of(admitted(1), finished(10, "BackoffLimitExceeded"), pods=pods).exit_code == 4
    assert of(admitted(1), finished(10), pods=pods).exit_code is None


def test_a_job_that_was_reactivated_does_not_wait_because_it_was_deactivated() -> None:
    by_user = step(StepKind.DEACTIVATED, 7, reason="Deactivated", message="by root")
    back = step(StepKind.REACTIVATED, 8)
    assert (of(by_user, back).state, of(by_user, back).cause) == (JobOutcome.PENDING, "")
    again = step(StepKind.DEACTIVATED, 9, occurrence=3, reason="Deactivated", message="by anna")
    assert of(by_user, back, again).cause == "Deactivated: by anna"


@pytest.mark.parametrize("end", [(), (finished(10),)], ids=["runs", "succeeded"])
def test_a_job_that_runs_or_has_succeeded_has_no_cause(end: tuple[StepRecord, ...]) -> None:
    evicted = (admitted(1), step(StepKind.EVICTED, 2, reason="PodsReadyTimeout"), released(3), admitted(4, 2))
    assert of(*evicted, *end, pods=(pod(exit_code=3, phase="Failed", message="exit 3: boom"),)).cause == ""


@pytest.mark.parametrize(
    ("end", "waste"),
    [
        (finished(20, "BackoffLimitExceeded"), Waste.FAILED),
        (step(StepKind.DEACTIVATED, 20, reason="RequeuingLimitExceeded"), Waste.NOT_READY),
        (step(StepKind.DEACTIVATED, 20, reason="Deactivated"), Waste.OTHER),
        (step(StepKind.EVICTED, 20, reason="ClusterQueueStopped"), Waste.OTHER),
        (step(StepKind.DELETED, 20, 0), Waste.OTHER),
    ],
)
def test_the_cause_of_waste_is_what_ended_the_attempt(end: StepRecord, waste: Waste) -> None:
    wasted = of(admitted(10), step(StepKind.PODS_READY, 11), end, released(20)).wasted_seconds
    assert {cause: seconds for cause, seconds in wasted.items() if seconds} == {waste: 20}


@pytest.mark.parametrize("evicted", [19, 20, 21])
def test_the_end_of_a_job_is_its_cause_although_its_eviction_had_begun(evicted: int) -> None:
    """Only a release of the quota says that the eviction has stopped the Job."""
    stopped = step(StepKind.EVICTED, evicted, reason="PodsReadyTimeout", message="exit 1: of the first pod")
    its = pod(exit_code=3, phase="Failed", message="exit 3: boom")
    found = of(admitted(10), stopped, finished(20, "BackoffLimitExceeded"), pods=(its,))
    assert (found.state, cause_and_end(found)) == (JobOutcome.FAILED, "exit 3: boom; BackoffLimitExceeded")
    assert {cause: seconds for cause, seconds in found.wasted_seconds.items() if seconds} == {Waste.FAILED: 20}


@pytest.mark.parametrize(
    ("pods", "waste"),
    [
        ((), Waste.NOT_READY),
        ((pod(exit_code=None, phase="Deleted", seconds=20),), Waste.NOT_READY),
        ((pod(exit_code=137, reason="ContainerStatusUnknown", phase="Deleted", seconds=20),), Waste.NOT_READY),
        ((pod(exit_code=128, reason="StartError", phase="Failed", seconds=15),), Waste.NOT_READY),
        ((pod(exit_code=1, phase="Failed", seconds=5),), Waste.NOT_READY),  # in an earlier attempt
        ((pod(exit_code=143, reason="Error", phase="Deleted", seconds=20),), Waste.OTHER),
    ],
)
@pytest.mark.parametrize("end", [step(StepKind.DELETED, 20, 0), step(StepKind.DEACTIVATED, 20, reason="Deactivated")])
def test_quota_of_a_job_that_a_user_stopped_before_it_ran_was_not_ready(
    end: StepRecord, pods: tuple[PodRecord, ...], waste: Waste
) -> None:
    wasted = of(admitted(10), end, released(20), pods=pods).wasted_seconds
    assert {cause: seconds for cause, seconds in wasted.items() if seconds} == {waste: 20}


def test_a_cause_that_the_eviction_repeats_is_named_once() -> None:
    failed = pod(exit_code=3, phase="Failed", message="exit 3: boom")
    by_user = step(StepKind.DEACTIVATED, 9, reason="Deactivated", message="The workload is deactivated by root")
    assert of(admitted(1), by_user, pods=(failed,)).cause == "by root"
    gave_up = step(StepKind.DEACTIVATED, 9, reason="RequeuingLimitExceeded", message="exit 3: boom")
    found = summary(job(), [admitted(5), gave_up], [failed], at(100))
    assert cause_and_end(found) == "exit 3: boom; RequeuingLimitExceeded"
    alone = summary(job(), [admitted(5), gave_up], [], at(100))
    assert cause_and_end(alone) == "exit 3: boom; RequeuingLimitExceeded"


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("", "pods not ready"),
        ("; no such program: x", "no such program: x"),
    ],
)
def test_the_cause_in_the_message_of_a_deactivation_comes_first(end: str, cause: str) -> None:
    said = f"The workload is deactivated due to exceeding the limit{end}"
    gave_up = step(StepKind.DEACTIVATED, 9, reason="RequeuingLimitExceeded", message=said)
    assert of(admitted(5), gave_up).cause == cause


def test_the_message_of_an_end_by_pods_is_left_out_behind_their_cause() -> None:
    end = step(StepKind.FINISHED, 9, 0, reason="BackoffLimitExceeded", message="Job has reached the limit")
    failed = pod(exit_code=3, phase="Failed", message="exit 3: boom: cannot open /data/x.csv")
    assert of(admitted(5), end, pods=(failed,)).cause == failed.message


CANCELLED = step(StepKind.DELETED, 90, 0, message="Cancelled by anna")
NO_NODE = step(StepKind.EVICTED, 40, reason="PodsReadyTimeout", message="0/1 nodes: Insufficient cpu")


@pytest.mark.parametrize(
    ("steps", "pods", "cause"),
    [
        ((admitted(10),), (pod(exit_code=3, phase="Failed", message="exit 3: boom"),), "exit 3: boom"),
        ((admitted(10), NO_NODE, released(41)), (), "0/1 nodes: Insufficient cpu"),
        ((admitted(10),), (pod(exit_code=143, phase="Deleted"),), ""),
        ((), (), ""),
    ],
    ids=["a pod failed", "it timed out", "its pod was stopped by the deletion", "it never had a pod"],
)
def test_a_cancelled_job_has_the_earlier_error_of_its_pods(
    steps: tuple[StepRecord, ...], pods: tuple[PodRecord, ...], cause: str
) -> None:
    """As `by anna (before: ...)` of a deactivation."""
    found = of(*steps, CANCELLED, pods=pods)
    said = f"Cancelled by anna (before: {cause})" if cause else "Cancelled by anna"
    assert (found.state, found.cause, cause_and_end(found)) == (JobOutcome.DELETED, said, said)


@pytest.mark.parametrize(
    ("steps", "pods", "run"),
    [
        ((admitted(10), NO_NODE, released(41)), (), False),
        ((admitted(10), finished(70, "BackoffLimitExceeded")), (pod(exit_code=128, reason="StartError"),), False),
        ((admitted(10), finished(70, "BackoffLimitExceeded")), (pod(exit_code=3, phase="Failed"),), True),
        ((admitted(10), CANCELLED), (pod(exit_code=None, phase="Deleted"),), False),
        ((admitted(10), CANCELLED), (pod(exit_code=143, phase="Deleted"),), True),
        ((admitted(10), step(StepKind.PODS_READY, 12), CANCELLED), (), True),
        ((admitted(10),), (), True),
        ((admitted(10), finished(70)), (), True),
    ],
    ids=["no node", "no program", "failed", "cancelled before", "cancelled", "was ready", "not over", "succeeded"],
)
def test_a_job_whose_pods_never_started_has_not_run(
    steps: tuple[StepRecord, ...], pods: tuple[PodRecord, ...], run: bool
) -> None:
    found = of(*steps, pods=pods)
    assert found.has_run is run
    (column,) = [one for one in COLUMNS if one.heading == "RUN"]
    assert (column.cell(found) != "-") is run


def test_a_report_adds_up_each_group() -> None:
    failed = (admitted(30, of="j2"), finished(66, "BackoffLimitExceeded", of="j2"))
    jobs = [of(*LIFE, pods=(pod(cpu_seconds=146.0),)), of(*failed, uid="j2"), of(uid="j3", user="bob")]
    anna, bob = usage_rows(jobs, ["user"])
    assert (anna.user, anna.queue, anna.jobs, anna.succeeded, anna.failed) == ("anna", "", 2, 1, 1)
    assert (anna.success_percent, anna.first_wait_p50_seconds, anna.first_wait_p90_seconds) == (50.0, 10, 30)
    assert anna.cpu_hours_requested == pytest.approx((292 + 72) / 3600, abs=1e-6)
    assert anna.used_percent == 50.0  # of the Jobs that were measured
    assert anna.wasted_failed_cpu_hours == pytest.approx(0.02)
    assert anna.wasted_cpu_hours == pytest.approx((72 + 30 + 62) / 3600, abs=1e-5)
    assert (bob.jobs, bob.success_percent, bob.first_wait_p50_seconds, bob.used_percent) == (1, None, None, None)
    assert [(row.queue, row.flavor) for row in usage_rows(jobs, ["queue", "flavor"])] == [
        ("team-a/lq", ""),
        ("team-a/lq", "default"),
    ]
    assert [(row.namespace, row.user) for row in usage_rows(jobs, ["namespace"])] == [("team-a", "")]


def test_a_deactivated_job_is_counted_apart_from_those_that_ended() -> None:
    stopped = (admitted(10, of="j2"), step(StepKind.DEACTIVATED, 20, of="j2"), step(StepKind.RELEASED, 21, of="j2"))
    deleted = (step(StepKind.DEACTIVATED, 20, of="j3"), step(StepKind.DELETED, 60, 0, of="j3"))
    jobs = [of(*LIFE), of(*stopped, uid="j2"), of(*deleted, uid="j3")]
    [row] = usage_rows(jobs, ["namespace"])
    assert (row.jobs, row.succeeded, row.failed, row.deactivated, row.success_percent) == (3, 1, 0, 2, 100.0)
    assert [(job.waited_seconds, job.ran_seconds) for job in jobs] == [(180 - 146, 146), (10, 11), (20, None)]
    assert (row.waited_p50_seconds, row.waited_p90_seconds) == (10, 34)  # of those that were admitted


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], p) for p in (50, 75, 76, 90)] == [2.0, 3.0, 4.0, 4.0]
    assert (percentile([], 50), percentile([7.0], 1)) == (None, 7.0)


def test_a_job_that_ran_outside_of_every_queue_has_not_waited() -> None:
    end = step(StepKind.FINISHED, 9, 0, reason="Succeeded")
    assert summary(job(queue=""), [end], [], at(20)).waited_seconds == 0
    assert summary(job(queue=""), [], [], at(20)).waited_seconds == 20
    assert summary(job(), [end], [], at(20)).waited_seconds == 9
