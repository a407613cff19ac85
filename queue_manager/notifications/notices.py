"""Which changes of Jobs and Workloads are events, and their facts. Pure.

An event is a condition that became true. It is reported if the earlier object was seen without it, or if it became true
after this process began to watch: the first list has all Jobs that ever ended, and those were reported at their time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from job_controller.condition_types import COMPLETE, FAILED
from job_controller.conditions import finished
from job_controller.model import Condition, Job, Pod
from queue_manager.api import condition_types, keys, messages, reasons
from queue_manager.api.types import Workload
from queue_manager.configuration.notifications_section import EventType
from queue_manager.lifecycle import deactivated_by
from queue_manager.lifecycle.pod_causes import PodCause, cause_of_failure, decisive_pods
from queue_manager.visibility.attempt_counts import count_attempts, first_admission
from queue_manager.visibility.job_causes import exit_code_of
from queue_manager.visibility.shown_causes import cause_of_end

SCHEMA_VERSION = 1


class Notice(Struct, frozen=True, rename="camel", kw_only=True):
    """One event. Its fields are the keys of the JSON, and as SLUICE_EVENT_... the environment of a command.

    `id` is the same in every attempt to deliver the event, and of no other event. `cause`: why the Job failed or is
    deactivated (`visibility.shown_causes`); "" for other events. `message` does not repeat what its pods died of. None
    is a fact that is not known. `cli.output_keys` says what each key means, on the page config/OUTPUT.md.
    """

    schema_version: int = SCHEMA_VERSION
    id: str
    type: EventType
    time: datetime
    namespace: str
    job: str
    job_uid: str
    queue: str
    cluster_queue: str = ""
    workload: str = ""
    reason: str
    message: str
    cause: str = ""
    succeeded_pods: int | None = None
    failed_pods: int | None = None
    exit_code: int | None = None
    attempts: int | None = None
    submitted_at: datetime | None = None
    started_at: datetime | None = None


def of_job(
    old: Job | None,
    new: Job | None,
    begun: datetime,
    workload: Workload | None = None,
    pods: Iterable[Pod] = (),
    past: PodCause | None = None,
) -> Notice | None:
    """The notice for the end of a Job that names a queue; None if this change of the Job is not that.

    `begun`: when this process began to watch; of a Job that it sees for the first time, only a later end counts.
    `workload`, `pods`, `past`: those of the Job that are known, and the last disruption or restart of a pod of it.
    """
    if new is None or not new.metadata.labels.get(keys.QUEUE_NAME):
        return None
    end = finished(new.status)
    if end is None or not _is_new(finished(old.status) if old is not None else None, end, old is not None, begun):
        return None
    event: EventType = "JobSucceeded" if end.type == COMPLETE else "JobFailed"
    meta, when = new.metadata, end.last_transition_time or begun
    admission = workload.status.admission if workload is not None else None
    known = list(pods)
    of_pods = cause_of_failure(new.status, known, past)
    return Notice(
        id=_id(meta.uid, event, when),
        type=event,
        time=when,
        namespace=meta.namespace,
        job=meta.name,
        job_uid=meta.uid,
        queue=meta.labels[keys.QUEUE_NAME],
        cluster_queue=admission.cluster_queue if admission is not None else "",
        workload=workload.metadata.name if workload is not None else "",
        reason=end.reason,
        message=end.message,
        cause=_cause_of_failure(end, of_pods),
        succeeded_pods=new.status.succeeded or 0,
        failed_pods=new.status.failed or 0,
        exit_code=exit_code_of(of_pods, decisive_pods(new.status, known)),
        attempts=count_attempts(workload) if workload is not None else None,
        submitted_at=meta.creation_timestamp,
        started_at=first_admission(workload) if workload is not None else None,
    )


def _cause_of_failure(end: Condition, of_pods: str) -> str:
    return cause_of_end(end.reason, end.message, of_pods) if end.type == FAILED else ""


def of_workload(
    old: Workload | None,
    new: Workload | None,
    begun: datetime,
    now: datetime,
    job: Job | None = None,
    pods: Iterable[Pod] = (),
) -> Notice | None:
    """The notice of a deactivation or preemption of a Job's Workload, else None. `now`: for undated changes.

    `job`: the Job, which counts its pods, if it is known. `pods`: those of its pods that are known.
    """
    if new is None or not new.job_uid:
        return None
    evicted, event = _eviction(new)
    before, earlier = _eviction(old) if old is not None else (None, None)
    if evicted is not None and event is not None:
        known = before if earlier == event else None
        if _is_new(known, evicted, old is not None, begun):
            return _of_eviction(new, event, evicted, evicted.last_transition_time or begun, old, job, pods)
    if old is not None and _is_deactivated_within_eviction(old, new):
        return _of_eviction(new, "JobDeactivated", _BY_USER, now.replace(microsecond=0), old, job, pods)
    return None


# The text of the eviction that would follow if the Workload was not evicted already.
_BY_USER = Condition(
    type=condition_types.EVICTED, status="True", reason=reasons.DEACTIVATED, message=messages.DEACTIVATED_MESSAGE
)


def _is_deactivated_within_eviction(old: Workload, new: Workload) -> bool:
    """Whether a user deactivates a Workload that is evicted for another reason: its Evicted condition stays."""
    announced = new.is_true(condition_types.DEACTIVATION_TARGET)  # by a rule, which evicts it for that reason
    evicted, event = _eviction(new)
    ended = new.is_true(condition_types.FINISHED) or (evicted is not None and event == "JobDeactivated")
    return old.spec.active and not new.spec.active and new.is_true(condition_types.EVICTED) and not (announced or ended)


def _of_eviction(
    new: Workload,
    event: EventType,
    evicted: Condition,
    when: datetime,
    old: Workload | None,
    job: Job | None,
    pods: Iterable[Pod],
) -> Notice:
    owner = new.metadata.controller
    admission = new.status.admission or (old.status.admission if old is not None else None)
    message, cause, of_pods = _preempted_for(new), "", ""
    if event == "JobDeactivated":
        by_pods = evicted.reason == reasons.deactivated_due_to(reasons.REQUEUING_LIMIT_EXCEEDED)
        message, _, why = evicted.message.partition("; ") if by_pods else (evicted.message, "", "")
        if evicted.reason == reasons.DEACTIVATED:
            message = deactivated_by.message(new, message)
        of_pods = _pod_cause(new) or why
        cause = cause_of_end(evicted.reason, message, of_pods)
    return Notice(
        id=_id(new.metadata.uid, event, when),
        type=event,
        time=when,
        namespace=new.metadata.namespace,
        job=owner.name if owner is not None else "",
        job_uid=new.job_uid,
        queue=new.spec.queue_name,
        cluster_queue=admission.cluster_queue if admission is not None else "",
        workload=new.metadata.name,
        reason=evicted.reason,
        message=message,
        cause=cause,
        succeeded_pods=(job.status.succeeded or 0) if job is not None else None,
        failed_pods=(job.status.failed or 0) if job is not None else None,
        exit_code=exit_code_of(of_pods, pods),
        attempts=count_attempts(new),
        submitted_at=job.metadata.creation_timestamp if job is not None else None,
        started_at=first_admission(new),
    )


def _eviction(workload: Workload) -> tuple[Condition | None, EventType | None]:
    """Return the Evicted condition and the type of the notice for it.

    Only preemptions and deactivations are reported: (None, None) for all other evictions, which are retried.
    """
    evicted = workload.condition(condition_types.EVICTED)
    if evicted is None or not evicted.is_true:
        return None, None
    if evicted.reason == reasons.PREEMPTED:
        return evicted, "JobPreempted"
    if evicted.reason.startswith(reasons.DEACTIVATED):
        return evicted, "JobDeactivated"
    return None, None


def _pod_cause(workload: Workload) -> str:
    """Why the pods of the last attempt were not ready; "" if they had no trouble."""
    last = workload.last_attempt
    return last.pod_cause if last is not None else ""


def _preempted_for(workload: Workload) -> str:
    """Return for which priority and queue the Workload was preempted, without the name of the preemptor."""
    last = workload.last_attempt
    return last.cause if last is not None else ""


def _is_new(before: Condition | None, now: Condition, seen_before: bool, begun: datetime) -> bool:
    """Whether the condition became true with this change, or while the watch had a gap."""
    if before is not None:
        return before.last_transition_time != now.last_transition_time
    return seen_before or (now.last_transition_time is not None and now.last_transition_time >= begun)


def _id(uid: str, event: EventType, when: datetime) -> str:
    return f"{uid}.{event}.{int(when.timestamp())}"
