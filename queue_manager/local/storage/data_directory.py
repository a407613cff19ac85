"""The data directory of a local cluster: what it holds, and when a cluster must not be started from it.

Jobs run as whoever starts the cluster, with the rights of that user on this machine. So the files that say which Jobs
there are must be that user's own, and nobody else may be able to replace them. Each function raises JournalUnusable.

    objects.db       the objects (journal.py), with -wal and -shm beside it while it is open
    lock             held while a cluster runs
    pods             the folder of the node agent (agent/layout.py)
    kubeconfig       with the token of the API server (kubeconfig_file.py)
    serving.pem      key and certificate of the API server (certificates.py)
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
ALL = (DATABASE, WRITE_AHEAD_LOG, SHARED_MEMORY, LOCK, PODS, KUBECONFIG, CERTIFICATE)
WITH_A_DATABASE = (PODS, WRITE_AHEAD_LOG, KUBECONFIG, CERTIFICATE)  # nothing of it is written before the database
SMALLEST_DATABASE = 512  # bytes: no page of SQLite is smaller


def refuse_shared(directory: Path) -> None:
    """A directory in which others may put a database of theirs: their Jobs would run as this user."""
    status = directory.stat()
    if status.st_mode & stat.S_IWOTH:
        raise JournalUnusable(f"{directory} can be written by everybody: chmod go-w {directory}")
    if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid):
        group = _group_name(status.st_gid)
        raise JournalUnusable(f"{directory} can be written by the group {group}: chmod go-w {directory}")


def refuse_strangers(directory: Path) -> None:
    """A directory that belongs to another user, or has a part that does."""
    for path in (directory, *(directory / name for name in ALL)):
        owner = path.stat().st_uid if path.exists() else os.geteuid()
        if owner != os.geteuid():
            raise JournalUnusable(
                f"{path} belongs to user {_user_name(owner)}, and its Jobs would run as {_user_name(os.geteuid())}"
            )


def refuse_without_database(directory: Path) -> None:
    """A directory whose database is missing or empty, while parts of the cluster that it had are there.

    The cluster would begin anew, and end the processes of pods that it does not know; SQLite takes an empty file for a
    new database, and throws its write-ahead log away. A first start that was killed may leave an empty database, but
    nothing beside it yet; an empty folder for pods is no part of a cluster.
    """
    database = directory / DATABASE
    if database.exists() and database.stat().st_size >= SMALLEST_DATABASE:
        return
    left = [path for name in WITH_A_DATABASE if _holds_something(path := directory / name)]
    if left:
        state = "empty" if database.exists() else "missing"
        raise JournalUnusable(
            f"{database} is {state}, but {left[0]} is there: put the database back, or remove {directory} to begin anew"
        )


def _holds_something(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))


def _is_private_group(gid: int) -> bool:
    """Whether this user is the only member of the group, as with the group that many systems make for each user."""
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
