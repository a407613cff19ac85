"""Finds and kills processes that left their container's process group (setsid), by a mark in their environment.

Every process of a pod carries SLUICE_POD_UID. The supervisor kills the process group of an ended container; the sweep
kills the remaining processes. It is not a sandbox: a process that also cleared its environment is not found. Without
/proc nothing is found.

The UID does not identify the cluster: a copy of a data directory has the same pods. So a process also carries the
directory of its pod. If that directory exists and is not the pod's directory here (under any path), the process belongs
to another cluster. If it does not exist, the data directory was moved, and the process is treated as one of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from queue_manager.local.agent.proc_stat import GONE, process_stat
from queue_manager.local.agent.supervisor import container_command

MARK = "SLUICE_POD_UID"
PLACE = "SLUICE_POD_DIR"
END_SECONDS = 5.0  # for killed processes to end, on a busy machine
_DELAY_SECONDS = 0.5


class Mark(NamedTuple):
    """The pod that a process belongs to, and the pod's directory; empty for a process started by an older version."""

    uid: str
    place: str = ""

    def belongs_to(self, root: Path | None) -> bool:
        """Whether the pod's directory is in `root`, or is unknown or gone. True without a root."""
        if root is None or self.place in ("", own := f"{root}/{self.uid}"):
            return True
        try:
            return os.path.samefile(self.place, own)
        except OSError:
            return not os.path.exists(self.place)


class LeftoverProcess(NamedTuple):
    """A process whose cluster directory is gone, so that no agent will end it."""

    started: float  # seconds since boot
    pid: int
    command: str

    def age(self) -> float:
        """Seconds since the process was started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.started


def marked(root: Path | None = None) -> dict[str, list[int]]:
    """Pids by the UID of their pod, for the pods in `root`; without a root for all pods of the machine.

    Costs about 20 µs per process of the machine.
    """
    found: dict[str, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdecimal() and (mark := mark_of(int(name))) and mark.belongs_to(root):
            found.setdefault(mark.uid, []).append(int(name))
    return found


def leftover_processes(root: Path) -> dict[Path, list[LeftoverProcess]]:
    """Processes of pods whose cluster directory is gone, by that directory, oldest first.

    Those of `root` are left out. The processes are reported and not killed: the directory may have been moved, or may
    be inside a container.
    """
    found: dict[Path, list[LeftoverProcess]] = {}
    for pid in (pid for pids in marked().values() for pid in pids):
        mark, stat = mark_of(pid), process_stat(pid)
        if mark is None or stat is None or not mark.place:
            continue
        if not os.path.exists(mark.place) and not (root / mark.uid).exists():
            process = LeftoverProcess(stat.started, pid, " ".join(container_command(pid)).strip())
            found.setdefault(Path(mark.place).parents[1], []).append(process)
    return {folder: sorted(processes) for folder, processes in found.items()}


def mark_of(pid: int) -> Mark | None:
    """The mark of a process; None if it belongs to no pod, is gone, or belongs to another user."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except GONE:
        return None
    uid = _value(variables, MARK).decode("ascii", "replace")
    return Mark(uid, os.fsdecode(_value(variables, PLACE))) if uid else None


def _value(variables: list[bytes], name: str) -> bytes:
    prefix = f"{name}=".encode()
    return next((variable[len(prefix) :] for variable in variables if variable.startswith(prefix)), b"")


def kill(uids: Collection[str], root: Path | None = None) -> int:
    """Send SIGKILL to every process of these pods, whose directories are in `root`; return their number at once."""
    return _kill_once(uids, root, seconds=0.0)


def end(uids: Collection[str], root: Path | None = None, *, seconds: float = END_SECONDS) -> int:
    """Kill every process of these pods in `root`; returns the number of processes, once they have ended.

    A process may start another one after the walk through /proc, so the walk is repeated until it finds none. A process
    that has not ended after `seconds`, for example in a system call that cannot be interrupted, is left.
    """
    count, deadline = 0, time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and (killed := _kill_once(uids, root, seconds=left)):
        count += killed
    return count


def _kill_once(uids: Collection[str], root: Path | None, *, seconds: float) -> int:
    """Kill what one walk through /proc finds, and wait for its end, at most `seconds`; returns how many were killed."""
    found = [(pid, uid) for uid, pids in marked(root).items() if uid in uids for pid in pids]
    killed = [pidfd for pid, uid in found if (pidfd := _kill(pid, uid, root)) is not None]
    try:
        _wait(killed, seconds)
    finally:
        for pidfd in killed:
            os.close(pidfd)
    return len(killed)


def _kill(pid: int, uid: str, root: Path | None) -> int | None:
    """Kill one process if it still has the pod's mark: its pid may have been reused. Returns its pidfd, else None."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    mark = mark_of(pid)
    if mark is None or mark.uid != uid or not mark.belongs_to(root):
        os.close(pidfd)
        return None
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    return pidfd


def _wait(pidfds: Collection[int], seconds: float) -> None:
    """Wait until these processes have ended, at most so many seconds."""
    running, deadline = select.poll(), time.monotonic() + seconds
    for pidfd in pidfds:
        running.register(pidfd, select.POLLIN)
    count = len(pidfds)
    while count and (left := deadline - time.monotonic()) > 0:
        for pidfd, _ in running.poll(1000 * left):
            running.unregister(pidfd)
            count -= 1


class Sweeper:
    """Kills the remaining processes of ended pods. Requests within half a second share one walk through /proc."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._uids: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._sweeps: set[asyncio.Task[int]] = set()  # in threads, which cannot be cancelled

    def request(self, uid: str) -> None:
        """Kill the remaining processes of a pod none of whose containers runs any more."""
        self._uids.add(uid)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def finish(self) -> None:
        """Sweep the requested pods now; returns when no process of theirs is left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._sweep()
        await asyncio.gather(*self._sweeps)

    async def _run(self) -> None:
        while self._uids:
            await asyncio.sleep(_DELAY_SECONDS)
            await self._sweep()

    async def _sweep(self) -> None:
        uids, self._uids = self._uids, set()
        if uids:
            sweep = asyncio.create_task(asyncio.to_thread(end, uids, self._root))
            self._sweeps.add(sweep)
            sweep.add_done_callback(self._sweeps.discard)
            await asyncio.shield(sweep)
