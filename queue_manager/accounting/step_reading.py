"""Reads the history out of API objects. Pure.

Most steps are read from one state of an object, whose conditions date them: after a restart the same steps are read
again, with the same identity. A hold, and a change of spec.active, leave no such trace; they are read from the change
from one state to the next, and identified by its resourceVersion. `missed_steps` finds those of them that were lost,
`missed_attempts` those of past attempts.

An attempt is numbered by the evictions that status.schedulingStats counts, which survive restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from job_controller import conditions, quantities
from job_controller.condition_types import COMPLETE
from job_controller.model import Condition, Job, ObjectMeta, Pod, TerminatedState
from job_controller.pod_facts import INT32_MAX, deletion_requested, is_terminal
from queue_manager.accounting.container_failures import container_failures
from queue_manager.accounting.failed_index_steps import failed_indexes_message
from queue_manager.accounting.record_types import (
    DELETED_POD,
    SUCCEEDED,
    JobRecord,
    PodRecord,
    Record,
    StepKind,
    StepRecord,
)
from queue_manager.api import condition_types, keys, messages, reasons
from queue_manager.api.types import Admission, Workload
from queue_manager.lifecycle import deactivated_by
from queue_manager.lifecycle.interruptions import interruptions
from queue_manager.lifecycle.pod_causes import cause_of, disruption_of, ended_text, restarted_before
from queue_manager.visibility.job_causes import recorded_cause
from queue_manager.visibility.job_deletion_causes import who_deleted
from queue_manager.visibility.short_messages import TAKEN_BACK
from queue_manager.visibility.shown_causes import with_error_before

INT64_MAX = 2**63 - 1
STOPPED = "`sluice up` was stopped"
MAX_TEXT = 500  # characters of a message that are kept


# --- Jobs ----------------------------------------------------------------------------------------------------


def job_record(job: Job) -> JobRecord | None:
    """The record of a Job; None if it has no creationTimestamp."""
    meta = job.metadata
    if meta.creation_timestamp is None:
        return None
    return JobRecord(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        user=user_of(meta),
        queue=meta.labels.get(keys.QUEUE_NAME, ""),
        submitted_at=meta.creation_timestamp,
    )


def user_of(meta: ObjectMeta) -> str:
    """The user of a Job: its annotation or label sluice/user, else its namespace."""
    return meta.annotations.get(keys.USER) or meta.labels.get(keys.USER) or meta.namespace


def job_records(old: Job | None, new: Job | None, now: datetime) -> Iterator[Record]:
    """The records that a change of a Job from `old` to `new` adds to the history."""
    job = new or old
    record = job_record(job) if job is not None else None
    if job is None or record is None:
        return
    if old is None:
        yield record
    end = conditions.finished(job.status)
    if new is None:
        cause = who_deleted(job, now)
        if cause or end is None:  # the deletion of a finished Job is a step only if its cause is known
            yield deleted(job.metadata.uid, now, cause)
    elif new is not None and end is not None and (old is None or conditions.finished(old.status) is None):
        reason = SUCCEEDED if end.type == COMPLETE else end.reason or reasons.FAILED
        message = failed_indexes_message(job, reason) or end.message
        yield _of_job(job, StepKind.FINISHED, end.last_transition_time or now, reason, message)


def interruption_records(old: Job | None, new: Job | None, now: datetime) -> Iterator[Record]:
    """The stops and starts of its cluster that a change of a Job shows, identified by their times."""
    known = {*_stops_and_starts(old)} if old is not None else set()
    for kind, at in _stops_and_starts(new) if new is not None else ():
        if new is not None and (kind, at) not in known:
            step = _of_job(new, kind, at, message=STOPPED if kind is StepKind.INTERRUPTED else "")
            yield msgspec.structs.replace(step, occurrence=int(at.timestamp()))


def _stops_and_starts(job: Job) -> Iterator[tuple[StepKind, datetime]]:
    for one in interruptions(job.metadata):
        yield StepKind.INTERRUPTED, one.since
        if one.until is not None:
            yield StepKind.CONTINUED, one.until


def deleted(job_uid: str, now: datetime, message: str = "") -> StepRecord:
    """The step of a Job that is gone without having finished."""
    return StepRecord(job_uid=job_uid, uid=job_uid, attempt=0, kind=StepKind.DELETED, at=now, message=message)


def _of_job(job: Job, kind: StepKind, at: datetime, reason: str = "", message: str = "") -> StepRecord:
    uid = job.metadata.uid
    return StepRecord(job_uid=uid, uid=uid, attempt=0, kind=kind, at=at, reason=reason, message=message[:MAX_TEXT])


# --- Workloads -----------------------------------------------------------------------------------------------


def workload_records(old: Workload | None, new: Workload | None, now: datetime) -> Iterator[Record]:
    """The records that a change of a Workload adds to the history; none if no Job owns it."""
    if new is None or not new.job_uid:
        return
    known = {step.key for step in _steps_of_state(old)} if old is not None else frozenset()
    yield from (step for step in _steps_of_state(new) if step.key not in known)
    if old is not None:
        yield from _steps_of_change(old, new, now)


def _steps_of_state(workload: Workload) -> Iterator[StepRecord]:
    admitted = _true(workload, condition_types.ADMITTED)
    if admitted is not None and workload.status.admission is not None:
        yield _admission(workload, admitted, workload.status.admission)
        ready = _true(workload, condition_types.PODS_READY)
        if ready is not None:
            yield _step(workload, StepKind.PODS_READY, ready)
    evicted = _true(workload, condition_types.EVICTED)
    if evicted is not None:
        yield _eviction(workload, evicted)
        yield from _after_eviction(workload, evicted)


def _admission(workload: Workload, admitted: Condition, admission: Admission) -> StepRecord:
    assigned = admission.pod_set_assignments
    flavors = (flavor for pod_set in assigned for flavor in pod_set.flavors.values())
    return StepRecord(
        job_uid=workload.job_uid,
        uid=workload.metadata.uid,
        attempt=attempt_number(workload),
        kind=StepKind.ADMITTED,
        at=admitted.last_transition_time or _created(workload),
        cluster_queue=admission.cluster_queue,
        flavor=",".join(dict.fromkeys(flavors)),
        pods=min(INT32_MAX, sum(pod_set.count or 0 for pod_set in assigned)),
        cpu_milli=_total(admission, "cpu"),
        memory_bytes=_total(admission, "memory"),
    )


def _total(admission: Admission, resource: str) -> int:
    used = (pod_set.resource_usage.get(resource, 0) for pod_set in admission.pod_set_assignments)
    return min(INT64_MAX, sum(quantities.parse(quantity, resource) for quantity in used))


def _eviction(workload: Workload, evicted: Condition) -> StepRecord:
    if evicted.reason == reasons.PREEMPTED:
        rule = _true(workload, condition_types.PREEMPTED)
        step = _step(workload, StepKind.PREEMPTED, evicted, reason=rule.reason if rule is not None else "")
        last = workload.last_attempt  # its cause: `for priority 100 of ClusterQueue a`
        message = with_error_before((last and last.cause) or step.message, _pod_cause(workload, evicted))
        return msgspec.structs.replace(step, message=message[:MAX_TEXT])
    if evicted.reason.startswith(reasons.DEACTIVATED):
        cause = evicted.reason.removeprefix(reasons.DEACTIVATED_DUE_TO)
        step = _step(workload, StepKind.DEACTIVATED, evicted, reason=cause)
        if cause == reasons.MAX_EXEC_TIME_EXCEEDED and (of_pods := recorded_cause(workload)):
            return msgspec.structs.replace(step, message=f"{step.message}; {of_pods}")
        if cause == reasons.DEACTIVATED:
            message = deactivated_by.message(workload, step.message)
            return msgspec.structs.replace(step, message=by_user(message, recorded_cause(workload)))
    else:
        step = _step(workload, StepKind.EVICTED, evicted)
    if step.reason in TAKEN_BACK:
        message = with_error_before(step.message, _pod_cause(workload, evicted))
        return msgspec.structs.replace(step, message=message[:MAX_TEXT])
    return msgspec.structs.replace(step, message=_pod_cause(workload, evicted) or step.message)


def by_user(message: str, of_pods: str) -> str:
    """The message of a deactivation by a user, with the error of its pods before that.

    `message`: one that names the user, or any other if the user is not known.
    """
    is_known = message.startswith(f"{messages.DEACTIVATED_MESSAGE} by ")
    who = message if is_known else f"{messages.DEACTIVATED_MESSAGE} by a user"
    said = with_error_before(who, of_pods)
    return said if said != who else message


def _pod_cause(workload: Workload, evicted: Condition) -> str:
    """Why the pods of the attempt that this eviction ended were not ready, which says more than its message."""
    last, at = workload.last_attempt, evicted.last_transition_time
    if last is None or last.reason != evicted.reason or (last.end and at and last.end < at):
        return ""  # of an earlier attempt
    return last.pod_cause


def _after_eviction(workload: Workload, evicted: Condition) -> Iterator[StepRecord]:
    """The release of the quota, and the end of the backoff. A condition older than the eviction is of the last one."""
    reserved = workload.condition(condition_types.QUOTA_RESERVED)
    if reserved is None or reserved.is_true or workload.status.admission is not None:
        return
    released = _later(reserved, evicted)
    if released == reserved.last_transition_time:
        yield msgspec.structs.replace(_step(workload, StepKind.RELEASED, reserved), reason="", message="")
    requeued = _true(workload, condition_types.REQUEUED)
    if requeued is not None and requeued.reason != reasons.REACTIVATED:
        at = max(filter(None, (requeued.last_transition_time, released)), default=None)
        yield msgspec.structs.replace(
            _step(workload, StepKind.REQUEUED, requeued), at=at or _created(workload), message=""
        )


def _later(first: Condition, second: Condition) -> datetime | None:
    return max(filter(None, (first.last_transition_time, second.last_transition_time)), default=None)


def _steps_of_change(old: Workload, new: Workload, now: datetime) -> Iterator[StepRecord]:
    if is_held(new) and not is_held(old):
        condition = new.condition(condition_types.QUOTA_RESERVED)
        yield change_step(
            new, StepKind.HELD, now, reasons.SUSPENDED, condition.message if condition is not None else ""
        )
    elif is_held(old) and not is_held(new) and new.spec.active:  # else its deactivation ends the hold
        yield change_step(new, StepKind.RESUMED, now)
    if old.spec.active and not new.spec.active and new.is_true(condition_types.EVICTED):
        message = by_user(deactivated_by.message(new, ""), recorded_cause(new))
        yield change_step(new, StepKind.DEACTIVATED, now, reasons.DEACTIVATED, message)  # no further eviction follows
    if new.spec.active and not old.spec.active:
        user = deactivated_by.reactivated_by(new)
        yield change_step(new, StepKind.REACTIVATED, now, message=f"by {user}" if user else "")


def is_held(workload: Workload) -> bool:
    """Whether a stopped queue keeps the pending Workload."""
    reserved = workload.condition(condition_types.QUOTA_RESERVED)
    return reserved is not None and not reserved.is_true and reserved.reason == reasons.SUSPENDED


def change_step(workload: Workload, kind: StepKind, now: datetime, reason: str = "", message: str = "") -> StepRecord:
    """Return a step that no condition records: only this change of the Workload shows it."""
    version = workload.metadata.resource_version
    return StepRecord(
        job_uid=workload.job_uid,
        uid=workload.metadata.uid,
        attempt=attempt_number(workload),
        kind=kind,
        at=now.replace(microsecond=0),  # as conditions are dated
        occurrence=int(version) if version.isdecimal() and len(version) < 19 else 0,
        reason=reason,
        message=message[:MAX_TEXT],
    )


def _step(workload: Workload, kind: StepKind, source: Condition, *, reason: str | None = None) -> StepRecord:
    return StepRecord(
        job_uid=workload.job_uid,
        uid=workload.metadata.uid,
        attempt=attempt_number(workload),
        kind=kind,
        at=source.last_transition_time or _created(workload),
        reason=source.reason if reason is None else reason,
        message=source.message[:MAX_TEXT],
    )


def attempt_number(workload: Workload) -> int:
    """The number of the present attempt, or of the one that the present eviction ended."""
    stats = workload.status.scheduling_stats
    evictions = sum(row.count or 0 for row in stats.evictions) if stats is not None else 0
    return max(1, evictions) if workload.is_true(condition_types.EVICTED) else evictions + 1


def _true(workload: Workload, kind: str) -> Condition | None:
    condition = workload.condition(kind)
    return condition if condition is not None and condition.is_true else None


def _created(workload: Workload) -> datetime:
    created = workload.metadata.creation_timestamp
    if created is None:
        raise ValueError("a stored object has a creationTimestamp")
    return created


# --- pods ----------------------------------------------------------------------------------------------------


def pod_records(old: Pod | None, new: Pod | None, now: datetime) -> Iterator[Record]:
    """What a change of a pod of a Job adds to the history: failures of containers that restart, and its end, once."""
    pod = new or old
    owner = pod.metadata.controller if pod is not None else None
    if pod is None or owner is None or not owner.is_job:
        return
    if new is not None:
        yield from container_failures(old, new, owner.uid)
    if (old is not None and is_terminal(old)) or (new is not None and not is_terminal(new)):
        return
    annotations = pod.metadata.annotations
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ends = [status.state.terminated for status in statuses if status.state.terminated is not None]
    phase = pod.status.phase if is_terminal(pod) and pod.metadata.deletion_timestamp is None else DELETED_POD
    own = [end for end in ends if _ended_before_deletion(end, pod)] if phase == DELETED_POD else ends
    worst = max(own or ends, key=lambda end: end.exit_code, default=None)
    cause = disruption_of(pod) or (cause_of(pod) if phase != DELETED_POD else None)
    why = cause.text if cause is not None else ""
    if cause is None and phase == DELETED_POD:
        failed = ended_text(worst.exit_code, worst.reason, worst.message) if own and worst is not None else ""
        why = failed or restarted_before(pod)
    yield PodRecord(
        uid=pod.metadata.uid,
        job_uid=owner.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name,
        phase=phase,
        ended_at=_ended_at(pod, ends, now, was_deleted=phase == DELETED_POD),
        exit_code=worst.exit_code if worst is not None else None,
        reason=pod.status.reason or (worst.reason if worst is not None else ""),
        message=why,
        restarts=sum(status.restart_count for status in statuses),
        cpu_seconds=_number(annotations.get(keys.CPU_SECONDS)),
        peak_memory_bytes=_whole(annotations.get(keys.PEAK_MEMORY)),
    )


def _ended_before_deletion(end: TerminatedState, pod: Pod) -> bool:
    """Whether a container failed by itself, not because its pod was stopped."""
    deleted = deletion_requested(pod)
    ended = end.finished_at
    return bool(end.exit_code) and deleted is not None and ended is not None and ended < deleted


def _ended_at(pod: Pod, ends: Iterable[TerminatedState], now: datetime, *, was_deleted: bool) -> datetime:
    """When its last container ended; of a deleted pod, whose container may have waited to be started again, not before
    its deletion.
    """
    ended = max((end.finished_at for end in ends if end.finished_at is not None), default=now)
    deleted = deletion_requested(pod) if was_deleted else None
    return ended if deleted is None else max(ended, deleted)


def _number(text: str | None) -> float | None:
    """A decimal number that is not negative; None for any other text, which any writer of pods may have set."""
    if text is None or len(text) > 20 or not text.replace(".", "", 1).isdecimal() or not text.isascii():
        return None
    return float(text)


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return min(INT64_MAX, int(number)) if number is not None else None
