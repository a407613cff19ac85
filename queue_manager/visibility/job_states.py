"""Computes the state of each Job as `sluice ps` shows it, since when, and why. Pure: objects and time in, rows out.

The state is the first match in this table. It depends only on API objects, so that all readers of the same objects see
the same state:

    Deleting     deletionTimestamp is set
    Succeeded    condition Complete
    Failed       condition Failed
    Refused      its Workload is finished, but the Job is not: it could not be started, or it differs from the Workload
    Deactivated  its Workload has spec.active=false: an operator must act
    Backoff      evicted, and requeueAt is in the future; or not suspended, and between two tries of its pods
    Evicted      evicted, and still holding quota: its pods are terminating
    Running      not suspended, and a pod is ready or has succeeded, or the end of the Job is decided
    Starting     not suspended, and no pod is ready yet, or none any more (WaitForRecovery): `running_or_starting`
    Reserved     quota is reserved, and the Job is not started yet
    Suspended    suspended, and not managed by any queue: only a user can start it
    Pending      pending in its queue

Jobs and Workloads come from two list requests, and both kinds may change in between. Callers read the time first, then
list the Workloads, then the Jobs, so that a Job is never older than its Workload. A Workload is finished only after
its Job has ended, so a finished Workload with an unfinished Job always means Refused. A Job whose Workload is missing
only because it was created between the two lists is younger than `now`, so `is_overdue` is False for it. In the
opposite order, each Job that ends between the two lists would appear as Refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import msgspec

from job_controller import conditions
from job_controller.condition_types import COMPLETE, FAILED
from job_controller.model import Condition, Job, Key, Pod
from job_controller.options import JobControllerOptions
from queue_manager.api import condition_types, keys, messages, reasons
from queue_manager.api.types import Workload
from queue_manager.jobs.workload_manifest import prebuilt_name
from queue_manager.lifecycle.pod_causes import decisive_pods
from queue_manager.scheduling import workload_info
from queue_manager.visibility.attempt_counts import count_budget_attempts
from queue_manager.visibility.deactivated_jobs import cause as why_deactivated
from queue_manager.visibility.deactivated_jobs import deactivation, job_name
from queue_manager.visibility.job_causes import exit_code_of, failed_indexes, job_cause, pods_by_job
from queue_manager.visibility.job_deletion_causes import who_deleted
from queue_manager.visibility.job_times import ended_at, last_run_seconds, times_of
from queue_manager.visibility.pod_attempts import next_pod_at
from queue_manager.visibility.pod_starts import has_run
from queue_manager.visibility.preempted_for import preempted_for
from queue_manager.visibility.running_or_starting import explain_running, explain_starting, is_between_tries, is_running
from queue_manager.visibility.short_messages import NEVER_FITS, like_another, plain
from queue_manager.visibility.shown_causes import cause_of_end

WORKLOAD_CREATION_TIMEOUT = timedelta(seconds=15)  # within this time the queue creates the Workload of a new Job
NOT_QUEUED = "NotQueued"


class JobState(StrEnum):
    """The states of the table above, in display order: running, waiting, ended."""

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
    # States of Workloads without a Job, see `state_without_job`.
    ORPHANED = "Orphaned"
    FINISHED = "Finished"


LISTED_STATES = tuple(state for state in JobState if state not in (JobState.ORPHANED, JobState.FINISHED))
_ORDER = tuple(JobState)
DEFAULT_OPTIONS = JobControllerOptions()
# States in which the cause of a Job is that of an attempt that is over.
AFTER_AN_ATTEMPT = (JobState.PENDING, JobState.RESERVED)
AWAITS_NODE = (  # no pod of it runs, so it matters whether a node is large enough for one
    JobState.PENDING,
    JobState.RESERVED,
    JobState.STARTING,
    JobState.EVICTED,
    JobState.BACKOFF,
    JobState.DEACTIVATED,
)
# Why they have no pods is in no status if the API server refuses to create them (`refused_pods`).
MAY_LACK_PODS = (JobState.STARTING, JobState.BACKOFF, JobState.EVICTED, JobState.DEACTIVATED)
_LOST_QUOTA = (JobState.EVICTED, JobState.PENDING)


class JobRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Job as `sluice ps` shows it. Times are in seconds; None if the phase was never entered.

    `cluster_queue`: which has admitted it; "" before, and after an eviction.
    `requeues`, `budget_attempts`: since its Workload was last activated. `preempted_for`: who needed the quota of its
    last run, if a preemption ended that. `obstacle`: why its queue admits nothing, with the command that resolves it,
    or why a Job without a Workload gets none. `cause`: why it failed or is deactivated (`shown_causes`); of others
    why their pods are not ready, or were not ready in the last attempt. `failed_indexes`: of a failed Job those that
    led to its end, in words. `no_node`: which request of a pod exceeds the largest node (`node_fit`). `exit_code`: of
    its failed pods, if they are the cause. `retry_at`: when its backoff ends. `finished`: when the Job ended, None
    before. `waited_seconds`, `ran_seconds`: of all attempts, `running_seconds` of the last one. `has_run`: whether a
    pod has started (`pod_starts`).
    """

    namespace: str
    name: str
    queue: str
    cluster_queue: str = ""
    priority: int
    state: JobState
    ready: int
    active: int
    succeeded: int
    failed: int
    completions: int | None
    waiting_seconds: float | None
    running_seconds: float | None
    requeues: int
    budget_attempts: int
    reason: str
    message: str
    equivalent: str
    equivalent_reason: str = ""
    preempted_for: str = ""
    obstacle: str = ""
    cause: str = ""
    failed_indexes: str = ""
    no_node: str = ""
    exit_code: int | None = None
    retry_at: datetime | None = None
    created: datetime | None = None
    finished: datetime | None = None
    waited_seconds: float | None = None
    ran_seconds: float | None = None
    has_run: bool = True


