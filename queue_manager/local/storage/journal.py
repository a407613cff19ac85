"""The store's objects on disk: one SQLite file in WAL mode, and a lock so that one process owns it.

`commit` is one transaction. SQLite in WAL mode with synchronous=NORMAL survives the death of the process at any moment
(kill -9) without losing a commit; a power failure may lose the last commits but never leaves a partial one. The lock is
flock(2) on a file beside the database: the kernel releases it however the process ends. The lock file also shows
whether the directory still exists: SQLite would continue to write to a deleted file that no process can open again.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from queue_manager.local.storage import data_directory
from queue_manager.local.storage.store import JournalRow, JournalUnusable

SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (resource, key)
);
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 0), revision INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (0, 0);
"""
FORMAT = 1  # PRAGMA user_version
LOCK_SECONDS = 0.5  # to wait while another process has the database locked; blocks the event loop
# Errors at start that do not mean a damaged database.
SURROUNDINGS = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOMEM,
}  # fmt: skip

_UPSERT = "INSERT OR REPLACE INTO objects (resource, key, revision, data) VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM objects WHERE resource = ? AND key = ?"


class DataDirectoryInUse(Exception):
    """Another process owns the data directory; `pid` is 0 if its lock file names none."""

    def __init__(self, path: Path, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"{path} is in use by {who}")
        self.path = path
        self.pid = pid


class Journal:
    """The objects of one data directory. Create it with `Journal.open`."""

    def __init__(self, connection: sqlite3.Connection, lock: int, file: Path) -> None:
        self._connection = connection
        self._lock = lock
        self._file = file

    @classmethod
    def open(cls, directory: Path | str) -> Journal:
        """Open or create `<directory>/objects.db` (directory 0700, created if missing).

        Raises DataDirectoryInUse(pid) when another process has it open; JournalUnusable when it is damaged, belongs to
        another user, is writable by others or lacks its database; OSError when there is no space, no permission, or
        another process has locked the database.
        """
        path = Path(directory)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = path / data_directory.DATABASE
        data_directory.refuse_shared(path)
        data_directory.refuse_foreign_files(path)
        lock = _take_lock(path)
        connection: sqlite3.Connection | None = None
        try:
            data_directory.refuse_without_database(path)
            connection = sqlite3.connect(file, isolation_level=None, timeout=LOCK_SECONDS)
            _prepare(connection, path)
        except sqlite3.Error as error:
            _abandon(connection, lock)
            raise _with_file(file, error) from error
        except BaseException:
            _abandon(connection, lock)
            raise
        return cls(connection, lock, file)

    def load(self) -> tuple[int, Iterable[JournalRow]]:
        """Return the last revision and all objects. Raises as `open` does, also when damage is found while reading."""
        try:
            (revision,) = self._connection.execute("SELECT revision FROM counter").fetchone()
        except sqlite3.Error as error:
            raise _with_file(self._file, error) from error
        return revision, self._rows()

    def _rows(self) -> Iterator[JournalRow]:
        try:
            for row in self._connection.execute("SELECT resource, key, revision, data FROM objects"):
                yield JournalRow._make(row)
            # Reading all rows does not use the index: if it is damaged, only writes would fail.
            (verdict,) = self._connection.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.Error as error:
            raise _with_file(self._file, error) from error
        if verdict != "ok":
            raise JournalUnusable(f"{self._file} is damaged: {' '.join(verdict.split())}")

    def commit(self, revision: int, rows: list[JournalRow]) -> None:
        """Store either all rows or none of them. On return they survive a crash of the process. Raises OSError."""
        run = self._connection.execute
        if not self._is_there():
            raise OSError(f"{self._file.parent} was removed while a cluster runs from it: stop it and start it again")
        try:
            run("BEGIN IMMEDIATE")
            self._connection.executemany(_UPSERT, [row for row in rows if row.data is not None])
            gone = [(row.resource, row.key) for row in rows if row.data is None]
            if gone:
                self._connection.executemany(_DELETE, gone)
            run("UPDATE counter SET revision = ?", (revision,))
            run("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise OSError(f"cannot write the object database: {error}") from error

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(_lock_file(self._file.parent)), os.fstat(self._lock))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Release the database and the lock. May be called repeatedly."""
        if self._lock >= 0:
            self._connection.close()
            os.close(self._lock)
            self._lock = -1


def _lock_file(directory: Path) -> Path:
    return directory / data_directory.LOCK


def _take_lock(path: Path) -> int:
    """Return an open, locked file that contains the pid of this process."""
    lock = os.open(_lock_file(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        os.close(lock)
        raise DataDirectoryInUse(path, int(text) if text.isdigit() else 0) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _with_file(file: Path, error: sqlite3.Error) -> Exception:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in SURROUNDINGS:
        return OSError(f"{file}: {error}")
    return JournalUnusable(f"{file}: {error}")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    os.chmod(path / data_directory.DATABASE, 0o600)
    run = connection.execute
    run("PRAGMA journal_mode = WAL")
    run("PRAGMA synchronous = NORMAL")
    run("PRAGMA wal_autocheckpoint = 4000")
    run("PRAGMA journal_size_limit = 67108864")
    (version,) = run("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise JournalUnusable(
            f"{path / data_directory.DATABASE} was written by a newer version of sluice (format {version})"
        )
    connection.executescript(SCHEMA)
    run(f"PRAGMA user_version = {FORMAT}")


def _abandon(connection: sqlite3.Connection | None, lock: int) -> None:
    if connection is not None:
        connection.close()
    os.close(lock)
