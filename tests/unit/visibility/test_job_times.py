"""How long a Job waited and ran: the definition, and that the cluster and the history agree on generated lives."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from job_controller.model import Condition, Job, JobSpec, JobStatus, ObjectMeta
from queue_manager.accounting.job_summary import summary
from queue_manager.accounting.record_types import JobRecord, StepRecord
from queue_manager.accounting.step_reading import interruption_records, job_records, workload_records
from queue_manager.lifecycle.interruptions import Interruption, after_start, after_stop
from queue_manager.lifecycle.requeue_history import MAX_ATTEMPTS
from queue_manager.lifecycle.state_space import CREATED, MOVES, LifeState, new_life, settled, step
from queue_manager.visibility.job_states import job_row
from queue_manager.visibility.job_times import JobTimes, Life, Period, job_times
from queue_manager.visibility.predictions import PredictionContext
from queue_manager.visibility.show_record import job_view
from tests.examples import examples

STOPS = "the cluster is stopped and started"


def at(seconds: float) -> datetime:
    return CREATED + timedelta(seconds=seconds)


def period(since: float, until: float | None = None) -> Period:
    return Period(at(since), at(until) if until is not None else None)


@pytest.mark.parametrize(
    ("life", "waited", "ran"),
    [
        ({}, 100, None),
        ({"ended": at(40)}, 40, None),
        ({"runs": [period(10)]}, 10, 90),
        ({"runs": [period(10, 30), period(50)], "ended": at(60)}, 30, 30),
        ({"runs": [period(10, 30)], "inactive": [period(20)]}, 10, 20),
        ({"inactive": [period(20, 50)], "runs": [period(70)]}, 40, 30),
        ({"runs": [period(10)], "stopped": [Interruption(at(20), at(80))]}, 10, 30),
        ({"runs": [period(50)], "earlier_ran": 20.0, "earlier_inactive": 5.0}, 25, 70),
        ({"earlier_ran": 20.0, "inactive": [period(60)]}, 40, 20),
        ({"runs": [period(50)], "earlier_ran": 30.0, "stopped": [Interruption(at(20), at(30))]}, 20, 70),
        ({"runs": [period(-5)]}, 0, 100),
        ({"runs": [period(150)]}, 100, 0),
    ],
    ids=[
        "pending",
        "ended without an attempt",
        "runs",
        "evicted once",
        "deactivated while it ran",
        "reactivated",
        "the cluster was stopped",
        "earlier attempts without dates",
        "deactivated after attempts without dates",
        "the cluster was stopped in an attempt without dates",
        "imported while it ran",
        "the clock was set back",
    ],
)
def test_a_job_waits_while_it_neither_holds_quota_nor_is_deactivated(life: dict, waited: float, ran: float) -> None:
    assert job_times(Life(**{"submitted": at(0), "ended": None, **life}), at(100)) == JobTimes(waited, ran)


@dataclass
class Story:
    """A Job and its Workload while moves are made, with what the history records of each change."""

    life: LifeState = field(default_factory=new_life)
    steps: dict[object, StepRecord] = field(default_factory=dict)
    version: int = 0

    def __post_init__(self) -> None:
        self.job = Job(
            metadata=ObjectMeta(name="j", namespace="ns", uid="j", creation_timestamp=CREATED),
            spec=JobSpec(suspend=True),
        )

    @property
    def now(self) -> datetime:
        return self.life.now

    def pass_time(self, seconds: int) -> None:
        """Take each step of the life cycle that is due until then, at its time."""
        end = self.now + timedelta(seconds=seconds)
        while (following := step(self.life)) is not None and following.now <= end:
            self._become(following)
        self._become(replace(self.life, now=end))

    def move(self, choice: int) -> str:
        """Make one of the moves that are possible now; nothing happens after the end."""
        if self.life.is_true("Finished"):
            return ""
        possible = [name for name, move in MOVES.items() if move(self.life) is not None]
        name = [*possible, STOPS][choice % (len(possible) + 1)]
        if name == STOPS:
            self._stop_and_start()
        elif (moved := MOVES[name](self.life)) is not None:
            self._become(moved)
        while not settled(self.life):
            self._become(step(self.life) or self.life)
        if (stopped := MOVES["its Job has stopped"](self.life)) is not None:
            self._become(stopped)  # which follows at once where no pod has to end
        return name

    def _stop_and_start(self) -> None:
        for note in (after_stop, after_start):
            text = note(self.job, self.now)
            if text is not None:
                meta = msgspec.structs.replace(self.job.metadata, annotations={"sluice/interruptions": text})
                self._change_job(metadata=meta)
            self._become(replace(self.life, now=self.now + timedelta(seconds=7)))

    def _become(self, new: LifeState) -> None:
        old, self.version = self.life, self.version + 1
        meta = msgspec.structs.replace(new.workload.metadata, resource_version=str(self.version))
        new = replace(new, workload=msgspec.structs.replace(new.workload, metadata=meta))
        self._record(workload_records(old.workload, new.workload, new.now))
        self.life = new
        if new.job_runs and not old.job_runs:
            spec = msgspec.structs.replace(self.job.spec, suspend=False)
            self._change_job(spec=spec, status=JobStatus(start_time=new.now))
        elif new.is_true("Finished") and not old.is_true("Finished"):
            ended = Condition(type="Complete", status="True", last_transition_time=new.now)
            status = msgspec.structs.replace(self.job.status, completion_time=new.now, conditions=(ended,))
            self._change_job(status=status)
        elif old.job_runs and not new.job_runs:
            self._change_job(spec=msgspec.structs.replace(self.job.spec, suspend=True), status=JobStatus())

    def _change_job(self, **fields: object) -> None:
        old, self.job = self.job, msgspec.structs.replace(self.job, **fields)
        self._record(job_records(old, self.job, self.now))
        self._record(interruption_records(old, self.job, self.now))

    def _record(self, found: object) -> None:
        self.steps |= {one.key: one for one in found if isinstance(one, StepRecord)}  # type: ignore[attr-defined]


MOVE = st.tuples(st.integers(0, len(MOVES)), st.integers(0, 400))
RECORD = JobRecord(uid="j", namespace="ns", name="j", user="", queue="lq", submitted_at=CREATED)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(MOVE, max_size=40))
def test_ps_show_and_history_agree_how_long_a_job_waited_and_ran(moves: list[tuple[int, int]]) -> None:
    story, made = Story(), []
    for choice, seconds in moves:
        story.pass_time(seconds)
        made.append((seconds, story.move(choice)))
        row = job_row(story.job, story.life.workload, story.now)
        view = job_view(story.job, story.life.workload, [], [], PredictionContext(None), story.now)
        entry = summary(RECORD, story.steps.values(), (), story.now)
        assert (row.waited_seconds, row.ran_seconds) == (entry.waited_seconds, entry.ran_seconds), made
        assert (view.waited_seconds, view.ran_seconds) == (entry.waited_seconds, entry.ran_seconds)
        assert entry.run_seconds == (entry.ran_seconds or 0)
        if entry.attempts <= MAX_ATTEMPTS:  # more are counted by evictions
            assert (view.retries.total_attempts, len(view.retries.attempts)) == (entry.attempts, entry.attempts), made
        assert row.budget_attempts == view.retries.budget_attempts <= view.retries.total_attempts
