"""Alembic's environment: runs the migrations on the connection that `accounting.database` passes."""

from __future__ import annotations

from alembic import context

from queue_manager.accounting.sql_tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="sluice_schema_version",
)
with context.begin_transaction():
    context.run_migrations()
