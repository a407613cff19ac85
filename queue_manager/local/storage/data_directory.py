"""The data directory of a local cluster: its files, and the checks before a cluster starts from it.

Jobs run with the rights of the user who starts the cluster. So the files that define the Jobs must belong to that user,
and no other user may be able to replace them. Each function raises JournalUnusable.

    objects.db       the objects (journal.py), with -wal and -shm beside it while it is open
    lock             held while a cluster runs
    pods             the folder of the node agent (agent/pod_files.py)
    kubeconfig       with the token of the API server (kubeconfig_file.py)
    serving.pem      key and certificate of the API server (local/loopback_certificate.py)
    history.db       what happened to each Job (queue_manager/accounting), with -wal and -shm beside it
    up.log           the output of a cluster that runs in the background
    last-stop        what the last stop did to running Jobs, one sentence per line
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from queue_manager.local.storage.store import JournalUnusable

DATABASE = "objects.db"
WRITE_AHEAD_LOG = f"{DATABASE}-wal"
SHARED_MEMORY = f"{DATABASE}-shm"
LOCK = "lock"
PODS = "pods"
KUBECONFIG = "kubeconfig"
CERTIFICATE = "serving.pem"
HISTORY = "history.db"
HISTORY_FILES = (HISTORY, f"{HISTORY}-wal", f"{HISTORY}-shm")
UP_LOG = "up.log"
OLD_UP_LOG = "up.log.1"
LAST_STOP = "last-stop"
ALL = (
    DATABASE, WRITE_AHEAD_LOG, SHARED_MEMORY, LOCK, PODS, KUBECONFIG, CERTIFICATE, UP_LOG, OLD_UP_LOG, LAST_STOP,
    *HISTORY_FILES,
)  # fmt: skip
WITH_A_DATABASE = (PODS, WRITE_AHEAD_LOG, KUBECONFIG, CERTIFICATE)  # all of these are written after the database
SMALLEST_DATABASE = 512  # bytes: the smallest page of SQLite


def refuse_shared(directory: Path) -> None:
    """Reject a directory that other users can write to: they could add Jobs that run as this user."""
    status = directory.stat()
    if status.st_mode & stat.S_IWOTH:
        raise JournalUnusable(f"{directory} is writable by all users: chmod go-w {directory}")
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid):
        group = _group_name(status.st_gid)
        raise JournalUnusable(f"{directory} can be written by the group {group}: chmod go-w {directory}")


def refuse_foreign_files(directory: Path) -> None:
    """Reject a directory if it, or a file of the cluster in it, belongs to another user."""
    for path in (directory, *(directory / name for name in ALL)):
        owner = path.stat().st_uid if path.exists() else os.geteuid()
        if owner != os.geteuid():
            raise JournalUnusable(
                f"{path} belongs to user {_user_name(owner)}, and its Jobs would run as {_user_name(os.geteuid())}"
            )


def refuse_without_database(directory: Path) -> None:
    """Reject a directory whose database is missing or empty although other files of a cluster exist.

    The cluster would start empty and kill the processes of pods that it does not know, and SQLite would take an empty
    file for a new database and discard its write-ahead log. A first start that was killed may leave an empty database,
    but no other files; an empty pods folder does not count.
    """
    database = directory / DATABASE
    if database.exists() and database.stat().st_size >= SMALLEST_DATABASE:
        return
    left = [path for name in WITH_A_DATABASE if _holds_something(path := directory / name)]
    if left:
        state = "empty" if database.exists() else "missing"
        raise JournalUnusable(
            f"{database} is {state}, but {left[0]} is there: restore the database, or remove {directory} to start over"
        )


def _holds_something(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _is_private_group(gid: int) -> bool:
    """Return whether this user is the only member of the group, such as a user private group."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return (gid, group.gr_name) == (user.pw_gid, user.pw_name) and {*group.gr_mem} <= {user.pw_name}


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
