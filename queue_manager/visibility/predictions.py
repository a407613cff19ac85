"""Predicts what happens next to a Job, and when. Pure.

Each prediction says whether the Job leaves its state at a known time, after another event, or by the action of a
person. Deadlines that depend on the configuration carry a time only if that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from job_controller import conditions
from job_controller.model import Job
from job_controller.options import JobControllerOptions
from job_controller.times import effective_start, later
from queue_manager.api import condition_types, keys, reasons
from queue_manager.api.check_states import CheckState
from queue_manager.api.types import Condition, Workload
from queue_manager.jobs.workload_manifest import prebuilt_name
from queue_manager.lifecycle.pods_ready_timeout import Deadline, ends_instead_of_retry, pods_deadline, settings_for
from queue_manager.lifecycle.unscheduled import unscheduled
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.scheduling.execution_time import execution_deadline, protection_end
from queue_manager.visibility import reason_codes
from queue_manager.visibility.deactivated_jobs import GIVES_UP, cause, job_argument, needs_more, start_condition
from queue_manager.visibility.eviction_before_replacement import is_evicted_before
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.index_map import IndexMap
from queue_manager.visibility.job_causes import failed_indexes, recorded_cause
from queue_manager.visibility.job_states import JobState, awaits_requeue, is_overdue
from queue_manager.visibility.obstacles import Obstacle, further
from queue_manager.visibility.pod_attempts import next_pod_at
from queue_manager.visibility.prediction_types import Prediction
from queue_manager.visibility.preempted_for import preempted_for
from queue_manager.visibility.released_quota_times import DELAYED
from queue_manager.visibility.wire_types import Pod

NO_WORKLOAD = (
    "nothing: it gets no Workload. Its namespace is not managed (managedJobsNamespaceSelector), or no queue "
    "manager is running"
)
REFUSED_EVENT = "nothing, until the problem that its state names is fixed"
REFUSED = "nothing: its Workload is finished; fix what the reason names, then delete the Job and submit it again"
UNSEEN_CLASS = (
    "nothing: it gets no Workload. Its WorkloadPriorityClass {}, which you may not see, does not exist, its namespace "
    "is not managed (managedJobsNamespaceSelector), or no queue manager is running"
)
WAITS_FOR_QUOTA = reason_codes.code(reasons.WAITING_FOR_QUOTA)
MAX_DEADLINE_SECONDS = 100 * 365 * 86_400  # longer waits get no prediction: no datetime may represent their end


@dataclass(frozen=True, slots=True)
class PredictionContext:
    """The surroundings of the Job. `obstacles`: all that prevents it from starting. `settings`: None if the
    configuration is unknown.

    `default_ns`: the default namespace of commands. `outlook`: of a pending Job, why it does not run; None if unknown.
    `unseen_class`: the WorkloadPriorityClass that it names, if the user may not list these.
    """

    obstacles: Sequence[Obstacle] = ()
    settings: WorkloadSettings | None = None
    options: JobControllerOptions = field(default_factory=JobControllerOptions)
    default_ns: str = "default"
    outlook: Explanation | None = None
    unseen_class: str = ""


def predict(
    job: Job | None,
    workload: Workload | None,
    pods: Sequence[Pod],
    indexes: IndexMap | None,
    state: JobState,
    context: PredictionContext,
    now: datetime,
    *,
    refused: bool = False,
) -> list[Prediction]:
    """Return the next events, soonest first; never empty. `refused`: an Event says why it is not queued or admitted."""
    if job is None:
        found = _without_job(workload, state, context, now)
    elif state == JobState.DELETING:
        found = [_untimed("the Job is deleted once its finalizers are removed and its pods have ended")]
    elif state in (JobState.SUCCEEDED, JobState.FAILED):
        found = _after_end(job, workload, context, now)
    elif state == JobState.REFUSED:
        found = [_untimed(REFUSED)]
    elif state == JobState.BACKOFF and not awaits_requeue(workload, now):
        found = _while_running(job, workload, pods, indexes, context, now)
    elif workload is not None and refused:
        found = [_untimed(REFUSED_EVENT)]
    elif workload is not None and state in _BY_WORKLOAD_STATE:
        found = _BY_WORKLOAD_STATE[state](workload, context, now)
    elif state in (JobState.RUNNING, JobState.STARTING):
        found = _while_running(job, workload, pods, indexes, context, now)
    elif state == JobState.SUSPENDED:
        found = [_untimed(_without_queue(job))]
    else:
        found = _obstacles(context) or [_untimed(REFUSED_EVENT if refused else _without_workload(job, context, now))]
    dated = sorted((n for n in found if n.at is not None), key=lambda n: n.at or now)
    return [*dated, *(n for n in found if n.at is None)]


def _without_queue(job: Job) -> str:
    owner = job.metadata.controller
    text = "the Job starts when its spec.suspend is set to false; it is in no queue"
    if owner is not None and owner.is_job:
        return f"{text}, and is suspended again while Job {owner.name}, which owns it, is queued and holds no quota"
    return text


def _without_job(
    workload: Workload | None, state: JobState, context: PredictionContext, now: datetime
) -> list[Prediction]:
    if workload is None or state == JobState.ORPHANED:
        return [_untimed("its Job was deleted: its Workload is finished and deleted")]
    if state == JobState.FINISHED:
        return _after_end(None, workload, context, now)
    if workload.is_true(condition_types.ADMITTED) and state == JobState.RESERVED:
        held = _queue_deadlines(workload, (), context, now)
        return [*held, _untimed("the Workload holds its quota until it is finished or deleted: it has no Job")]
    return _BY_WORKLOAD_STATE[state](workload, context, now)


def _untimed(what: str) -> Prediction:
    return Prediction(at=None, what=what)


def _after(since: datetime | None, seconds: float | None, now: datetime) -> datetime | None:
    """Return when a wait ends that counts from `since`, or from `now` if the clock was set back since then."""
    if since is None or seconds is None or seconds >= MAX_DEADLINE_SECONDS:
        return None
    return later(effective_start(since, None, now), seconds)


def _without_workload(job: Job, context: PredictionContext, now: datetime) -> str:
    """Describe what is next for a Job that names a queue and has no Workload."""
    prebuilt = prebuilt_name(job)
    if prebuilt:
        return f"the Job starts once prebuilt Workload {prebuilt} exists and belongs to no other Job"
    if not is_overdue(job, now):
        return "the queue manager is about to create its Workload"
    return UNSEEN_CLASS.format(context.unseen_class) if context.unseen_class else NO_WORKLOAD


# --- states ------------------------------------------------------------------------------------------------


def _after_end(
    job: Job | None, workload: Workload | None, context: PredictionContext, now: datetime
) -> list[Prediction]:
    end = conditions.finished(job.status) if job is not None else None
    found = []
    ttl = job.spec.ttl_seconds_after_finished if job is not None else None
    at = _after(end.last_transition_time if end is not None else None, ttl, now)
    if at is not None:
        found.append(Prediction(at=at, what="the Job is deleted with its pods (ttlSecondsAfterFinished)"))
    finished = workload.condition(condition_types.FINISHED) if workload is not None else None
    if finished is not None and context.settings is not None:
        at = _after(finished.last_transition_time, context.settings.retain_finished, now)
        if at is not None:
            found.append(Prediction(at=at, what="its Workload is deleted (objectRetentionPolicies)"))
    return found or [_untimed("nothing: it has ended")]


def _deactivated(workload: Workload, context: PredictionContext, now: datetime) -> list[Prediction]:
    found = []
    if workload.is_true(condition_types.QUOTA_RESERVED):
        found.append(_untimed("its pods are deleted, then its quota is released"))
    evicted = workload.condition(condition_types.EVICTED)
    # Retention deletes only what Sluice deactivated, not what a user did.
    ours = evicted is not None and evicted.reason.startswith(reasons.DEACTIVATED_DUE_TO)
    if evicted is not None and ours and context.settings is not None:
        at = _after(evicted.last_transition_time, context.settings.retain_deactivated, now)
        if at is not None:
            found.append(Prediction(at=at, what="the Job is deleted (objectRetentionPolicies)"))
    argument = job_argument(workload, context.default_ns)
    until = f"until: sluice reactivate {argument}"
    if needs_more(workload):
        until = f"until {start_condition(cause(workload), argument, recorded_cause(workload))}"
    return [*found, _untimed(f"{_subject(workload)} stays out {until}")]


def _backoff(workload: Workload, context: PredictionContext, now: datetime) -> list[Prediction]:
    state = workload.status.requeue_state
    count = (state.count or 0) if state is not None else 0
    limit = _limit(workload, context.settings)
    tried = f"retry {count}" + (f" of {limit}" if limit is not None else "") if count else "again"
    at = state.requeue_at if state is not None else None
    end = ends_instead_of_retry(workload, context.settings) if context.settings is not None else None
    if end is not None:
        return [Prediction(at=end, what=f"{_subject(workload)} is deactivated: {GIVES_UP}")]
    return [
        Prediction(at=at, what=f"{_subject(workload)} is requeued in {workload.spec.queue_name} ({tried})"),
        *_obstacles(context),
    ]


def _evicted(workload: Workload, context: PredictionContext, now: datetime) -> list[Prediction]:
    found = [_untimed("its pods are deleted, then its quota is released"), *_preempted(workload)]
    state = workload.status.requeue_state
    if state is not None and state.requeue_at is not None:
        return [*found, *_backoff(workload, context, now)]
    return [*found, *_obstacles(context)]


def _pending(workload: Workload, context: PredictionContext, now: datetime) -> list[Prediction]:
    found = _obstacles(context) or [
        _untimed(_why_pending(workload.condition(condition_types.QUOTA_RESERVED), workload, context)),
        *_kept_for_it(context.outlook),
        *(context.outlook.deadlines if context.outlook is not None else ()),
    ]
    victim = _preempted(workload)
    return [*found, *victim, *(_release(context.outlook) if victim else ())]


def _release(outlook: Explanation | None) -> list[Prediction]:
    """Say to a victim when enough quota is released for it, or why that is not known."""
    if outlook is None or not outlook.release:
        return []
    if outlook.released_by is None:
        return [_untimed(f"when enough quota is released is {outlook.release}")]
    return [
        Prediction(at=outlook.released_by, what=f"enough quota is released for it at the latest, {outlook.release}")
    ]


def _kept_for_it(outlook: Explanation | None) -> list[Prediction]:
    """Say that backfilling keeps quota, and when the Job starts at the latest, if all that run end as declared."""
    if outlook is None or not outlook.kept_for_it:
        return []
    kept = "quota that is released is kept for it (backfill)"
    if outlook.starts_by is None:
        return [_untimed(kept)]
    return [Prediction(at=outlook.starts_by, what=f"the Job starts at the latest, {DELAYED}; {kept}")]


def _preempted(workload: Workload) -> list[Prediction]:
    """Say who needed the quota of a victim, and that it keeps its place in the queue."""
    cause = preempted_for(workload)
    if not cause:
        return []
    text = f"preempted {cause}: keeps its place in the queue, by priority and creation time"
    return [_untimed(f"{text}, and is tried again without a backoff")]


def _obstacles(context: PredictionContext) -> list[Prediction]:
    found = context.obstacles
    texts = [f"{each.text}; {each.remedy}" if each.remedy else each.text for each in (*found[:1], *further(found))]
    return [_untimed(text if i == 0 else f"also {text}") for i, text in enumerate(texts)]


_PENDING = {
    reasons.WAITING_FOR_QUOTA: "the Job starts when enough quota is free",
    reasons.WAITING_FOR_PREEMPTED: "the Job starts when the preempted Workloads have stopped",
    reasons.WAITING_FOR_PODS_READY: (
        "the Job starts when the pods of all Workloads that hold quota are ready (blockAdmission)"
    ),
    reasons.EXCEEDS_MAX_QUOTA: "the Job never starts, unless it requests less or an admin raises the quota",
    reasons.NO_MATCHING_FLAVOR: (
        "the Job never starts, unless it requests something else or an admin adds a flavor for it"
    ),
    reasons.MISCONFIGURED: "the Job never starts, unless the misconfiguration is fixed",
}


def _why_pending(reserved: Condition | None, workload: Workload, context: PredictionContext) -> str:
    reason = reserved.reason if reserved is not None else ""
    if reason == reasons.ADMISSION_GATED:
        gates = workload.metadata.annotations.get(keys.ADMISSION_GATED_BY, "")
        return f"the Job enters the queue when its admission gates are removed: {gates}"
    text = _PENDING.get(reason, f"the Job is tried when it is its turn in {workload.spec.queue_name}")
    outlook = context.outlook
    if outlook is not None and outlook.changes and outlook.code == WAITS_FOR_QUOTA:
        text = f"the Job starts when {outlook.changes[0]}"
    return f"{text} (sluice explain {job_argument(workload, context.default_ns)})"


def _reserved(workload: Workload, context: PredictionContext, now: datetime) -> list[Prediction]:
    open_checks = [check.name for check in workload.status.admission_checks if check.state != CheckState.READY]
    if open_checks and not workload.is_true(condition_types.ADMITTED):
        return [_untimed(f"the Job starts when its admission checks are ready: {', '.join(open_checks)}")]
    return [_untimed("the Job starts immediately")]


_BY_WORKLOAD_STATE = {
    JobState.DEACTIVATED: _deactivated,
    JobState.BACKOFF: _backoff,
    JobState.EVICTED: _evicted,
    JobState.PENDING: _pending,
    JobState.RESERVED: _reserved,
}


# --- deadlines of what runs --------------------------------------------------------------------------------


def _while_running(
    job: Job,
    workload: Workload | None,
    pods: Sequence[Pod],
    indexes: IndexMap | None,
    context: PredictionContext,
    now: datetime,
) -> list[Prediction]:
    found: list[Prediction] = []
    at = next_pod_at(job, pods, context.options, now)
    if at is not None:
        found.append(Prediction(at=at, what="a pod is created in place of a failed one"))
    elif indexes is not None:
        due = [(row.next_retry, row.index) for row in indexes.troubled if row.next_retry is not None]
        found += [Prediction(at=at, what=f"the next pod of index {index} is created") for at, index in sorted(due)[:1]]
    found = [n for n in found if n.at is None or not is_evicted_before(n.at, workload, pods, context.settings)]
    at = _after(job.status.start_time, job.spec.active_deadline_seconds, now)
    if at is not None:
        found.append(Prediction(at=at, what="the Job fails if it still runs (activeDeadlineSeconds)"))
    if workload is not None:
        found += _queue_deadlines(workload, pods, context, now)
    wanted = job.spec.completions
    failed = failed_indexes(job)
    if failed and job.spec.success_policy is None:
        return [*found, _untimed(f"the Job fails when all other indexes have ended: {failed}")]
    done = f"{job.status.succeeded} of {wanted} pods have" if wanted is not None else "not all have"
    return [*found, _untimed(f"the Job ends when all its pods have succeeded ({done})")]


def _queue_deadlines(
    workload: Workload, pods: Sequence[Pod], context: PredictionContext, now: datetime
) -> list[Prediction]:
    found = []
    at = protection_end(workload, context.settings.max_min_runtime) if context.settings is not None else None
    if at is not None and at > now:
        found.append(Prediction(at=at, what=f"{_subject(workload)} may be preempted from then on ({keys.MIN_RUNTIME})"))
    at = execution_deadline(workload)
    if at is not None:
        found.append(
            Prediction(at=at, what=f"{_subject(workload)} is deactivated if it still runs (maximum execution time)")
        )
    ready = workload.condition(condition_types.PODS_READY)
    if workload.is_true(condition_types.PODS_READY) or not workload.is_true(condition_types.ADMITTED):
        return found
    if ready is None and (context.settings is None or workload.metadata.controller is not None):
        return found  # no PodsReady condition, so waitForPodsReady seems to be off
    if context.settings is None:
        return [
            *found,
            _untimed(
                f"{_subject(workload)} is evicted if its pods are not all ready in time "
                "(waitForPodsReady; --config shows when)"
            ),
        ]
    deadline = pods_deadline(workload, context.settings, unscheduled(pods))
    if deadline is not None:
        found.append(Prediction(at=deadline.at, what=_eviction(workload, deadline, context.settings)))
    return found


def _subject(workload: Workload) -> str:
    return "the Workload" if workload.metadata.controller is None else "the Job"


def _limit(workload: Workload, settings: WorkloadSettings | None) -> int | None:
    """Return the number of retries before a deactivation; None if there is no limit, or it is not known."""
    own = settings_for(workload, settings) if settings is not None else None
    return own.limit if own is not None else None


def _eviction(workload: Workload, deadline: Deadline, settings: WorkloadSettings) -> str:
    if deadline.last:
        return f"{_subject(workload)} is deactivated if its pods are not all ready (giveUpAfter)"
    state = workload.status.requeue_state
    count = ((state.count or 0) if state is not None else 0) + 1
    limit = _limit(workload, settings)
    if limit is not None and count > limit:
        retries = "its 1 retry is" if limit == 1 else f"its {limit} retries are"
        return f"{_subject(workload)} is deactivated if its pods are not all ready ({retries} used up)"
    follows = f"retry {count}{f' of {limit}' if limit is not None else ''} follows"
    return f"{_subject(workload)} is evicted if its pods are not all ready ({follows})"
