"""Finds the rows that differ between two lists of Jobs, and updates the times of unchanged ones. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from job_controller.model import Key
from queue_manager.visibility.job_states import JobRow, JobState


def by_key(rows: Iterable[JobRow]) -> dict[Key, JobRow]:
    """Return the rows by namespace and name, in their order."""
    return {Key(row.namespace, row.name): row for row in rows}


def changed_rows(
    printed: Mapping[Key, JobRow], rows: Mapping[Key, JobRow], is_chosen: Callable[[JobRow], bool]
) -> list[JobRow]:
    """Return the rows that a list has to append to say what changed since it printed `printed`.

    These are rows that changed in more than their times, if they are chosen or were when they were printed, so that the
    list says in which state a Job leaves it; and the rows of Jobs that no longer exist, in state Deleting.
    """
    changed = [
        row for key, row in rows.items() if (key in printed or is_chosen(row)) and not is_same(printed.get(key), row)
    ]
    gone = [row for key, row in printed.items() if key not in rows and row.state != JobState.DELETING]
    return [*changed, *(msgspec.structs.replace(row, state=JobState.DELETING) for row in gone)]


def is_same(old: JobRow | None, new: JobRow) -> bool:
    """Whether two rows are equal, apart from their times."""
    return old is not None and _without_times(old) == _without_times(new)


def _without_times(row: JobRow) -> JobRow:
    return msgspec.structs.replace(
        row, waiting_seconds=None, running_seconds=None, waited_seconds=None, ran_seconds=None
    )


def aged(row: JobRow, seconds: float) -> JobRow:
    """Return the row as it is so many seconds later, if nothing happens."""
    if row.finished is not None or row.state == JobState.DEACTIVATED:
        return row
    grows = (
        ("ran_seconds", "running_seconds") if row.running_seconds is not None else ("waited_seconds", "waiting_seconds")
    )
    known = {name: getattr(row, name) for name in grows}
    return msgspec.structs.replace(row, **{name: past + seconds for name, past in known.items() if past is not None})
