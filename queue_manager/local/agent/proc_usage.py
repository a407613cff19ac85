"""Samples of what containers without a cgroup use, from /proc: CPU time and peak memory of their processes.

The kernel's account of an ended supervisor (resource_usage.py) has no memory of processes that are smaller than the
agent, and no CPU time of processes that were killed together with the supervisor. So running containers are sampled
(usage_sampler.py), and each once more immediately before it is killed. Without /proc a sample has no values.
"""

from __future__ import annotations

import re

from queue_manager.local.agent.proc_memory import proportional
from queue_manager.local.agent.proc_stat import GONE, TICKS_PER_SECOND, process_stat
from queue_manager.local.agent.resource_usage import Usage

_PEAK = re.compile(rb"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


def sample(supervisor: int) -> Usage:
    """The CPU time of a supervisor and its descendants, and the peak memory of those descendants."""
    processes = descendants(supervisor)
    ticks = sum(stat.ticks for pid in (supervisor, *processes) if (stat := process_stat(pid)) is not None)
    peaks = [_peak(pid) for pid in processes]
    together = sum(map(proportional, processes)) if len(processes) > 1 else 0
    return Usage(ticks / TICKS_PER_SECOND if ticks else None, max([together, *peaks]) or None)


def descendants(pid: int) -> list[int]:
    """The processes that descend from this one, without those whose parent has ended."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = [int(child) for child in _read(waiting.pop(), "children").split()]
        found += children
        waiting += children
    return found


def _peak(pid: int) -> int:
    """The peak of the resident bytes of a process; 0 if it is gone."""
    found = _PEAK.search(_read(pid, "status"))
    return int(found[1]) << 10 if found is not None else 0


def _read(pid: int, name: str) -> bytes:
    path = f"/proc/{pid}/task/{pid}/children" if name == "children" else f"/proc/{pid}/{name}"
    try:
        with open(path, "rb") as file:
            return file.read()
    except GONE:
        return b""
