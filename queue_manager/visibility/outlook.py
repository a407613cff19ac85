"""Predicts what happens next to a Job, and when. Pure.

A Job leaves its state at a known time, after some other event, or by the action of a person. The sentences say which.
Deadlines that depend on the configuration carry a time only if the configuration is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from job_controller import conditions
from job_controller.model import Job
from job_controller.options import JobControllerOptions
from job_controller.times import effective_start, later
from queue_manager.api import condition_types, keys, reasons
from queue_manager.api.check_states import CheckState
from queue_manager.api.types import Condition, Workload
from queue_manager.jobs.workload_manifest import prebuilt_name
from queue_manager.lifecycle.requeuing import Deadline, give_up_at, pods_deadline, settings_for
from queue_manager.lifecycle.rules import execution_deadline
from queue_manager.lifecycle.settings import Settings
from queue_manager.lifecycle.unscheduled import unscheduled
from queue_manager.visibility.inbox import typed
from queue_manager.visibility.indexes import IndexMap
from queue_manager.visibility.job_states import JobState, is_left_alone
from queue_manager.visibility.obstacles import Obstacle
from queue_manager.visibility.pod_attempts import next_pod_at
from queue_manager.visibility.wire_types import Pod

LEFT_ALONE = (
    "nothing: the queue leaves it alone. Its namespace is not managed (managedJobsNamespaceSelector), or no queue "
    "manager runs"
)
REFUSED_EVENT = "nothing, until what its state says is put right"
REFUSED = "nothing: its Workload is finished; put right what the reason says, then delete the Job and submit it again"
NEVER = 100 * 365 * 86_400  # seconds; caps deadlines that a datetime cannot represent


class Next(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A future event; `at` is None if its time is unknown."""

    at: datetime | None
    what: str


@dataclass(frozen=True, slots=True)
class OutlookContext:
    """The surroundings of the Job. `settings`: None if the configuration is unknown.

    `home`: the default namespace of commands.
    """

    obstacle: Obstacle | None = None
    settings: Settings | None = None
    options: JobControllerOptions = field(default_factory=JobControllerOptions)
    home: str = "default"


def outlook(
    job: Job | None,
    workload: Workload | None,
    pods: Sequence[Pod],
    indexes: IndexMap | None,
    state: JobState,
    around: OutlookContext,
    now: datetime,
    *,
    refused: bool = False,
) -> list[Next]:
    """Return the next events, soonest first; never empty. `refused`: an Event says why the Job has no Workload."""
    if job is None:
        found = _without_job(workload, state, around, now)
    elif state == JobState.DELETING:
        found = [_some("goes when its finalizers are off and its pods have ended")]
    elif state in (JobState.SUCCEEDED, JobState.FAILED):
        found = _after_the_end(job, workload, around, now)
    elif state == JobState.REFUSED:
        found = [_some(REFUSED)]
    elif workload is not None and state in _HELD_BY_QUEUE:
        found = _HELD_BY_QUEUE[state](workload, around, now)
    elif state in (JobState.RUNNING, JobState.STARTING):
        found = _while_it_runs(job, workload, pods, indexes, around, now)
    elif state == JobState.SUSPENDED:
        found = [_some(_unqueued(job))]
    else:
        found = _obstacles(around) or [_some(REFUSED_EVENT if refused else _unseen(job, now))]
    dated = sorted((n for n in found if n.at is not None), key=lambda n: n.at or now)
    return [*dated, *(n for n in found if n.at is None)]


def _unqueued(job: Job) -> str:
    owner = job.metadata.controller
    text = "starts when its spec.suspend is set to false; it is in no queue"
    if owner is not None and owner.is_job:
        return f"{text}, and is suspended again while Job {owner.name}, which owns it, is queued and holds no quota"
    return text


def _without_job(workload: Workload | None, state: JobState, around: OutlookContext, now: datetime) -> list[Next]:
    if workload is None or state == JobState.ORPHANED:
        return [_some("its Job is gone: its Workload is finished, and goes")]
    if state == JobState.FINISHED:
        return _after_the_end(None, workload, around, now)
    if workload.is_true(condition_types.ADMITTED) and state == JobState.RESERVED:
        held = _deadlines_of_the_queue(workload, (), around)
        return [*held, _some("holds its quota until it is finished or deleted: it stands for no Job")]
    return _HELD_BY_QUEUE[state](workload, around, now)


def _some(what: str) -> Next:
    return Next(at=None, what=what)


