"""One row per Job: what state it is in, since when, and why. Pure: objects and the time in, rows out.

A Job's state for people, first match wins. It follows from API objects alone, so every reader of the same
objects sees the same state:

    Deleting     deletionTimestamp is set
    Succeeded    condition Complete
    Failed       condition Failed
    Refused      its Workload is finished, and the Job never ran: it could not be started, or says something else
    Deactivated  its Workload has spec.active=false: an operator must act
    Backoff      evicted, and requeueAt lies ahead
    Evicted      evicted, and it still holds its quota: its pods are going away
    Running      not suspended, and a pod is ready or has succeeded
    Starting     not suspended, no pod ready yet
    Reserved     quota is reserved, the Job is not started yet
    Suspended    suspended, and no queue knows it: only a user can start it
    Pending      waits in its queue

Jobs and Workloads come from two lists, and both may change between them. Callers read the time first, the Workloads
second and the Jobs last, so that a Job is never older than its Workload. A Workload is finished only after its Job
has ended, so a finished Workload beside a Job that has not ended always means Refused. A Job without a Workload was
created after the Workloads were listed, hence after `now`, and is_left_alone does not hold. In the other order each
Job that ends between the two lists looks refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from job_controller import conditions
from job_controller.model import Job
from queue_manager.api import condition_types, keys, messages, reasons
from queue_manager.api.types import Workload
from queue_manager.jobs.workload_manifest import prebuilt_name
from queue_manager.visibility import inbox

LOOKED_AT_WITHIN = timedelta(seconds=15)  # a new Job by its queue
NOT_QUEUED = "NotQueued"


class JobState(StrEnum):
    """The states of the table above, in the order in which people look for them: running, waiting, ended."""

    RUNNING = "Running"
    STARTING = "Starting"
    RESERVED = "Reserved"
    EVICTED = "Evicted"
    PENDING = "Pending"
    BACKOFF = "Backoff"
    SUSPENDED = "Suspended"
    REFUSED = "Refused"
    DEACTIVATED = "Deactivated"
    DELETING = "Deleting"
    FAILED = "Failed"
    SUCCEEDED = "Succeeded"
    # Of Workloads without a Job: see `state_without_job`.
    ORPHANED = "Orphaned"
    FINISHED = "Finished"


_ORDER = tuple(JobState)


class JobRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Job as `sluice ps` shows it. Times are in seconds; None: the phase was never entered.

    `obstacle`: what stops its queue as a whole, with the command against it.
    """

    namespace: str
    name: str
    queue: str
    priority: int
    state: JobState
    ready: int
    active: int
    succeeded: int
    failed: int
    completions: int | None
    waiting_seconds: float | None
    running_seconds: float | None
    retries: int
    tries: int
    reason: str
    message: str
    alike: str
    obstacle: str = ""


def job_rows(jobs: Iterable[Job], workloads: Iterable[Workload], now: datetime) -> list[JobRow]:
    """Rows ordered by namespace, then by what a person looks for first: running, waiting, ended."""
    by_job = workloads_by_job(workloads)
    refused = _refused(by_job.values())
    seen = ((job, by_job.get(job.metadata.uid)) for job in jobs)
    rows = [job_row(job, its, now, _alike(job, its, refused)) for job, its in seen]
    return sorted(rows, key=lambda row: (row.namespace, _ORDER.index(row.state), -row.priority, row.name))


def workloads_by_job(workloads: Iterable[Workload]) -> dict[str, Workload]:
    """The Workload of each Job, by the Job's UID; of several, one that is not finished, then the newest."""
    ordered = sorted(
        workloads, key=lambda w: (not w.is_true(condition_types.FINISHED), str(w.metadata.creation_timestamp))
    )
    return {owner.uid: w for w in ordered if (owner := w.metadata.controller) is not None}


