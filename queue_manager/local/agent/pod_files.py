"""The files in which the agent keeps the state of pods; they survive a crash of the agent.

    <root>/<pod uid>/order.json            the node's decision to end the pod, with its reason (stop_order_file.py)
    <root>/<pod uid>/<container>/work      the working directory and HOME of the container
    <root>/<pod uid>/<container>/<n>.log   stdout and stderr of its n-th start (n counts restarts from 0)
    <root>/<pod uid>/<container>/<n>.err   the end of its stderr; absent without any
    <root>/<pod uid>/<container>/<n>.eof   the log is complete
    <root>/<pod uid>/<container>/<n>.idx   times at which the log had a given size (pod_logs.py)
    <root>/<pod uid>/<container>/<n>.pid   pid of the supervisor; its mtime is the start time
    <root>/<pod uid>/<container>/<n>.not   why its program could not be executed; its mtime is the time of the attempt
    <root>/<pod uid>/<container>/<n>.exit  exit code and a newline; its mtime is the finish time
    <root>/<pod uid>/<container>/<n>.end   SIGTERM was requested; its mtime is the time of the first request
    <root>/<pod uid>/<container>/<n>.oom   the container was, or is about to be, killed for exceeding its memory limit
    <root>/<pod uid>/<container>/<n>.cg    the path of its cgroup, if it has one
    <root>/<pod uid>/<container>/<n>.times CPU time of its processes, as the shell prints it
    <root>/<pod uid>/<container>/use       what its ended starts used (see resource_usage.py)

A file without its trailing newline is still being written and counts as absent.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of one start of one container."""

    container: Path
    number: int

    @property
    def base(self) -> str:
        """The common prefix of all paths; it also identifies the supervisor in its command line."""
        return f"{self.container}/{self.number}"

    @property
    def work(self) -> Path:
        """The working directory, shared by all starts of the container."""
        return self.container / "work"

    @property
    def log(self) -> Path:
        """stdout and stderr of the container."""
        return Path(self.base + ".log")

    @property
    def errors(self) -> Path:
        """The end of stderr, at most half a second old."""
        return Path(self.base + ".err")

    @property
    def eof(self) -> Path:
        """Exists once the log is complete."""
        return Path(self.base + ".eof")

    @property
    def index(self) -> Path:
        """The times at which the log had a given size."""
        return Path(self.base + ".idx")

    @property
    def pid(self) -> Path:
        """The pid of the supervisor; the mtime is the start time."""
        return Path(self.base + ".pid")

    @property
    def not_started(self) -> Path:
        """Why the program could not be executed; absent if it was."""
        return Path(self.base + ".not")

    @property
    def exit(self) -> Path:
        """The exit code; the mtime is the finish time."""
        return Path(self.base + ".exit")

    @property
    def end(self) -> Path:
        """Exists once SIGTERM was requested; the mtime is the time of the first request."""
        return Path(self.base + ".end")

    @property
    def oom(self) -> Path:
        """Exists if the container was, or is about to be, killed for exceeding its memory limit."""
        return Path(self.base + ".oom")

    @property
    def cgroup(self) -> Path:
        """The path of the container's cgroup; absent without a cgroup."""
        return Path(self.base + ".cg")

    @property
    def times(self) -> Path:
        """The CPU time of the processes, as the shell prints it."""
        return Path(self.base + ".times")

    @property
    def usage(self) -> Path:
        """The path of the file with the usage of all starts of the container."""
        return self.container / "use"

    @property
    def pod(self) -> str:
        """The uid of the pod."""
        return self.container.parent.name

    def read_cgroup(self) -> Path | None:
        """The path of the container's cgroup, which may no longer exist."""
        try:
            return Path(self.cgroup.read_text().rstrip("\n"))
        except FileNotFoundError:
            return None

    def read_pid(self) -> tuple[int, datetime] | None:
        """The supervisor's pid and the start time."""
        return _number_and_time(self.pid)

    def record_failed_start(self, message: str) -> None:
        """Record why the program could not be executed."""
        self.not_started.write_text(f"{message}\n")

    def read_failed_start(self) -> tuple[str, datetime] | None:
        """Why the program could not be executed, and when that was tried."""
        try:
            text, modified = self.not_started.read_text(), self.not_started.stat().st_mtime
        except FileNotFoundError:
            return None
        return (text[:-1], datetime.fromtimestamp(modified, UTC)) if text.endswith("\n") else None

    def was_interrupted(self) -> bool:
        """Whether the container was still running when SIGTERM was requested, or `reset` was called since."""
        if self.not_started.exists():
            return False
        asked, exited = _modified(self.end), _modified(self.exit)
        if asked is None:
            return not self.pid.exists()
        return exited is None or asked <= exited

    def reset(self) -> None:
        """Remove all traces of the start except its log, which the next start of the same number continues."""
        records = (self.exit, self.pid, self.not_started, self.end, self.oom, self.cgroup, self.times)
        for path in (self.errors, self.eof, *records):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all files of the start, the log included. The working directory stays."""
        self.reset()
        for path in (self.log, self.index):
            path.unlink(missing_ok=True)

    def read_exit(self) -> tuple[int, datetime] | None:
        """The exit code (128 + signal for a killed process) and the finish time; None while none is recorded."""
        return _number_and_time(self.exit)


class Layout:
    """Paths of the files of all pods in one data directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self) -> None:
        """Create the directory, readable by its owner only."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.root.chmod(0o700)

    def pods(self) -> Iterator[str]:
        """UIDs of all pods that have files here."""
        yield from sorted(path.name for path in self.root.iterdir() if path.is_dir()) if self.root.exists() else ()

    def pod(self, uid: str) -> Path:
        """The directory of a pod's files, which need not exist."""
        return self.root / uid

    def stop_order(self, uid: str) -> Path:
        """The path of the pod's order. It cannot collide with a container, whose name contains no dot."""
        return self.root / uid / "order.json"

    def run(self, uid: str, container: str, number: int) -> RunFiles:
        """The files of one start, which need not exist."""
        return RunFiles(self.root / uid / container, number)

    def create(self, uid: str, container: str) -> None:
        """Create the directories of a container, including its working directory."""
        path = f"{self.root}/{uid}"
        for part in ("", f"/{container}", "/work"):
            path += part
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)

    def runs(self, uid: str, container: str) -> list[RunFiles]:
        """The starts of a container so far, oldest first. A start counts once it has a pid or has failed."""
        directory = self.root / uid / container
        paths = (*directory.glob("*.pid"), *directory.glob("*.not"))
        numbers = sorted({int(path.stem) for path in paths if path.stem.isdecimal()})
        return [RunFiles(directory, number) for number in numbers]

    def all_runs(self, uid: str) -> list[RunFiles]:
        """All starts of all containers of a pod, by container and number."""
        directory = self.root / uid
        names = sorted(path.name for path in directory.iterdir()) if directory.exists() else []
        return [run for name in names for run in self.runs(uid, name)]

    def remove(self, uid: str) -> None:
        """Remove the files of a pod. Files that a process still writes to are left for the agent's next start."""
        shutil.rmtree(self.root / uid, ignore_errors=True)


def _modified(path: Path) -> int | None:
    """The mtime in nanoseconds; None if the file does not exist."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _number_and_time(path: Path) -> tuple[int, datetime] | None:
    try:
        text = path.read_bytes()
        modified = path.stat().st_mtime
    except FileNotFoundError:
        return None
    if not text.endswith(b"\n"):
        return None
    return int(text.split(b"\n", 1)[0]), datetime.fromtimestamp(modified, UTC)
