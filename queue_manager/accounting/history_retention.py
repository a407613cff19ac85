"""What the history keeps, and how often it deletes the rest (`HistoryStore.prune`). It knows no database."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

PRUNE_SECONDS = 3600.0  # between two deletions; the first one is at the start


class Retention(NamedTuple):
    """Jobs are deleted, with their steps and pods, from the oldest submission on: all that were submitted longer than
    `max_age` ago, and as many as it takes until all tables together have at most `max_rows` rows.
    """

    max_age: timedelta
    max_rows: int
