"""What one sync of a Job does (upstream syncJob, BEHAVIOUR.md#b13-sync-order).

`decide` is a pure function of the Job, its pods, the memory of the last sync, and the time. It returns all steps under
the assumption that every write succeeds; sync_steps.py explains their order. If a step fails, the controller calls it
again with the new state and `pods_done`: then no more pods are created or deleted, but the status of what happened is
written.

    assess            classify the pods                                  situation.py, pods_by_state.py
    decide_verdict    has the Job failed or succeeded?                   verdict.py
    pod_changes       otherwise: which pods to create or delete          pod_count.py, pod_deletion_order.py
    record_finished   record the finished pods                           accounting.py
    terminal_status   the terminal condition, when all pods are counted  accounting.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from job_controller import (
    accounting,
    condition_types,
    conditions,
    event_reasons,
    job_warnings,
    messages,
    reasons,
)
from job_controller.annotations import whole_number
from job_controller.backoff import FailureHistory
from job_controller.failure_history import failure_history
from job_controller.labels import FAILED_PODS_LIMIT
from job_controller.model import Job, JobStatus, Pod
from job_controller.options import JobControllerOptions
from job_controller.pod_count import PodChanges, common_wait, pod_changes
from job_controller.pod_facts import finish_time, is_ready, is_tracked
from job_controller.situation import Situation, assess
from job_controller.switched_off_features import effective
from job_controller.sync_steps import (
    Count,
    CreatePods,
    Decision,
    DeletePods,
    JobEvent,
    JobMemory,
    PrunePods,
    ReleasePods,
    Step,
    TrackPods,
    WriteStatus,
)
from job_controller.verdict import Verdict, completed, deadline_in, decide_verdict, recorded_verdict

DEFAULTS = JobControllerOptions()
# The shortest interval between two status writes that only update the number of pods during creation: a write after
# each of the ten batches of 5 000 pods would delay the creation.
PROGRESS_INTERVAL = timedelta(seconds=1)


def decide(
    job: Job,
    pods: Iterable[Pod],
    memory: JobMemory | None,
    now: datetime,
    options: JobControllerOptions = DEFAULTS,
    *,
    pods_done: bool = False,
    permitted: bool = True,
) -> Decision:
    """The steps for an unfinished Job.

    pods        all pods whose controller is this Job (by UID)
    memory      of the previous Decision for this UID, None before the first
    now         timezone-aware
    pods_done   create and delete nothing: a step of this sync has failed
    permitted   the Job may have new pods. Without the permit the Job counts as not started and its pods are not
                changed
    """
    invalid = job_warnings.invalid_job(job)
    effective_job = effective(job, options.switches)
    reported = frozenset((invalid,) if invalid is not None else job_warnings.warnings(effective_job))
    new = _in_order(reported - memory.reported if memory is not None else reported)
    if invalid is not None:
        return Decision(
            events=new, memory=JobMemory(memory.history if memory is not None else FailureHistory(), reported=reported)
        )
    owned = tuple(pods)
    before = memory or JobMemory()
    s = assess(effective_job, owned, now, options, before.parts, before.start, permitted)
    history = failure_history(s, owned, memory.history if memory is not None else None)
    memory = JobMemory(history, s.parts, reported, before.status_at, s.start)
    verdict = decide_verdict(s)
    plan = PodChanges()
    if not pods_done:
        if verdict is not None:
            plan = PodChanges(remove=s.active)
        elif not s.deleting:
            plan = pod_changes(s, memory.history)
        to_track = _to_track(s, plan)
        if to_track:
            return Decision(steps=(TrackPods(to_track),), events=new, memory=memory, requeue_after=0.0)
    return _steps(s, memory, verdict, plan, owned, pods_done, new)


def _in_order(events: Iterable[JobEvent]) -> tuple[JobEvent, ...]:
    return tuple(sorted(events, key=lambda event: event.message))


def _to_track(s: Situation, plan: PodChanges) -> tuple[Pod, ...]:
    """Pods whose deletion failed after their finalizer was removed, unless this sync deletes them."""
    removed = {pod.metadata.uid for pod in plan.remove}
    return tuple(pod for pod in s.interrupted if pod.metadata.uid not in removed)


def _steps(
    s: Situation,
    memory: JobMemory,
    verdict: Verdict | None,
    plan: PodChanges,
    owned: Sequence[Pod],
    pods_done: bool,
    warnings: tuple[JobEvent, ...],
) -> Decision:
    """The steps and the status writes once verdict and pod changes are known."""
    job = s.job
    ending = verdict is not None
    removed = {pod.metadata.uid for pod in plan.remove}
    active = len(s.active) - len(removed) + len(plan.create)
    verdict = verdict or completed(s, active)
    failed_indexes = s.failed_indexes([pod for pod in s.failed if s.failed_by_itself(pod)])
    keep = {pod.metadata.uid for pod in s.waiting.values()} if verdict is None else set()
    accounts = accounting.record_finished(s, verdict, keep, removed if ending else set())

    recorded = accounting.recorded_status(s, accounts, failed_indexes)
    status, events = _next_status(s, recorded, plan, active, verdict, ending=ending)

    steps: list[Step] = []
    interim: JobStatus | None = None
    if ending and plan.remove and recorded_verdict(job) is None:
        interim = _interim_status(s, status)
        steps.append(WriteStatus(interim))
    if plan.remove:
        steps.append(DeletePods(plan.remove, release=not ending))
    if plan.create:
        steps.append(CreatePods(plan.create, _creation_reason(s)))
    if status != (interim or job.status) and not _is_progress_only(s, memory, status, plan):
        counts = [*accounting.index_counts(s, failed_indexes), *accounting.pod_counts(s, job.status, status)]
        steps.append(WriteStatus(status, events, tuple(counts)))
    if accounts.release:
        # An ignored failure is not recorded in status, so its action is counted when the finalizer is removed.
        steps.append(ReleasePods(tuple(accounts.release), tuple(accounting.action_counts(accounts))))
    final, final_events, final_counts = _after_release(s, status, accounts, verdict)
    limit = whole_number(job, FAILED_PODS_LIMIT)
    wait = common_wait(s, memory.history).total_seconds() if limit == 0 and verdict is None else 0.0
    prune = _to_prune(owned, accounts, 1 if wait else limit)
    if prune and not pods_done:
        steps.append(PrunePods(prune))
    if final != status:
        steps.append(WriteStatus(final, final_events, final_counts))
    written = any(isinstance(step, WriteStatus) for step in steps)
    return Decision(
        steps=tuple(steps),
        events=warnings,
        memory=replace(memory, status_at=s.now) if written else memory,
        requeue_after=_requeue(s, verdict, plan, accounts, wait),
        action=_action(s, plan, ending, pods_done),
    )


def _is_progress_only(s: Situation, memory: JobMemory, status: JobStatus, plan: PodChanges) -> bool:
    """Whether only the number of pods has changed and the next batch of creations follows immediately.

    Such a status is written at most every PROGRESS_INTERVAL.
    """
    if not plan.create or plan.wait != 0 or memory.status_at is None:
        return False
    known = s.job.status
    same = msgspec.structs.replace(status, active=known.active, ready=known.ready) == known
    return same and timedelta(0) <= s.now - memory.status_at < PROGRESS_INTERVAL


def _next_status(
    s: Situation, recorded: JobStatus, plan: PodChanges, active: int, verdict: Verdict | None, *, ending: bool
) -> tuple[JobStatus, tuple[JobEvent, ...]]:
    """The recorded status with pod counts and conditions as after the plan, and the Events of its write."""
    status = msgspec.structs.replace(
        recorded,
        active=active,
        ready=s.active_ready - sum(map(is_ready, plan.remove)),
        terminating=len(s.terminating) + _remaining(plan.remove, ending),
        start_time=s.start_time,
    )
    status, events = _suspension(s, status, verdict)
    if verdict is not None:
        status = msgspec.structs.replace(status, conditions=_interim(s, status, verdict))
    return status, events


def _interim_status(s: Situation, status: JobStatus) -> JobStatus:
    """The stored status with the interim condition, to be written before pods are deleted because the Job ends.

    Without the condition, a sync after a crash would count the pods that the Job has deleted as failed by themselves.
    """
    return msgspec.structs.replace(
        s.job.status, conditions=status.conditions, failed_indexes=status.failed_indexes, start_time=s.start_time
    )


def _remaining(removed: Sequence[Pod], ending: bool) -> int:
    """The number of deleted pods that still exist afterwards: all but unbound pods without a finalizer."""
    return sum(ending or bool(pod.spec.node_name) or len(pod.metadata.finalizers) > 1 for pod in removed)


def _suspension(s: Situation, status: JobStatus, verdict: Verdict | None) -> tuple[JobStatus, tuple[JobEvent, ...]]:
    """The condition Suspended and startTime (KEP-2232, BEHAVIOUR.md#b26-suspension).

    Once no pod is active, Suspended is set and startTime is removed. A resume sets Suspended to False.
    """
    if s.deleting:
        return status, ()
    if s.resumed:
        reason, message, flag = reasons.JOB_RESUMED, messages.RESUMED_MESSAGE, "False"
        event = JobEvent("Normal", event_reasons.RESUMED, message)
    elif s.suspended and verdict is None and status.active == 0:
        if conditions.is_true(status.conditions, condition_types.SUSPENDED):
            return status, ()
        reason, message, flag = reasons.JOB_SUSPENDED, messages.SUSPENDED_MESSAGE, "True"
        event = JobEvent("Normal", event_reasons.SUSPENDED, message)
        status = msgspec.structs.replace(status, start_time=None)
    else:
        return status, ()
    changed = conditions.put(status.conditions, condition_types.SUSPENDED, flag, reason, message, s.stamp)
    return msgspec.structs.replace(status, conditions=changed), (event,)


def _interim(s: Situation, status: JobStatus, verdict: Verdict) -> conditions.Conditions:
    """The conditions with the interim condition of the verdict."""
    if conditions.is_true(status.conditions, verdict.interim):
        return status.conditions
    return conditions.put(status.conditions, verdict.interim, "True", verdict.reason, verdict.message, s.stamp)


def _after_release(
    s: Situation, status: JobStatus, accounts: accounting.PodAccounting, verdict: Verdict | None
) -> tuple[JobStatus, tuple[JobEvent, ...], tuple[Count, ...]]:
    """The status of the second write with its Events and counts: recorded UIDs move into the counters.

    The terminal condition is added if nothing is active, terminating or uncounted any more.
    """
    released = {pod.metadata.uid for pod in accounts.release}
    final = accounting.counted_status(status, released, s.indexed)
    counts = accounting.pod_counts(s, status, final)
    uncounted = final.uncounted_terminated_pods
    unfinished = (
        accounts.full or final.active or final.terminating or (uncounted and (uncounted.succeeded or uncounted.failed))
    )
    if verdict is None or unfinished:
        return final, (), tuple(counts)
    final = accounting.terminal_status(s, final, verdict)
    labels = {
        "completion_mode": s.job.spec.completion_mode,
        "result": "succeeded" if verdict.type == condition_types.COMPLETE else "failed",
        "reason": verdict.reason,
    }
    return final, _ending_events(s, final, verdict), (*counts, Count("jobs_finished_total", labels))


def _ending_events(s: Situation, status: JobStatus, verdict: Verdict) -> tuple[JobEvent, ...]:
    """The Events to record after the terminal condition was written."""
    if verdict.type == condition_types.FAILED:
        return (JobEvent("Warning", verdict.reason, verdict.message),)
    events = [JobEvent("Normal", event_reasons.COMPLETED, messages.COMPLETED_MESSAGE)]
    if not s.indexed and s.completions is not None and status.succeeded > s.completions:
        events.insert(0, JobEvent("Warning", event_reasons.TOO_MANY_SUCCEEDED, messages.TOO_MANY_SUCCEEDED_MESSAGE))
    return tuple(events)


def _to_prune(owned: Sequence[Pod], accounts: accounting.PodAccounting, limit: int | None) -> tuple[Pod, ...]:
    """The counted failed pods beyond the limit of sluice/failed-pods-limit, oldest first.

    During a backoff the caller raises a limit of 0 to 1: the delay counts from the finish time of the latest failed
    pod, which is stored nowhere else.
    """
    if limit is None:
        return ()
    released = {pod.metadata.uid for pod in accounts.release}
    done = [
        pod
        for pod in owned
        if pod.status.has_failed
        and pod.metadata.deletion_timestamp is None
        and (not is_tracked(pod) or pod.metadata.uid in released)
    ]
    done.sort(key=lambda pod: (finish_time(pod), pod.metadata.uid))
    return tuple(done[: max(0, len(done) - limit)])


def _creation_reason(s: Situation) -> str:
    """The label `reason` of job_pods_creation_total."""
    failed = s.job.status.failed + len(s.failed) + len(s.uncounted.failed)
    if s.only_terminal and failed:
        return "recreate_failed"
    return "recreate_terminating_or_failed" if failed or s.terminating else "new"


def _requeue(
    s: Situation, verdict: Verdict | None, plan: PodChanges, accounts: accounting.PodAccounting, wait: float
) -> float | None:
    """Seconds until the next sync, None if only a change can require one.

    `wait`: seconds until the last failed pod can be pruned, or 0.
    """
    waits = [0.0] if accounts.full and accounts.release else []
    if wait:
        waits.append(wait)
    if verdict is None:
        waits += [seconds for seconds in (plan.wait, deadline_in(s)) if seconds is not None]
    return max(0.0, min(waits)) if waits else None


def _action(
    s: Situation, plan: PodChanges, ending: bool, pods_done: bool
) -> Literal["reconciling", "tracking", "pods_created", "pods_deleted"]:
    """The label `action` of the sync metrics."""
    if ending or s.deleting or pods_done:
        return "reconciling"
    if plan.create:
        return "pods_created"
    return "pods_deleted" if plan.remove or s.suspended else "tracking"