def _after(since: datetime | None, seconds: float | None, now: datetime) -> datetime | None:
    """Return when a wait ends that counts from `since`, or from `now` if the clock was set back since then."""
    if since is None or seconds is None or seconds >= NEVER:
        return None
    return later(effective_start(since, None, now), seconds)


def _unseen(job: Job, now: datetime) -> str:
    """Describe what is next for a Job that names a queue and has no Workload."""
    prebuilt = prebuilt_name(job)
    if prebuilt:
        return f"starts by the Workload that it names, {prebuilt}, which is not there or belongs to another Job"
    return LEFT_ALONE if is_left_alone(job, now) else "the queue is about to look at it for the first time"


# --- states ------------------------------------------------------------------------------------------------


def _after_the_end(job: Job | None, workload: Workload | None, around: OutlookContext, now: datetime) -> list[Next]:
    end = conditions.finished(job.status) if job is not None else None
    found = []
    ttl = job.spec.ttl_seconds_after_finished if job is not None else None
    at = _after(end.last_transition_time if end is not None else None, ttl, now)
    if at is not None:
        found.append(Next(at=at, what="is deleted with its pods (ttlSecondsAfterFinished)"))
    finished = workload.condition(condition_types.FINISHED) if workload is not None else None
    if finished is not None and around.settings is not None:
        at = _after(finished.last_transition_time, around.settings.retain_finished, now)
        if at is not None:
            found.append(Next(at=at, what="its Workload is deleted (objectRetentionPolicies)"))
    return found or [_some("nothing: it has ended")]


def _deactivated(workload: Workload, around: OutlookContext, now: datetime) -> list[Next]:
    found = []
    if workload.is_true(condition_types.QUOTA_RESERVED):
        found.append(_some("its pods are stopped, then its quota is given back"))
    evicted = workload.condition(condition_types.EVICTED)
    # Retention deletes only what Sluice deactivated, not what a user did.
    ours = evicted is not None and evicted.reason.startswith(reasons.DEACTIVATED_DUE_TO)
    if evicted is not None and ours and around.settings is not None:
        at = _after(evicted.last_transition_time, around.settings.retain_deactivated, now)
        if at is not None:
            found.append(Next(at=at, what="the Job is deleted (objectRetentionPolicies)"))
    return [*found, _some(f"stays out until: sluice reactivate {typed(workload, around.home)}")]


def _backoff(workload: Workload, around: OutlookContext, now: datetime) -> list[Next]:
    state = workload.status.requeue_state
    count = (state.count or 0) if state is not None else 0
    limit = _limit(workload, around.settings)
    tried = f"retry {count}" + (f" of {limit}" if limit is not None else "") if count else "again"
    at = state.requeue_at if state is not None else None
    end = _end_of_tries(workload, around.settings)
    if at is not None and end is not None and end <= at:
        return [Next(at=end, what="is deactivated: its pods were not ready for too long (giveUpAfter)")]
    return [Next(at=at, what=f"back in line of {workload.spec.queue_name} ({tried})"), *_obstacles(around)]


def _evicted(workload: Workload, around: OutlookContext, now: datetime) -> list[Next]:
    found = [_some("its pods are stopped, then its quota is given back")]
    state = workload.status.requeue_state
    if state is not None and state.requeue_at is not None:
        found += _backoff(workload, around, now)
    return found


def _pending(workload: Workload, around: OutlookContext, now: datetime) -> list[Next]:
    return _obstacles(around) or [
        _some(_why_pending(workload.condition(condition_types.QUOTA_RESERVED), workload, around.home))
    ]


def _obstacles(around: OutlookContext) -> list[Next]:
    found = around.obstacle
    if found is None:
        return []
    return [_some(f"{found.text}; {found.remedy}" if found.remedy else found.text)]


_PENDING = {
    reasons.WAITING_FOR_QUOTA: "starts when enough quota is free",
    reasons.WAITING_FOR_PREEMPTED: "starts when those that make room for it have stopped",
    reasons.WAITING_FOR_PODS_READY: "starts when the pods of all that are admitted are ready (blockAdmission)",
    reasons.EXCEEDS_MAX_QUOTA: "never starts, unless it asks for less or an admin raises the quota",
    reasons.NO_MATCHING_FLAVOR: "never starts, unless it asks for something else or an admin adds a flavor for it",
    reasons.MISCONFIGURED: "never starts, unless what is wrong is put right",
}


