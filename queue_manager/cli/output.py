"""Prints rows as a table for people or as JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import zip_longest
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from queue_manager.cli.streams import printable

MAX_WIDTH = 1000
MAX_DRAWN_ROWS = 500  # rows that rich lays out; each takes milliseconds, so longer tables are printed plain
MIN_WRAPPED_WIDTH = 20  # characters: minimum width of a column whose text wraps


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its heading and the function that returns a row's text."""

    heading: str
    cell: Callable[[Any], str]
    style: Callable[[Any], str] | None = None
    right: bool = False
    wrap: bool = False


class Screen(Console):
    """A console that raises BrokenPipeError as other streams do; rich's own exits the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def table(columns: Sequence[TableColumn], rows: Sequence[object]) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    cells = [[printable(column.cell(row)) for row in rows] for column in columns]
    for column, texts in zip(columns, cells, strict=True):
        longest = max((cell_len(line) for text in [column.heading, *texts] for line in text.splitlines()), default=0)
        drawn.add_column(
            column.heading,
            min_width=min(longest, MIN_WRAPPED_WIDTH) if column.wrap else longest,
            justify="right" if column.right else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
        )
    for number, row in enumerate(rows):
        styles = (column.style(row) if column.style else "" for column in columns)
        drawn.add_row(*(Text(texts[number], style) for texts, style in zip(cells, styles, strict=True)))
    return drawn


def show(form: str, columns: Sequence[TableColumn], rows: Sequence[object], empty: str) -> None:
    """Print rows as a table or as a JSON list. `empty`: printed instead of a table without rows."""
    if form == "json":
        sys.stdout.write(as_json(rows))
    elif rows and sys.stdout.isatty() and len(rows) <= MAX_DRAWN_ROWS:
        show_table(table(columns, rows))
    elif rows:
        sys.stdout.write("".join(plain(columns, rows)))
    else:
        sys.stdout.write(empty + "\n")


def as_json(rows: object) -> str:
    return msgspec.json.format(msgspec.json.encode(rows, order="deterministic")).decode() + "\n"


def as_yaml(record: object) -> str:
    """The same fields as `as_json`, in the order of the record."""
    import yaml  # only one command has this form

    return yaml.safe_dump(msgspec.to_builtins(record), sort_keys=False, allow_unicode=True, width=120)


def plain(columns: Sequence[TableColumn], rows: Sequence[object]) -> Iterator[str]:
    """Yield the lines that `show_table` prints to a pipe, but fast for thousands of rows."""
    cells = [[_lines(column.heading), *(_lines(printable(column.cell(row))) for row in rows)] for column in columns]
    widths = [max(cell_len(line) for lines in texts for line in lines) for texts in cells]
    for row in zip(*cells, strict=True):
        for texts in zip_longest(*row, fillvalue=""):
            padded = (_padded(*each) for each in zip(texts, widths, columns, strict=True))
            yield "  ".join(padded).rstrip() + "\n"


def _lines(text: str) -> list[str]:
    return text.expandtabs().splitlines() or [""]


def _padded(text: str, width: int, column: TableColumn) -> str:
    space = " " * (width - cell_len(text))
    return space + text if column.right else text + space


def show_table(drawn: RenderableType) -> None:
    """Print one or more tables: fitted to the width of a terminal; to a pipe or file without truncation or padding.

    A terminal that is too narrow also gets untruncated lines, which it wraps: truncated cells would hide names.
    """
    console = Screen(highlight=False)
    if sys.stdout.isatty() and _least_width(console, drawn) <= console.width:
        console.print(drawn)
        return
    text = StringIO()
    Console(file=text, highlight=False, width=MAX_WIDTH).print(drawn)
    sys.stdout.write("\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n")


def _least_width(console: Console, drawn: RenderableType) -> int:
    return Measurement.get(console, console.options.update_width(MAX_WIDTH), drawn).minimum


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
