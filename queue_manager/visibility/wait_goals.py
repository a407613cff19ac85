"""Decides whether a Job has reached what `sluice wait` waits for, or cannot reach it any more. Pure.

    state of the Job          finished    admitted    started
    Succeeded                 reached     reached     reached
    Failed                    failed      reached if it ever was, else failed
    Running                   -           reached     reached
    Starting, and Backoff
    between two tries         -           reached     -
    Refused, or an obstacle that time does not remove (before Deactivated): never
    Suspended, in no queue    never       never       never
    Deactivated               stopped     stopped     stopped
    deleted, or replaced by another Job of the name: gone

"-" means that waiting continues, as it does in all other states. A deactivated Job runs again only after an operator
has reactivated it, so that waiting for it would not end by itself.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from job_controller.model import Job
from queue_manager.visibility.job_states import AWAITS_NODE, JobState
from queue_manager.visibility.running_or_starting import is_between_tries


class Goal(StrEnum):
    """What `sluice wait --for` waits for. ADMITTED: the Job is unsuspended; STARTED: a pod of it is ready."""

    FINISHED = "finished"
    ADMITTED = "admitted"
    STARTED = "started"


class Result(StrEnum):
    """How waiting for one Job ends."""

    REACHED = "reached"
    FAILED = "failed"
    STOPPED = "stopped"
    GONE = "gone"
    NEVER = "never"
    TIMEOUT = "timeout"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How waiting for one Job ended. `state`: None if the Job was deleted. `reason`: "" if it needs none.

    `further`: what keeps a Job that can never start from starting beside `reason`.
    """

    namespace: str
    name: str
    result: Result
    state: JobState | None
    reason: str = ""
    further: list[str] = []


REACHED_IN = {
    Goal.FINISHED: (JobState.SUCCEEDED,),
    Goal.ADMITTED: (JobState.STARTING, JobState.RUNNING, JobState.SUCCEEDED),
    Goal.STARTED: (JobState.RUNNING, JobState.SUCCEEDED),
}
IN_NO_QUEUE = "it is suspended and in no queue"
_LOST = {JobState.REFUSED: Result.NEVER, JobState.DEACTIVATED: Result.STOPPED, JobState.SUSPENDED: Result.NEVER}


def result_of(job: Job, state: JobState, goal: Goal, *, never: bool, has_run: bool = True) -> Result | None:
    """Return how waiting for a Job ends by the table of this module; None while it continues.

    `never`: the obstacle of a Job that does not run does not go away by itself. `has_run`: whether a pod of a failed
    Job has started (`pod_starts`).
    """
    retried = state == JobState.BACKOFF and not job.spec.suspend and is_between_tries(job.status)
    if state in REACHED_IN[goal] or (retried and goal == Goal.ADMITTED):
        return Result.REACHED
    if state == JobState.FAILED:
        was_admitted = job.status.start_time is not None
        reached = {Goal.FINISHED: False, Goal.ADMITTED: was_admitted, Goal.STARTED: was_admitted and has_run}[goal]
        return Result.REACHED if reached else Result.FAILED
    if state in AWAITS_NODE and never:
        return Result.NEVER
    return _LOST.get(state)