def job_rows(
    jobs: Iterable[Job],
    workloads: Iterable[Workload],
    now: datetime,
    pods: Iterable[Pod] = (),
    options: JobControllerOptions = DEFAULT_OPTIONS,
) -> list[JobRow]:
    """Return rows ordered by namespace, then by state: running, waiting, ended. `pods`: those that may have a cause.

    `options`: of the Job controller, whose backoff ends at the time of the next try.
    """
    by_job = workloads_by_job(workloads)
    refusals = refusals_in(by_job.values())
    seen = ((job, by_job.get(job.metadata.uid)) for job in jobs)
    pods_of = pods_by_job(pods)
    rows = [
        job_row(job, its, now, passed_over_for(its, refusals), pods_of.get(job.metadata.uid, ()), options)
        for job, its in seen
    ]
    return sorted(rows, key=lambda row: (row.namespace, _ORDER.index(row.state), -row.priority, row.name))


def workloads_by_job(workloads: Iterable[Workload]) -> dict[str, Workload]:
    """Return the Workload of each Job by Job UID. Of several, prefer an unfinished one, then the newest."""
    ordered = sorted(
        workloads, key=lambda w: (not w.is_true(condition_types.FINISHED), str(w.metadata.creation_timestamp))
    )
    return {owner.uid: w for w in ordered if (owner := w.metadata.controller) is not None}


Shape = tuple[Key, bytes]


class Refusals(NamedTuple):
    """Workloads that the scheduler tried and that do not fit, by shape.

    `in_order`: LocalQueues in which Workloads of other shapes wait to be tried. Such a queue is StrictFIFO: a
    BestEffortFIFO queue tries each shape immediately.
    """

    by_shape: Mapping[Shape, Workload]
    in_order: frozenset[Key]


NO_REFUSALS = Refusals({}, frozenset())


