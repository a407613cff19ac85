"""Waits until Jobs have reached a goal. Shared by `sluice wait`, `submit --wait` and `run`.

The Jobs are read again and again, at the pace of `polling`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from time import monotonic
from typing import TypeAlias

import msgspec

from job_controller.model import Job, Key
from job_controller.reasons import DEADLINE_EXCEEDED
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.cli import output
from queue_manager.cli.connection import NoResponse
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, EXIT_UNEXPECTED
from queue_manager.cli.named_targets import JobTarget, get_or_none, workload_of
from queue_manager.cli.node_reading import fixed_nodes
from queue_manager.cli.pod_reading import pods_of, read_troubled_pods
from queue_manager.cli.polling import NOTICE, Pace, patiently
from queue_manager.cli.ps import reason, rows_with_retries
from queue_manager.cli.published_config import published
from queue_manager.cli.queue_reading import read_pod_classes, read_queues
from queue_manager.cli.refused_pod_reading import with_refused_pods
from queue_manager.cli.show import failure_of
from queue_manager.cli.standard_streams import say
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.lifecycle.pod_causes import decisive_pods
from queue_manager.visibility.followed_states import STARTED, ShownState, continued, is_outdated
from queue_manager.visibility.job_causes import of_indexes
from queue_manager.visibility.job_states import (
    AWAITS_NODE,
    NO_REFUSALS,
    JobRow,
    JobState,
    Refusals,
    job_row,
    job_state,
    passed_over_for,
    refusals_in,
)
from queue_manager.visibility.node_fit import NodeFacts
from queue_manager.visibility.obstacles import (
    Obstacle,
    ReadableQueues,
    further_texts,
    node_obstacle,
    obstacles,
    pod_class,
    pod_class_obstacle,
)
from queue_manager.visibility.running_or_starting import failed_pods
from queue_manager.visibility.wait_goals import IN_NO_QUEUE, Goal, Outcome, Result, result_of

QUEUES_SECONDS = 5.0  # after which queues that decide about a pending Job are read again
REASON_SECONDS = 3.0  # in which the reason of a Job that did not end in time is read


COLUMNS = (
    output.TableColumn("NAMESPACE", lambda row: row.namespace),
    output.TableColumn("NAME", lambda row: row.name),
    output.TableColumn("STATE", lambda row: row.state or "deleted"),
    output.TableColumn("RESULT", lambda row: row.result),
    output.TableColumn("REASON", lambda row: row.reason, wrap=True),
)


Report: TypeAlias = Callable[[Key, JobState | None, str], None]


def say_state(key: Key, state: JobState | None, why: str) -> None:
    """Report the new state of a Job on standard error; None: it was deleted."""
    say(f"{key} {state or 'deleted'}{': ' if why else ''}{why}")


@dataclass
class JobWait:
    """Waits until each of several Jobs has reached `goal`, or can no longer reach it.

    `jobs` maps each Job to its UID, or to "" if that is unknown. `report` is called with each new state of a Job.
    """

    client: RestClient
    jobs: Mapping[Key, str]
    goal: Goal = Goal.FINISHED
    default_ns: str = "default"
    report: Report = say_state
    _outcomes: dict[Key, Outcome] = field(default_factory=dict)
    _states: dict[Key, JobState | None] = field(default_factory=dict)
    _whys: dict[Key, JobRow | str] = field(default_factory=dict)  # of the state that was reported last
    _failed: dict[Key, int] = field(default_factory=dict)  # pods, as of then
    _queues: ReadableQueues | None = None
    _queues_at: float = 0.0
    _refusals: dict[str, tuple[float, Refusals]] = field(default_factory=dict)  # by namespace, with the time read
    _nodes: Sequence[NodeFacts] | None = None  # read once: they do not change while `sluice up` runs
    _are_nodes_read: bool = False

    async def run(self, seconds: float | None = None) -> list[Outcome]:
        """Return the outcomes in the order of the Jobs, after all have ended or `seconds` have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._until_all_ended()
        late = [key for key in self.jobs if key not in self._outcomes]
        self._outcomes.update(zip(late, await asyncio.gather(*map(self._timed_out, late)), strict=True))
        return [self._outcomes[key] for key in self.jobs]

    async def _timed_out(self, key: Key) -> Outcome:
        """Return the outcome of a Job that is waited for no longer: with the reason of now, if it can be read soon."""
        why = self._whys.get(key, "")
        with suppress(TimeoutError, ApiError, NoResponse):
            async with asyncio.timeout(REASON_SECONDS):
                if (job := await get_or_none(self.client, JOBS, key, Job)) is not None:
                    now, job, workload = await self._read(key, job)
                    found = await self._obstacles(job, workload, job_state(job, workload, now))
                    why = found[0].text if found else await self._why(job, workload, now)
        return self._outcome(key, Result.TIMEOUT, _text(why))

    async def _until_all_ended(self) -> None:
        pace = Pace(len(self.jobs))
        while left := [key for key in self.jobs if key not in self._outcomes]:
            before = dict(self._states)
            for key in left:
                await patiently(partial(self._observe, key), NOTICE)
            if len(self._outcomes) < len(self.jobs):
                await pace.pause(changed=before != self._states)

    async def _observe(self, key: Key) -> None:
        """Read one Job and its Workload; record its outcome if waiting for it is over."""
        job = await get_or_none(self.client, JOBS, key, Job)
        if job is None or self.jobs[key] not in ("", job.metadata.uid):
            self._end(key, Result.GONE, None, self._deletion(key) or ("another Job has its name now" if job else ""))
            return
        now, job, workload = await self._read(key, job)
        if is_outdated(self._states.get(key), job_state(job, workload, now)):
            now, job, workload = await self._read(key, job)
        state = job_state(job, workload, now)
        obstacles_now = await self._obstacles(job, workload, state)
        found = obstacles_now[0] if obstacles_now else None
        has_run = await self._has_run(job, workload, state, now)
        result = result_of(job, state, self.goal, never=found is not None and found.never, has_run=has_run)
        if result is not None:
            further = further_texts(obstacles_now) if result == Result.NEVER else []
            self._end(key, result, state, await self._reason(job, workload, result, found, now), further)
        elif self._is_news(key, state, failed := failed_pods(job.status)):
            why = await self._why(job, workload, now) if state not in STARTED else self._loss(key, job, workload, now)
            self._note(key, state, found.text if found is not None else why, failed)

    def _deletion(self, key: Key) -> str:
        """Return who deleted a Job that is gone; "" if that was not seen."""
        return _text(self._whys[key]) if self._states.get(key) == JobState.DELETING else ""

    async def _read(self, key: Key, job: Job) -> tuple[datetime, Job, Workload | None]:
        """The time, and the Job with its Workload, in the order that `job_states` requires."""
        now = SystemClock().now()
        workload = await workload_of(self.client, job)
        return now, await get_or_none(self.client, JOBS, key, Job) or job, workload

    async def _has_run(self, job: Job, workload: Workload | None, state: JobState, now: datetime) -> bool:
        """Whether a pod of a failed Job has started. Pods are read only if that decides."""
        if state != JobState.FAILED or self.goal != Goal.STARTED:
            return True
        return job_row(job, workload, now, pods=await pods_of(self.client, JobTarget(job, workload))).has_run

    async def _why(self, job: Job, workload: Workload | None, now: datetime) -> JobRow:
        """Return the row of a Job, whose reason is that of `sluice ps`."""
        pods = await read_troubled_pods(self.client, [job], job.metadata.namespace)
        workloads = [workload] if workload is not None else []
        if workload is not None and job_state(job, workload, now) == JobState.PENDING:
            equivalent = passed_over_for(workload, await self._refused(workload.metadata.namespace))
            workloads += [equivalent] if equivalent is not None else []
        rows = await rows_with_retries(self.client, [job], workloads, pods, now)
        (row,) = await with_refused_pods(self.client, rows, [job])
        return row

    async def _refused(self, namespace: str) -> Refusals:
        """Return the Workloads that do not fit, as of at most QUEUES_SECONDS ago."""
        read_at, found = self._refusals.get(namespace, (float("-inf"), NO_REFUSALS))
        if monotonic() - read_at > QUEUES_SECONDS:
            found = refusals_in(await self.client.list(WORKLOADS, namespace, type=Workload))
            self._refusals[namespace] = (monotonic(), found)
        return found

    def _loss(self, key: Key, job: Job, workload: Workload | None, now: datetime) -> str:
        """Return why a Job that ran is starting again; "" for any other."""
        last, row = self._states.get(key), job_row(job, workload, now)
        if last != JobState.RUNNING or row.state != JobState.STARTING:
            return ""
        shown = continued(ShownState(last), ShownState(row.state, row.reason, row.message))
        return reason(msgspec.structs.replace(row, reason=shown.reason, message=shown.message))

    async def _reason(
        self, job: Job, workload: Workload | None, result: Result, found: Obstacle | None, now: datetime
    ) -> str:
        """Return why a Job did not reach the goal; "" if it did."""
        if result == Result.REACHED:
            return ""
        row = await self._why(job, workload, now)
        if row.state == JobState.SUSPENDED:
            return IN_NO_QUEUE
        pods = await pods_of(self.client, JobTarget(job, workload))
        failure = await failure_of(self.client, decisive_pods(job.status, pods))
        if found is not None:
            return found.text
        if failure is None or result != Result.FAILED or row.reason == DEADLINE_EXCEEDED:
            return reason(row)
        return of_indexes(row.failed_indexes, failure.text)

    async def _obstacles(self, job: Job, workload: Workload | None, state: JobState) -> list[Obstacle]:
        """Return what prevents a Job from starting: its pods' class, the nodes, and of a pending one its queues."""
        found = await self._queue_obstacles(job, workload) if state == JobState.PENDING else []
        if state not in AWAITS_NODE or self.goal == Goal.ADMITTED:
            return found
        if state != JobState.PENDING and pod_class(job):
            of_class = pod_class_obstacle(job, await read_pod_classes(self.client))
            found = [of_class] if of_class is not None else []
        if not self._are_nodes_read:
            self._nodes, self._are_nodes_read = await fixed_nodes(self.client), True
        of_nodes = node_obstacle(job, workload, self._nodes)
        if of_nodes is None:
            return found
        return [*found, of_nodes] if found and found[0].never else [of_nodes, *found]

    async def _queue_obstacles(self, job: Job, workload: Workload | None) -> list[Obstacle]:
        """Return what the queues have against a pending Job. They are at most QUEUES_SECONDS old."""
        if self._queues is None or monotonic() - self._queues_at > QUEUES_SECONDS:
            namespaces = {key.namespace for key in self.jobs}
            self._queues = await read_queues(self.client, namespaces, await published(self.client, namespaces))
            self._queues_at = monotonic()
        found = list(obstacles(job, workload, self._queues, self.default_ns))
        return found if found and found[0].certain else []

    def _end(self, key: Key, result: Result, state: JobState | None, why: str, further: Sequence[str] = ()) -> None:
        if self._is_news(key, state, failed := self._failed.get(key, 0)):
            self._note(key, state, why, failed)
        self._outcomes[key] = self._outcome(key, result, why, further)

    def _outcome(self, key: Key, result: Result, why: str = "", further: Sequence[str] = ()) -> Outcome:
        state = self._states.get(key)
        return Outcome(
            namespace=key.namespace, name=key.name, result=result, state=state, reason=why, further=[*further]
        )

    def _is_news(self, key: Key, state: JobState | None, failed: int) -> bool:
        """Whether the state differs from the last one, or another try has failed since that was reported."""
        if key not in self._states or self._states[key] != state:
            return True
        return state == JobState.BACKOFF and self._failed[key] != failed

    def _note(self, key: Key, state: JobState | None, why: JobRow | str, failed: int) -> None:
        """Report a state, and keep it."""
        self._states[key], self._whys[key], self._failed[key] = state, why, failed
        self.report(key, state, _text(why))


def _text(why: JobRow | str) -> str:
    """Return the reason of a state; of a row as of now, since it may name a time to come."""
    return why if isinstance(why, str) else reason(why)


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 0 if all have reached the goal, 2 if one never can, 1 otherwise."""
    results = {outcome.result for outcome in outcomes}
    if Result.NEVER in results:
        return EXIT_NEVER
    return EXIT_OK if results <= {Result.REACHED} else EXIT_UNEXPECTED
