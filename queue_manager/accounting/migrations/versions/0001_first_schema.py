"""Jobs, their steps and their pods.

A migration states its schema itself and never uses `sql_tables`, which describes the newest one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "sluice_jobs",
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("submitted_at", TIME, nullable=False),
    )
    op.create_index("sluice_jobs_by_time", "sluice_jobs", ["submitted_at"])
    op.create_index("sluice_jobs_by_name", "sluice_jobs", ["namespace", "name"])
    op.create_table(
        "sluice_steps",
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("occurrence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("job_uid", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("cluster_queue", sa.Text, nullable=False),
        sa.Column("flavor", sa.Text, nullable=False),
        sa.Column("pods", sa.Integer, nullable=False),
        sa.Column("cpu_milli", sa.BigInteger, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False),
    )
    op.create_index("sluice_steps_by_job", "sluice_steps", ["job_uid"])
    op.create_index("sluice_steps_by_time", "sluice_steps", ["at"])
    op.create_table(
        "sluice_pods",
        sa.Column("uid", sa.Text, primary_key=True),
        sa.Column("job_uid", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("ended_at", TIME, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("restarts", sa.Integer, nullable=False),
        sa.Column("cpu_seconds", sa.Float),
        sa.Column("peak_memory_bytes", sa.BigInteger),
    )
    op.create_index("sluice_pods_by_job", "sluice_pods", ["job_uid"])


def downgrade() -> None:
    """Drop all tables."""
    for table in ("sluice_pods", "sluice_steps", "sluice_jobs"):
        op.drop_table(table)
