"""The line of a log or of an error output that is shown as the cause of a failure."""

from __future__ import annotations

from typing import Final

# How much of a log is read to find the line (query of the API's `log`): blank lines may follow it.
TAIL_LINES: Final = 20
TAIL_BYTES: Final = 1 << 16

TRACEBACK: Final = "Traceback (most recent call last):"


def last_line(text: str | bytes) -> str:
    """The last line that is not blank, without surrounding blanks; "" if all are. Bytes are read as UTF-8."""
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return next((line.strip() for line in reversed(plain.splitlines()) if line.strip()), "")


def error_line(text: str | bytes) -> str:
    """The exception of the last Python traceback, if there is one, else the last line as `last_line`.

    Python writes the traceback of the exception that ends it before it flushes standard output, which is buffered in
    a container. So the last line of the log is some earlier output then.
    """
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    _, found, after = plain.rpartition(TRACEBACK)
    exception = next((line for line in after.splitlines() if line[:1].strip()), "") if found else ""
    return exception.strip() or last_line(plain)
