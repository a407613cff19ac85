"""What the history says about one Job, folded from its steps and pods. Pure.

CPU time is counted in CPU seconds. *Requested*: the CPU quota of each attempt, times how long the attempt held it, from
its admission until the Job had stopped or ended. *Used*: what the nodes measured of the pods, None if they measured
none. *Wasted*: the requested CPU time of attempts that led to nothing, by cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from job_controller.reasons import (
    BACKOFF_LIMIT_EXCEEDED,
    DEADLINE_EXCEEDED,
    FAILED_INDEXES,
    MAX_FAILED_INDEXES_EXCEEDED,
    POD_FAILURE_POLICY,
)
from queue_manager.accounting import record_types
from queue_manager.accounting.failed_index_steps import pods_of_indexes, recorded_indexes
from queue_manager.accounting.record_types import (
    DELETED_POD,
    ENDS_OF_ATTEMPT,
    ENDS_OF_JOB,
    SUCCEEDED,
    JobRecord,
    PodRecord,
    StepKind,
    StepRecord,
)
from queue_manager.accounting.step_order import in_order
from queue_manager.api import messages, reasons
from queue_manager.lifecycle.interruptions import Interruption, running_seconds
from queue_manager.lifecycle.pod_causes import RESTARTED_AFTER, START_ERRORS
from queue_manager.visibility.job_causes import of_indexes
from queue_manager.visibility.job_times import Life, Period, job_times
from queue_manager.visibility.pod_starts import shows_no_start
from queue_manager.visibility.short_messages import plain, says
from queue_manager.visibility.shown_causes import cause_of_end, with_error_before


class JobOutcome(StrEnum):
    """The state of a Job in the history."""

    PENDING = "Pending"
    HELD = "Held"
    RUNNING = "Running"
    DEACTIVATED = "Deactivated"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETED = "Deleted"


class Waste(StrEnum):
    """Why the CPU time of an attempt counts as wasted."""

    FAILED = "failed"
    PREEMPTED = "preempted"
    # evicted because its pods did not become ready, or did not stay so; stopped by a user before one ran
    NOT_READY = "notReady"
    OTHER = "other"  # other evictions; deactivation by a user, or deletion, of a Job that ran


_STATES = {
    StepKind.HELD: JobOutcome.HELD,
    StepKind.ADMITTED: JobOutcome.RUNNING,
    StepKind.PODS_READY: JobOutcome.RUNNING,
    StepKind.DEACTIVATED: JobOutcome.DEACTIVATED,
}
# Reasons of pods whose containers were not there when they ended, or could not be executed.
STATUS_UNKNOWN = "ContainerStatusUnknown"
NEVER_RAN = (STATUS_UNKNOWN, *START_ERRORS)
_ENDED_BY_PODS = (BACKOFF_LIMIT_EXCEEDED, FAILED_INDEXES, MAX_FAILED_INDEXES_EXCEEDED, POD_FAILURE_POLICY)
_STOPPED_QUEUES = (reasons.CLUSTER_QUEUE_STOPPED, reasons.LOCAL_QUEUE_STOPPED)
_WITH_PODS = (reasons.PODS_READY_TIMEOUT, reasons.REQUEUING_LIMIT_EXCEEDED, reasons.MAX_EXEC_TIME_EXCEEDED)
# How the messages of evictions and deactivations begin if they do not consist of the cause of the pods alone.
_TIMED_OUT = (messages.pods_ready_timeout(""), messages.DEACTIVATED_MESSAGE)


class JobSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One Job of `sluice history`. Seconds and bytes; times are UTC in the machine formats.

    `cause`: why the Job failed, is deactivated or was deleted (`shown_causes`); of one that waits, why the pods of its
    last attempt were not ready. `failed_indexes`: those that ended it, in words. `reason`, `message`: of its last end
    of an attempt, hold or own end; "" while it runs.
    """

    namespace: str
    name: str
    uid: str
    user: str
    queue: str
    cluster_queue: str
    flavor: str
    state: JobOutcome
    cause: str
    failed_indexes: str
    reason: str
    message: str
    exit_code: int | None
    attempts: int
    evictions: int
    preemptions: int
    holds: int
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    first_wait_seconds: float | None
    run_seconds: float
    waited_seconds: float
    ran_seconds: float | None
    has_run: bool
    pods: int
    cpu_requested_seconds: float
    cpu_used_seconds: float | None
    memory_requested_bytes: int
    memory_peak_bytes: int | None
    wasted_seconds: Mapping[Waste, float]


class AttemptSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A period with quota. `end`: what ended it; None while it runs, or if that is not recorded. `ran`: whether a pod
    was ready, or has run.

    `until`: when its quota was released, or now. `seconds`: from admission to `until`, without the time in
    which the cluster was stopped.
    """

    admission: StepRecord
    end: StepRecord | None
    until: datetime
    seconds: float
    ran: bool

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that the attempt reserved."""
        return self.admission.cpu_milli / 1000 * self.seconds

    @property
    def waste(self) -> Waste | None:
        """Why the attempt led to nothing; None if it succeeded or still runs."""
        match self.end:
            case None | StepRecord(kind=StepKind.FINISHED, reason=record_types.SUCCEEDED):
                return None
            case StepRecord(kind=StepKind.FINISHED):
                return Waste.FAILED
            case StepRecord(kind=StepKind.PREEMPTED):
                return Waste.PREEMPTED
            case StepRecord(kind=StepKind.EVICTED, reason=reasons.PODS_READY_TIMEOUT):
                return Waste.NOT_READY
            case StepRecord(kind=StepKind.DEACTIVATED, reason=reasons.REQUEUING_LIMIT_EXCEEDED):
                return Waste.NOT_READY
            case StepRecord(kind=StepKind.DEACTIVATED | StepKind.DELETED) if not self.ran:
                return Waste.NOT_READY
            case _:
                return Waste.OTHER


def summary(job: JobRecord, steps: Iterable[StepRecord], pods: Sequence[PodRecord], now: datetime) -> JobSummary:
    """Summarize the steps and pods of one Job, up to `now`."""
    ordered = in_order(steps)
    runs = attempts(ordered, pods, now)
    end = next((step for step in ordered if step.kind in ENDS_OF_JOB), None)
    last = runs[-1].admission if runs else None
    started = runs[0].admission.at if runs else None
    used = [pod.cpu_seconds for pod in pods if pod.cpu_seconds is not None]
    indexes = recorded_indexes(end)
    decisive = pods if indexes is None else pods_of_indexes(pods, indexes.known)
    failed = max(_failed(decisive), key=lambda pod: pod.ended_at, default=None)
    times = job_times(_life(job, ordered, runs, end), now)
    state = _state(ordered, end)
    by_pods = state is JobOutcome.FAILED and end is not None and end.reason in (*_ENDED_BY_PODS, DEADLINE_EXCEEDED)
    last_end = _last_end(ordered, state)
    is_deleted = state is JobOutcome.DELETED
    of_pods = _pods_of(last_end) or _text_of(_last_failed(decisive) if by_pods or is_deleted else failed)
    if is_deleted:
        of_pods = of_pods or _before_deletion(ordered)
    cause = _cause(last_end, of_pods, state)
    return JobSummary(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        user=job.user,
        queue=job.queue,
        cluster_queue=last.cluster_queue if last is not None else "",
        flavor=last.flavor if last is not None else "",
        state=state,
        cause=cause,
        reason=last_end.reason if last_end is not None else "",
        message=last_end.message if last_end is not None else "",
        failed_indexes=indexes.text if indexes is not None else "",
        exit_code=_highest_exit_code(decisive) if last_end is not None or cause else None,
        attempts=len(runs),
        evictions=_count(ordered, StepKind.EVICTED),
        preemptions=_count(ordered, StepKind.PREEMPTED),
        holds=_count(ordered, StepKind.HELD),
        submitted_at=job.submitted_at,
        started_at=started,
        ended_at=end.at if end is not None else None,
        first_wait_seconds=max(0.0, (started - job.submitted_at).total_seconds()) if started is not None else None,
        run_seconds=sum(run.seconds for run in runs),
        waited_seconds=0.0 if _ran_outside(job, runs, state) else times.waited,
        ran_seconds=times.ran,
        has_run=_has_run(runs, ordered, pods),
        pods=len(pods),
        cpu_requested_seconds=sum(run.cpu_seconds for run in runs),
        cpu_used_seconds=sum(used) if used else None,
        memory_requested_bytes=last.memory_bytes if last is not None else 0,
        memory_peak_bytes=max((p.peak_memory_bytes for p in pods if p.peak_memory_bytes is not None), default=None),
        wasted_seconds=_wasted(runs),
    )


