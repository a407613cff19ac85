"""Who or what deleted a Job, by its last state. Pure. BEHAVIOUR.md#q190-deletions-in-the-history."""

from __future__ import annotations

from datetime import datetime

from job_controller import conditions
from job_controller.model import Job
from job_controller.times import later
from queue_manager.api import keys, messages
from queue_manager.lifecycle.pod_causes import one_line


def who_deleted(job: Job, now: datetime) -> str:
    """Who or what deleted a Job, by its last state: a user of `sluice cancel` or `submit --replace`, the retention, or
    a TTL; "" if that is unknown.
    """
    notes, ttl, end = job.metadata.annotations, job.spec.ttl_seconds_after_finished, conditions.finished(job.status)
    user = one_line(notes.get(keys.CANCELLED_BY, ""))
    if user:
        return f"Cancelled by {user}"
    user = one_line(notes.get(keys.REPLACED_BY, ""))
    if user:
        return f"Replaced by {user} (submit --replace)"
    if ttl is not None and end is not None and end.last_transition_time is not None:
        return messages.ttl_over(ttl) if later(end.last_transition_time, ttl) <= now else ""
    return one_line(notes.get(keys.DELETION_CAUSE, ""))
