"""How long a Job waited and ran: one definition for `sluice ps`, `show`, `history` and `report`. Pure.

The life of a Job, from its submission to its end or until now, consists of three kinds of time:

    ran        it holds quota: from an admission until the Job has stopped or ended, in all attempts together; without
               the time in which the cluster of `sluice up` was stopped
    inactive   it is deactivated and holds no quota: it could not start, and this time counts nowhere
    waited     all other time: pending, held by its queue, or in backoff

An attempt that an eviction ended counts as run. `life_of` reads a life out of the objects of a cluster, and
`accounting.job_summary` out of the steps of the history. See BEHAVIOUR.md#q188-waited-and-ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from job_controller.condition_types import FAILED
from job_controller.model import Job
from queue_manager.api import condition_types
from queue_manager.api.types import RequeueHistory, Workload
from queue_manager.lifecycle.interruptions import Interruption, interruptions, running_seconds


class Period(NamedTuple):
    """A period in the life of a Job. `until`: None if it has not ended."""

    since: datetime
    until: datetime | None


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """When a Job ran and when it was inactive. `ended`: None before its end.

    `earlier_ran`, `earlier_inactive`: seconds of former runs and inactive periods without known dates. `earlier_ran`
    is None without such a run.
    """

    submitted: datetime
    ended: datetime | None
    runs: Sequence[Period] = ()
    inactive: Sequence[Period] = ()
    stopped: Sequence[Interruption] = ()
    earlier_ran: float | None = None
    earlier_inactive: float = 0.0


class JobTimes(NamedTuple):
    """Seconds. `ran`: None if the Job was never admitted."""

    waited: float
    ran: float | None


def job_times(life: Life, now: datetime) -> JobTimes:
    """Return how long a Job waited and ran, until its end or `now`."""
    end = life.ended or now
    runs = _clipped(life.runs, life.submitted, end)
    inactive = [part for period in _clipped(life.inactive, life.submitted, end) for part in _outside(period, runs)]
    held, out = (sum(_seconds(*period) for period in periods) for periods in (runs, inactive))
    waited = _seconds(life.submitted, end) - held - out - (life.earlier_ran or 0) - life.earlier_inactive
    if not runs and life.earlier_ran is None:
        return JobTimes(_rounded(waited), None)
    first = min((since for since, _ in runs), default=end)
    earlier = (life.earlier_ran or 0) - (_seconds(life.submitted, first) - _running(life.submitted, first, life))
    return JobTimes(_rounded(waited), _rounded(max(0.0, earlier) + sum(_running(*run, life) for run in runs)))


def _rounded(seconds: float) -> float:
    return round(max(0.0, seconds), 3)


def _running(since: datetime, until: datetime, life: Life) -> float:
    return running_seconds(since, until, life.stopped)


def _clipped(periods: Sequence[Period], first: datetime, last: datetime) -> list[tuple[datetime, datetime]]:
    """The periods between two times, in order. Objects may be newer than `last`, and clocks differ."""
    found: list[tuple[datetime, datetime]] = []
    for since, until in sorted(periods, key=lambda period: period.since):
        begin = max(since, first, found[-1][1] if found else first)
        found.append((min(begin, last), max(min(begin, last), min(until or last, last))))
    return found


def _outside(
    period: tuple[datetime, datetime], runs: Sequence[tuple[datetime, datetime]]
) -> list[tuple[datetime, datetime]]:
    """The parts of a period that lie in none of the runs, which are in order."""
    since, until = period
    parts = []
    for first, last in runs:
        if since < min(first, until):
            parts.append((since, min(first, until)))
        since = max(since, last)
    return [*parts, (since, until)] if since < until else parts


def _seconds(start: datetime, end: datetime) -> float:
    """Return the seconds between two times, at least 0: objects may be newer than `now`."""
    return max(0.0, (end - start).total_seconds())


# --- from the objects of a cluster -------------------------------------------------------------------------


def times_of(job: Job, workload: Workload | None, now: datetime) -> tuple[float | None, float | None]:
    """Return the seconds that the Job waited, None if it does not queue, and ran, None if it never did."""
    waited, ran = job_times(life_of(job, workload, now), now)
    return (waited if workload or job.spec.suspend else None), ran


def last_run_seconds(job: Job, now: datetime) -> float | None:
    """Return the seconds of the current run, or of the run in which the Job ended; None while it does not run."""
    started = job.status.start_time
    return running_seconds(started, ended_at(job) or now, interruptions(job.metadata)) if started else None


def life_of(job: Job, workload: Workload | None, now: datetime) -> Life:
    """Return the life of a Job. The Workload has only the sum of former attempts, without dates."""
    history = (workload.status.requeue_history if workload is not None else None) or RequeueHistory()
    past = workload.status.accumulated_past_execution_time_seconds or 0 if workload is not None else 0
    run, off = _run(job, workload), history.inactive_since
    if off is None and workload is not None and not workload.spec.active and not _holds_quota(workload):
        evicted = workload.condition(condition_types.EVICTED)  # what another queue manager deactivated has no record
        off = evicted.last_transition_time if evicted is not None and evicted.is_true else now
    return Life(
        submitted=job.metadata.creation_timestamp or now,
        ended=ended_at(job),
        runs=(Period(run, None),) if run is not None else (),
        inactive=(Period(off, None),) if off is not None else (),
        stopped=interruptions(job.metadata),
        # Without Sluice's own sum there may be that of Kueue, which a reactivation can reset.
        earlier_ran=max(history.ran_seconds, past) if history.attempts or past else None,
        earlier_inactive=history.inactive_seconds,
    )


def _run(job: Job, workload: Workload | None) -> datetime | None:
    """The start of the current or last run; for a Job that was imported while it ran, its start before the import."""
    admitted = workload.condition(condition_types.ADMITTED) if workload is not None else None
    times = [
        job.status.start_time,
        admitted.last_transition_time if admitted is not None and admitted.is_true else None,
    ]
    return min((at for at in times if at is not None), default=None)


def _holds_quota(workload: Workload) -> bool:
    return workload.is_true(condition_types.ADMITTED)


def ended_at(job: Job) -> datetime | None:
    """Return when the Job completed or failed; None before."""
    return job.status.completion_time or _failed_at(job)


def _failed_at(job: Job) -> datetime | None:
    return next((c.last_transition_time for c in job.status.conditions if c.type == FAILED and c.is_true), None)
