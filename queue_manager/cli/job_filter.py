"""Chooses the Jobs that `sluice ps` lists. Pure.

As squeue, the list is about Jobs that are still to end. Those that ended within RECENT stay in it, so that a result of
the night is seen in the morning; older ones appear with --all, --since or --state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_manager.visibility.job_states import JobRow, JobState

RECENT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """`states`: empty for all. `since`: a Job that ended earlier is left out. `every`: none is left out for its age."""

    states: frozenset[JobState] = frozenset()
    since: datetime | None = None
    every: bool = False

    def selects(self, row: JobRow, now: datetime) -> bool:
        """Whether the filter selects this Job at the time `now`."""
        if self.states and row.state not in self.states:
            return False
        earliest = self._earliest_end(now)
        return earliest is None or row.finished is None or row.finished >= earliest

    def _earliest_end(self, now: datetime) -> datetime | None:
        if self.since is not None:
            return self.since
        return None if self.every or self.states else now - RECENT

    def chosen(self, rows: Iterable[JobRow], now: datetime) -> list[JobRow]:
        """Return the rows that the filter selects."""
        return [row for row in rows if self.selects(row, now)]


def hidden_text(count: int) -> str:
    """Return the line that counts the Jobs hidden because they ended long ago; "" for 0."""
    if not count:
        return ""
    jobs = "1 Job that" if count == 1 else f"{count} Jobs that"
    return f"{jobs} ended more than {RECENT.days * 24 + RECENT.seconds // 3600}h ago: sluice ps --all"
