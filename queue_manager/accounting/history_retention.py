"""Bounds of the history: which Jobs are kept, and how often `HistoryStore.prune` runs. Imports no database library."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

PRUNE_SECONDS = 3600.0  # at most between two deletions
LEAST_PRUNE_SECONDS = 60.0  # at least; each one counts all rows


class Retention(NamedTuple):
    """Ended Jobs are deleted, with their steps and pods, from the oldest submission on: all that were submitted longer
    than `max_age` ago, and as many as it takes until all tables together have at most `max_rows` rows. A Job that has
    not ended is kept: its later steps would otherwise be stored without it.
    """

    max_age: timedelta
    max_rows: int

    @property
    def prune_seconds(self) -> float:
        """The time between two deletions: no Job stays longer than twice `max_age`, if that is at least a minute."""
        return min(PRUNE_SECONDS, max(LEAST_PRUNE_SECONDS, self.max_age.total_seconds()))