def attempts(ordered: Sequence[StepRecord], pods: Sequence[PodRecord], now: datetime) -> list[AttemptSummary]:
    """The periods with quota, the oldest first. Each ends, although steps may be missing: see `_until`."""
    job_end = next((step for step in ordered if step.kind in ENDS_OF_JOB), None)
    found, stopped = [], _interruptions(ordered)
    places = [number for number, step in enumerate(ordered) if step.kind is StepKind.ADMITTED]
    for place, following in zip(places, [*places[1:], None], strict=False):
        admission, next_one = ordered[place], ordered[following] if following is not None else None
        own = [step for step in ordered if (step.uid, step.attempt) == (admission.uid, admission.attempt)]
        over = [step for step in ordered[place + 1 : following] if _is_of_later(step, admission)]
        last = job_end if next_one is None else None
        ends = (s for s in (*own, *over) if s.kind in ENDS_OF_ATTEMPT and s.at >= admission.at)
        end = next(ends, last)
        released = next((s for s in own if s.kind is StepKind.RELEASED), None)
        if released is None and not over and last is not None and last.kind is StepKind.FINISHED:
            end = last  # the Job ended before the eviction had stopped it
        until = _until(released, end, [one for one in (*over[:1], next_one, job_end) if one is not None], now)
        seconds = running_seconds(admission.at, until, stopped)
        ready = any(step.kind is StepKind.PODS_READY for step in own)
        ran = ready or any(has_run(pod) and admission.at <= pod.ended_at <= until for pod in pods)
        found.append(AttemptSummary(admission=admission, end=end, until=until, seconds=seconds, ran=ran))
    return found


def _is_of_later(step: StepRecord, admission: StepRecord) -> bool:
    """Whether a step shows that the attempt is over, since it belongs to a later one of the same Workload."""
    return step.uid == admission.uid and step.attempt > admission.attempt


def _until(released: StepRecord | None, end: StepRecord | None, later: Sequence[StepRecord], now: datetime) -> datetime:
    """When the quota of an attempt was released. Where that is not recorded, but a later step shows that it was, the
    attempt ended with its eviction, or else with that step. An evicted Job without a later step is still stopping.
    """
    if released is None and not later:
        return now
    return min(step.at for step in (released or end, *later) if step is not None)


def _has_run(runs: Sequence[AttemptSummary], ordered: Sequence[StepRecord], pods: Sequence[PodRecord]) -> bool:
    """Whether a pod of the Job has started. While an attempt lasts, its pods may run without a record."""
    if any(run.ran or run.end is None for run in runs) or any(has_run(pod) for pod in pods):
        return True
    return any(_shows_start(step, pods) for step in ordered)


def _shows_start(step: StepRecord, pods: Sequence[PodRecord]) -> bool:
    """Whether a step shows that a pod has started: a success, the cause of a timeout, or a failure without records."""
    if step.kind is StepKind.FINISHED:
        return step.reason == SUCCEEDED or (step.reason in _ENDED_BY_PODS and not pods)
    of_pods = _pods_of(step) if step.kind in ENDS_OF_ATTEMPT else ""
    return bool(of_pods) and not shows_no_start(of_pods)


