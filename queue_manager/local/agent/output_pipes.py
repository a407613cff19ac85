"""Gives the pipes of a container's output to the process that writes them to its log (`output_keeper`)."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from queue_manager.local.agent import output_keeper
from queue_manager.local.agent.pod_files import RunFiles
from queue_manager.local.agent.session_process import start_session

log = logging.getLogger(__name__)

_IN_MODIFY = 2
_EVENTS = 3  # the descriptor in the keeper


class WriteEnds(NamedTuple):
    """File descriptors of standard output and standard error of a container that is being started."""

    out: int
    err: int


def _named_pipe(path: str) -> tuple[int, int]:
    """The read and the write end of a pipe. inotify reports writes only to one that has, or had, a name."""
    try:
        os.mkfifo(path, 0o600)
    except OSError:  # a file system without named pipes
        return os.pipe()
    try:
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            writing = os.open(path, os.O_WRONLY)
        except OSError:
            os.close(reading)
            raise
    finally:
        os.unlink(path)
    return reading, writing


class _Keeper:
    """A running keeper."""

    def __init__(self) -> None:
        """Raises OSError when no process can be started."""
        self._events = _Events()
        self._socket, its_end = socket.socketpair()
        with its_end:
            files: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_DUP2, its_end.fileno(), 0)]
            files += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
            command = [sys.executable, "-I", "-S", output_keeper.__file__]
            if self._events.fd is not None:
                files.append((os.POSIX_SPAWN_DUP2, self._events.fd, _EVENTS))
                command.append(str(_EVENTS))
            try:
                self._pid = start_session(command, {}, files)
            except OSError:
                self.close()
                raise

    def give(self, base: str, out: int, err: int) -> None:
        """Let it read the pipes of one start of a container. Raises ConnectionError if it has died."""
        text = f"{self._events.watch(out)} {self._events.watch(err)} {base}"
        socket.send_fds(self._socket, [os.fsencode(text) + output_keeper.END], [out, err])

    def reap(self) -> None:
        """Reap it after its death."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def close(self) -> None:
        """Close the connection. It ends when the containers that it knows have ended."""
        self._socket.close()
        self._events.close()


class _Events:
    """Writes to pipes as events of inotify, which the keeper reads. Without inotify nothing is reported."""

    def __init__(self) -> None:
        self._c = ctypes.CDLL(None)
        fd = self._c.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(self._c, "inotify_init1") else -1
        self.fd: int | None = fd if fd >= 0 else None

    def watch(self, pipe: int) -> int:
        """Report writes to this pipe. Returns the number that its events have; -1: there will be none."""
        return self._c.inotify_add_watch(self.fd, b"/dev/fd/%d" % pipe, _IN_MODIFY) if self.fd is not None else -1

    def close(self) -> None:
        """Close it in this process; the keeper still reads it."""
        if self.fd is not None:
            os.close(self.fd)


class OutputPipes:
    """Starts the keeper with the first container, and again if it has died. It outlives this process."""

    def __init__(self) -> None:
        self._keeper: _Keeper | None = None

    @contextmanager
    def of(self, run: RunFiles) -> Iterator[WriteEnds]:
        """The write ends for one start of a container; they are closed here afterwards. Raises OSError."""
        run.eof.unlink(missing_ok=True)
        run.errors.unlink(missing_ok=True)
        os.close(os.open(run.log, os.O_WRONLY | os.O_CREAT, 0o600))
        with contextlib.ExitStack() as stack:
            ends = []
            for name in WriteEnds._fields:
                pipe = _named_pipe(f"{run.base}.{name}.pipe")
                for fd in pipe:
                    stack.callback(os.close, fd)
                ends.append(pipe)
            (reading_out, out), (reading_err, err) = ends
            self._give(run.base, reading_out, reading_err)
            yield WriteEnds(out, err)

    def close(self) -> None:
        """Release the keeper, which ends when the containers that it knows have ended."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _give(self, base: str, out: int, err: int) -> None:
        self._keeper = self._keeper or _Keeper()
        try:
            self._keeper.give(base, out, err)
        except ConnectionError:
            log.error("the process that wrote the logs of the containers has died: those that run get SIGPIPE")
            self._keeper.reap()
            self.close()
            self._keeper = _Keeper()
            self._keeper.give(base, out, err)
