"""Prints what commands list and show: as tables for people, and in the formats of `machine_formats` for programs.

All commands print through this module, so that -o means the same everywhere.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from io import StringIO

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from queue_manager.cli.fitted_table import FittedTable, TableColumn
from queue_manager.cli.machine_formats import (
    ANY_JOB,
    MACHINE_FORMS,
    Namer,
    as_json,
    as_yaml,
    text_of_record,
    text_of_rows,
)
from queue_manager.cli.standard_streams import write

__all__ = [
    "FittedTable",
    "Screen",
    "TableColumn",
    "as_json",
    "as_yaml",
    "columns_of",
    "duration",
    "show",
    "show_record",
    "show_table",
]

MAX_WIDTH = 1000
MAX_STYLED_ROWS = 500  # rows that rich prints with colours; each takes a tenth of a millisecond more


class Screen(Console):
    """A console that raises BrokenPipeError as other streams do; rich's own exits the process."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, for `main` to handle."""
        raise BrokenPipeError


class Unpadded:
    """A renderable of rich without the spaces with which rich pads each row to its width.

    They would be copied from a terminal with the text.
    """

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self._drawn, options, pad=False):
            while line and not line[-1].text.rstrip():
                line.pop()
            yield from line[:-1]
            yield from (Segment(last.text.rstrip(), last.style) for last in line[-1:])
            yield Segment.line()


def show(
    form: str,
    columns: Sequence[TableColumn],
    rows: Sequence[object],
    empty: str,
    hint: str = "",
    *,
    row_type: type[object] | None = None,
    name: Namer = ANY_JOB,
) -> None:
    """Print rows in the format that -o names. `empty`: printed instead of a table without rows.

    `hint`: printed below a table on a terminal. `row_type`: for the header of CSV, if there may be no rows. `name`: of
    a row, for `-o name`.
    """
    if form in MACHINE_FORMS:
        sys.stdout.write(text_of_rows(form, rows, row_type, name))
        return
    on_terminal = sys.stdout.isatty()
    columns = columns_of(form, columns)
    if rows and on_terminal and len(rows) <= MAX_STYLED_ROWS:
        show_table(FittedTable(columns, rows))
    elif rows:
        width = shutil.get_terminal_size().columns if on_terminal else None
        sys.stdout.write("".join(FittedTable(columns, rows).lines(width)))
    else:
        write(empty)
    if hint and rows and on_terminal:
        write(f"\n{hint}")


def show_record(form: str, record: object, render: Callable[[], RenderableType], name: Namer = ANY_JOB) -> None:
    """Print one record in the format that -o names; `render` returns it for people."""
    if form in MACHINE_FORMS:
        sys.stdout.write(text_of_record(form, record, name))
    else:
        show_table(render())


def columns_of(form: str, columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Return the columns of a table, those of `-o wide` only in that format."""
    return [column for column in columns if form == "wide" or not column.wide]


def show_table(drawn: RenderableType) -> None:
    """Print one or more tables: fitted to the width of a terminal; to a pipe or file without wrapping or padding."""
    if sys.stdout.isatty():
        Screen(highlight=False).print(Unpadded(drawn))
        return
    text = StringIO()
    Console(file=text, highlight=False, width=MAX_WIDTH).print(drawn)
    sys.stdout.write("\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n")


def duration(seconds: float) -> str:
    """Format seconds with two significant units: 45s, 3m20s, 2h05m, 4d3h."""
    total = max(0, int(seconds))
    minutes, secs = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    if minutes:
        return f"{minutes}m{secs:02}s"
    return f"{secs}s"