def _ran_outside(job: JobRecord, runs: Sequence[AttemptSummary], state: JobOutcome) -> bool:
    """Whether the Job ran without a queue: its start is not recorded, and it waited for nothing."""
    return not (job.queue or runs) and state in (JobOutcome.SUCCEEDED, JobOutcome.FAILED)


def _life(
    job: JobRecord, ordered: Sequence[StepRecord], runs: Sequence[AttemptSummary], end: StepRecord | None
) -> Life:
    return Life(
        submitted=job.submitted_at,
        ended=end.at if end is not None else None,
        runs=[Period(run.admission.at, run.until) for run in runs],
        inactive=_inactive(ordered),
        stopped=_interruptions(ordered),
    )


def _inactive(ordered: Iterable[StepRecord]) -> list[Period]:
    """The times in which the Job was deactivated. An admission shows a reactivation that was not recorded."""
    found: list[Period] = []
    for step in sorted(ordered, key=lambda step: (step.at, step.attempt, step.occurrence)):
        is_open = bool(found) and found[-1].until is None
        if step.kind is StepKind.DEACTIVATED and not is_open:
            found.append(Period(step.at, None))
        elif step.kind in (StepKind.REACTIVATED, StepKind.ADMITTED) and is_open:
            found[-1] = Period(found[-1].since, step.at)
    return found


def _interruptions(ordered: Iterable[StepRecord]) -> list[Interruption]:
    """The times in which the cluster was stopped. A stop whose start was not recorded is replaced by the next."""
    found: list[Interruption] = []
    for step in ordered:
        if step.kind is StepKind.INTERRUPTED:
            if found and found[-1].until is None:
                found.pop()
            found.append(Interruption(step.at, None))
        elif step.kind is StepKind.CONTINUED and found and found[-1].until is None:
            found[-1] = Interruption(found[-1].since, step.at)
    return found


def has_run(pod: PodRecord) -> bool:
    """Whether a container of the pod was executed."""
    return pod.exit_code is not None and pod.reason not in NEVER_RAN


def _wasted(runs: Iterable[AttemptSummary]) -> dict[Waste, float]:
    total = dict.fromkeys(Waste, 0.0)
    for run in runs:
        if run.waste is not None:
            total[run.waste] += run.cpu_seconds
    return total


def _state(ordered: Sequence[StepRecord], end: StepRecord | None) -> JobOutcome:
    """The state of the Job. One that was deactivated when it was deleted counts as deactivated, not as deleted."""
    if end is not None and end.kind is StepKind.FINISHED:
        return JobOutcome.SUCCEEDED if end.reason == SUCCEEDED else JobOutcome.FAILED
    of_pods = (StepKind.CONTAINER_FAILED, StepKind.INTERRUPTED, StepKind.CONTINUED)
    passing = (StepKind.RELEASED, StepKind.REQUEUED, StepKind.DELETED, *of_pods)
    last = JobOutcome.PENDING
    for step in ordered:
        is_decisive = last is JobOutcome.HELD if step.kind is StepKind.RESUMED else step.kind not in passing
        last = _STATES.get(step.kind, JobOutcome.PENDING) if is_decisive else last
    return JobOutcome.DELETED if end is not None and last is not JobOutcome.DEACTIVATED else last


def _failed(pods: Iterable[PodRecord]) -> Iterator[PodRecord]:
    """The pods that failed by themselves: one that was stopped has an exit code too, but was deleted."""
    return (pod for pod in pods if pod.exit_code and pod.phase != DELETED_POD)


def _highest_exit_code(pods: Iterable[PodRecord]) -> int | None:
    return max((pod.exit_code for pod in _failed(pods) if pod.exit_code), default=None)


def _last_failed(pods: Iterable[PodRecord]) -> PodRecord | None:
    """The last pod that failed or was disrupted; deleted pods without an error of their own have no message."""
    failed = (pod for pod in pods if (pod.message if pod.phase == DELETED_POD else pod.exit_code))
    return max(failed, key=lambda pod: pod.ended_at, default=None)


