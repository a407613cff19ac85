"""Opens the database of the history: SQLite or PostgreSQL, by URL, at the schema of this version.

A writer migrates the database (Alembic). A reader refuses one of another schema, and never creates one.
"""

from __future__ import annotations

import os
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
PASSWORDS = ("password", "sslpassword")  # parameters of a PostgreSQL URL
VERSION_TABLE = "sluice_schema_version"
CONNECT_SECONDS = 5  # to PostgreSQL; also how long SQLite waits for another writer
MIGRATIONS_LOCK = 0x51_1C_E0  # advisory lock of PostgreSQL: two managers that start do not migrate at once


class HistoryUnavailable(Exception):
    """The database cannot be opened, or has another schema; the text says why, without a password."""


class NoHistoryUrl(HistoryUnavailable):
    """The URL is not of a kind of database that can store the history."""


def open_for_writing(url: str) -> Engine:
    """Open the database and migrate it; a file of SQLite is created, readable by its owner only.

    Raises HistoryUnavailable.
    """
    target = _parsed(url)
    engine = _engine(target)
    try:
        if target.get_backend_name() == "sqlite" and target.database:
            os.close(os.open(target.database, os.O_RDWR | os.O_CREAT, 0o600))
        _migrate(engine)
    except (SQLAlchemyError, OSError) as error:
        engine.dispose()
        raise _unavailable(target, error) from error
    return engine


def open_for_reading(url: str) -> Engine:
    """Open a database that a writer has prepared. Raises HistoryUnavailable."""
    target = _parsed(url)
    if target.get_backend_name() == "sqlite" and not Path(target.database or "").is_file():
        raise HistoryUnavailable(f"there is no history at {target.database}")
    engine = _engine(target)
    try:
        found = _revision(engine)
    except (SQLAlchemyError, OSError) as error:
        engine.dispose()
        raise _unavailable(target, error) from error
    if found != (wanted := _scripts().get_current_head()):
        engine.dispose()
        text = f"has schema {found}" if found else "is not a history"
        raise HistoryUnavailable(f"{_shown(target)} {text}, this version of sluice reads schema {wanted}")
    return engine


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise NoHistoryUrl("the URL of a history is sqlite:///PATH or postgresql://HOST/DATABASE") from error
    backend = parsed.drivername.partition("+")[0]
    if backend not in DRIVERS:
        raise NoHistoryUrl(f"a history is in sqlite:///PATH or postgresql://HOST/DATABASE, not in {backend}")
    return parsed


def _engine(url: URL) -> Engine:
    is_sqlite = url.get_backend_name() == "sqlite"
    url = url.set(drivername=DRIVERS[url.get_backend_name()])
    limits = {"timeout": CONNECT_SECONDS} if is_sqlite else {"connect_timeout": CONNECT_SECONDS}
    try:
        engine = create_engine(url, connect_args=limits, pool_pre_ping=not is_sqlite)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise HistoryUnavailable("PostgreSQL needs its driver: pip install 'sluice[postgresql]'") from error
    if is_sqlite:
        event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    """Turn on WAL: readers and writer do not block each other, a machine crash may lose the last writes."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _migrate(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATIONS_LOCK})")
        else:  # the driver begins none before DDL, and with half a schema no later start could open the database
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return context.get_current_revision()


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent / "migrations"))


def shown_url(url: str) -> str:
    """The URL as it was written, without its password. Raises HistoryUnavailable for one that names no store."""
    return _shown(_parsed(url))


def _shown(url: URL) -> str:
    return url.difference_update_query(PASSWORDS).render_as_string(hide_password=True)


def _unavailable(url: URL, error: Exception) -> HistoryUnavailable:
    cause = getattr(error, "orig", None) or error
    return HistoryUnavailable(f"{_shown(url)}: {' '.join(str(cause).split())}")