def refusals_in(workloads: Iterable[Workload]) -> Refusals:
    """Return what the conditions of these Workloads say of those with the same requests."""
    refused, untried = dict[Shape, Workload](), list[Workload]()
    for workload in workloads:
        waits = workload.condition(condition_types.QUOTA_RESERVED)
        if not workload.spec.active or workload.is_true(condition_types.FINISHED):
            continue
        if not is_judged(waits):
            untried.append(workload)
        elif waits is not None and waits.reason in _NO_FIT and waits.message != messages.EQUIVALENT_MESSAGE:
            refused.setdefault(_shape(workload), workload)
    queues = {queue for queue, _ in refused}
    waiting = (each for each in untried if each.local_queue in queues)
    return Refusals(refused, frozenset(each.local_queue for each in waiting if _shape(each) not in refused))


_NO_FIT = (reasons.WAITING_FOR_QUOTA, *NEVER_FITS)


def refused_equivalent(workload: Workload | None, refusals: Refusals) -> Workload | None:
    """Return the refused Workload that has the same shape as this one, if this one holds no quota."""
    if not refusals.by_shape or workload is None or workload.is_true(condition_types.QUOTA_RESERVED):
        return None
    equivalent = refusals.by_shape.get(_shape(workload))
    return equivalent if equivalent is not None and equivalent.metadata.uid != workload.metadata.uid else None


def passed_over_for(workload: Workload | None, refusals: Refusals) -> Workload | None:
    """Return the refused Workload whose reason also holds for this one, which is not tried itself.

    If one can never fit, none of its shape can. A lack of free quota holds only for those that do not wait for
    Workloads of another shape first (BEHAVIOUR.md#q10-equivalent-workloads).
    """
    equivalent = refused_equivalent(workload, refusals)
    if workload is None or equivalent is None:
        return None
    own, its = (each.condition(condition_types.QUOTA_RESERVED) for each in (workload, equivalent))
    never_fits = its is not None and its.reason in NEVER_FITS
    is_passed_over = own is not None and own.message == messages.EQUIVALENT_MESSAGE
    is_untried = not is_judged(own) and workload.local_queue not in refusals.in_order
    return equivalent if never_fits or is_passed_over or is_untried else None


def _shape(workload: Workload) -> Shape:
    """Return the scheduler's shape with the LocalQueue, since other LocalQueues may use another ClusterQueue."""
    return workload.local_queue, workload_info.info(workload).shape


def job_row(
    job: Job,
    workload: Workload | None,
    now: datetime,
    equivalent: Workload | None = None,
    pods: Iterable[Pod] = (),
    options: JobControllerOptions = DEFAULT_OPTIONS,
) -> JobRow:
    """Return the row of a Job. `equivalent`: a Workload whose reason also holds for this one (`passed_over_for`)."""
    state = job_state(job, workload, now)
    reason, message = explain_state(job, workload, state, now, equivalent)
    waited, ran = times_of(job, workload, now)
    status, pods = job.status, list(pods)
    of_pods = job_cause(job, workload, pods)
    admission = workload.status.admission if workload is not None else None
    return JobRow(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        queue=job.metadata.labels.get(keys.QUEUE_NAME, ""),
        cluster_queue=admission.cluster_queue if admission is not None else "",
        priority=(workload.spec.priority or 0) if workload else 0,
        state=state,
        ready=status.ready or 0,
        active=status.active,
        succeeded=status.succeeded,
        failed=status.failed,
        completions=job.spec.completions,
        waiting_seconds=waited,
        running_seconds=last_run_seconds(job, now),
        requeues=_requeues(workload),
        budget_attempts=count_budget_attempts(workload) if workload is not None else 0,
        reason=reason,
        message=message,
        equivalent=job_name(equivalent) if equivalent is not None else "",
        equivalent_reason=refusal(equivalent),
        preempted_for=lost_quota_for(workload, state),
        cause=shown_cause(workload, state, reason, message, of_pods),
        failed_indexes=failed_indexes(job) if state == JobState.FAILED else "",
        exit_code=exit_code_of(of_pods, decisive_pods(status, pods)) if state != JobState.DELETING else None,
        retry_at=_retry_at(job, workload, pods, options, now) if state == JobState.BACKOFF else None,
        created=job.metadata.creation_timestamp,
        finished=ended_at(job),
        waited_seconds=waited,
        ran_seconds=ran,
        has_run=has_run(job, workload, pods, of_pods),
    )


