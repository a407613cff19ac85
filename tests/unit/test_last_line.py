"""The line of an output that people are shown."""

from __future__ import annotations

import pytest

from queue_manager.last_line import error_line, last_line


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


TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    read(path)
FileNotFoundError: data/x.csv
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("reading\nno such column\n", "no such column"),
        (TRACEBACK + "epoch 1 of 3\n", "FileNotFoundError: data/x.csv"),
        (TRACEBACK + "\n" + TRACEBACK.replace("FileNot", "Key") + "epoch 1\n", "KeyFoundError: data/x.csv"),
        (TRACEBACK.partition("File")[0] + "cut\n", "cut"),
        (b"Traceback (most recent call last):\n", "Traceback (most recent call last):"),
    ],
)
def test_an_uncaught_exception_is_the_error_though_output_follows_it(output: str | bytes, line: str) -> None:
    assert error_line(output) == line
