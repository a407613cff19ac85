"""Finds the process that runs a cluster from a data directory, for commands that are not that process.

The lock file (journal.py) contains the pid of the process that locked it last. After a crash or a restart of the
machine that pid may belong to any other process. So a pid counts only if its process has the lock file open.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from pathlib import Path

from queue_manager.local.storage.data_directory import LOCK

UNKNOWN_PID = 0
POLL_SECONDS = 0.1  # without pidfds


def lock_holder(directory: Path) -> int | None:
    """Return the pid of the process that runs a cluster from the directory; None if no process does.

    UNKNOWN_PID: a process has locked the directory, but it cannot be seen from here, as from outside a container.
    """
    path = directory / LOCK
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    pid = int(text) if text.isdigit() else UNKNOWN_PID
    if pid and has_open(pid, path):
        return pid
    return _holder_of_lock(path, pid)


def has_open(pid: int, path: Path) -> bool:
    """Whether the process has the file open; False if that cannot be seen."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
        file = path.stat()
    except OSError:
        return False
    for descriptor in descriptors:
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{descriptor}"), file):
                return True
    return False


def _holder_of_lock(path: Path, pid: int) -> int | None:
    """Try the lock itself. None if it is free; else `pid` on systems without /proc, and UNKNOWN_PID on others."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return UNKNOWN_PID if os.path.isdir("/proc/self/fd") else pid
    return None


def terminate(directory: Path, pid: int, seconds: float) -> bool:
    """Send SIGTERM to the process that runs the cluster, and wait; return whether it has ended within `seconds`.

    Raises PermissionError if the process belongs to another user.
    """
    if not hasattr(os, "pidfd_open"):
        return _terminate_polling(pid, seconds)
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if not has_open(pid, directory / LOCK):  # the pid was reused since it was read
            return True
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def _terminate_polling(pid: int, seconds: float) -> bool:
    """Terminate a process where pidfds do not exist, as on macOS."""
    deadline = time.monotonic() + seconds
    try:
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)  # no other way to wait for a process that is not a child
            os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