def _alike(job: Job, workload: Workload | None, refused: Mapping[bytes, str]) -> str:
    """Another Job of its shape that does not fit."""
    if workload is None or not refused or workload.is_true(condition_types.QUOTA_RESERVED):
        return ""
    name = refused.get(_shape(workload), "")
    return name if name != job.metadata.name else ""


def _refused(workloads: Iterable[Workload]) -> dict[bytes, str]:
    """By shape, the Job of a Workload that was tried and does not fit: others of its shape are not tried then."""
    found: dict[bytes, str] = {}
    for workload in workloads:
        waits = workload.condition(condition_types.QUOTA_RESERVED)
        if waits is not None and waits.reason in _NO_FIT and waits.message != messages.EQUIVALENT_MESSAGE:
            found.setdefault(_shape(workload), inbox.job_name(workload))
    return found


_NO_FIT = (reasons.WAITING_FOR_QUOTA, reasons.EXCEEDS_MAX_QUOTA, reasons.NO_MATCHING_FLAVOR)


def _shape(workload: Workload) -> bytes:
    """Workloads of one shape fit or do not fit together. Narrower than the scheduler's: of one LocalQueue only."""
    spec = workload.spec
    return msgspec.json.encode((workload.local_queue, spec.priority or 0, spec.pod_sets), order="sorted")


def job_row(job: Job, workload: Workload | None, now: datetime, alike: str = "") -> JobRow:
    """`alike`: a Job that asks for the same, was tried and does not fit."""
    state = job_state(job, workload, now)
    reason, message = why(job, workload, state, now, alike)
    waiting, running = spans(job, workload, now)
    status = job.status
    return JobRow(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        queue=job.metadata.labels.get(keys.QUEUE_NAME, ""),
        priority=(workload.spec.priority or 0) if workload else 0,
        state=state,
        ready=status.ready or 0,
        active=status.active,
        succeeded=status.succeeded,
        failed=status.failed,
        completions=job.spec.completions,
        waiting_seconds=waiting,
        running_seconds=running,
        retries=_retries(workload),
        tries=inbox.tries(workload) if workload is not None else 0,
        reason=reason,
        message=message,
        alike=alike,
    )


def job_state(job: Job, workload: Workload | None, now: datetime) -> JobState:
    """The state of the table above."""
    if job.metadata.deletion_timestamp is not None:
        return JobState.DELETING
    ended = _ended(job)
    if ended:
        return ended
    if workload is not None:
        if workload.is_true(condition_types.FINISHED):
            return JobState.REFUSED
        if not workload.spec.active:
            return JobState.DEACTIVATED
        requeue = workload.status.requeue_state
        if requeue and requeue.requeue_at and requeue.requeue_at > now:
            return JobState.BACKOFF
        if workload.is_true(condition_types.EVICTED) and workload.is_true(condition_types.QUOTA_RESERVED):
            return JobState.EVICTED
    if not job.spec.suspend:
        return JobState.RUNNING if job.status.ready or job.status.succeeded else JobState.STARTING
    if workload is None:
        return JobState.PENDING if job.metadata.labels.get(keys.QUEUE_NAME) else JobState.SUSPENDED
    return JobState.RESERVED if workload.is_true(condition_types.QUOTA_RESERVED) else JobState.PENDING


def state_without_job(workload: Workload, now: datetime) -> JobState:
    """That of a Workload that stands for no Job, or whose Job is gone: then it is Orphaned, until it is gone too."""
    if workload.metadata.controller is not None:
        return JobState.ORPHANED
    if workload.is_true(condition_types.FINISHED):
        return JobState.FINISHED
    if not workload.spec.active:
        return JobState.DEACTIVATED
    requeue = workload.status.requeue_state
    if requeue is not None and requeue.requeue_at is not None and requeue.requeue_at > now:
        return JobState.BACKOFF
    if not workload.is_true(condition_types.QUOTA_RESERVED):
        return JobState.PENDING
    return JobState.EVICTED if workload.is_true(condition_types.EVICTED) else JobState.RESERVED


