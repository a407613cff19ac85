"""Writes the history: batches of records, and the deletion of what is too old or too much. It blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, exists, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, IntegrityError, NotSupportedError, ProgrammingError

from queue_manager.accounting import sql_tables
from queue_manager.accounting.database import open_for_writing
from queue_manager.accounting.history_retention import Retention
from queue_manager.accounting.history_sink_protocol import RecordsRefused
from queue_manager.accounting.record_types import (
    ENDS_OF_JOB,
    UNTRACED,
    JobRecord,
    PodRecord,
    Record,
    StepKind,
    StepRecord,
)

ORPHAN_AGE = timedelta(hours=1)  # a step can be written before its Job
ALL = (sql_tables.jobs, sql_tables.steps, sql_tables.pods)
ROWS_PER_JOB = 10  # assumed, so that few more Jobs are deleted than necessary
_ENDED = select(sql_tables.steps.c.job_uid).where(sql_tables.steps.c.kind.in_(ENDS_OF_JOB))
READ_JOBS = 500  # Jobs per query; SQLite limits the number of parameters
PRUNED_JOBS = 500  # Jobs per transaction, so that no deletion holds the database for long


class HistoryStore:
    """The history in one database; a HistorySink. Methods raise SQLAlchemyError."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def write(self, records: Sequence[Record]) -> None:
        """Add these records in one transaction; those that are stored already change nothing.

        Raises RecordsRefused.
        """
        try:
            self._write(records)
        except (DataError, IntegrityError, ProgrammingError, NotSupportedError, OverflowError) as error:
            raise RecordsRefused(str(error)) from error

    def _write(self, records: Sequence[Record]) -> None:
        with self._engine.begin() as connection:
            for table, kind in (
                (sql_tables.jobs, JobRecord),
                (sql_tables.steps, StepRecord),
                (sql_tables.pods, PodRecord),
            ):
                rows = [_row(record) for record in records if isinstance(record, kind)]
                if rows:
                    _insert_new(connection, table, rows)

    def unfinished(self) -> dict[str, JobRecord]:
        """The Jobs that have neither finished nor been deleted according to the history, by UID."""
        query = select(sql_tables.jobs).where(sql_tables.jobs.c.uid.not_in(_ENDED))
        with self._engine.connect() as connection:
            found = (JobRecord(**row) for row in connection.execute(query).mappings())
            return {job.uid: job for job in found}

    def untraced_steps(self) -> dict[str, list[StepRecord]]:
        """The steps of unfinished Jobs that leave no trace in an object (kinds UNTRACED), by UID of the Job."""
        steps = sql_tables.steps
        return self._by_job(steps.c.kind.in_(UNTRACED), steps.c.job_uid.not_in(_ENDED))

    def steps_of(self, job_uids: Collection[str]) -> dict[str, list[StepRecord]]:
        """All steps of these Jobs, by UID of the Job; none of a Job that the store lacks."""
        uids, found = sorted(job_uids), dict[str, list[StepRecord]]()
        for place in range(0, len(uids), READ_JOBS):
            found |= self._by_job(sql_tables.steps.c.job_uid.in_(uids[place : place + READ_JOBS]))
        return found

    def _by_job(self, *chosen: ColumnElement[bool]) -> dict[str, list[StepRecord]]:
        found: dict[str, list[StepRecord]] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(select(sql_tables.steps).where(*chosen)).mappings():
                step = StepRecord(**{**row, "kind": StepKind(row["kind"])})
                found.setdefault(step.job_uid, []).append(step)
        return found

    def prune(self, retention: Retention, now: datetime) -> int:
        """Delete ended Jobs that are too old, or the oldest ones above the number of rows to keep.

        Their steps and pods are deleted with them. Returns the number of deleted Jobs.
        """
        self._remove_orphans(now - ORPHAN_AGE)
        total = 0
        while uids := self._surplus(retention, now):
            with self._engine.begin() as connection:
                connection.execute(delete(sql_tables.pods).where(sql_tables.pods.c.job_uid.in_(uids)))
                connection.execute(delete(sql_tables.steps).where(sql_tables.steps.c.job_uid.in_(uids)))
                connection.execute(delete(sql_tables.jobs).where(sql_tables.jobs.c.uid.in_(uids)))
            total += len(uids)
        return total

    def _remove_orphans(self, before: datetime) -> None:
        """Delete steps and pods, older than `before`, whose Job is no longer in the history."""
        known = select(sql_tables.jobs.c.uid)
        with self._engine.begin() as connection:
            for table, at in ((sql_tables.steps, sql_tables.steps.c.at), (sql_tables.pods, sql_tables.pods.c.ended_at)):
                connection.execute(delete(table).where(at < before, table.c.job_uid.not_in(known)))

    def _surplus(self, retention: Retention, now: datetime) -> list[str]:
        """The oldest ended Jobs to delete, at most PRUNED_JOBS."""
        uid, submitted = sql_tables.jobs.c.uid, sql_tables.jobs.c.submitted_at
        steps = sql_tables.steps
        ended = exists().where(steps.c.job_uid == uid, steps.c.kind.in_(ENDS_OF_JOB))  # by its index, of few Jobs
        oldest = select(uid).where(ended).order_by(submitted, uid)
        with self._engine.connect() as connection:
            too_old = oldest.where(submitted < now - retention.max_age).limit(PRUNED_JOBS)
            if found := list(connection.scalars(too_old)):
                return found
            rows = sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in ALL)
            surplus = rows - retention.max_rows
            wanted = min(PRUNED_JOBS, max(1, surplus // ROWS_PER_JOB)) if surplus > 0 else 0
            return list(connection.scalars(oldest.limit(wanted)))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def open_store(url: str) -> HistoryStore:
    """Open the database for writing, at the newest schema. Raises HistoryUnavailable."""
    return HistoryStore(open_for_writing(url))


def _row(record: Record) -> dict[str, Any]:
    """A record as a row, without NUL characters: API messages may contain them, PostgreSQL rejects them."""
    values = msgspec.structs.asdict(record)
    return {name: value.replace("\0", "") if isinstance(value, str) else value for name, value in values.items()}


def _insert_new(connection: Connection, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(table).on_conflict_do_nothing(), list(rows))
