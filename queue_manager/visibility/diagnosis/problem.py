"""One finding of `sluice doctor`. Its fields are the keys of `-o json`. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning"]


class Problem(Struct, frozen=True, rename="camel"):
    """`place`: the object as kubectl names it, or the setting; `command` mends it."""

    severity: Severity
    code: str
    place: str
    sentence: str
    command: str


def error(code: str, place: str, sentence: str, command: str) -> Problem:
    """Something does not work."""
    return Problem("error", code, place, sentence, command)


def warning(code: str, place: str, sentence: str, command: str) -> Problem:
    """Something works, but not as it looks, or not for long."""
    return Problem("warning", code, place, sentence, command)
