"""Finding processes that left their container's process group (setsid), by a mark in their environment.

Every process of a pod carries SLUICE_POD_UID. A container that has ended took its group along; this finds the rest.
It is no sandbox: a process that also cleared its environment stays. Needs /proc; elsewhere it finds nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Collection

MARK = "SLUICE_POD_UID"
_PREFIX = f"{MARK}=".encode()
_DELAY_SECONDS = 0.5


def marked() -> dict[str, list[int]]:
    """Pids by the UID of the pod they belong to. Costs about 20 µs per process of the machine."""
    found: dict[str, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdecimal() and (uid := pod_of(int(name))):
            found.setdefault(uid, []).append(int(name))
    return found


def pod_of(pid: int) -> str:
    """The UID of the pod a process belongs to; empty if none, or if it is gone or someone else's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
    return next((v[len(_PREFIX) :].decode("ascii", "replace") for v in variables if v.startswith(_PREFIX)), "")


def kill(uids: Collection[str]) -> int:
    """SIGKILL every process of these pods; returns how many there were."""
    count = 0
    for uid, pids in marked().items():
        for pid in pids if uid in uids else ():
            count += _kill(pid, uid)
    return count


def _kill(pid: int, uid: str) -> bool:
    """Kill one process, but not another one that got its pid in the meantime."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if pod_of(pid) != uid:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return True
    finally:
        os.close(pidfd)


class Sweeper:
    """Sweeps behind pods that have ended. Requests of half a second share one walk through /proc."""

    def __init__(self) -> None:
        self._uids: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def request(self, uid: str) -> None:
        """No container of this pod runs any more: what still carries its mark must go."""
        self._uids.add(uid)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def finish(self) -> None:
        """Sweep what was requested, now."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._sweep()

    async def _run(self) -> None:
        while self._uids:
            await asyncio.sleep(_DELAY_SECONDS)
            await self._sweep()

    async def _sweep(self) -> None:
        uids, self._uids = self._uids, set()
        if uids:
            await asyncio.to_thread(kill, uids)
