"""Rows of Jobs that hold quota, or lost it, and have no pods because the API server refuses to create them. Pure.

`refused_pods` reads why: that is the cause if nothing is known of pods.
BEHAVIOUR.md#q249-pods-that-the-api-server-refuses.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from job_controller.model import Job
from queue_manager.api.events import Event
from queue_manager.lifecycle.refused_pods import newest_refusal, refusal_text
from queue_manager.visibility.job_states import MAY_LACK_PODS, JobRow
from queue_manager.visibility.short_messages import PODS_NOT_READY


def lacks_cause(row: JobRow) -> bool:
    """Whether the Job of a row may be one whose pods are refused: it has none, and nothing else says why."""
    unknown = row.cause in ("", PODS_NOT_READY) and not row.preempted_for
    return row.state in MAY_LACK_PODS and row.active == 0 and unknown


def with_refusal(row: JobRow, job: Job, events: Sequence[Event]) -> JobRow:
    """Return the row of a Job that `lacks_cause` with what the API server says."""
    event = newest_refusal(job, events)
    return structs.replace(row, cause=refusal_text(event)) if event is not None else row
