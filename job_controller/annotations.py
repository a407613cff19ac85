"""Reading the annotations of Jobs that are ours."""

from __future__ import annotations

from job_controller.model import Job

DIGITS = 9


def whole_number(job: Job, annotation: str) -> int | None:
    """The number in an annotation, of at most DIGITS digits; None if it has none that can be read."""
    text = job.metadata.annotations.get(annotation, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS else None
