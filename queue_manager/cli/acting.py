"""What commands that change something have in common: a line for each change as it is made, JSON at the end."""

from __future__ import annotations

import sys

import msgspec

from queue_manager.cli import output
from queue_manager.cli.exits import EXIT_ERROR, EXIT_NEVER, EXIT_OK
from queue_manager.cli.streams import printable
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
    """Tells what was done, as it is done."""

    def __init__(self, form: str, *, dry_run: bool) -> None:
        self.rows: list[Done] = []
        self._table = form == "table"
        self._form = form
        self._dry_run = dry_run

    def add(self, kind: str, namespace: str, name: str, result: str, note: str) -> None:
        row = Done(kind=kind, namespace=namespace, name=name, result=result, note=note, dry_run=self._dry_run)
        self.rows.append(row)
        if self._table:
            stream = sys.stderr if result in _CODES else sys.stdout
            stream.write(f"{line(row)}\n")
            stream.flush()

    def failed(self, kind: str, namespace: str, name: str, error: ApiError) -> None:
        self.add(kind, namespace, name, "failed", f"{error.status} {error.reason}: {error.message}")

    def end(self, empty: str) -> int:
        """Print what is printed at the end; the exit code of the command."""
        if not self._table:
            output.show(self._form, (), self.rows, empty)
        elif not self.rows:
            sys.stdout.write(empty + "\n")
        return max((_CODES.get(row.result, EXIT_OK) for row in self.rows), default=EXIT_OK)


def line(row: Done) -> str:
    """`default/sort reactivated: back in line of ...`."""
    name = f"{row.namespace}/{row.name}" if row.namespace else row.name
    kind = "" if row.kind == "Job" else f"{row.kind} "
    would = "would be " if row.dry_run and row.result not in (*_CODES, "unchanged") else ""
    return printable(f"{kind}{name} {would}{row.result}: {row.note}")