def _last_end(ordered: Sequence[StepRecord], state: JobOutcome) -> StepRecord | None:
    """What ended the Job, or its last attempt; None for a Job that runs or has succeeded."""
    if state in (JobOutcome.SUCCEEDED, JobOutcome.RUNNING):
        return None
    of_job = ENDS_OF_JOB if state is not JobOutcome.DEACTIVATED else ()  # its deletion changes nothing
    kinds = (*of_job, *ENDS_OF_ATTEMPT, StepKind.HELD)
    ends = [step for step in _in_force(ordered) if step.kind in kinds and (step.reason or step.message)]
    return next((step for step in ends if step.kind is StepKind.FINISHED), ends[-1] if ends else None)


def _cause(end: StepRecord | None, of_pods: str, state: JobOutcome) -> str:
    """The cause as `sluice ps` has it. `of_pods`: why the pods failed or were not ready."""
    if end is None:
        if state is JobOutcome.DELETED:
            return with_error_before("deleted", of_pods) if of_pods else ""
        return "" if state in (JobOutcome.SUCCEEDED, JobOutcome.RUNNING) else of_pods
    if end.kind is StepKind.DELETED:
        return with_error_before(text(end), of_pods)
    if end.kind is StepKind.DEACTIVATED and end.reason in (reasons.DEACTIVATED, reasons.ADMISSION_CHECK):
        return plain(end.reason, end.message)  # which has the error of the pods before it
    if end.kind in (StepKind.FINISHED, StepKind.DEACTIVATED):
        return cause_of_end(end.reason, end.message, of_pods)
    return of_pods if end.reason == reasons.PODS_READY_TIMEOUT else ""


def cause_and_end(job: JobSummary) -> str:
    """The cause, then what it led to; of a Job that waits for another reason, reason and message of that."""
    if not job.cause:
        return ": ".join(part for part in (job.reason, job.message) if part)
    cause = job.cause if job.failed_indexes in job.cause else of_indexes(job.failed_indexes, job.cause)
    is_end = not job.reason or says(job.cause, plain(job.reason, job.message))
    return cause if is_end else f"{cause}; {job.reason}"


def _text_of(failed: PodRecord | None) -> str:
    if failed is None:
        return ""
    return failed.message.removeprefix(RESTARTED_AFTER) or f"exit {failed.exit_code}"


def _in_force(ordered: Sequence[StepRecord]) -> Sequence[StepRecord]:
    """The steps that no later step has undone. RESUMED undoes earlier steps that a stopped queue caused; REACTIVATED
    undoes earlier deactivations.
    """
    resumed, reactivated = _last(ordered, StepKind.RESUMED), _last(ordered, StepKind.REACTIVATED)
    return [
        step
        for number, step in enumerate(ordered)
        if (number >= resumed or not _is_by_hold(step))
        and (number >= reactivated or step.kind is not StepKind.DEACTIVATED)
    ]


def _last(ordered: Sequence[StepRecord], kind: StepKind) -> int:
    return max((number for number, step in enumerate(ordered) if step.kind is kind), default=0)


def _is_by_hold(step: StepRecord) -> bool:
    return step.kind is StepKind.HELD or step.reason in _STOPPED_QUEUES


def _pods_of(end: StepRecord | None) -> str:
    """Why the pods were not ready, from the message of the eviction or deactivation; "" without a cause."""
    if end is None or end.reason not in _WITH_PODS:
        return ""
    if not end.message.startswith(_TIMED_OUT):
        return end.message
    return end.message.partition("; ")[2]


def _before_deletion(ordered: Sequence[StepRecord]) -> str:
    """Why the pods of the last attempt of a deleted Job were not ready; "" without a timeout."""
    ends = [step for step in ordered if step.kind in ENDS_OF_ATTEMPT]
    return _pods_of(ends[-1]) if ends else ""


def text(step: StepRecord) -> str:
    """Reason and message of a step as one sentence."""
    return ": ".join(part for part in (step.reason, step.message) if part)


def _count(steps: Iterable[StepRecord], kind: StepKind) -> int:
    return sum(step.kind is kind for step in steps)
