"""The store of the history in SQLite, and which databases it opens."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from queue_manager.accounting.database import VERSION_TABLE, HistoryUnavailable, open_for_reading, open_for_writing
from queue_manager.accounting.history_sink_protocol import RecordsRefused
from queue_manager.accounting.history_store import open_store
from tests.unit.accounting import store_checks
from tests.unit.accounting.history_samples import pod


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'history.db'}"


@pytest.mark.parametrize("check", store_checks.ALL, ids=lambda check: check.__name__)
def test_what_holds_for_every_database_holds_for_sqlite(check: Callable[[str], None], url: str) -> None:
    check(url)


def test_only_the_owner_can_read_a_new_file(url: str, tmp_path: Path) -> None:
    open_store(url).close()
    assert stat.S_IMODE((tmp_path / "history.db").stat().st_mode) == 0o600


def test_a_migration_that_fails_leaves_nothing_behind(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW sluice_pods AS SELECT 1")  # the last table has this name
    with pytest.raises(HistoryUnavailable, match="sluice_pods already exists"):
        open_for_writing(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP VIEW sluice_pods")
        assert connection.exec_driver_sql("SELECT name FROM sqlite_master").all() == []
    open_for_writing(url).dispose()


def test_a_reader_creates_no_file(url: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryUnavailable, match="there is no history at"):
        open_for_reading(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("version", "text"), [("9999", "has schema 9999"), ("", "is not a history")])
def test_a_reader_refuses_another_schema(version: str, text: str, url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {VERSION_TABLE} (version_num TEXT)")
        if version:
            connection.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{version}')")
    engine.dispose()
    with pytest.raises(HistoryUnavailable, match=text):
        open_for_reading(url)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("mysql://host/db", "not in mysql"),
        ("history.db", "the URL of a history is"),
        ("sqlite:////no/such/folder/h.db", "No such file"),
    ],
)
def test_what_cannot_be_opened_is_said(url: str, text: str) -> None:
    with pytest.raises(HistoryUnavailable, match=text):
        open_for_writing(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@127.0.0.1:1/history", "postgresql://me:***@127.0.0.1:1/history: "),
        ("postgres://me@127.0.0.1:1/history?password=secret", "postgres://me@127.0.0.1:1/history: "),
        ("postgresql+psycopg://127.0.0.1:1/history", "postgresql+psycopg://127.0.0.1:1/history: "),
    ],
)
def test_an_unreachable_server_is_named_as_written_without_its_password(url: str, shown: str) -> None:
    with pytest.raises(HistoryUnavailable, match="refused") as refused:
        open_for_writing(url)
    assert str(refused.value).startswith(shown)
    assert "secret" not in str(refused.value)


def test_a_record_that_no_database_can_hold_is_refused_for_good(url: str) -> None:
    store = open_store(url)
    with pytest.raises(RecordsRefused):
        store.write([pod(peak_memory_bytes=1 << 80)])
    store.close()
