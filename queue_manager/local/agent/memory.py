"""How much memory the processes of pods use, from /proc.

Looking at every page of a process is dear, so it is done only where it matters. The resident size of a process counts
what it shares with others in full, so the sum over a node's pods is at least what they use: while that leaves enough,
all is well. Otherwise shared pages are divided among those who share them (Pss), as a cgroup is charged for them once.

Processes are found by their mark (sweep.py), whatever group or session they are in; those that are still in the
session of their container are counted for it. Where there is no /proc nothing is found, and nobody is evicted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from queue_manager.local.agent.sweep import marked

PAGE = os.sysconf("SC_PAGE_SIZE")
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


class Limit(NamedTuple):
    """A node's pods, and how many bytes they may use together before somebody has to look closely."""

    pods: Collection[str]
    most: int


Sizes = dict[str, dict[int, int]]  # uid of a pod -> session -> bytes


def over_limit(nodes: Mapping[str, Limit], root: Path) -> dict[str, Sizes]:
    """What the pods of those nodes use that may be over their limit; `root` is where they live.

    Takes about 30 µs per process of the machine.
    """
    processes = marked(root)
    found: dict[str, Sizes] = {}
    for name, limit in nodes.items():
        pids = {uid: processes[uid] for uid in limit.pods if uid in processes}
        if sum(resident(pid) for pids_of in pids.values() for pid in pids_of) > limit.most:
            found[name] = {uid: _by_session(pids_of) for uid, pids_of in pids.items()}
    return found


def _by_session(pids: Collection[int]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for pid in pids:
        session = session_of(pid)
        sizes[session] = sizes.get(session, 0) + proportional(pid)
    return sizes


def resident(pid: int) -> int:
    """Bytes in memory, shared ones in full; 0 for a process that is gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE
    except GONE:
        return 0


def proportional(pid: int) -> int:
    """Bytes in memory, shared ones in part. Some kernels do not say; then all of them."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss:"))
    except (*GONE, StopIteration):
        return resident(pid)


def session_of(pid: int) -> int:
    """The session of a process; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[3])
    except (*GONE, IndexError):
        return 0
