"""Generated lives of a Job: the moves of its life cycle, with what the history records of each change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec
from hypothesis import strategies as st

from job_controller.model import Condition, Job, JobSpec, JobStatus, ObjectMeta
from queue_manager.accounting.record_types import JobRecord, StepRecord
from queue_manager.accounting.step_reading import interruption_records, job_records, workload_records
from queue_manager.lifecycle.interruptions import after_start, after_stop
from queue_manager.lifecycle.state_space import CREATED, MOVES, LifeState, new_life, settled, step

STOPS = "the cluster is stopped and started"
MOVE = st.tuples(st.integers(0, len(MOVES)), st.integers(0, 400))
RECORD = JobRecord(uid="j", namespace="ns", name="j", user="", queue="lq", submitted_at=CREATED)


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
