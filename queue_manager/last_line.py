"""The last line of a log or of an error output: the part that is shown as the cause of a failure."""

from __future__ import annotations

from typing import Final

# How much of a log is read to find the line (query of the API's `log`): blank lines may follow it.
TAIL_LINES: Final = 20
TAIL_BYTES: Final = 1 << 16


def last_line(text: str | bytes) -> str:
    """The last line that is not blank, without surrounding blanks; "" if all are. Bytes are read as UTF-8."""
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return next((line.strip() for line in reversed(plain.splitlines()) if line.strip()), "")
