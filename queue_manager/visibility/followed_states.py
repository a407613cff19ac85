"""Decides what a reader that follows one Job shows next, given what it showed last. Pure.

A reader reads the Workload, then the Job. Between the two the queue may evict the Workload and suspend its Job: the Job
that ran then looks as if it were only Reserved. The eviction is written before the suspension, so a Workload that is
read after such a Job has it: the reader reads both again.
"""

from __future__ import annotations

from typing import NamedTuple

from queue_manager.api.reasons import WAIT_FOR_RECOVERY, WAIT_FOR_START
from queue_manager.visibility.job_states import JobState
from queue_manager.visibility.running_or_starting import NO_LONGER_READY

STARTED = (JobState.STARTING, JobState.RUNNING)


class ShownState(NamedTuple):
    """The state of a Job that was shown last, with its reason and message as `job_states` returns them."""

    state: JobState
    reason: str = ""
    message: str = ""


def is_outdated(last: JobState | None, now: JobState) -> bool:
    """Whether Job and Workload have to be read again: the Workload may be older than the eviction that ended a run."""
    return last in STARTED and now == JobState.RESERVED


def continued(last: ShownState | None, now: ShownState) -> ShownState:
    """Return `now`, with the reason WaitForRecovery if the Job is starting, or waits for its next pod, and ran before.

    Its objects do not always say so (`running_or_starting`). It holds until a pod is ready, or the Job stops.
    """
    between = now.state == JobState.BACKOFF and now.reason == WAIT_FOR_START
    if not (now.state == JobState.STARTING or between) or last is None or now.reason == WAIT_FOR_RECOVERY:
        return now
    recovers = last.state == JobState.RUNNING or (
        last.state in (JobState.STARTING, JobState.BACKOFF) and last.reason == WAIT_FOR_RECOVERY
    )
    return ShownState(now.state, WAIT_FOR_RECOVERY, now.message if between else NO_LONGER_READY) if recovers else now
