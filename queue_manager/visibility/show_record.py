"""Assembles the record of one Job that `sluice show` prints. Pure: objects and time in, record out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from job_controller.model import Job
from job_controller.pod_identity import with_initial_identity
from queue_manager.api import keys
from queue_manager.api.events import Event
from queue_manager.api.types import Workload
from queue_manager.lifecycle import refused_pods
from queue_manager.lifecycle.interruptions import Interruption, interruptions
from queue_manager.lifecycle.pod_causes import decisive_pods
from queue_manager.visibility import deactivated_jobs
from queue_manager.visibility.attempt_counts import count_attempts, count_budget_attempts
from queue_manager.visibility.attempt_rows import AttemptRow, attempt_rows
from queue_manager.visibility.explain_record import Position
from queue_manager.visibility.index_map import IndexMap, index_map
from queue_manager.visibility.job_causes import cause_of, exit_code_of, failed_indexes, were_ready
from queue_manager.visibility.job_history import Step, history
from queue_manager.visibility.job_states import (
    AWAITS_NODE,
    MAY_LACK_PODS,
    JobState,
    explain_state,
    job_state,
    lost_quota_for,
    refusal,
    shown_cause,
    state_without_job,
)
from queue_manager.visibility.job_times import last_run_seconds, times_of
from queue_manager.visibility.node_fit import NodeFacts, no_node_fits
from queue_manager.visibility.obstacles import why_queue_admits_nothing
from queue_manager.visibility.pod_attempts import PodRow, pod_rows
from queue_manager.visibility.pod_failures import Failure
from queue_manager.visibility.pod_starts import has_run
from queue_manager.visibility.prediction_types import Prediction
from queue_manager.visibility.predictions import PredictionContext, predict
from queue_manager.visibility.refused_writes import AWAITED, newest_refusal
from queue_manager.visibility.requested_resources import DemandRow, demand
from queue_manager.visibility.wire_types import Pod


class EvictionCountRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The number of evictions for one cause."""

    reason: str
    cause: str
    count: int


class Retries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Requeues and attempts since the last activation, the next retry, and totals of attempts and evictions."""

    requeues: int
    total_attempts: int
    budget_attempts: int
    requeue_at: datetime | None
    evictions: list[EvictionCountRow]
    attempts: list[AttemptRow]


class EventRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One Event in the record. `object`: what the Event is about, as `Kind/name`."""

    first: datetime | None
    last: datetime | None
    count: int
    type: str
    reason: str
    object: str
    message: str


