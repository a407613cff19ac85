"""`sluice doctor`: what is wrong with a cluster, and the command that fixes it.

The exit code is 0 without findings, 1 with warnings only, 2 with errors, and 3 if the cluster cannot be read,
or the user may read nothing of it and nothing was found otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.text import Text

from queue_manager.cli import output
from queue_manager.cli.connection import connect, find_kubeconfig, read_default_namespace
from queue_manager.cli.doctor_reading import ClusterReader, ServerClock, widest_reading
from queue_manager.cli.exit_codes import EXIT_ERROR, EXIT_NEVER, EXIT_OK, EXIT_UNEXPECTED
from queue_manager.cli.machine_formats import MACHINE_FORMS
from queue_manager.cli.permitted_lists import only_one_namespace
from queue_manager.cli.standard_streams import printable, say, write
from queue_manager.cli.stop_report import counted
from queue_manager.visibility.deactivated_jobs import is_deactivated
from queue_manager.visibility.diagnosis.examination import confirmed, examine, needs_confirmation
from queue_manager.visibility.diagnosis.problem import Problem

CONFIRM_SECONDS = 3.0  # for the garbage collector to follow a deletion
INDENT = 9
_COMMAND_AND_PROSE = re.compile(r"""((?:'[^']*'|"[^"]*"|(?!: ).)*)(?:: (.*))?""", re.DOTALL)
_QUOTED = re.compile(r" (?=(?:[^']*'[^']*')*[^']*$)")  # blanks outside of single quotes
_JSON_COMMA = re.compile(r""",(?=["{\[])""")
COLOURS = {"error": "bold red", "warning": "yellow"}


class Report(Struct, frozen=True, rename="camel"):
    """The record of `-o json` and `-o yaml`.

    `not_checked`: what the user may not read, and the rules that therefore said nothing. `deactivated`: the number of
    deactivated Jobs, which are no problem of the cluster.
    """

    problems: list[Problem]
    not_checked: list[str]
    deactivated: int = 0


def run(args: argparse.Namespace) -> int:
    """Print all findings; return the exit code."""
    report, is_checked = asyncio.run(examined(args))
    if args.output in ("csv", "name"):  # which are lists: of the findings
        output.show(args.output, (), report.problems, "", row_type=Problem, name=place)
    elif args.output in MACHINE_FORMS:
        output.show_record(args.output, report, Text)
    else:
        show(report, is_checked=is_checked)
    return exit_code(report.problems, is_checked=is_checked)


def place(problem: object) -> str:
    """Return the object that a finding is about, as kubectl names it."""
    return problem.place if isinstance(problem, Problem) else ""


def exit_code(problems: Sequence[Problem], *, is_checked: bool = True) -> int:
    """Return 2 if there is an error, 1 if there are warnings only, else 0, or 3 if nothing could be checked."""
    if any(problem.severity == "error" for problem in problems):
        return EXIT_NEVER
    if problems:
        return EXIT_UNEXPECTED
    return EXIT_OK if is_checked else EXIT_ERROR


async def examined(args: argparse.Namespace) -> tuple[Report, bool]:
    """Read and examine the cluster, twice if a finding may be of a state that is passing.

    Without -n, a user who may not read the Jobs of all namespaces gets the findings of the namespace of the context,
    and a line on standard error that says so. Also return whether anything of the cluster could be read.
    """
    clock = ServerClock()
    path = find_kubeconfig(args.kubeconfig)
    async with connect(args.kubeconfig, args.context, relay=clock.over) as client:
        reader = ClusterReader(client, path, args.context, clock, args.namespace or "")
        own = "" if args.namespace else read_default_namespace(args)
        reader, snapshot = await widest_reading(reader, own)
        if reader.is_narrowed:
            say(only_one_namespace(own, "is examined"))
        problems = examine(snapshot)
        if needs_confirmation(problems):
            await asyncio.sleep(CONFIRM_SECONDS)
            problems = confirmed(problems, examine(await reader.read()))
    stopped = sum(is_deactivated(workload) for workload in snapshot.workloads or ())
    return Report(problems, reader.not_read, stopped), reader.topics_read > 0


def show(report: Report, *, is_checked: bool) -> None:
    """Print one paragraph per finding: severity, code and place, the sentence, the command."""
    screen = output.Screen(highlight=False, soft_wrap=True)
    width = shutil.get_terminal_size().columns
    for problem in report.problems:
        style = COLOURS[problem.severity] if sys.stdout.isatty() else ""
        screen.print(Text.assemble((f"{problem.severity:7}", style), f"  {printable(problem.code)}"))
        for line in paragraph(problem, width):
            screen.print(Text(line))
    for what in grouped(report.not_checked):
        write(f"not checked: {what}")
    if report.deactivated:
        write(f"deactivated: {counted(report.deactivated, 'Job')}; see why: sluice deactivated")
    screen.print(Text(summary(report, is_checked=is_checked)))


def grouped(not_checked: Sequence[str]) -> Iterator[str]:
    """Yield one line per cause, which is in parentheses behind what was not checked: `jobs, pods (forbidden)`."""
    by_cause: dict[str, list[str]] = {}
    for text in not_checked:
        what, bracket, cause = text.rpartition(" (")
        by_cause.setdefault(f"{bracket}{cause}" if what else "", []).append(what or text)
    yield from (f"{', '.join(each)}{cause}" for cause, each in by_cause.items())


def paragraph(problem: Problem, width: int) -> Iterator[str]:
    """Yield the indented lines below the head of a finding.

    A command that is too long continues on the next line, as a shell reads it, so that it can be copied.
    """
    parts = (
        ("where", _wrapped(problem.place, width - INDENT)),
        ("what", _wrapped(problem.sentence, width - INDENT)),
        ("fix", [line for command in problem.command.split("; ") for line in folded(command, width - INDENT)]),
    )
    for mark, lines in parts:
        for i, line in enumerate(lines):
            yield f"  {mark if i == 0 else '':5}  {line}"


def folded(command: str, width: int) -> Iterator[str]:
    """Yield the lines of a command, joined by backslashes for the shell; text after a colon becomes a comment."""
    found = _COMMAND_AND_PROSE.fullmatch(printable(command))
    command, prose = found.groups("") if found else (printable(command), "")
    line = ""
    for word in _QUOTED.split(command):
        if line and len(line) + len(word) + 1 > width - 2:
            yield f"{line} \\"
            line = ""
        line = f"{line} {word}" if line else word
        while len(line) > width and (cut := _cut(line, width)):
            yield line[:cut]
            line = line[cut:]
    yield line
    yield from (f"# {part}" for part in _wrapped(prose, width - 2))


def _cut(line: str, width: int) -> int:
    """Return the last position before `width` after a comma of JSON, where the line may be broken; 0 without one."""
    return max((match.end() for match in _JSON_COMMA.finditer(line, 0, width)), default=0)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False)


def summary(report: Report, *, is_checked: bool = True) -> str:
    """Return the last line: the number of findings, and whether they are all that could be found."""
    problems = report.problems
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    counts = [counted(errors, "error"), counted(warnings, "warning")]
    found = ", ".join(counts) if problems else "nothing found"
    if not is_checked:
        return f"{found}; nothing else could be checked" if problems else "nothing could be checked"
    return f"{found} in what could be checked" if report.not_checked else found
