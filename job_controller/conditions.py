"""Reading and writing the conditions of a Job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from job_controller.condition_types import COMPLETE, FAILED
from job_controller.model import Condition, JobStatus

Conditions = tuple[Condition, ...]


def find(conditions: Sequence[Condition], type: str) -> Condition | None:
    """The condition of this type, None if absent. Of several entries of one type the first with status True."""
    found = None
    for condition in conditions:
        if condition.type == type:
            if condition.is_true:
                return condition
            found = found or condition
    return found


def is_true(conditions: Sequence[Condition], type: str) -> bool:
    """Whether an entry of this type has status True."""
    return any(c.type == type and c.status == "True" for c in conditions)


def finished(status: JobStatus) -> Condition | None:
    """The terminal condition (Complete or Failed with status True); None if the Job is unfinished."""
    for condition in status.conditions:
        if condition.type in (COMPLETE, FAILED) and condition.status == "True":
            return condition
    return None


def put(conditions: Conditions, type: str, status: str, reason: str, message: str, now: datetime) -> Conditions:
    """The conditions with this one added or updated in place; the same tuple if nothing changes.

    `now` has whole seconds. Every change sets lastProbeTime; only a change of status sets lastTransitionTime. An
    existing entry with another status, for example FailureTarget=False written by a user, is updated instead of
    duplicated.
    """
    wanted = Condition(
        type=type, status=status, reason=reason, message=message, last_probe_time=now, last_transition_time=now
    )
    current = find(conditions, type)
    if current is None:
        return (*conditions, wanted)
    if (current.status, current.reason, current.message) == (status, reason, message):
        return conditions
    if current.status == status:
        wanted = msgspec.structs.replace(wanted, last_transition_time=current.last_transition_time or now)
    return tuple(wanted if c is current else c for c in conditions)
