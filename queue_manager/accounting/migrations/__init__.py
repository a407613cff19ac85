"""Migrations of the history's database, run by Alembic when a writer opens it."""
