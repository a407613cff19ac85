"""Prints a list of Jobs that changes: redrawn in place on a terminal, appended line by line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from job_controller.model import Key
from queue_manager.cli import output
from queue_manager.cli.fitted_table import FittedTable, TableColumn
from queue_manager.cli.machine_formats import MACHINE_FORMS, Namer, csv_header, text_of_change
from queue_manager.cli.row_changes import aged, by_key, changed_rows
from queue_manager.cli.standard_streams import printable, say
from queue_manager.visibility.job_states import JobRow

LINES_BELOW = 2  # an empty one, and the one about the list
NO_JOBS = "no Jobs yet"


class FollowedList(Protocol):
    """Where a changing list is printed. A context manager: what it changed in the terminal is undone at its end."""

    def __enter__(self) -> FollowedList: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, rows: Sequence[JobRow], failure: str) -> None:
        """Show the rows, and why they may be out of date ("": they are not)."""
        ...

    def pass_time(self, seconds: float, failure: str) -> None:
        """Show the same rows so many seconds after `show`."""
        ...


class RedrawnList:
    """The list on a terminal, with colours, cut to its height."""

    def __init__(self, columns: Sequence[TableColumn], is_chosen: Callable[[JobRow], bool]) -> None:
        self._columns = columns
        self._is_chosen = is_chosen
        self._console = output.Screen(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._rows: Sequence[JobRow] = ()

    def __enter__(self) -> RedrawnList:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, rows: Sequence[JobRow], failure: str) -> None:
        """See `FollowedList`."""
        self._rows = rows
        self.pass_time(0, failure)

    def pass_time(self, seconds: float, failure: str) -> None:
        """See `FollowedList`."""
        chosen = [row for row in self._rows if self._is_chosen(row)]
        self._live.update(self._render(chosen, seconds, failure), refresh=True)

    def _render(self, rows: Sequence[JobRow], seconds: float, failure: str) -> RenderableType:
        room = max(3, self._console.height - LINES_BELOW)
        shown = [aged(row, seconds) for row in rows[:room]]
        while len(shown) > 1 and (lines := self._height(shown)) > room:
            shown = shown[: min(len(shown) - 1, len(shown) * room // lines)]
        return Group(self._table(shown), Text(), _about(len(shown), len(rows), failure))

    def _height(self, rows: Sequence[JobRow]) -> int:
        return len(self._console.render_lines(self._table(rows), pad=False))

    def _table(self, rows: Sequence[JobRow]) -> RenderableType:
        return FittedTable(self._columns, rows) if rows else Text(NO_JOBS)


def _about(shown: int, rows: int, failure: str) -> Text:
    if failure:
        return Text(printable(f"out of date, trying again: {failure}"), style="red", no_wrap=True, overflow="ellipsis")
    more = f"and {rows - shown} more; " if rows > shown else ""
    return Text(f"{more}follows changes; Ctrl-C ends", style="dim", no_wrap=True, overflow="ellipsis")


class AppendedList:
    """The list in a pipe or file: all rows once, then each row that changes in more than its times."""

    def __init__(
        self, form: str, columns: Sequence[TableColumn], is_chosen: Callable[[JobRow], bool], name: Namer
    ) -> None:
        self._form = form
        self._columns = columns
        self._is_chosen = is_chosen
        self._name = name
        self._printed: dict[Key, JobRow] = {}
        self._began = False
        self._failure = ""

    def __enter__(self) -> AppendedList:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to undo."""

    def show(self, rows: Sequence[JobRow], failure: str) -> None:
        """See `FollowedList`."""
        now = by_key(rows)
        changed = changed_rows(self._printed, now, self._is_chosen)
        sys.stdout.write(self._text(changed))
        sys.stdout.flush()
        self._began = True
        self._printed = {key: row for key, row in now.items() if self._is_chosen(row)}
        self._report(failure)

    def pass_time(self, seconds: float, failure: str) -> None:
        """See `FollowedList`."""
        self._report(failure)

    def _text(self, changed: Sequence[JobRow]) -> str:
        if self._form not in MACHINE_FORMS:
            return self._lines(changed)
        header = csv_header(JobRow) if self._form == "csv" and not self._began else ""
        return header + text_of_change(self._form, changed, self._name)

    def _lines(self, changed: Sequence[JobRow]) -> str:
        """The changed rows below the columns of all rows, which keep their places."""
        if not self._began:
            return "".join(FittedTable(self._columns, changed).lines())
        rows = [*changed, *self._printed.values()]
        return "".join(FittedTable(self._columns, rows).lines_of(range(len(changed))))

    def _report(self, failure: str) -> None:
        if failure and failure != self._failure:
            say(f"sluice ps: out of date, trying again: {failure}")
        self._failure = failure
