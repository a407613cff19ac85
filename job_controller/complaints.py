"""What is told about a Job that cannot be handled as it says, naming the field.

An API server lets no such Job in; one that is newer than this code, or none of ours, may. A Job that makes no sense is
left alone. An annotation of ours that makes none is as good as absent. Either is told once.
"""

from __future__ import annotations

from job_controller import reasons
from job_controller.annotations import DIGITS, whole_number
from job_controller.decision import Event
from job_controller.fields import NOT_NEGATIVE
from job_controller.labels import BACKOFF_SECONDS, FAILED_PODS_LIMIT
from job_controller.model import Job

_DEFAULTS = {
    BACKOFF_SECONDS: "the wait that the controller is configured with applies",
    FAILED_PODS_LIMIT: "all failed pods are kept",
}


def unmanageable(job: Job) -> Event | None:
    """Why the Job must be left alone. Not once it is being deleted: its pods must be freed."""
    spec = job.spec
    if spec.completion_mode not in ("NonIndexed", "Indexed"):
        return Event("Warning", reasons.EVENT_UNKNOWN_COMPLETION_MODE, reasons.UNKNOWN_COMPLETION_MODE_MESSAGE)
    if job.metadata.deletion_timestamp is not None:
        return None
    wrong = ""
    if spec.selector is None:
        wrong = "spec.selector: Required value"
    elif spec.completion_mode == "Indexed" and spec.completions is None:
        wrong = "spec.completions: Required value: when completion mode is Indexed"
    else:
        counts = {"parallelism": spec.parallelism, "completions": spec.completions, "backoffLimit": spec.backoff_limit}
        for field, number in counts.items():
            if number is not None and number < 0:
                wrong = f"spec.{field}: Invalid value: {number}: {NOT_NEGATIVE}"
                break
    return Event("Warning", reasons.EVENT_INVALID_JOB, f"{wrong}; the Job is left alone") if wrong else None


def about_annotations(job: Job) -> tuple[Event, ...]:
    """One for each of our annotations that says nothing."""
    found = []
    for annotation, default in _DEFAULTS.items():
        text = job.metadata.annotations.get(annotation)
        if text is not None and whole_number(job, annotation) is None:
            field = f"metadata.annotations[{annotation}]"
            message = f'{field}: Invalid value: "{text}": must be a whole number of at most {DIGITS} digits; {default}'
            found.append(Event("Warning", reasons.EVENT_INVALID_ANNOTATION, message))
    return tuple(found)
