"""Integers that users write as text, in annotations, labels and label selectors."""

from __future__ import annotations

import re

from job_controller.model import Job

MAX_DIGITS = 9  # of whole_number, so that values fit in 32 bits
_integer = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII).fullmatch  # bounded: int() rejects more than 4300 digits


def integer(text: str, bits: int = 32) -> int | None:
    """The integer as Go's strconv.ParseInt reads it into `bits` bits; None if the text is malformed or out of range."""
    match = _integer(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def whole_number(job: Job, annotation: str) -> int | None:
    """The non-negative integer in an annotation of a Job, of at most MAX_DIGITS digits; None if absent or malformed."""
    text = job.metadata.annotations.get(annotation, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None