def shown_cause(workload: Workload | None, state: JobState, reason: str, message: str, of_pods: str) -> str:
    """Return the cause of a Job in this state for that reason. `of_pods`: why its pods are or were not ready."""
    if state == JobState.DELETING:
        return ""
    if state == JobState.DEACTIVATED and workload is not None:
        return cause_of_end(reason, message, of_pods, why_deactivated(workload))
    return cause_of_end(reason, message, of_pods) if state in (JobState.FAILED, JobState.REFUSED) else of_pods


def lost_quota_for(workload: Workload | None, state: JobState) -> str:
    """Return who needed the quota of a preempted Workload that is being stopped or is pending; "" for any other."""
    return preempted_for(workload) if workload is not None and state in _LOST_QUOTA else ""


def job_state(job: Job, workload: Workload | None, now: datetime) -> JobState:
    """Return the state by the table of this module."""
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
        if awaits_requeue(workload, now):
            return JobState.BACKOFF
        if workload.is_true(condition_types.EVICTED) and workload.is_true(condition_types.QUOTA_RESERVED):
            return JobState.EVICTED
    if not job.spec.suspend:
        if is_running(job.status):
            return JobState.RUNNING
        return JobState.BACKOFF if is_between_tries(job.status) else JobState.STARTING
    if workload is None:
        return JobState.PENDING if job.metadata.labels.get(keys.QUEUE_NAME) else JobState.SUSPENDED
    return JobState.RESERVED if workload.is_true(condition_types.QUOTA_RESERVED) else JobState.PENDING


def awaits_requeue(workload: Workload | None, now: datetime) -> bool:
    """Whether the Workload was evicted and backs off."""
    at = _requeue_at(workload)
    return at is not None and at > now


def is_pending(job: Job | None, workload: Workload | None, now: datetime) -> bool:
    """Whether the Job has a Workload that waits in its queue."""
    if workload is None:
        return False
    state = job_state(job, workload, now) if job is not None else state_without_job(workload, now)
    return state == JobState.PENDING


def state_without_job(workload: Workload, now: datetime) -> JobState:
    """Return the state of a Workload that was created without a Job, or whose Job was deleted (Orphaned)."""
    if workload.metadata.controller is not None:
        return JobState.ORPHANED
    if workload.is_true(condition_types.FINISHED):
        return JobState.FINISHED
    if not workload.spec.active:
        return JobState.DEACTIVATED
    if awaits_requeue(workload, now):
        return JobState.BACKOFF
    if not workload.is_true(condition_types.QUOTA_RESERVED):
        return JobState.PENDING
    return JobState.EVICTED if workload.is_true(condition_types.EVICTED) else JobState.RESERVED


def _ended(job: Job) -> JobState | None:
    end = conditions.finished(job.status)
    if end is None:
        return None
    return JobState.SUCCEEDED if end.type == COMPLETE else JobState.FAILED


def is_overdue(job: Job, now: datetime) -> bool:
    """Whether a Job without a Workload is older than the time in which the queue manager creates one."""
    created = job.metadata.creation_timestamp
    return created is not None and now - created >= WORKLOAD_CREATION_TIMEOUT


def _not_queued(job: Job, now: datetime) -> tuple[str, str]:
    prebuilt = prebuilt_name(job)
    if prebuilt:
        return NOT_QUEUED, f"prebuilt Workload {prebuilt} does not exist or belongs to another Job"
    if is_overdue(job, now):
        return NOT_QUEUED, "it has no Workload yet (sluice show says why)"
    return "", ""


