"""Protocol of the store to which `history_writer` writes. Imports no database library, which would take long."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from queue_manager.accounting.history_retention import Retention
from queue_manager.accounting.record_types import JobRecord, Record, StepRecord


class RecordsRefused(Exception):
    """The store refuses records because of their content: writing them again does not help."""


class HistorySink(Protocol):
    """A store that is open for writing. Methods block, and raise an exception that may be temporary."""

    def write(self, records: Sequence[Record]) -> None:
        """Add records; those that are stored already change nothing. Raises RecordsRefused."""

    def unfinished(self) -> Mapping[str, JobRecord]:
        """The Jobs that have neither finished nor been deleted, by UID."""

    def untraced_steps(self) -> Mapping[str, Sequence[StepRecord]]:
        """The steps of unfinished Jobs that leave no trace in an object (`step_reading`), by UID of the Job."""

    def steps_of(self, job_uids: Collection[str]) -> Mapping[str, Sequence[StepRecord]]:
        """All steps of these Jobs, by UID of the Job; none of a Job that the store lacks."""

    def prune(self, retention: Retention, now: datetime) -> int:
        """Delete ended Jobs that are too old, or the oldest ones above the row limit; return their number."""

    def close(self) -> None:
        """Close all connections."""
