"""A Job creates the pods it needs, counts them, and completes."""

from __future__ import annotations

import pytest

from job_controller.model import Pod
from job_controller.sync_steps import Decision, JobMemory
from tests.unit.job_controller.build import (
    at,
    condition_texts,
    created,
    deleted,
    events,
    final,
    indexed,
    job,
    kinds,
    pod,
    released,
    run,
    statuses,
    wire,
)

MET = "SuccessCriteriaMet=True/CompletionsReached Reached expected number of succeeded pods"
DONE = "Complete=True/CompletionsReached Reached expected number of succeeded pods"


def test_first_sync_creates_pods_before_it_writes_the_status() -> None:
    decision = run(job(parallelism=2, completions=3, started=None), now=5.7)
    assert kinds(decision) == ["CreatePods", "WriteStatus"]
    status = final(decision)
    assert (status.active, status.ready, status.terminating) == (2, 0, 0)
    assert status.uncounted_terminated_pods is not None
    assert wire(status.start_time) == wire(at(5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parallelism", "completions", "succeeded", "active", "creates"),
    [
        (3, 5, 0, 0, 3),
        (3, 5, 0, 1, 2),
        (3, 5, 3, 0, 2),
        (3, 5, 4, 1, 0),
        (0, 5, 0, 0, 0),
        (2, None, 0, 0, 2),
        (2, None, 1, 1, 0),  # a work queue starts nothing after the first success
    ],
)
def test_number_of_pods_created(
    parallelism: int, completions: int | None, succeeded: int, active: int, creates: int
) -> None:
    decision = run(
        job(parallelism=parallelism, completions=completions, status={"succeeded": succeeded}),
        *(pod(f"p{i}") for i in range(active)),
    )
    assert len(created(decision)) == creates


def test_no_more_pods_than_the_limit_are_created_in_one_sync() -> None:
    decision = run(job(parallelism=900, completions=900))
    assert len(created(decision)) == 500
    assert decision.requeue_after == 0


def test_active_pods_are_written_once_a_second_while_batches_follow() -> None:
    def batch(there: int, now: float, memory: JobMemory | None, *others: Pod, known: int = 500) -> Decision:
        pods = [pod(f"p{i}") for i in range(there)]
        status = {"active": known, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
        return run(job(parallelism=1900, completions=1900, status=status), *pods, *others, now=now, memory=memory)

    first = batch(0, 0, None, known=0)
    assert kinds(first) == ["CreatePods", "WriteStatus"]
    second = batch(500, 0.9, first.memory)
    assert kinds(second) == ["CreatePods"]
    assert second.requeue_after == 0
    assert kinds(batch(500, 0.9, first.memory, pod("a", "Succeeded"))) == [
        "CreatePods",
        "WriteStatus",
        "ReleasePods",
        "WriteStatus",
    ]
    assert kinds(batch(500, -3600, first.memory)) == ["CreatePods", "WriteStatus"]  # the clock was set back
    third = batch(1000, 1.0, second.memory)
    assert kinds(third) == ["CreatePods", "WriteStatus"]
    assert final(third).active == 1500
    last = batch(1500, 1.1, third.memory, known=1500)
    assert kinds(last) == ["CreatePods", "WriteStatus"]
    assert (final(last).active, last.requeue_after) == (1900, None)


def test_success_is_recorded_then_released_then_counted() -> None:
    decision = run(job(), pod("a", "Succeeded"), now=9)
    assert kinds(decision) == ["WriteStatus", "ReleasePods", "WriteStatus"]
    first, second = statuses(decision)
    assert first.uncounted_terminated_pods is not None
    assert first.uncounted_terminated_pods.succeeded == ("a",)
    assert (first.succeeded, condition_texts(first)) == (0, [MET])
    assert released(decision) == ["a"]
    assert (second.succeeded, condition_texts(second)) == (1, [MET, DONE])
    assert second.completion_time == second.conditions[1].last_transition_time == at(9)
    assert events(decision) == ["Normal Completed Job completed"]


def test_indexed_success_needs_no_uid_in_the_status() -> None:
    decision = run(indexed(3), pod("a", "Succeeded", 1), pod("b", index=0), pod("c", index=2))
    assert kinds(decision) == ["WriteStatus", "ReleasePods"]
    status = final(decision)
    assert (status.completed_indexes, status.succeeded, status.active) == ("1", 1, 2)


def test_uid_without_a_tracked_pod_moves_into_the_counter() -> None:
    status = {"uncountedTerminatedPods": {"succeeded": ["gone"], "failed": ["lost"]}, "active": 1}
    written = final(run(job(completions=3, status=status), pod("a")))
    assert (written.succeeded, written.failed) == (1, 1)
    assert written.uncounted_terminated_pods is not None
    assert written.uncounted_terminated_pods.succeeded == written.uncounted_terminated_pods.failed == ()


def test_recorded_pod_is_not_recorded_twice_after_a_crash() -> None:
    status = {"uncountedTerminatedPods": {"succeeded": ["a"]}, "terminating": 0, "ready": 0}
    decision = run(job(completions=2, status=status), pod("a", "Succeeded"))
    assert released(decision) == ["a"]
    assert final(decision).succeeded == 1


def test_recorded_pod_that_still_exists_counts_once() -> None:
    """Between recording and release a pod is both in the status and among the pods."""
    succeeded = job(parallelism=2, completions=2, status={"uncountedTerminatedPods": {"succeeded": ["a"]}})
    decision = run(succeeded, pod("a", "Succeeded"))
    assert (created(decision), condition_texts(final(decision))) == ([None], [])
    failed = job(backoff_limit=1, status={"uncountedTerminatedPods": {"failed": ["a"]}})
    assert condition_texts(final(run(failed, pod("a", "Failed"), now=99))) == []


def test_running_pod_that_was_recorded_is_released() -> None:
    """A failing Job recorded it before a crash. It must not delay the end of the Job."""
    target = {"type": "FailureTarget", "status": "True", "reason": "R", "message": "m"}
    uncounted = job(status={"uncountedTerminatedPods": {"failed": ["a"]}, "conditions": [target]})
    assert released(run(uncounted, pod("a"), pod("b"), pods_done=True)) == ["a"]


def test_pod_recorded_as_failed_stays_failed_when_its_phase_changes() -> None:
    status = {"uncountedTerminatedPods": {"failed": ["a"]}}
    written = final(run(job(status=status), pod("a", "Succeeded")))
    assert (written.succeeded, written.failed) == (0, 1)


def test_zero_completions_complete_without_a_pod() -> None:
    decision = run(job(completions=0, started=None), now=1)
    assert condition_texts(final(decision)) == [MET, DONE]
    assert created(decision) == []


def test_work_queue_completes_when_the_last_pod_ends() -> None:
    busy = run(job(completions=None, parallelism=2), pod("a", "Succeeded"), pod("b"))
    assert condition_texts(final(busy)) == []
    over = run(job(completions=None, parallelism=2), pod("a", "Succeeded"), pod("b", "Succeeded"))
    assert condition_texts(final(over)) == [MET, DONE]


def test_more_successes_than_completions_record_a_warning() -> None:
    decision = run(job(completions=1, status={"succeeded": 1}), pod("a", "Succeeded"))
    assert events(decision) == [
        "Warning TooManySucceededPods Too many succeeded pods running after completion count reached",
        "Normal Completed Job completed",
    ]


def test_completion_waits_for_terminating_pods() -> None:
    decision = run(job(), pod("a", "Succeeded"), pod("b", deleted=0, grace=30, tracked=False))
    status = final(decision)
    assert condition_texts(status) == [MET]
    assert status.terminating == 1


def test_one_status_records_at_most_the_limit_and_the_next_sync_follows() -> None:
    pods = [pod(f"p{i}", "Succeeded") for i in range(7)]
    decision = run(job(parallelism=7, completions=7), *pods, max_uncounted=5)
    first, second = statuses(decision)
    assert first.uncounted_terminated_pods is not None
    assert len(first.uncounted_terminated_pods.succeeded) == 5
    assert len(released(decision)) == 5
    assert condition_texts(second) == [MET]
    assert decision.requeue_after == 0


@pytest.mark.parametrize("limit", [3, 5])
def test_status_that_a_crash_left_full_is_emptied_first(limit: int) -> None:
    """Five pods are recorded and not released; pods that ended later precede them in the cache. Also with a lower
    limit.
    """
    pods = [pod(f"p{i}", "Succeeded") for i in range(12)]
    recorded = [f"p{i}" for i in range(7, 12)]
    status = {"uncountedTerminatedPods": {"succeeded": recorded}}
    decision = run(job(parallelism=12, completions=12, status=status), *pods, max_uncounted=limit)
    assert released(decision) == recorded
    assert final(decision).succeeded == 5
    assert decision.requeue_after == 0


def test_full_indexed_status_has_all_indexes_and_releases_up_to_the_limit() -> None:
    pods = [pod(f"p{i}", "Succeeded", i) for i in range(7)]
    decision = run(indexed(7), *pods, max_uncounted=5)
    assert statuses(decision)[0].completed_indexes == "0-6"
    assert len(released(decision)) == 5


def test_pods_of_wrong_index_are_released_but_not_counted() -> None:
    decision = run(indexed(2, parallelism=0), pod("a", "Succeeded", 5), pod("b", "Succeeded"), pod("c", "Failed", "x"))
    assert sorted(released(decision)) == ["a", "b", "c"]
    assert (final(decision).succeeded, final(decision).failed) == (0, 0)


def test_indexes_beyond_the_new_completions_drop_out() -> None:
    status = {"completedIndexes": "0,3", "succeeded": 2}
    written = final(run(indexed(2, status=status), pod("a", index=1)))
    assert (written.completed_indexes, written.succeeded) == ("0", 1)


def test_succeeded_is_not_lowered_where_the_api_rejects_it() -> None:
    """completions was lowered from 4 to 2, and parallelism to 1, before a sync."""
    status = {"completedIndexes": "0,2-3", "succeeded": 3}
    decision = run(indexed(2, 1, status=status), pod("a", "Succeeded", 1))
    assert (final(decision).completed_indexes, final(decision).succeeded) == ("0,1", 3)
    assert events(decision) == ["Normal Completed Job completed"]


def test_nothing_is_written_if_nothing_changed() -> None:
    status = {"active": 1, "ready": 1, "terminating": 0, "uncountedTerminatedPods": {}}
    assert run(job(status=status), pod("a", ready=True)).steps == ()


def test_unknown_completion_mode_is_skipped_with_a_warning() -> None:
    decision = run(job(completion_mode="Sorted"))
    assert decision.steps == ()
    assert events(decision) == ["Warning UnknownCompletionMode Skipped Job sync because completion mode is unknown"]


def test_deleted_job_releases_all_pods_and_counts_no_running_one() -> None:
    decision = run(job(parallelism=2, completions=2, deleted=True), pod("a"), pod("b", "Failed"), pod("c", deleted=0))
    assert sorted(released(decision)) == ["a", "b", "c"]
    assert final(decision).failed == 1
    assert created(decision) == deleted(decision) == []


def test_pod_whose_finalizer_a_user_removed_is_ignored_and_replaced() -> None:
    from job_controller.sync_steps import JobMemory

    decision = run(job(), pod("a", "Failed", tracked=False), memory=JobMemory())
    assert created(decision) == [None]
    assert final(decision).failed == 0


def test_active_and_ready_pods_are_reported() -> None:
    status = final(run(job(parallelism=3, completions=3), pod("a", ready=True), pod("b"), pod("c", "Pending")))
    assert (status.active, status.ready, status.terminating) == (3, 1, 0)


def test_cost_of_completed_indexes_depends_on_intervals_only() -> None:
    """Expanding two thousand million indexes would exhaust the memory of the controller."""
    most = 2**31 - 1
    done = f"0-{most - 5}"
    decision = run(
        indexed(most, 3, status={"completedIndexes": done}), pod("a", "Succeeded", most - 3), pod("b", index=most - 1)
    )
    assert created(decision) == [most - 4, most - 2]
    assert final(decision).completed_indexes == f"{done},{most - 3}"
    assert final(decision).succeeded == most - 3
