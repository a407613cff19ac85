"""The standard streams as a shell may leave them: closed, on a full disk, or of an encoding with few letters."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def prepare() -> None:
    """Make all three fit for use, before any other file is opened.

    What is closed becomes /dev/null: the next file to be opened, the database say, would get its number, and with
    it what anybody prints. A letter that the encoding does not have is printed as a question mark. Manifests are UTF-8
    wherever they come from.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def give_up() -> None:
    """Nobody takes what is printed: forget the rest, at which the interpreter would fail once more when it ends."""
    with contextlib.suppress(OSError, ValueError):  # no file at all, but what a test put there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """The text without what would steer the terminal: messages may come from anybody's Job, file or cluster."""
    return _STEERING.sub("�", text)
