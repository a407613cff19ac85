"""What commands that change something have in common: a line for each change as it is made, JSON at the end.

Once nobody reads standard output any more (a broken pipe, a full disk), the command still makes all the changes that
it was asked for, and reports the rest of them on standard error. A dry run changes nothing, so it just ends. A command
that is cut short (Ctrl-C, an API server that stops answering) reports the changes it has made before it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable
from types import TracebackType

import msgspec

from job_controller.model import Key
from queue_manager.cli import output
from queue_manager.cli.connection import NoAnswer
from queue_manager.cli.exits import EXIT_ERROR, EXIT_NEVER, EXIT_OK
from queue_manager.cli.streams import give_up, printable
from queue_manager.engine.transport import ApiError

_CODES = {"failed": EXIT_ERROR, "refused": EXIT_NEVER}


class Done(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object and what came of it.

    result: "reactivated", "held" and the like, "unchanged", "refused" (it makes no sense), "failed" (the API said no).
    """

    kind: str
    namespace: str
    name: str
    result: str
    note: str
    dry_run: bool = False


class Report:
    """Reports what was done, as it is done. A context manager, for what is still to be printed if it is left early."""

    def __init__(self, form: str, *, dry_run: bool) -> None:
        self.rows: list[Done] = []
        self._table = form == "table"
        self._dry_run = dry_run
        self._unread = False  # standard output takes nothing more

    def add(self, kind: str, namespace: str, name: str, result: str, note: str) -> None:
        row = Done(kind=kind, namespace=namespace, name=name, result=result, note=note, dry_run=self._dry_run)
        self.rows.append(row)
        if self._table:
            self._say(row)

    def failed(self, kind: str, namespace: str, name: str, error: ApiError) -> None:
        self.add(kind, namespace, name, "failed", f"{error.status} {error.reason}: {error.message}")

    async def made(self, kind: str, key: Key, change: Awaitable[None]) -> bool:
        """Whether the change was made; if not, or if nobody knows, its row is added here."""
        try:
            await change
        except ApiError as error:
            self.failed(kind, *key, error)
            return False
        except (asyncio.CancelledError, NoAnswer):
            self.add(kind, *key, "failed", "cut short: it may have been changed or not")
            raise
        return True

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.rows and not self._dry_run:
            self._print_json()

    def end(self, empty: str) -> int:
        """Print what is printed at the end; the exit code of the command."""
        self._print_json()
        if self._table and not self.rows:
            sys.stdout.write(empty + "\n")
        return max((_CODES.get(row.result, EXIT_OK) for row in self.rows), default=EXIT_OK)

    def _print_json(self) -> None:
        if not self._table and not self._written(output.as_json(self.rows)):
            for row in self.rows:
                self._say(row)

    def _say(self, row: Done) -> None:
        text = f"{line(row)}\n"
        if row.result not in _CODES and not self._unread and self._written(text):
            return
        with contextlib.suppress(OSError):  # standard error may be the same broken pipe
            sys.stderr.write(text)
            sys.stderr.flush()

    def _written(self, text: str) -> bool:
        """Whether standard output took the text. Raises the OSError if nothing has been changed."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            if self._dry_run:
                raise
            give_up()
            self._unread = True
        return not self._unread


def line(row: Done) -> str:
    """`default/sort reactivated: back in line of ...`."""
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    kind = "" if row.kind == "Job" else f"{row.kind} "
    would = "would be " if row.dry_run and row.result not in (*_CODES, "unchanged") else ""
    return printable(f"{kind}{name} {would}{row.result}: {row.note}")
