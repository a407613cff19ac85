"""Reads the history from a database: the Jobs of a time span, each with its steps and pods."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Engine, Select, and_, select
from sqlalchemy.exc import SQLAlchemyError

from queue_manager.accounting.database import HistoryUnavailable, open_for_reading
from queue_manager.accounting.record_types import ENDS_OF_JOB, JobRecord, PodRecord, StepKind, StepRecord
from queue_manager.accounting.sql_tables import jobs, pods, steps


class HistoryFilter(NamedTuple):
    """Which Jobs are read: submitted before `until` and not ended before `since`. None and "" restrict nothing.

    `uid`: what the UID begins with, without % and _.
    """

    since: datetime | None = None
    until: datetime | None = None
    namespace: str = ""
    name: str = ""
    user: str = ""
    queue: str = ""
    uid: str = ""


class JobHistory(NamedTuple):
    """A Job with its steps and its ended pods, as the history stores them."""

    job: JobRecord
    steps: list[StepRecord]
    pods: list[PodRecord]


def read_history(url: str, wanted: HistoryFilter) -> list[JobHistory]:
    """The Jobs that `wanted` selects, in the order of their submission. Raises HistoryUnavailable."""
    engine = open_for_reading(url)
    try:
        return _read(engine, wanted)
    except SQLAlchemyError as error:
        raise HistoryUnavailable(f"the history cannot be read: {getattr(error, 'orig', None) or error}") from error
    finally:
        engine.dispose()


def has_jobs_of(url: str, *, queue: str = "", cluster_queue: str = "", namespace: str = "") -> bool:
    """Whether any Job was submitted to a LocalQueue, or admitted by a ClusterQueue. Raises HistoryUnavailable."""
    chosen = [jobs.c.queue == queue] if queue else []
    chosen += [jobs.c.namespace == namespace] if namespace else []
    admitted = select(steps.c.job_uid).where(steps.c.cluster_queue == cluster_queue)
    chosen += [jobs.c.uid.in_(admitted)] if cluster_queue else []
    engine = open_for_reading(url)
    try:
        with closing(engine.connect()) as connection:
            return connection.execute(select(jobs.c.uid).where(and_(True, *chosen)).limit(1)).first() is not None
    except SQLAlchemyError as error:
        raise HistoryUnavailable(f"the history cannot be read: {getattr(error, 'orig', None) or error}") from error
    finally:
        engine.dispose()


def _read(engine: Engine, wanted: HistoryFilter) -> list[JobHistory]:
    chosen = and_(True, *_conditions(wanted))
    uids = select(jobs.c.uid).where(chosen)
    with closing(engine.connect()) as connection:

        def rows(query: Select[Any]) -> Iterable[dict[str, Any]]:
            return (dict(row) for row in connection.execute(query).mappings())

        ordered = select(jobs).where(chosen).order_by(jobs.c.submitted_at, jobs.c.uid)
        found = {row["uid"]: JobHistory(JobRecord(**row), [], []) for row in rows(ordered)}
        for row in rows(select(steps).where(steps.c.job_uid.in_(uids))):
            if (history := found.get(row["job_uid"])) is not None:
                history.steps.append(StepRecord(**{**row, "kind": StepKind(row["kind"])}))
        for row in rows(select(pods).where(pods.c.job_uid.in_(uids))):
            if (history := found.get(row["job_uid"])) is not None:
                history.pods.append(PodRecord(**row))
    return list(found.values())


def _conditions(wanted: HistoryFilter) -> Iterable[ColumnElement[bool]]:
    if wanted.since is not None:
        ended = steps.c.kind.in_(ENDS_OF_JOB) & (steps.c.at < wanted.since)
        yield jobs.c.uid.not_in(select(steps.c.job_uid).where(ended))
    if wanted.until is not None:
        yield jobs.c.submitted_at < wanted.until
    if wanted.uid:
        yield jobs.c.uid.startswith(wanted.uid)
    for column, value in (
        (jobs.c.namespace, wanted.namespace),
        (jobs.c.name, wanted.name),
        (jobs.c.user, wanted.user),
        (jobs.c.queue, wanted.queue),
    ):
        if value:
            yield column == value
