"""`sluice doctor`: what is wrong with a cluster, and the command that fixes it.

The exit code is 0 without findings, 1 with warnings only, 2 with errors, and 3 if the cluster cannot be read.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.text import Text

from queue_manager.cli import output
from queue_manager.cli.connection import connect, find_kubeconfig
from queue_manager.cli.doctor_reading import ClusterReader, ServerClock
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, EXIT_UNEXPECTED
from queue_manager.cli.machine_formats import MACHINE_FORMS
from queue_manager.cli.streams import printable, write
from queue_manager.visibility.diagnosis.examination import confirmed, examine, needs_confirmation
from queue_manager.visibility.diagnosis.problem import Problem

CONFIRM_SECONDS = 3.0  # for the garbage collector to follow a deletion
COLOURS = {"error": "bold red", "warning": "yellow"}


class Report(Struct, frozen=True, rename="camel"):
    """The record of `-o json` and `-o yaml`.

    `not_checked`: what the user may not read, and the rules that therefore said nothing.
    """

    problems: list[Problem]
    not_checked: list[str]


def run(args: argparse.Namespace) -> int:
    """Print all findings; return the exit code."""
    report = asyncio.run(examined(args))
    if args.output in ("csv", "name"):  # which are lists: of the findings
        output.show(args.output, (), report.problems, "", row_type=Problem, name=place)
    elif args.output in MACHINE_FORMS:
        output.show_record(args.output, report, Text)
    else:
        show(report)
    return exit_code(report.problems)


def place(problem: object) -> str:
    """Return the object that a finding is about, as kubectl names it."""
    return problem.place if isinstance(problem, Problem) else ""


def exit_code(problems: Sequence[Problem]) -> int:
    """Return 2 if there is an error, 1 if there are warnings only, else 0."""
    if any(problem.severity == "error" for problem in problems):
        return EXIT_NEVER
    return EXIT_UNEXPECTED if problems else EXIT_OK


async def examined(args: argparse.Namespace) -> Report:
    """Read and examine the cluster, twice if a finding may be of a state that is passing."""
    clock = ServerClock()
    path = find_kubeconfig(args.kubeconfig)
    async with connect(args.kubeconfig, args.context, relay=clock.over) as client:
        reader = ClusterReader(client, path, args.context, clock)
        problems = examine(await reader.read())
        if needs_confirmation(problems):
            await asyncio.sleep(CONFIRM_SECONDS)
            problems = confirmed(problems, examine(await reader.read()))
    return Report(problems, reader.not_read)


def show(report: Report) -> None:
    """Print one paragraph per finding: severity, code and place, the sentence, the command."""
    screen = output.Screen(highlight=False, soft_wrap=True)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else output.MAX_WIDTH
    for problem in report.problems:
        style = COLOURS[problem.severity] if sys.stdout.isatty() else ""
        screen.print(Text.assemble((f"{problem.severity:7}", style), f"  {printable(problem.code)}"))
        for line in paragraph(problem, width):
            screen.print(Text(line))
    for what in report.not_checked:
        write(f"not checked: {what}")
    screen.print(Text(summary(report.problems)))


def paragraph(problem: Problem, width: int) -> Iterator[str]:
    """Yield the indented lines below the head of a finding. A command is not split within words."""
    for mark, text in (("where", problem.place), ("what", problem.sentence), ("fix", problem.command)):
        yield from textwrap.wrap(
            printable(text),
            width,
            initial_indent=f"  {mark:5}  ",
            subsequent_indent=" " * 9,
            break_long_words=False,
            break_on_hyphens=False,
        )


def summary(problems: Sequence[Problem]) -> str:
    """Return the last line: the number of findings."""
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    counts = [
        f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in ((errors, "error"), (warnings, "warning"))
    ]
    return ", ".join(counts) if problems else "nothing found"
