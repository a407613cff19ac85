"""How long a Job waited and ran, and when it ended. Pure."""

from __future__ import annotations

from datetime import datetime

from job_controller.condition_types import FAILED
from job_controller.model import Job
from queue_manager.api import condition_types
from queue_manager.api.types import Workload
from queue_manager.lifecycle.interruptions import interruptions, running_seconds


def spans(job: Job, workload: Workload | None, now: datetime) -> tuple[float | None, float | None]:
    """Return the seconds that the Job waited for its start (until now if it has not started), and ran since then.

    Runs that an eviction ended count toward neither; the Workload records them. A deactivated Job does not wait. A Job
    does not run while a stop of its cluster interrupts it; of a crash no time is known, and it counts as running.
    """
    created = job.metadata.creation_timestamp or now
    started = job.status.start_time
    ended = ended_at(job)
    waited_until = started or ended or _deactivated_at(workload) or now
    waiting = _seconds(created, waited_until) if workload or job.spec.suspend else None
    if waiting is not None and workload is not None:
        waiting = max(0.0, waiting - (workload.status.accumulated_past_execution_time_seconds or 0))
    running = running_seconds(started, ended or now, interruptions(job.metadata)) if started else None
    return waiting, running


def _deactivated_at(workload: Workload | None) -> datetime | None:
    if workload is None or workload.spec.active:
        return None
    evicted = workload.condition(condition_types.EVICTED)
    return evicted.last_transition_time if evicted is not None and evicted.is_true else None


def _seconds(start: datetime, end: datetime) -> float:
    """Return the seconds between two times, at least 0: objects may be newer than `now`."""
    return max(0.0, (end - start).total_seconds())


def ended_at(job: Job) -> datetime | None:
    """Return when the Job completed or failed; None before."""
    return job.status.completion_time or _failed_at(job)


def _failed_at(job: Job) -> datetime | None:
    return next((c.last_transition_time for c in job.status.conditions if c.type == FAILED and c.is_true), None)