class JobView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The record of one Job. Times are timezone-aware; durations end now, or at the end of the Job.

    `cause`, `failed_indexes`, `no_node`, `exit_code`, `preempted_for`, `obstacle`: as in `JobRow`.
    `position`: of a pending Job, if it is known.
    """

    namespace: str
    name: str
    uid: str
    workload: str
    queue: str
    cluster_queue: str
    priority: int
    priority_class: str
    created: datetime | None
    state: JobState
    reason: str
    message: str
    cause: str
    failed_indexes: str
    no_node: str
    exit_code: int | None
    equivalent: str
    equivalent_reason: str
    preempted_for: str
    obstacle: str
    position: Position | None
    waiting_seconds: float | None
    running_seconds: float | None
    waited_seconds: float | None
    ran_seconds: float | None
    has_run: bool
    interruptions: list[Interruption]
    next: list[Prediction]
    history: list[Step]
    demand: list[DemandRow]
    ready: int
    active: int
    succeeded: int
    failed: int
    completions: int | None
    parallelism: int
    pods: list[PodRow]
    indexes: IndexMap | None
    retries: Retries
    last_error: str
    events: list[EventRow]


# States that the newest Warning Event is likely to explain.
_TROUBLED = (
    JobState.RESERVED,
    JobState.STARTING,
    JobState.EVICTED,
    JobState.BACKOFF,
    JobState.DEACTIVATED,
    JobState.FAILED,
)


def job_view(
    job: Job | None,
    workload: Workload | None,
    pods: Sequence[Pod],
    events: Iterable[Event],
    context: PredictionContext,
    now: datetime,
    *,
    cluster_queue: str = "",
    failure: Failure | None = None,
    equivalent: Workload | None = None,
    nodes: Sequence[NodeFacts] | None = None,
) -> JobView:
    """Return the record of a Job, of its Workload, or of both.

    `cluster_queue`: the ClusterQueue of its LocalQueue, used while it holds no quota. `failure`: of the pod that failed
    last. `equivalent`: a Workload whose reason also holds for this one (`passed_over_for`).
    `nodes`: None if they are not visible.

    Raises ValueError if neither a Job nor a Workload is given.
    """
    if job is not None:
        shown, name, uid, state = job, job.metadata.name, job.metadata.uid, job_state(job, workload, now)
    elif workload is not None:
        shown, name, uid = Job(metadata=workload.metadata), deactivated_jobs.job_name(workload), ""
        state = state_without_job(workload, now)
    else:
        raise ValueError("neither a Job nor a Workload")
    sorted_events = sorted(events, key=lambda e: e.sort_key)
    pods = [with_initial_identity(pod, name) for pod in pods]
    indexes = index_map(job, pods, context.options, now) if job is not None else None
    denial = newest_refusal(job, workload, sorted_events, now) if state in AWAITED else None
    if workload is None and state == JobState.PENDING:
        denial = _refusal(sorted_events)
    reason, message = (
        (denial.reason, denial.message) if denial is not None else explain_state(job, workload, state, now, equivalent)
    )
    waited, ran = times_of(shown, workload, now)
    seen = _cause(job, workload, pods, failure)
    of_pods = seen if state != JobState.DELETING else ""
    victim = lost_quota_for(workload, state)
    refused = "" if of_pods or victim else _refused_pods(job, state, sorted_events)
    cause = shown_cause(workload, state, reason, message, of_pods or refused)
    admission = workload.status.admission if workload is not None else None
    ref = workload.spec.priority_class_ref if workload is not None else None
    return JobView(
        namespace=shown.metadata.namespace,
        name=name,
        uid=uid,
        workload=workload.metadata.name if workload is not None else "",
        queue=workload.spec.queue_name if workload is not None else shown.metadata.labels.get(keys.QUEUE_NAME, ""),
        cluster_queue=admission.cluster_queue if admission is not None else cluster_queue,
        priority=(workload.spec.priority or 0) if workload is not None else 0,
        priority_class=ref.name if ref is not None else "",
        created=shown.metadata.creation_timestamp,
        state=state,
        reason=reason,
        message=message,
        cause=cause,
        failed_indexes=failed_indexes(job) if job is not None and state == JobState.FAILED else "",
        no_node=no_node_fits(cause, job, workload, nodes, awaits_node=state in AWAITS_NODE),
        exit_code=exit_code_of(of_pods, pods if job is None else decisive_pods(job.status, pods)),
        equivalent=deactivated_jobs.job_name(equivalent) if equivalent is not None else "",
        equivalent_reason=refusal(equivalent),
        preempted_for=victim,
        obstacle=why_queue_admits_nothing(workload, next(iter(context.obstacles), None), state, reason),
        position=context.outlook.position if context.outlook is not None else None,
        waiting_seconds=waited,
        running_seconds=last_run_seconds(shown, now),
        waited_seconds=waited,
        ran_seconds=ran,
        has_run=has_run(shown, workload, pods, seen),
        interruptions=interruptions(shown.metadata),
        next=predict(job, workload, pods, indexes, state, context, now, refused=denial is not None),
        history=history(job, workload),
        demand=demand(job, workload),
        ready=shown.status.ready or 0,
        active=shown.status.active,
        succeeded=shown.status.succeeded,
        failed=shown.status.failed,
        completions=shown.spec.completions,
        parallelism=shown.spec.pods_at_once,
        pods=pod_rows(shown, pods, were_ready=were_ready(workload)),
        indexes=indexes,
        retries=_retries(workload, sorted_events),
        # The pods of a preempted Workload end because they are stopped.
        last_error=_last_error(sorted_events, failure, message) if state in _TROUBLED and not victim else "",
        events=[_event(event) for event in sorted_events],
    )


def _cause(job: Job | None, workload: Workload | None, pods: Sequence[Pod], failure: Failure | None) -> str:
    """Return the cause from the pods or the last attempt; with the last log line if only `failure` contains it."""
    found = cause_of(job, workload, pods)
    return failure.text if found and failure is not None and failure.text.startswith(found) else found


def _refused_pods(job: Job | None, state: JobState, events: Sequence[Event]) -> str:
    """Return why the API server creates no pods of a Job in this state; "" if it does not refuse them."""
    event = refused_pods.newest_refusal(job, events) if state in MAY_LACK_PODS else None
    return refused_pods.refusal_text(event) if event is not None else ""


def _last_error(events: Sequence[Event], failure: Failure | None, message: str) -> str:
    """Return the failure of the last pod, else the newest Warning, unless `message` already contains it."""
    text = failure.text if failure is not None else deactivated_jobs.newest_error(events)
    return text if text != message else ""


def _refusal(events: Sequence[Event]) -> Event | None:
    """Return the newest Warning about the Job, which explains why a Job without a Workload gets none."""
    return next((e for e in reversed(events) if e.type == "Warning" and e.involved_object.kind == "Job"), None)


def _retries(workload: Workload | None, events: Sequence[Event]) -> Retries:
    if workload is None:
        return Retries(requeues=0, total_attempts=0, budget_attempts=0, requeue_at=None, evictions=[], attempts=[])
    state, stats = workload.status.requeue_state, workload.status.scheduling_stats
    return Retries(
        requeues=(state.count or 0) if state is not None else 0,
        total_attempts=count_attempts(workload),
        budget_attempts=count_budget_attempts(workload),
        requeue_at=state.requeue_at if state is not None else None,
        evictions=[
            EvictionCountRow(reason=e.reason or "", cause=e.underlying_cause or "", count=e.count or 0)
            for e in (stats.evictions if stats is not None else ())
        ],
        attempts=attempt_rows(workload, events),
    )


def _event(event: Event) -> EventRow:
    about = event.involved_object
    return EventRow(
        first=event.first,
        last=event.last,
        count=event.times,
        type=event.type,
        reason=event.reason,
        object=f"{about.kind}/{about.name}",
        message=event.message,
    )
