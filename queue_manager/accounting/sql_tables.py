"""The tables of the history, in SQLAlchemy Core. `migrations` brings a database to this schema.

Times are UTC. SQLite stores them as text without an offset, PostgreSQL as timestamptz.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import BigInteger, Column, DateTime, Dialect, Float, Index, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """Column type of datetimes in UTC, also on databases that store no time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC."""
        return value.astimezone(UTC) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Add the zone that SQLite drops."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


metadata = MetaData()

jobs = Table(
    "sluice_jobs",
    metadata,
    Column("uid", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("submitted_at", UtcDateTime, nullable=False),
    Index("sluice_jobs_by_time", "submitted_at"),
    Index("sluice_jobs_by_name", "namespace", "name"),
)

steps = Table(
    "sluice_steps",
    metadata,
    Column("uid", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("occurrence", BigInteger, primary_key=True, autoincrement=False),
    Column("job_uid", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("cluster_queue", Text, nullable=False),
    Column("flavor", Text, nullable=False),
    Column("pods", Integer, nullable=False),
    Column("cpu_milli", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Index("sluice_steps_by_job", "job_uid"),
    Index("sluice_steps_by_time", "at"),
)

pods = Table(
    "sluice_pods",
    metadata,
    Column("uid", Text, primary_key=True),
    Column("job_uid", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("ended_at", UtcDateTime, nullable=False),
    Column("exit_code", Integer),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("restarts", Integer, nullable=False),
    Column("cpu_seconds", Float),
    Column("peak_memory_bytes", BigInteger),
    Index("sluice_pods_by_job", "job_uid"),
)
