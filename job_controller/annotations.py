"""Reading numbers that users write as text: in annotations, labels and requirements of labels."""

from __future__ import annotations

import re

from job_controller.model import Job

DIGITS = 9
_integer = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII).fullmatch  # bounded: int() refuses more than 4300 digits


def integer(text: str, bits: int = 32) -> int | None:
    """The signed number as Go's strconv reads it into so many bits; None if it is none, or does not fit."""
    match = _integer(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def whole_number(job: Job, annotation: str) -> int | None:
    """The number in an annotation, of at most DIGITS digits; None if it has none that can be read."""
    text = job.metadata.annotations.get(annotation, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS else None
