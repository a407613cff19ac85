"""What a new process adds of past attempts, which the last one did not write before it was killed."""

from __future__ import annotations

from datetime import datetime
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_manager.accounting.job_summary import JobSummary, attempts, summary
from queue_manager.accounting.missed_attempts import missed_attempts
from queue_manager.accounting.missed_steps import MISSED, missed_steps
from queue_manager.accounting.record_types import StepKind, StepRecord
from queue_manager.accounting.step_order import in_order
from queue_manager.accounting.step_reading import interruption_records, job_records, workload_records
from queue_manager.api.types import Attempt, RequeueHistory
from queue_manager.lifecycle.requeue_history import MAX_ATTEMPTS
from queue_manager.visibility.job_states import job_row
from queue_manager.visibility.predictions import PredictionContext
from queue_manager.visibility.show_record import job_view
from tests.examples import examples
from tests.unit.accounting.history_samples import at
from tests.unit.accounting.test_step_reading import condition, workload
from tests.unit.visibility.job_stories import MOVE, RECORD, Story

TIMEOUT, LIMIT = "PodsReadyTimeout", "DeactivatedDueToRequeuingLimitExceeded"
FIRST = Attempt(start=at(10), end=at(20), reason=TIMEOUT, pod_cause="no node", retry_at=at(30), ran_seconds=12)
SECOND = Attempt(start=at(40), end=at(50), reason=LIMIT, ran_seconds=11)
DEACTIVATED = workload(
    condition("QuotaReserved", False, 51, "Deactivated"), condition("Evicted", True, 50, LIMIT), evictions=2
)
DEACTIVATED = msgspec.structs.replace(
    DEACTIVATED,
    status=msgspec.structs.replace(
        DEACTIVATED.status, requeue_history=RequeueHistory(attempts=(FIRST, SECOND), ran_seconds=23)
    ),
)


def step(kind: StepKind, seconds: float, attempt: int, **fields: str) -> StepRecord:
    return StepRecord(job_uid="j1", uid="w1", attempt=attempt, kind=kind, at=at(seconds), **fields)


def test_what_was_lost_of_a_job_that_was_killed_in_its_first_attempt_is_found() -> None:
    admission = step(StepKind.ADMITTED, 10, 1, cluster_queue="cq", flavor="spot")
    found = list(missed_attempts(DEACTIVATED, [admission], at(1000)))
    assert found == [
        step(StepKind.EVICTED, 20, 1, reason=TIMEOUT, message="no node"),
        step(StepKind.RELEASED, 22, 1, message=MISSED),
        step(StepKind.REQUEUED, 30, 1, message=MISSED),
        step(StepKind.ADMITTED, 40, 2, message=MISSED, cluster_queue="cq", flavor="spot"),
    ]
    assert not list(missed_attempts(DEACTIVATED, [admission, *found], at(1000)))


def test_the_steps_of_another_workload_of_the_job_are_not_those_of_this_one() -> None:
    other = msgspec.structs.replace(step(StepKind.ADMITTED, 10, 1), uid="w0")
    kinds = [str(each.kind) for each in missed_attempts(DEACTIVATED, [other], at(1000))]
    assert kinds == ["Admitted", "Evicted", "Released", "Requeued", "Admitted"]


def restarted(story: Story, random: Random) -> None:
    """A process was killed before it had written any of its last records; another one starts."""
    kept = {key: one for key, one in story.steps.items() if random.random() < 0.5}
    first, job, now = story.life.workload, story.job, story.now
    read = [*workload_records(None, first, now), *job_records(None, job, now), *interruption_records(None, job, now)]
    lost = list(missed_attempts(first, list(kept.values()), now))
    found = [*kept.values(), *(r for r in read if isinstance(r, StepRecord)), *lost]
    found += missed_steps(first, [*kept.values(), *lost], now)
    story.steps = {}
    for one in found:
        story.steps.setdefault(one.key, one)  # as the store does


def in_history(story: Story) -> tuple[JobSummary, list[datetime]]:
    """What the history says of the Job, and when its attempts began."""
    ordered = in_order(story.steps.values())
    return summary(RECORD, ordered, (), story.now), [run.admission.at for run in attempts(ordered, (), story.now)]


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.one_of(MOVE, st.none()), max_size=40), st.integers(0, 1000))
def test_attempts_and_run_time_are_those_of_the_workload_after_any_loss(
    moves: list[tuple[int, int] | None], seed: int
) -> None:
    """None: the process is killed, and any of its records are lost."""
    story, random = Story(), Random(seed)
    for move in moves:
        if move is None:
            restarted(story, random)
        else:
            story.pass_time(move[1])
            story.move(move[0])
        view = job_view(story.job, story.life.workload, [], [], PredictionContext(), story.now)
        row = job_row(story.job, story.life.workload, story.now)
        if view.retries.total_attempts >= MAX_ATTEMPTS:
            return  # attempts before the last ten are known by their number only
        entry, starts = in_history(story)
        assert (entry.attempts, entry.run_seconds) == (view.retries.total_attempts, row.ran_seconds or 0)
        assert entry.ran_seconds == row.ran_seconds
        assert starts == [each.admitted for each in view.retries.attempts]
