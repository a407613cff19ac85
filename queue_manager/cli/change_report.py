"""Reporting shared by commands that change objects: one line per change as it is made, or a machine format at the end.

The format `name` lists the objects that were changed, or are as wanted already; others are reported on standard error.

If standard output fails (a broken pipe, a full disk), the command still makes all requested changes, and reports the
remaining ones on standard error. A dry run makes no changes, so it ends immediately. A command that is interrupted
(Ctrl-C, an API server that stops responding) reports the changes it has made before it ends, and why it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

import msgspec

from job_controller.model import Key
from queue_manager.cli.api_error_text import api_error_text
from queue_manager.cli.connection import NoResponse
from queue_manager.cli.exit_codes import EXIT_ERROR, EXIT_NEVER, EXIT_OK
from queue_manager.cli.machine_formats import MACHINE_FORMS, Namer, object_name, text_of_rows
from queue_manager.cli.standard_streams import discard_output, printable, sentence, write
from queue_manager.engine.transport_protocol import ApiError

NAMED = 10  # names of objects that were not changed; JSON output has all
NOT_DONE = "not done"
_CODES = {"failed": EXIT_ERROR, NOT_DONE: EXIT_ERROR, "refused": EXIT_NEVER}


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object and the result of its change.

    `result`: a verb such as "reactivated" or "held"; "unchanged"; "refused" (the change does not apply to the object);
    "failed" (the API server rejected it, or may have made it without a response); "not done" (the command ended before
    it, or could not send it).
    """

    kind: str
    namespace: str
    name: str
    result: str
    note: str
    dry_run: bool = False


class ChangeReport:
    """Reports changes as they are made. As a context manager it also prints pending results if the block raises.

    `name`: of an object in the format `name`.
    """

    def __init__(self, form: str, *, dry_run: bool, name: Namer = object_name) -> None:
        self.rows: list[ChangeRow] = []
        self._form = form
        self._name = name
        self._table = form not in MACHINE_FORMS
        self._dry_run = dry_run
        self._output_failed = False  # whether standard output has failed

    def add(self, kind: str, namespace: str, name: str, result: str, note: str) -> None:
        """Add the row of one object; a table prints it immediately, JSON at the end."""
        row = ChangeRow(kind=kind, namespace=namespace, name=name, result=result, note=note, dry_run=self._dry_run)
        self.rows.append(row)
        if self._table:
            self._print_row(row)

    def failed(self, kind: str, namespace: str, name: str, error: ApiError) -> None:
        """Add the row of a change that the API server has refused."""
        self.add(kind, namespace, name, "failed", api_error_text(error))

    async def perform(
        self, kind: str, key: Key, change: Awaitable[None], may_be_made: Callable[[], bool] | None = None
    ) -> bool:
        """Make the change; return whether it succeeded. If it failed or its outcome is unknown, add its row.

        `may_be_made`: whether a change that has ended without a response may have been made, if several requests have
        tried it.
        """
        try:
            await change
        except ApiError as error:
            self.failed(kind, *key, error)
            return False
        except (asyncio.CancelledError, NoResponse) as error:
            sent = not isinstance(error, NoResponse) or error.may_have_arrived
            if sent if may_be_made is None else may_be_made():
                self.add(kind, *key, "failed", f"{_why(error)}: the change may or may not have been made")
            else:
                self.add(kind, *key, NOT_DONE, _why(error))
            raise
        return True

    def not_done(self, kind: str, keys: Sequence[Key], error: BaseException) -> None:
        """Add the objects that `error` kept from being changed, and print how many were changed."""
        done = sum(row.result not in (*_CODES, "unchanged") for row in self.rows)
        for namespace, name in keys:
            note = f"{_why(error)} before it"
            self.rows.append(ChangeRow(kind=kind, namespace=namespace, name=name, result=NOT_DONE, note=note))
        names = [str(Key(row.namespace, row.name)) for row in self.rows if row.result == NOT_DONE]
        if self._table:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            left = f"not done: {len(names)}: {', '.join(names[:NAMED])}{more}; to do the rest, repeat the command"
            text = left if names else "all were reached"
            with contextlib.suppress(OSError):
                sys.stderr.write(sentence(f"{_why(error)}: {done} done, {text}", sys.stderr))
                sys.stderr.flush()

    def remark(self, text: str) -> None:
        """Print a sentence below the rows of a table; machine formats have none."""
        if self._table:
            write(text)

    def __enter__(self) -> ChangeReport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.rows and not self._dry_run:
            self._print_records()

    def end(self, empty: str) -> int:
        """Print the final output; return the exit code of the command."""
        self._print_records()
        if self._table and not self.rows:
            write(empty)
        return max((_CODES.get(row.result, EXIT_OK) for row in self.rows), default=EXIT_OK)

    def _print_records(self) -> None:
        if self._table:
            return
        by_name = self._form == "name"
        shown = [row for row in self.rows if not (by_name and row.result in _CODES)]
        written = self._write(text_of_rows(self._form, shown, ChangeRow, self._name))
        for row in self.rows:
            if not written or (by_name and row.result in _CODES):
                self._print_row(row)

    def _print_row(self, row: ChangeRow) -> None:
        text = line(row)
        wanted = row.result not in _CODES and not self._output_failed
        if wanted and self._write(sentence(text, sys.stdout)):
            return
        with contextlib.suppress(OSError):  # standard error may be the same broken pipe as standard output
            sys.stderr.write(sentence(text, sys.stderr))
            sys.stderr.flush()

    def _write(self, text: str) -> bool:
        """Write to standard output; return whether that succeeded. Raises the OSError if nothing was changed yet."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            if self._dry_run:
                raise
            discard_output()
            self._output_failed = True
        return not self._output_failed


def _why(error: BaseException) -> str:
    """Return why a command ends before all of its changes are made."""
    return f"no response ({error})" if isinstance(error, NoResponse) else "interrupted"


def line(row: ChangeRow) -> str:
    """Format a row as one line, e.g. `default/sort reactivated: ...`."""
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    kind = "" if row.kind == "Job" else f"{row.kind} "
    would = "would be " if row.dry_run and row.result not in (*_CODES, "unchanged") else ""
    return printable(f"{kind}{name} {would}{row.result}: {row.note}")
