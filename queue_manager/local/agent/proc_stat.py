"""The line that /proc/PID/stat has about a process. Source: proc_pid_stat(5), whose numbers of fields begin with 1."""

from __future__ import annotations

import os
from typing import NamedTuple

GONE = (FileNotFoundError, ProcessLookupError, PermissionError)  # of a file in /proc/PID
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
ZOMBIE = "Z"


class ProcessStat(NamedTuple):
    """What is read of the line. `ticks`: CPU time of the process and of the children that it has waited for."""

    state: str
    session: int
    ticks: int
    started: float  # seconds since boot


def process_stat(pid: int) -> ProcessStat | None:
    """The line of a process; None if it is gone, and without /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # from field 3: the name before may have any characters
    except GONE:
        return None
    if not fields:
        return None
    ticks = sum(map(int, fields[11:15]))
    return ProcessStat(fields[0].decode(), int(fields[3]), ticks, int(fields[19]) / TICKS_PER_SECOND)
