"""One finding of `sluice doctor`. Its fields are the keys of `-o json`. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning"]


class Problem(Struct, frozen=True, rename="camel"):
    """`place`: the object as kubectl names it, or the setting. `command`: the command that fixes it."""

    severity: Severity
    code: str
    place: str
    sentence: str
    command: str


def error(code: str, place: str, sentence: str, command: str) -> Problem:
    """Return a problem of severity error: Jobs cannot run, or a fault stays unnoticed."""
    return Problem("error", code, place, sentence, command)


def warning(code: str, place: str, sentence: str, command: str) -> Problem:
    """Return a problem of severity warning: a setting has no effect, or some Jobs will fail or wait forever."""
    return Problem("warning", code, place, sentence, command)
