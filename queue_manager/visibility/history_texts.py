"""Texts of a Job's history for people: one per step, and the Events that report something else. Pure.

Machine formats keep all reasons, messages and Events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from job_controller import event_reasons as job_events
from job_controller import messages as job_messages
from queue_manager.api import condition_types, event_reasons, messages, reasons
from queue_manager.visibility.job_history import Step
from queue_manager.visibility.short_messages import GAVE_UP, gave_up, quota
from queue_manager.visibility.show_record import EventRow

# Messages that say in words what the reason beside them says.
ROUTINE = frozenset(
    (
        messages.ADMITTED_MESSAGE,
        messages.NO_RESERVATION_MESSAGE,
        messages.WAIT_FOR_START_MESSAGE,
        messages.WAIT_FOR_RECOVERY_MESSAGE,
        messages.PODS_READY_MESSAGE,
        messages.PENDING_EVALUATION_MESSAGE,
        messages.DEACTIVATED_MESSAGE,
        messages.BACKOFF_FINISHED_MESSAGE,
        messages.REACTIVATED_MESSAGE,
        messages.CLUSTER_QUEUE_STOPPED_MESSAGE,
        messages.LOCAL_QUEUE_STOPPED_MESSAGE,
        messages.CLUSTER_QUEUE_RESTARTED_MESSAGE,
        messages.LOCAL_QUEUE_RESTARTED_MESSAGE,
        job_messages.BACKOFF_LIMIT_MESSAGE,
        job_messages.DEADLINE_MESSAGE,
        job_messages.MAX_FAILED_INDEXES_MESSAGE,
        job_messages.FAILED_INDEXES_MESSAGE,
        job_messages.COMPLETIONS_MESSAGE,
        job_messages.SUSPENDED_MESSAGE,
        job_messages.RESUMED_MESSAGE,
    )
)
_TIMEOUT = re.compile(rf"{re.escape(messages.pods_ready_timeout(''))}\S+")
_RESERVED = messages.quota_reserved("")

# The steps that an Event reports, by its reason.
_REPORTED = {
    event_reasons.CREATED_WORKLOAD: ("Created",),
    event_reasons.QUOTA_RESERVED: (condition_types.QUOTA_RESERVED,),
    event_reasons.ADMITTED: (condition_types.ADMITTED,),
    event_reasons.JOB_STARTED: (condition_types.ADMITTED,),
    event_reasons.FINISHED_WORKLOAD: (condition_types.FINISHED,),
    job_events.SUSPENDED: ("Suspended", "Created"),
    job_events.RESUMED: ("Suspended",),
    job_events.COMPLETED: ("Complete",),
    reasons.PREEMPTED: (condition_types.PREEMPTED,),
}
_WITHIN = timedelta(seconds=2)  # between a condition and its Event, which is recorded after the write


def step_text(step: Step, attempts: int = 0, preempted_for: str = "") -> str:
    """Return what a step's type does not say: its reason, and its message unless that repeats the reason.

    `attempts`: how many since the last activation. `preempted_for`: who needed the quota, for steps of a preemption.
    """
    if step.note:
        return step.note
    if step.reason == GAVE_UP:
        return gave_up(attempts)
    is_eviction = step.what == condition_types.EVICTED
    # Its message has UIDs of a Workload that the user may not read.
    if messages.is_preemption(step.message) and (preempted_for or not is_eviction):
        return f"preempted {preempted_for}" if is_eviction else step.reason
    reason = "" if step.reason == step.what else step.reason
    return ": ".join(part for part in (reason, _message(step)) if part)


def _message(step: Step) -> str:
    text = step.message
    if text.startswith(_RESERVED):
        return f"in {text.removeprefix(_RESERVED)}"
    over = text.startswith(messages.previously("")) and not step.is_true
    return "" if text in ROUTINE or _TIMEOUT.fullmatch(text) or over else quota(step.reason, text) or text


def events_beside(steps: Sequence[Step], events: Sequence[EventRow]) -> list[EventRow]:
    """Return the Events that report something else than one of the steps."""
    return [event for event in events if not any(_is_reported(event, step) for step in steps)]


def _is_reported(event: EventRow, step: Step) -> bool:
    if event.count > 1 or event.last is None or step.at is None or abs(event.last - step.at) > _WITHIN:
        return False
    return step.what in _REPORTED.get(event.reason, ()) or (bool(step.message) and event.message == step.message)


def short_object(event: EventRow, names: Sequence[str]) -> str:
    """Return the kind of the object alone if it is the Job or the Workload that is shown, whose `names` are given."""
    kind, _, name = event.object.partition("/")
    return kind if name in names else event.object