def explain_state(
    job: Job | None, workload: Workload | None, state: JobState, now: datetime, equivalent: Workload | None = None
) -> tuple[str, str]:
    """Return (reason, message) of the state; both are "" where the state needs no explanation.

    `equivalent`: a Workload whose reason also holds for this one (`passed_over_for`).
    """
    if job is not None and state in (JobState.FAILED, JobState.SUCCEEDED):
        kind = FAILED if state == JobState.FAILED else COMPLETE
        condition = next(c for c in job.status.conditions if c.type == kind and c.is_true)
        return condition.reason, condition.message
    if job is not None and state == JobState.DELETING:
        return "", who_deleted(job, now)
    if job is not None and state == JobState.RUNNING:
        return explain_running(job)
    retried = state == JobState.BACKOFF and not awaits_requeue(workload, now)
    if job is not None and (state == JobState.STARTING or retried):
        return explain_starting(job, workload)
    if workload is None:
        return _not_queued(job, now) if job is not None and state == JobState.PENDING else ("", "")
    finished = workload.condition(condition_types.FINISHED)
    if finished is not None and finished.is_true:  # but the Job is not: it could not be started, or it left the queue
        return finished.reason, finished.message
    if state == JobState.DEACTIVATED:
        return deactivation(workload)
    if state in (JobState.BACKOFF, JobState.EVICTED):
        evicted = workload.condition(condition_types.EVICTED)
        return (evicted.reason, evicted.message) if evicted else ("", "")
    if state in (JobState.PENDING, JobState.RESERVED):
        kind = condition_types.QUOTA_RESERVED if state == JobState.PENDING else condition_types.ADMITTED
        waiting = workload.condition(kind)
        if state == JobState.PENDING and not is_judged(waiting):
            if equivalent is not None:
                return reasons.PENDING_EVALUATION, like_another(job_name(equivalent), refusal(equivalent))
            return reasons.PENDING_EVALUATION, f"waits for its turn in {workload.spec.queue_name}"
        if waiting is not None and waiting.reason.startswith(reasons.DEACTIVATED):  # until its requeue is written
            return reasons.REACTIVATED, messages.REACTIVATED_MESSAGE
        return (waiting.reason, waiting.message) if waiting and waiting.status == "False" else ("", "")
    return "", ""


def refusal(workload: Workload | None) -> str:
    """Return why the scheduler has not reserved quota for a Workload, in plain words; "" if it has said nothing."""
    waits = workload.condition(condition_types.QUOTA_RESERVED) if workload is not None else None
    return plain(waits.reason, waits.message) if waits is not None and waits.status == "False" else ""


def is_judged(reserved: Condition | None) -> bool:
    """Whether the QuotaReserved condition shows that the scheduler has tried the Workload.

    When a victim's quota is released, its condition gets the message of the preemption, and keeps it until the
    scheduler has tried the Workload again.
    """
    if reserved is None or messages.is_preemption(reserved.message):
        return False
    return reserved.message != messages.PENDING_EVALUATION_MESSAGE


def _retry_at(
    job: Job, workload: Workload | None, pods: Sequence[Pod], options: JobControllerOptions, now: datetime
) -> datetime | None:
    """Return when a Job in backoff is requeued, or gets its next pod."""
    if awaits_requeue(workload, now):
        return _requeue_at(workload)
    at = next_pod_at(job, pods, options, now)
    return at if at is not None and at > now else None


def _requeue_at(workload: Workload | None) -> datetime | None:
    state = workload.status.requeue_state if workload is not None else None
    return state.requeue_at if state is not None else None


def _requeues(workload: Workload | None) -> int:
    state = workload.status.requeue_state if workload else None
    return (state.count or 0) if state else 0
