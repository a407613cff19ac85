"""Memory use of the processes of pods, from /proc.

Reading the details of a process is expensive, so the resident sizes are summed first. A resident size counts shared
pages in full, so the sum is never below the real use, and a sum within the limit needs no further reads. Otherwise
shared pages are divided among the processes that share them (Pss), as a cgroup is charged for them once.

Processes are found by their mark (escaped_processes.py), whatever their process group or session; those still in the
session of their container are counted for that container. Without /proc nothing is found and no pod is evicted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from queue_manager.local.agent.escaped_processes import marked
from queue_manager.local.agent.proc_stat import GONE, process_stat

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Limit(NamedTuple):
    """A limit in bytes on the memory of some pods. Exact sizes, which are expensive, are read only above it."""

    pods: Collection[str]
    max_bytes: int


Sizes = dict[str, dict[int, int]]  # uid of a pod -> session -> bytes


def proportional(pid: int) -> int:
    """Resident bytes with shared pages divided among their users (Pss); all resident bytes if Pss is not available."""
    return _rollup(pid, "Pss") or resident(pid)


def unreclaimable(pid: int) -> int:
    """Bytes of the process that the kernel cannot reclaim: anonymous and shared memory, without mapped files."""
    return _rollup(pid, "Pss_Anon", "Pss_Shmem") or _anonymous(pid)


def over_limit(
    limits: Mapping[str, Limit], root: Path, measure: Callable[[int], int] = proportional
) -> dict[str, Sizes]:
    """Memory use of the pods that may exceed one of the limits, by the name of the limit.

    `root` is the root of the pods' files. Takes about 30 µs per process of the machine.
    """
    processes = marked(root)
    found: dict[str, Sizes] = {}
    for name, limit in limits.items():
        pids = {uid: processes[uid] for uid in limit.pods if uid in processes}
        if sum(resident(pid) for pids_of in pids.values() for pid in pids_of) > limit.max_bytes:
            found[name] = {uid: _by_session(pids_of, measure) for uid, pids_of in pids.items()}
    return found


def by_container(sizes: Mapping[int, int], sessions: Mapping[int, str]) -> dict[str, int]:
    """Bytes by container of a pod. `sessions`: the running containers by the session each was started in.

    A process outside the sessions of all containers is counted only if the pod has a single running container.
    """
    only = next(iter(sessions.values())) if len(sessions) == 1 else ""
    used = dict.fromkeys(sessions.values(), 0)
    for session, size in sizes.items():
        name = sessions.get(session, only)
        if name in used:
            used[name] += size
    return used


def _by_session(pids: Collection[int], measure: Callable[[int], int]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for pid in pids:
        stat = process_stat(pid)
        if stat is not None:
            sizes[stat.session] = sizes.get(stat.session, 0) + measure(pid)
    return sizes


def resident(pid: int) -> int:
    """Resident bytes, shared ones in full; 0 for a process that is gone."""
    return _statm(pid)[1] * PAGE_BYTES


def _anonymous(pid: int) -> int:
    _, pages, shared = _statm(pid)
    return (pages - shared) * PAGE_BYTES


def _statm(pid: int) -> tuple[int, int, int]:
    """Pages of a process: total size, resident, and resident pages shared with files."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            size, pages, shared = map(int, file.read().split()[:3])
            return size, pages, shared
    except (*GONE, ValueError):
        return 0, 0, 0


def _rollup(pid: int, *names: str) -> int:
    """The sum of the named fields of smaps_rollup, in bytes; 0 if the process is gone or the file is missing."""
    wanted = [f"{name}:".encode() for name in names]
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.split()[0] in wanted)
    except GONE:
        return 0