def _ended(job: Job) -> JobState | None:
    end = conditions.finished(job.status)
    if end is None:
        return None
    return JobState.SUCCEEDED if end.type == "Complete" else JobState.FAILED


def is_left_alone(job: Job, now: datetime) -> bool:
    """It names a queue, and has had no Workload for longer than it takes to look at it."""
    created = job.metadata.creation_timestamp
    return created is not None and now - created >= LOOKED_AT_WITHIN


def _not_queued(job: Job, now: datetime) -> tuple[str, str]:
    prebuilt = prebuilt_name(job)
    if prebuilt:
        return NOT_QUEUED, f"the Workload that it names, {prebuilt}, is not there or belongs to another Job"
    if is_left_alone(job, now):
        return NOT_QUEUED, "its queue has not taken it up (sluice show says why)"
    return "", ""


def why(job: Job | None, workload: Workload | None, state: JobState, now: datetime, alike: str = "") -> tuple[str, str]:
    """Reason token and sentence behind the state; both empty where the state says it all."""
    if job is not None and state in (JobState.FAILED, JobState.SUCCEEDED):
        kind = "Failed" if state == JobState.FAILED else "Complete"
        condition = next(c for c in job.status.conditions if c.type == kind and c.is_true)
        return condition.reason, condition.message
    if workload is None:
        return _not_queued(job, now) if job is not None and state == JobState.PENDING else ("", "")
    finished = workload.condition(condition_types.FINISHED)
    if finished is not None and finished.is_true:  # and its Job is not: it could not be started, or left the queue
        return finished.reason, finished.message
    if state in (JobState.DEACTIVATED, JobState.BACKOFF, JobState.EVICTED):
        evicted = workload.condition(condition_types.EVICTED)
        if state == JobState.DEACTIVATED and evicted is not None and not evicted.reason.startswith(reasons.DEACTIVATED):
            return reasons.DEACTIVATED, messages.DEACTIVATED_MESSAGE  # by a user, after an eviction for another reason
        return (evicted.reason, evicted.message) if evicted else ("", "")
    if state in (JobState.PENDING, JobState.RESERVED):
        kind = condition_types.QUOTA_RESERVED if state == JobState.PENDING else condition_types.ADMITTED
        waiting = workload.condition(kind)
        if waiting is None and state == JobState.PENDING:  # the scheduler writes to the first, and to one of each shape
            behind = f"waits behind others in {workload.spec.queue_name}"
            return reasons.PENDING_EVALUATION, f"{alike} asks for the same and does not fit" if alike else behind
        return (waiting.reason, waiting.message) if waiting and waiting.status == "False" else ("", "")
    if state == JobState.STARTING:
        ready = workload.condition(condition_types.PODS_READY)
        return (ready.reason, ready.message) if ready and ready.status == "False" else ("", "")
    return "", ""


def spans(job: Job, workload: Workload | None, now: datetime) -> tuple[float | None, float | None]:
    """Seconds spent waiting for the start (still going on while there is none), and running since it.

    Runs that an eviction ended are part of neither: the Workload says how long they were.
    """
    created = job.metadata.creation_timestamp or now
    started = job.status.start_time
    ended = job.status.completion_time or _failed_at(job)
    waiting = _seconds(created, started or ended or now) if workload or job.spec.suspend else None
    if waiting is not None and workload is not None:
        waiting = max(0.0, waiting - (workload.status.accumulated_past_execution_time_seconds or 0))
    running = _seconds(started, ended or now) if started else None
    return waiting, running


def _seconds(start: datetime, end: datetime) -> float:
    """0 where `start` is later: objects may be newer than the `now` they are shown at."""
    return max(0.0, (end - start).total_seconds())


def _failed_at(job: Job) -> datetime | None:
    return next((c.last_transition_time for c in job.status.conditions if c.type == "Failed" and c.is_true), None)


def _retries(workload: Workload | None) -> int:
    state = workload.status.requeue_state if workload else None
    return (state.count or 0) if state else 0
