"""Handles standard streams that are closed, on a full disk, or in an encoding without some characters."""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import sys

TYPE_CHECKING = False  # avoids the import of typing, which is slow
if TYPE_CHECKING:
    from typing import TextIO

_CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def prepare() -> None:
    """Make all three streams usable. Must be called before any other file is opened.

    A closed stream is opened on /dev/null. Otherwise the next file to be opened (the database, say) would get its
    descriptor and receive printed output. Characters outside the encoding are printed as "?". Standard input is read
    as UTF-8, since manifests are UTF-8.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def discard_output() -> None:
    """Discard buffered output after a write error. Otherwise the interpreter fails again when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):  # a stream that a test has replaced has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_reader() -> None:
    """Raise BrokenPipeError if standard output is a pipe without a reader, which only a write would show."""
    if not hasattr(select, "poll"):
        return
    with contextlib.suppress(io.UnsupportedOperation):  # a stream that a test has replaced has no descriptor
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # errors are reported although no event is requested
        if any(events & select.POLLERR for _, events in poll.poll(0)):
            raise BrokenPipeError("the reader of standard output has ended")


def printable(text: str) -> str:
    """Remove terminal control characters: messages contain untrusted text of Jobs, files and clusters."""
    return _CONTROL_CHARACTERS.sub("�", text)


def say(text: str) -> None:
    """Print a sentence on standard error, which may be closed."""
    with contextlib.suppress(OSError):
        sys.stderr.write(sentence(text, sys.stderr))
        sys.stderr.flush()


def write(text: str, indent: int = 2) -> None:
    """Print a sentence on standard output, immediately. `indent`: characters before what continues a line."""
    sys.stdout.write(sentence(text, sys.stdout, indent))
    sys.stdout.flush()


def sentence(text: str, stream: TextIO, indent: int = 2) -> str:
    """Return the text as lines to write to a stream: wrapped (`text_wrapping`) if that is a terminal, else as it is."""
    text = printable(text)
    width = terminal_width(stream)
    if width is not None and any(len(line) > width // 2 for line in text.split("\n")):  # a letter is two cells at most
        from queue_manager.cli.text_wrapping import fold  # imports rich, which short messages do not need

        text = fold(text, width, indent)
    return f"{text}\n"


def terminal_width(stream: TextIO) -> int | None:
    """Return the number of columns of the terminal that a stream writes to; None if it writes elsewhere."""
    try:
        if not stream.isatty():
            return None
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns) or None
    except (OSError, ValueError):  # closed, or a terminal without a size
        return None
