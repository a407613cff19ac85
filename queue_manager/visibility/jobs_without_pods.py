"""Jobs that hold quota, or lost it, and have no pods because the API server refuses to create them. Pure.

`refused_pods` reads why. The lists name it as the cause if nothing is known of pods, and `sluice explain` makes a fault
of it: such a Job keeps its quota until its deadline. BEHAVIOUR.md#q249-pods-that-the-api-server-refuses.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from job_controller.model import Job
from queue_manager.visibility import reason_codes
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.job_states import MAY_LACK_PODS, JobRow
from queue_manager.visibility.reason_codes import code
from queue_manager.visibility.refused_pods import answer, newest_refusal, refusal_text
from queue_manager.visibility.refused_writes import remedy_of
from queue_manager.visibility.short_messages import PODS_NOT_READY
from queue_manager.visibility.wire_types import Event

PODS = "its pods"  # must be allowed


def lacks_cause(row: JobRow) -> bool:
    """Whether the Job of a row may be one whose pods are refused: it has none, and nothing else says why."""
    unknown = row.cause in ("", PODS_NOT_READY) and not row.preempted_for
    return row.state in MAY_LACK_PODS and row.active == 0 and unknown


def with_refusal(row: JobRow, job: Job, events: Sequence[Event]) -> JobRow:
    """Return the row of a Job that `lacks_cause` with what the API server says."""
    event = newest_refusal(job, events)
    return structs.replace(row, cause=refusal_text(event)) if event is not None else row


def explained(found: Explanation, event: Event, job: str) -> Explanation:
    """Return the explanation of a Job that holds quota without pods. `job`: as argument of a command."""
    needed = remedy_of(answer(event), event.involved_object.namespace, PODS, job)
    return structs.replace(
        found,
        code=code(reason_codes.PODS_REFUSED),
        reason=reason_codes.PODS_REFUSED,
        sentence=f"It holds its quota, but {refusal_text(event).rstrip('.')}.",
        changes=[needed.change],
        next_command=needed.command,
    )
