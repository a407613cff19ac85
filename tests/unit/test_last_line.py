"""The line of an output that people are shown."""

from __future__ import annotations

import pytest

from queue_manager.last_line import last_line


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        (" \n\n", ""),
        ("reading\n  no such column \n", "no such column"),
        ("no such column\r\n\n \n", "no such column"),
        (b"na\xefve\n", "na\ufffdve"),
    ],
)
def test_the_last_line_that_is_not_blank(output: str | bytes, line: str) -> None:
    assert last_line(output) == line
