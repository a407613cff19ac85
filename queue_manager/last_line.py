"""The line of a log or of an error output that is shown as the cause of a failure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final

# How much of a log is read to find the line (query of the API's `log`): a stack trace may follow it.
TAIL_LINES: Final = 80
TAIL_BYTES: Final = 1 << 16

# Colours, the title of a window: control sequences of ECMA-48 and two other escapes.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[(-/][!-~]|[0-Z\\^-~])")
TRACEBACK: Final = "Traceback (most recent call last):"
EXCEPTION_CODE: Final = 1  # of a Python program that an exception has ended
_TRACE: Final = re.compile(r"\++ ")  # a command in the trace of a shell (set -x)
_NAMES_ERROR: Final = re.compile(
    r"\b(error|fatal|critical|fail(ed|ure)|can(not|'t)|could not|unable|denied|refused|not found|no such|invalid)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Report:
    """What a runtime prints when an error ends its program: the line with the error, others, and a last line (patterns
    of whole lines).
    """

    last: str
    others: str
    error: str = r"\S.*"


# These programs do not hold their output back. So a report is the end of the log: one that more output follows did not
# end the program.
_REPORTS: Final = (
    _Report(r"[ \t]+(at|\.\.\.) .*", others=r"[ \t]+.*"),  # Java
    _Report(r"Node\.js v.*", others=r"[ \t]+.*|}|"),
    _Report(
        r"\t.*|exit status \d+",  # Go
        others=r"\[signal .*|goroutine .*|created by .*|\t.*|\S.*\)|",
        error=r"(panic|fatal error): .*",
    ),
    _Report(r"note: .*RUST_BACKTRACE=.*", others=r"[ ]+.*|stack backtrace:"),
    _Report(r"Execution halted", others=r"Calls: .*"),  # R
    _Report(r" +\+-+", others=r" +(\+|\| {3}|\| Traceback ).*| +\|", error=r" +\| \S.*"),  # ExceptionGroup of Python
)


def last_line(text: str | bytes) -> str:
    """The last line that is not blank, without colours and surrounding blanks; "" if all are. Bytes are of UTF-8."""
    plain = _plain(text)
    return next((line.strip() for line in reversed(plain.splitlines()) if line.strip()), "")


def error_line(text: str | bytes) -> str:
    """The error in the report that a runtime prints when an error ends its program, else the last line as `last_line`.

    Python writes the traceback of the exception that ends it before it flushes standard output, which is buffered in
    a container. So the last line of the log is some earlier output then. The reports of Java, Node.js, Go, Rust and R
    end with stack frames or notes. An exception whose first line ends with a colon says what is wrong in the next one.
    """
    plain = _plain(text)
    if error := _reported(plain.rstrip().splitlines()):
        return error
    return _of_traceback(plain) or last_line(plain)


def stderr_line(text: str | bytes, exit_code: int) -> str:
    """The error in a whole standard error output: the last line of it, or of the report with which a runtime ends it.

    Lines that say nothing are passed over: those of the trace of a shell (`+ exit 1`), and those without a letter. More
    lines may follow the traceback of the exception that ended the program: of its own message, or of libraries that
    clean up. But if the exit code is not that of an exception, or the last line names an error, the program has
    survived the exception.
    """
    plain = _plain(text)
    last = next((line.strip() for line in reversed(plain.splitlines()) if _says_something(line)), last_line(plain))
    if report := _reported(plain.rstrip().splitlines()):
        return report
    exception = _of_traceback(plain)
    ended_it = last in exception or (exit_code == EXCEPTION_CODE and not _NAMES_ERROR.search(last))
    return exception if exception and ended_it else last


def _plain(text: str | bytes) -> str:
    return _ESCAPES.sub("", text if isinstance(text, str) else text.decode("utf-8", "replace"))


def _says_something(line: str) -> bool:
    return any(map(str.isalnum, line)) and not _TRACE.match(line)


def _of_traceback(plain: str) -> str:
    """The exception of the last Python traceback; "" without one."""
    _, found, after = plain.rpartition(TRACEBACK)
    return _exception(after.splitlines()) if found else ""


def _exception(after: list[str]) -> str:
    """The exception below the frames of a Python traceback, of which these lines are the rest; "" if it is cut off."""
    message = dropwhile(lambda line: not line[:1].strip(), after)
    first = next(message, "").strip()
    second = next((line.strip() for line in message if line.strip()), "") if first.endswith(":") else ""
    return f"{first} {second}".strip()


def _reported(lines: list[str]) -> str:
    """The error of the report with which these lines end; "" if they end otherwise."""
    for report in _REPORTS:
        if lines and re.fullmatch(report.last, lines[-1]):
            error = next((line for line in reversed(lines[:-1]) if not re.fullmatch(report.others, line)), "")
            if re.fullmatch(report.error, error):
                return error.strip().removeprefix("| ")
    return ""