def _why_pending(reserved: Condition | None, workload: Workload, home: str) -> str:
    reason = reserved.reason if reserved is not None else ""
    if reason == reasons.ADMISSION_GATED:
        gates = workload.metadata.annotations.get(keys.ADMISSION_GATED_BY, "")
        return f"gets in line when its admission gates are taken off: {gates}"
    text = _PENDING.get(reason, f"is tried when it is its turn in {workload.spec.queue_name}")
    return f"{text} (sluice explain {typed(workload, home)})"


def _reserved(workload: Workload, around: OutlookContext, now: datetime) -> list[Next]:
    open_checks = [check.name for check in workload.status.admission_checks if check.state != CheckState.READY]
    if open_checks and not workload.is_true(condition_types.ADMITTED):
        return [_some(f"starts when its admission checks are ready: {', '.join(open_checks)}")]
    return [_some("starts at once")]


_HELD_BY_QUEUE = {
    JobState.DEACTIVATED: _deactivated,
    JobState.BACKOFF: _backoff,
    JobState.EVICTED: _evicted,
    JobState.PENDING: _pending,
    JobState.RESERVED: _reserved,
}


# --- deadlines of what runs --------------------------------------------------------------------------------


def _while_it_runs(
    job: Job,
    workload: Workload | None,
    pods: Sequence[Pod],
    indexes: IndexMap | None,
    around: OutlookContext,
    now: datetime,
) -> list[Next]:
    found = []
    at = next_pod_at(job, pods, around.options, now)
    if at is not None:
        found.append(Next(at=at, what="the next pod, in place of a failed one"))
    elif indexes is not None:
        due = [(row.next_retry, row.index) for row in indexes.troubled if row.next_retry is not None]
        found += [Next(at=at, what=f"the next pod of index {index}") for at, index in sorted(due)[:1]]
    at = _after(job.status.start_time, job.spec.active_deadline_seconds, now)
    if at is not None:
        found.append(Next(at=at, what="fails if it still runs (activeDeadlineSeconds)"))
    if workload is not None:
        found += _deadlines_of_the_queue(workload, pods, around)
    wanted = job.spec.completions
    done = f"{job.status.succeeded} of {wanted} pods have" if wanted is not None else "not all have"
    return [*found, _some(f"ends when all its pods have succeeded ({done})")]


def _deadlines_of_the_queue(workload: Workload, pods: Sequence[Pod], around: OutlookContext) -> list[Next]:
    found = []
    at = execution_deadline(workload)
    if at is not None:
        found.append(Next(at=at, what="is deactivated if it still runs (maximum execution time)"))
    ready = workload.condition(condition_types.PODS_READY)
    if workload.is_true(condition_types.PODS_READY) or not workload.is_true(condition_types.ADMITTED):
        return found
    if ready is None and (around.settings is None or workload.metadata.controller is not None):
        return found  # no PodsReady condition, so waitForPodsReady seems to be off
    if around.settings is None:
        return [
            *found,
            _some("is evicted if its pods are not all ready in time (waitForPodsReady; --config tells when)"),
        ]
    deadline = pods_deadline(workload, around.settings, unscheduled(pods))
    if deadline is not None:
        found.append(Next(at=deadline.at, what=_eviction(workload, deadline, around.settings)))
    return found


def _end_of_tries(workload: Workload, settings: Settings | None) -> datetime | None:
    """Return when giveUpAfter ends a backoff, or None if unknown."""
    evicted = workload.condition(condition_types.EVICTED)
    if settings is None or evicted is None or evicted.reason != reasons.PODS_READY_TIMEOUT:
        return None
    return give_up_at(workload, settings_for(workload, settings))


def _limit(workload: Workload, settings: Settings | None) -> int | None:
    """Return the limit of retries, or None if unknown."""
    own = settings_for(workload, settings) if settings is not None else None
    return own.limit if own is not None else None


def _eviction(workload: Workload, deadline: Deadline, settings: Settings) -> str:
    if deadline.last:
        return "is deactivated if its pods are not all ready (giveUpAfter)"
    state = workload.status.requeue_state
    count = ((state.count or 0) if state is not None else 0) + 1
    limit = _limit(workload, settings)
    if limit is not None and count > limit:
        return f"is deactivated if its pods are not all ready (it has had its {limit} retries)"
    follows = f"retry {count}{f' of {limit}' if limit is not None else ''} follows"
    return f"is evicted if its pods are not all ready ({follows})"
