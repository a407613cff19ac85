"""decide: what one sync of a Job is to do.

A pure function of the Job, its pods, what is remembered, and the time. It works out the whole sequence of steps in
the belief that every write succeeds; decision.py says in which order and why. When a step fails, the
controller asks again with what is then true and `pods_done`: nothing more is created or deleted in that
sync, but what did happen is written down.

    look      sort the pods                                      situation.py
    judge     has the Job failed or succeeded?                   verdict.py
    manage    otherwise: too many pods, or too few?              manage.py, pod_selection.py
    settle    note the pods that ended                           accounting.py
    conclude  the terminal condition, when nothing is left open
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from job_controller import accounting, backoff, conditions, job_warnings, reasons
from job_controller.annotations import whole_number
from job_controller.backoff import FailureHistory
from job_controller.decision import (
    Count,
    CreatePods,
    Decision,
    DeletePods,
    Event,
    JobMemory,
    PrunePods,
    ReleasePods,
    Step,
    TrackPods,
    WriteStatus,
)
from job_controller.labels import FAILED_PODS_LIMIT
from job_controller.manage import PodChanges, common_wait, manage
from job_controller.model import Job, JobStatus, Pod
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import finish_time, is_ready, is_tracked
from job_controller.pod_failure_policy import evaluate
from job_controller.situation import Situation, look
from job_controller.switches import effective
from job_controller.verdict import Verdict, completed, deadline_in, judge, standing

DEFAULTS = JobControllerOptions()
# While one batch of pods follows the other, their number is told no more often than this: a status for each batch of
# 5 000 pods is ten writes that hold the creation up.
PROGRESS = timedelta(seconds=1)


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
    """The steps for an unfinished Job (spec 2.2).

    pods: all pods whose controller is this very Job. memory: of the previous Decision for this UID, None at
    first. now: aware. pods_done: create and delete nothing (after a step that failed). permitted: the Job may have
    new pods; without the permit the Job counts as not started, and the pods that it has are left alone.
    """
    wrong = job_warnings.unmanageable(job)
    understood = effective(job, options.switches)
    told = frozenset((wrong,) if wrong is not None else job_warnings.advice(understood))
    new = _in_order(told - memory.told if memory is not None else told)
    if wrong is not None:
        return Decision(
            events=new, memory=JobMemory(memory.history if memory is not None else FailureHistory(), told=told)
        )
    owned = tuple(pods)
    before = memory or JobMemory()
    s = look(understood, owned, now, options, before.parts, before.start, permitted)
    memory = JobMemory(_history(s, owned, memory), s.parts, told, before.status_at, s.start)
    verdict = judge(s)
    plan = PodChanges()
    if not pods_done:
        if verdict is not None:
            plan = PodChanges(remove=s.active)
        elif not s.deleting:
            plan = manage(s, memory.history)
        stray = _to_track_again(s, plan)
        if stray:
            return Decision(steps=(TrackPods(stray),), events=new, memory=memory, requeue_after=0.0)
    return _steps(s, memory, verdict, plan, owned, pods_done, new)


def _in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    return tuple(sorted(events, key=lambda event: event.message))


def _to_track_again(s: Situation, plan: PodChanges) -> tuple[Pod, ...]:
    """Pods whose deletion stopped half-way, unless they are to be deleted still."""
    removed = {pod.metadata.uid for pod in plan.remove}
    return tuple(pod for pod in s.interrupted if pod.metadata.uid not in removed)


def _history(s: Situation, pods: Sequence[Pod], memory: JobMemory | None) -> backoff.FailureHistory:
    """The history of failures with this sync's pods. Without a memory it starts from all pods that still exist, and
    from the number of those that do not."""
    history = memory.history if memory is not None else backoff.FailureHistory(lost=_lost(s, pods))
    if s.per_index:
        return backoff.noticing(history, s.waiting.values(), s.now)
    return backoff.not_ahead(_extended(history, s, pods, memory), s.now)


def _extended(
    history: FailureHistory, s: Situation, pods: Sequence[Pod], memory: JobMemory | None
) -> backoff.FailureHistory:
    succeeded, failed = s.succeeded, s.failed
    if memory is None:
        failed = (*failed, *_ended(pods, "Failed"))
        if failed:
            succeeded = (*succeeded, *_ended(pods, "Succeeded"))
    if not failed and not history.failures:
        # A success matters only to failures before it. Those still to come ended later, or their pods exist.
        return history if not succeeded else backoff.extend(history, _last(succeeded), ())
    return backoff.extend(history, succeeded, failed)


def _lost(s: Situation, pods: Sequence[Pod]) -> int:
    """Failures that stand in status and have no pod any more; 0 if there was a success, for who knows which came after
    it."""
    counted = s.job.status.failed + len(s.uncounted.failed)
    if s.per_index or s.succeeded_count or not counted:
        return 0
    policy, new = s.job.spec.pod_failure_policy, s.outcomes
    kept = [pod for pod in _ended(pods, "Failed") if pod.metadata.uid not in new and evaluate(policy, pod).counts]
    return max(0, counted - len(kept))


def _ended(pods: Sequence[Pod], phase: str) -> list[Pod]:
    return [pod for pod in pods if pod.status.phase == phase and pod.metadata.deletion_timestamp is None]


def _last(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    return (max(pods, key=finish_time),)


def _steps(
    s: Situation,
    memory: JobMemory,
    verdict: Verdict | None,
    plan: PodChanges,
    owned: Sequence[Pod],
    pods_done: bool,
    complained: tuple[Event, ...],
) -> Decision:
    job = s.job
    ending = verdict is not None
    removed = {pod.metadata.uid for pod in plan.remove}
    active = len(s.active) - len(removed) + len(plan.create)
    verdict = verdict or completed(s, active)
    failed_indexes = s.failed_indexes([pod for pod in s.failed if s.failed_by_itself(pod)])
    keep = {pod.metadata.uid for pod in s.waiting.values()} if verdict is None else set()
    ledger = accounting.settle(s, verdict, keep, removed if ending else set())

    noted = accounting.noted_status(s, ledger, failed_indexes)
    status, events = _next_status(s, noted, plan, active, verdict, ending=ending)

    steps: list[Step] = []
    announced: JobStatus | None = None
    if ending and plan.remove and standing(job) is None:
        announced = _announcement(s, status)
        steps.append(WriteStatus(announced))
    if plan.remove:
        steps.append(DeletePods(plan.remove, release=not ending))
    if plan.create:
        steps.append(CreatePods(plan.create, _creation_reason(s)))
    if status != (announced or job.status) and not _soon_outdated(s, memory, status, plan):
        counts = [*accounting.index_counts(s, failed_indexes), *accounting.pod_counts(s, job.status, status)]
        steps.append(WriteStatus(status, events, tuple(counts)))
    if ledger.release:
        # An ignored failure may leave no trace in status: its count belongs to the pod's release.
        steps.append(ReleasePods(tuple(ledger.release), tuple(accounting.action_counts(ledger))))
    final, final_events, final_counts = _after_release(s, status, ledger, verdict)
    limit = whole_number(job, FAILED_PODS_LIMIT)
    wait = common_wait(s, memory.history).total_seconds() if limit == 0 and verdict is None else 0.0
    prune = _to_prune(owned, ledger, 1 if wait else limit)
    if prune and not pods_done:
        steps.append(PrunePods(prune))
    if final != status:
        steps.append(WriteStatus(final, final_events, final_counts))
    written = any(isinstance(step, WriteStatus) for step in steps)
    return Decision(
        steps=tuple(steps),
        events=complained,
        memory=replace(memory, status_at=s.now) if written else memory,
        requeue_after=_requeue(s, verdict, plan, ledger, wait),
        action=_action(s, plan, ending, pods_done),
    )


def _soon_outdated(s: Situation, memory: JobMemory, status: JobStatus, plan: PodChanges) -> bool:
    """Whether nothing but the number of pods is new, and the next batch will change it before long."""
    if not plan.create or plan.wait != 0 or memory.status_at is None:
        return False
    known = s.job.status
    same = msgspec.structs.replace(status, active=known.active, ready=known.ready) == known
    return same and timedelta(0) <= s.now - memory.status_at < PROGRESS


def _next_status(
    s: Situation, noted: JobStatus, plan: PodChanges, active: int, verdict: Verdict | None, *, ending: bool
) -> tuple[JobStatus, tuple[Event, ...]]:
    """What is noted, with pods and conditions as they are once the plan is carried out; and the Events of that."""
    status = msgspec.structs.replace(
        noted,
        active=active,
        ready=s.active_ready - sum(map(is_ready, plan.remove)),
        terminating=len(s.terminating) + _lingering(plan.remove, ending),
        start_time=s.start_time,
    )
    status, events = _suspension(s, status, verdict)
    if verdict is not None:
        status = msgspec.structs.replace(status, conditions=_interim(s, status, verdict))
    return status, events


def _announcement(s: Situation, status: JobStatus) -> JobStatus:
    """The verdict alone, before any pod is deleted for it: after a crash in between, nobody could tell the pods
    that died with the Job from those that led to its end."""
    return msgspec.structs.replace(
        s.job.status, conditions=status.conditions, failed_indexes=status.failed_indexes, start_time=s.start_time
    )


def _lingering(removed: Sequence[Pod], ending: bool) -> int:
    """How many deleted pods are still there afterwards: not those without finalizer that no node knows."""
    return sum(ending or bool(pod.spec.node_name) or len(pod.metadata.finalizers) > 1 for pod in removed)


def _suspension(s: Situation, status: JobStatus, verdict: Verdict | None) -> tuple[JobStatus, tuple[Event, ...]]:
    """Suspended is set once no pod is active, and cleared on resume. startTime follows (spec 2.2.17)."""
    if s.deleting:
        return status, ()
    if s.resumed:
        reason, message, flag = reasons.JOB_RESUMED, reasons.RESUMED_MESSAGE, "False"
        event = Event("Normal", reasons.EVENT_RESUMED, message)
    elif s.suspended and verdict is None and status.active == 0:
        if conditions.is_true(status.conditions, reasons.SUSPENDED):
            return status, ()
        reason, message, flag = reasons.JOB_SUSPENDED, reasons.SUSPENDED_MESSAGE, "True"
        event = Event("Normal", reasons.EVENT_SUSPENDED, message)
        status = msgspec.structs.replace(status, start_time=None)
    else:
        return status, ()
    changed = conditions.put(status.conditions, reasons.SUSPENDED, flag, reason, message, s.stamp)
    return msgspec.structs.replace(status, conditions=changed), (event,)


def _interim(s: Situation, status: JobStatus, verdict: Verdict) -> conditions.Conditions:
    if conditions.is_true(status.conditions, verdict.interim):
        return status.conditions
    return conditions.put(status.conditions, verdict.interim, "True", verdict.reason, verdict.message, s.stamp)


def _after_release(
    s: Situation, status: JobStatus, ledger: accounting.PodAccounting, verdict: Verdict | None
) -> tuple[JobStatus, tuple[Event, ...], tuple[Count, ...]]:
    """The second write: noted pods become numbers, and the Job ends if nothing is left open."""
    released = {pod.metadata.uid for pod in ledger.release}
    final = accounting.counted_status(status, released, s.indexed)
    counts = accounting.pod_counts(s, status, final)
    uncounted = final.uncounted_terminated_pods
    open_ends = (
        ledger.full or final.active or final.terminating or (uncounted and (uncounted.succeeded or uncounted.failed))
    )
    if verdict is None or open_ends:
        return final, (), tuple(counts)
    final = accounting.concluded_status(s, final, verdict)
    labels = {
        "completion_mode": s.job.spec.completion_mode,
        "result": "succeeded" if verdict.type == "Complete" else "failed",
        "reason": verdict.reason,
    }
    return final, _ending_events(s, final, verdict), (*counts, Count("jobs_finished_total", labels))


def _ending_events(s: Situation, status: JobStatus, verdict: Verdict) -> tuple[Event, ...]:
    if verdict.type == "Failed":
        return (Event("Warning", verdict.reason, verdict.message),)
    events = [Event("Normal", reasons.EVENT_COMPLETED, reasons.COMPLETED_MESSAGE)]
    if not s.indexed and s.completions is not None and status.succeeded > s.completions:
        events.insert(0, Event("Warning", reasons.EVENT_TOO_MANY_SUCCEEDED, reasons.TOO_MANY_SUCCEEDED_MESSAGE))
    return tuple(events)


def _to_prune(owned: Sequence[Pod], ledger: accounting.PodAccounting, limit: int | None) -> tuple[Pod, ...]:
    """Counted failed pods beyond the limit that the Job's annotation sets, oldest first.

    The caller keeps one where the limit is 0 as long as it is not replaced: the wait counts from its end, which stands
    nowhere else.
    """
    if limit is None:
        return ()
    released = {pod.metadata.uid for pod in ledger.release}
    done = [
        pod
        for pod in owned
        if pod.status.phase == "Failed"
        and pod.metadata.deletion_timestamp is None
        and (not is_tracked(pod) or pod.metadata.uid in released)
    ]
    done.sort(key=lambda pod: (finish_time(pod), pod.metadata.uid))
    return tuple(done[: max(0, len(done) - limit)])


def _creation_reason(s: Situation) -> str:
    failed = s.job.status.failed + len(s.failed) + len(s.uncounted.failed)
    if s.only_terminal and failed:
        return "recreate_failed"
    return "recreate_terminating_or_failed" if failed or s.terminating else "new"


def _requeue(
    s: Situation, verdict: Verdict | None, plan: PodChanges, ledger: accounting.PodAccounting, wait: float
) -> float | None:
    """`wait`: until the last failed pod can be pruned too, or 0."""
    waits = [0.0] if ledger.full and ledger.release else []
    if wait:
        waits.append(wait)
    if verdict is None:
        waits += [seconds for seconds in (plan.wait, deadline_in(s)) if seconds is not None]
    return max(0.0, min(waits)) if waits else None


def _action(
    s: Situation, plan: PodChanges, ending: bool, pods_done: bool
) -> Literal["reconciling", "tracking", "pods_created", "pods_deleted"]:
    """The label of the sync metrics."""
    if ending or s.deleting or pods_done:
        return "reconciling"
    if plan.create:
        return "pods_created"
    return "pods_deleted" if plan.remove or s.suspended else "tracking"
