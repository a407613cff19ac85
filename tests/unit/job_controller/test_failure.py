"""When a Job fails, and how long the replacement of a failed pod is delayed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from job_controller.model import Pod
from job_controller.sync_steps import CreatePods, Decision, JobMemory, PrunePods
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
)

LIMIT = "BackoffLimitExceeded Job has reached the specified backoff limit"
DEADLINE = "DeadlineExceeded Job was active longer than specified deadline"


@pytest.mark.parametrize(
    ("limit", "counted", "failed_now", "fails"), [(0, 0, 1, True), (1, 0, 1, False), (1, 1, 1, True), (6, 6, 0, False)]
)
def test_job_fails_when_failures_exceed_the_limit(limit: int, counted: int, failed_now: int, fails: bool) -> None:
    decision = run(
        job(backoff_limit=limit, status={"failed": counted}), *(pod(f"p{i}", "Failed") for i in range(failed_now))
    )
    assert (condition_texts(final(decision))[-1:] == [f"Failed=True/{LIMIT}"]) is fails


def test_failure_is_targeted_first_and_takes_running_pods_along() -> None:
    decision = run(
        job(parallelism=3, completions=3, backoff_limit=0), pod("a", "Failed"), pod("b"), pod("c", ready=True)
    )
    assert kinds(decision) == ["WriteStatus", "DeletePods", "WriteStatus", "ReleasePods", "WriteStatus"]
    assert deleted(decision) == ["b", "c"]
    announced, first, second = statuses(decision)
    assert (condition_texts(announced), announced.uncounted_terminated_pods) == (condition_texts(first), None)
    assert condition_texts(first) == [f"FailureTarget=True/{LIMIT}"]
    assert (first.active, first.terminating, first.ready) == (0, 2, 0)
    assert first.uncounted_terminated_pods is not None
    assert set(first.uncounted_terminated_pods.failed) == {"a", "b", "c"}
    assert (second.failed, condition_texts(second)) == (3, condition_texts(first))
    assert events(decision) == []


def test_failed_comes_when_nothing_terminates_any_more() -> None:
    status = {
        "conditions": [{"type": "FailureTarget", "status": "True", "reason": "Custom", "message": "by user"}],
        "failed": 1,
    }
    decision = run(job(status=status))
    assert condition_texts(final(decision)) == ["FailureTarget=True/Custom by user", "Failed=True/Custom by user"]
    assert final(decision).completion_time is None
    assert events(decision) == ["Warning Custom by user"]


def test_pod_whose_deletion_failed_stays_active_and_uncounted_in_a_failing_job() -> None:
    decision = run(job(parallelism=2, completions=2, backoff_limit=0), pod("a", "Failed"), pod("b"), pods_done=True)
    status = final(decision)
    assert condition_texts(status) == [f"FailureTarget=True/{LIMIT}"]
    assert (status.active, status.failed) == (1, 1)
    assert released(decision) == ["a"]


def test_existing_false_failure_target_is_overwritten_not_doubled() -> None:
    status = {"conditions": [{"type": "FailureTarget", "status": "False"}]}
    decision = run(job(backoff_limit=0, status=status), pod("a", "Failed"))
    assert [c.type for c in final(decision).conditions] == ["FailureTarget", "Failed"]


@pytest.mark.parametrize(("limit", "restarts", "fails"), [(0, 0, False), (0, 1, True), (2, 1, False), (2, 2, True)])
def test_restarts_in_place_count_for_the_limit(limit: int, restarts: int, fails: bool) -> None:
    decision = run(job(backoff_limit=limit, restart_policy="OnFailure"), pod("a", restarts=restarts))
    assert bool(condition_texts(final(decision))) is fails


@pytest.mark.parametrize(
    ("pods", "fails"),
    [
        ([pod("a", restarts=2), pod("b", "Pending", restarts=1)], True),
        ([pod("a", restarts=2), pod("b", restarts=1, deleted=0, grace=30)], True),
        ([pod("a", restarts=2), pod("b", "Unknown", restarts=1)], False),
        ([pod("a", restarts=2), pod("b", "Succeeded", restarts=1)], False),
    ],
)
def test_restarts_count_of_all_pods_that_run_or_will(pods: list[Pod], fails: bool) -> None:
    a_job = job(
        backoff_limit=3, restart_policy="OnFailure", parallelism=2, completions=2, pod_replacement_policy="Failed"
    )
    assert (condition_texts(final(run(a_job, *pods, now=1))) != []) is fails


def test_restarts_do_not_matter_to_jobs_that_never_restart_in_place() -> None:
    assert condition_texts(final(run(job(backoff_limit=0), pod("a", restarts=9)))) == []


@pytest.mark.parametrize(
    ("now", "fails", "requeue"), [(0, False, 4.0), (3.25, False, 0.75), (4, True, None), (99, True, None)]
)
def test_deadline_runs_from_the_start_time(now: float, fails: bool, requeue: float | None) -> None:
    decision = run(job(active_deadline_seconds=4), pod("a"), now=now)
    assert condition_texts(final(decision)) == ([f"FailureTarget=True/{DEADLINE}"] if fails else [])
    assert decision.requeue_after == requeue


def test_largest_deadline_does_not_expire() -> None:
    decision = run(job(active_deadline_seconds=2**63 - 1), pod("a"), now=9)
    assert condition_texts(final(decision)) == []
    assert decision.requeue_after is not None
    assert decision.requeue_after > 2**62


def test_zero_deadline_fails_without_a_pod() -> None:
    decision = run(job(active_deadline_seconds=0, started=None))
    assert condition_texts(final(decision)) == [f"FailureTarget=True/{DEADLINE}", f"Failed=True/{DEADLINE}"]
    assert created(decision) == []


# --- exponential backoff ---


@pytest.mark.parametrize(
    ("ends", "due"),
    [([0], 10), ([0, 10], 30), ([0, 0, 0], 40), ([0, 0, 0, 0], 80), ([100], 110), ([0] * 9, 600)],
)
def test_replacement_waits_for_the_backoff_of_all_failures(ends: list[float], due: float) -> None:
    pods = [pod(f"p{i}", "Failed", ended=end) for i, end in enumerate(ends)]
    early = run(job(backoff_limit=99), *pods, now=due - 0.5)
    assert created(early) == []
    assert early.requeue_after == 0.5
    assert created(run(job(backoff_limit=99), *pods, now=due)) == [None]


@pytest.mark.parametrize("indexed_job", [False, True])
def test_failure_in_the_far_future_delays_as_if_it_were_now(indexed_job: bool) -> None:
    """Users who may write the status of pods can write any time."""
    never = (datetime.max.replace(tzinfo=UTC) - at(0)).total_seconds() - 1
    waiting = indexed(2, backoff_limit_per_index=3) if indexed_job else job(backoff_limit=99)
    decision = run(waiting, pod("p", "Failed", index=0 if indexed_job else None, ended=never))
    assert not {0, None} & set(created(decision))
    assert decision.requeue_after == 10


def test_success_resets_the_backoff_and_wins_a_tie() -> None:
    pods = [pod("a", "Failed", ended=5), pod("b", "Failed", ended=7), pod("s", "Succeeded", ended=7)]
    assert created(run(job(completions=2), *pods, now=7)) == [None]
    assert created(run(job(completions=2), *pods, pod("c", "Failed", ended=8), now=8)) == []


@pytest.mark.parametrize("order", [("early", "late"), ("late", "early")])
def test_the_newest_success_resets_the_backoff_in_whatever_order_pods_come(order: tuple[str, str]) -> None:
    ends = {"early": 2, "late": 7}
    pods = [pod("a", "Failed", ended=5), *(pod(name, "Succeeded", ended=ends[name]) for name in order)]
    assert created(run(job(completions=3), *pods, now=8)) == [None]


def test_a_success_is_remembered_for_failures_that_come_to_light_later() -> None:
    first = run(job(completions=2), pod("s", "Succeeded", ended=9), pod("a"), now=9)
    status = {"succeeded": 1}
    failed = pod("a", "Failed", ended=5)
    assert created(run(job(completions=2, status=status), failed, now=10, memory=first.memory)) == [None]


def test_a_finish_time_once_known_stays() -> None:
    """A pod being deleted fails when its deletion starts; its containers end later."""
    first = run(job(), pod("a", deleted=0, grace=30), now=1)
    ended = pod("a", "Failed", deleted=0, grace=30, ended=20)
    assert run(job(), ended, now=21, memory=first.memory).requeue_after is None
    assert created(run(job(), ended, now=21, memory=first.memory)) == [None]


def test_a_pod_being_deleted_delays_its_replacement_after_a_restart_too() -> None:
    assert run(job(), pod("a", deleted=0, grace=30), now=1, memory=None).requeue_after == 9


def test_backoff_survives_a_restart_by_the_pods_that_are_kept() -> None:
    counted = [pod("a", "Failed", tracked=False, ended=0), pod("b", "Failed", tracked=False, ended=10)]
    decision = run(job(status={"failed": 2}), *counted, now=12, memory=None)
    assert created(decision) == []
    assert decision.requeue_after == 18


def test_backoff_survives_a_restart_by_the_number_of_those_that_are_not() -> None:
    """sluice/failed-pods-limit has left one pod of three."""
    kept = pod("c", "Failed", tracked=False, ended=10)
    first = run(job(status={"failed": 3}), kept, now=12, memory=None)
    assert created(first) == []
    assert first.requeue_after == 38
    second = run(job(status={"failed": 3}), kept, pod("d", "Failed", ended=60), now=61, memory=first.memory)
    assert second.requeue_after == 79


def test_failures_before_a_success_are_not_missed_after_a_restart() -> None:
    kept = pod("c", "Failed", tracked=False, ended=10)
    status = {"failed": 3, "succeeded": 1}
    assert run(job(completions=2, status=status), kept, now=12, memory=None).requeue_after == 8
    first = run(job(completions=2, status={"failed": 3}), kept, now=12, memory=None)
    late = pod("d", "Succeeded", ended=9)
    second = run(job(completions=2, status={"failed": 3}), kept, late, now=13, memory=first.memory)
    assert second.requeue_after == 7


def test_backoff_remembers_pods_that_were_deleted_meanwhile() -> None:
    first = run(job(), pod("a", "Failed", ended=0), now=1)
    second = run(job(status={"failed": 1}), now=2, memory=first.memory)
    assert created(second) == []
    assert second.requeue_after == 8


def test_a_repeated_sync_does_not_lengthen_the_backoff() -> None:
    failed = pod("a", "Failed", ended=0)
    first = run(job(), failed, now=1)
    again = run(job(), failed, now=1, memory=first.memory)
    assert again.requeue_after == first.requeue_after == 9


def test_active_pods_are_reported_truly_during_backoff() -> None:
    decision = run(job(parallelism=3, completions=3), pod("a", ready=True), pod("b", "Failed"), now=1)
    assert (final(decision).active, final(decision).ready) == (1, 1)


def test_annotation_sets_the_base_of_the_backoff() -> None:
    slow = job(annotations={"sluice/backoff-seconds": "60"})
    assert run(slow, pod("a", "Failed", ended=0), now=1).requeue_after == 59


def test_annotation_limits_the_failed_pods_kept() -> None:
    tidy = job(annotations={"sluice/failed-pods-limit": "1"}, status={"failed": 2})
    pods = [pod("old", "Failed", tracked=False, ended=0), pod("mid", "Failed", tracked=False, ended=3)]
    decision = run(tidy, *pods, pod("new", "Failed", ended=6), now=6)
    pruned = [p.metadata.name for step in decision.steps if isinstance(step, PrunePods) for p in step.pods]
    assert pruned == ["old", "mid"]


def test_only_counted_failures_are_pruned() -> None:
    tidy = job(annotations={"sluice/failed-pods-limit": "0"}, parallelism=5, completions=5, status={"failed": 1})
    others = pod("going", "Failed", tracked=False, deleted=0), pod("done", "Succeeded", tracked=False), pod("runs")
    decision = run(tidy, pod("old", "Failed", tracked=False, ended=0), *others, now=60)
    assert [p.metadata.name for step in decision.steps if isinstance(step, PrunePods) for p in step.pods] == ["old"]


def test_recorded_interim_condition_is_not_written_again() -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded"}
    assert kinds(run(job(status={"conditions": [target]}), pod("a")))[0] == "DeletePods"


def test_last_failed_pod_is_kept_until_replaced_with_limit_zero() -> None:
    """After a restart the wait is computed from this pod alone."""

    def pruned(decision: Decision) -> list[str]:
        return [p.metadata.name for step in decision.steps if isinstance(step, PrunePods) for p in step.pods]

    tidy = job(annotations={"sluice/failed-pods-limit": "0"}, status={"failed": 2})
    pods = pod("old", "Failed", tracked=False, ended=0), pod("new", "Failed", tracked=False, ended=6)
    waiting = run(tidy, *pods, now=7, memory=None)
    assert (created(waiting), pruned(waiting), waiting.requeue_after) == ([], ["old"], 19)
    due = run(tidy, pods[1], now=26, memory=None)
    assert (created(due), pruned(due)) == ([None], ["new"])
    paused = job(annotations={"sluice/failed-pods-limit": "0"}, suspend=True, status={"failed": 2})
    assert run(paused, pods[1], now=7, memory=None).requeue_after == 19
    over = job(annotations={"sluice/failed-pods-limit": "0"}, backoff_limit=1, status={"failed": 2})
    assert pruned(run(over, pods[1], now=7, memory=None)) == ["new"]


def test_deletion_counts_as_failure_at_once_unless_only_failed_pods_are_replaced() -> None:
    going = pod("a", deleted=0, grace=30)
    assert final(run(job(), going, now=1)).failed == 1
    waiting = run(job(pod_replacement_policy="Failed"), going, now=1)
    assert final(waiting).failed == 0
    assert final(waiting).terminating == 1
    assert created(waiting) == []


def test_terminating_pods_take_places_when_only_failed_pods_are_replaced() -> None:
    pods = [pod("a", deleted=0, grace=30), pod("b")]
    decision = run(job(parallelism=3, completions=9, pod_replacement_policy="Failed"), *pods, now=99)
    assert len(created(decision)) == 1


def test_index_of_terminating_pod_waits_for_it_when_only_failed_are_replaced() -> None:
    decision = run(indexed(3, 2, pod_replacement_policy="Failed"), pod("a", index=0, deleted=0, grace=30), now=99)
    assert created(decision) == [1]


# --- backoff limit per index ---


def fc(failures: int, ignored: int = 0) -> dict[str, str]:
    notes = {"batch.kubernetes.io/job-index-failure-count": str(failures)}
    return notes | ({"batch.kubernetes.io/job-index-ignored-failure-count": str(ignored)} if ignored else {})


def test_failed_pod_of_an_index_stays_uncounted_until_it_is_replaced() -> None:
    failed = pod("a", "Failed", 0, annotations=fc(0))
    waiting = run(indexed(1, backoff_limit_per_index=2), failed, now=1)
    assert released(waiting) == []
    assert (final(waiting).failed, final(waiting).failed_indexes) == (0, "")
    assert waiting.requeue_after == 9
    replaced = run(indexed(1, backoff_limit_per_index=2), failed, pod("b", index=0, annotations=fc(1)), now=11)
    assert released(replaced) == ["a"]
    assert final(replaced).failed == 1


@pytest.mark.parametrize(
    ("annotations", "now", "expected"),
    [
        (fc(0), 10, (1, 0)),
        (fc(1), 20, (2, 0)),
        (fc(1, 2), 80, (2, 2)),
        ({"batch.kubernetes.io/job-index-failure-count": "abc"}, 10, (1, 0)),
        ({"batch.kubernetes.io/job-index-failure-count": "-3"}, 10, (1, 0)),
        ({"batch.kubernetes.io/job-index-failure-count": "2147483648"}, 10, (1, 0)),
    ],
)
def test_replacement_carries_the_counts_of_the_pod_it_replaces(
    annotations: dict[str, str], now: float, expected: tuple[int, int]
) -> None:
    from job_controller.sync_steps import CreatePods

    job_ = indexed(1, backoff_limit_per_index=5)
    failed = pod("a", "Failed", 0, annotations=annotations)
    assert created(run(job_, failed, now=now - 1)) == []
    decision = run(job_, failed, now=now)
    plans = [plan for step in decision.steps if isinstance(step, CreatePods) for plan in step.plans]
    assert [(plan.failures, plan.ignored) for plan in plans] == [expected]


@pytest.mark.parametrize(
    ("first", "second", "due", "failures"),
    [
        ((0, 0, 9), (1, 0, 5), 25, 2),  # the higher count is the later try, whatever the clocks of nodes say
        ((0, 1, 9), (1, 1, 5), 45, 2),
        ((1, 0, 5), (0, 2, 4), 44, 1),
        ((1, 0, 5), (1, 0, 9), 29, 2),
    ],
)
def test_of_two_failed_pods_of_an_index_the_later_attempt_is_replaced(
    first: tuple[int, int, float], second: tuple[int, int, float], due: float, failures: int
) -> None:
    pods = [
        pod(name, "Failed", 0, annotations=fc(failed, ignored), ended=ended)
        for name, (failed, ignored, ended) in (("a", first), ("b", second))
    ]
    for some in (pods, pods[::-1]):
        early = run(indexed(1, backoff_limit_per_index=9), *some, now=due - 0.5)
        assert (created(early), early.requeue_after) == ([], 0.5)
        plans = run(indexed(1, backoff_limit_per_index=9), *some, now=due).steps
        assert [plan.failures for step in plans if isinstance(step, CreatePods) for plan in step.plans] == [failures]


def test_index_fails_when_its_last_retry_fails() -> None:
    pods = [pod("a", "Failed", 0, annotations=fc(1)), pod("b", index=1, annotations=fc(0))]
    decision = run(indexed(2, backoff_limit_per_index=1), *pods)
    assert final(decision).failed_indexes == "0"
    assert final(decision).failed == 1
    assert condition_texts(final(decision)) == []


def test_job_fails_when_all_indexes_are_settled_and_one_failed() -> None:
    status = {"completedIndexes": "0", "succeeded": 1}
    decision = run(indexed(2, backoff_limit_per_index=0, status=status), pod("a", "Failed", 1, annotations=fc(0)))
    assert condition_texts(final(decision)) == [
        "FailureTarget=True/FailedIndexes Job has failed indexes",
        "Failed=True/FailedIndexes Job has failed indexes",
    ]


def test_job_fails_when_too_many_indexes_failed() -> None:
    pods = [pod("a", "Failed", 1, annotations=fc(0)), pod("b", index=0)]
    decision = run(indexed(3, backoff_limit_per_index=0, max_failed_indexes=0), *pods)
    assert condition_texts(final(decision)) == [
        "FailureTarget=True/MaxFailedIndexesExceeded Job has exceeded the specified maximal number of failed indexes"
    ]
    assert deleted(decision) == ["b"]


def test_explicit_backoff_limit_counts_failures_that_still_wait() -> None:
    pods = [pod("a", "Failed", 0, annotations=fc(0)), pod("b", "Failed", 1, annotations=fc(0)), pod("c", index=2)]
    decision = run(indexed(3, backoff_limit_per_index=3, backoff_limit=1), *pods)
    assert condition_texts(final(decision)) == [f"FailureTarget=True/{LIMIT}"]
    assert final(decision).failed == 3


def test_index_in_backoff_does_not_block_a_later_one() -> None:
    decision = run(indexed(2, 1, backoff_limit_per_index=3), pod("a", "Failed", 0, annotations=fc(0)), now=1)
    assert created(decision) == [1]


def test_no_more_indexes_run_at_once_than_parallelism_says() -> None:
    assert created(run(indexed(5, 2, backoff_limit_per_index=3))) == [0, 1]


def test_settled_indexes_get_no_new_pod() -> None:
    status = {"completedIndexes": "0,2", "failedIndexes": "1", "succeeded": 2, "failed": 1}
    assert created(run(indexed(5, backoff_limit_per_index=0, status=status))) == [3, 4]


def test_global_backoff_does_not_hold_back_per_index_jobs() -> None:
    pods = [pod("a", "Failed", 0, annotations=fc(0))]
    assert created(run(indexed(3, backoff_limit_per_index=1), *pods, now=1, memory=JobMemory())) == [1, 2]


def test_start_time_is_kept() -> None:
    assert final(run(job(started=3), pod("a"), now=50)).start_time == at(3)
