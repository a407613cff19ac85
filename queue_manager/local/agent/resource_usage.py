"""What the containers of a pod used: CPU time and peak memory, in annotations of the ended pod.

A container with a cgroup is measured by it, with all its processes. Else the kernel's account of the ended supervisor
is read (wait4): the CPU time of all its descendants that were waited for, and the peak of the largest one. The kernel
counts the memory of the process that started the supervisor, this one, into that peak; so it is known only if it is
larger than ours. A sample of the running container (proc_usage.py) counts where it is greater. Of a container that
an earlier agent started, whose parent is gone, the supervisor's own record of CPU time is read.

Each end of a container adds a line to the file `use` of the container, `<time of the exit> <cpu seconds> <peak bytes>`
with `-` for an unknown value: the time identifies it, if an agent is killed and the next one finds the same end again.
"""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from queue_manager.api.keys import CPU_SECONDS, PEAK_MEMORY
from queue_manager.local.agent.pod_files import RunFiles

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes per unit of ru_maxrss
_INEXACT = 8 << 20  # bytes by which the kernel's counters of one process can differ
_times = re.compile(r"(\d+)m([\d.]+)s").findall


class Usage(NamedTuple):
    """CPU time and peak memory; None: not known."""

    cpu_seconds: float | None = None
    peak_bytes: int | None = None

    def over(self, other: Usage) -> Usage:
        """Return these values, with those of `other` in place of unknown ones."""
        return Usage(
            other.cpu_seconds if self.cpu_seconds is None else self.cpu_seconds,
            other.peak_bytes if self.peak_bytes is None else self.peak_bytes,
        )

    def at_least(self, other: Usage) -> Usage:
        """Return the greater of both values, for CPU time and for memory; an unknown value counts as smaller."""
        return Usage(
            max((s for s in (self.cpu_seconds, other.cpu_seconds) if s is not None), default=None),
            max((b for b in (self.peak_bytes, other.peak_bytes) if b is not None), default=None),
        )


def own_peak() -> int:
    """The peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def of_child(account: resource.struct_rusage, starter_peak: int) -> Usage:
    """What a child process and its descendants used, from the kernel's account of the ended child.

    `starter_peak` is the peak memory of this process in bytes (`own_peak`), read just after it started the child. The
    kernel counts it into the peak of the child, which is therefore unknown (None) unless it is clearly larger.
    """
    peak = account.ru_maxrss * _RSS_UNIT
    return Usage(account.ru_utime + account.ru_stime, peak if peak > starter_peak + _INEXACT else None)


def of_cgroup(path: Path) -> Usage:
    """What the processes of a cgroup used, as far as its controllers count that; memory.peak needs Linux 5.19."""
    usage = re.search(r"^usage_usec (\d+)$", _text(path / "cpu.stat"), re.MULTILINE)
    peak = _text(path / "memory.peak").strip()
    return Usage(int(usage[1]) / 1e6 if usage else None, int(peak) if peak.isdecimal() else None)


def of_times(run: RunFiles) -> Usage:
    """The CPU time that the supervisor recorded of its descendants: the second line that the shell's `times` prints."""
    lines = _text(run.times).splitlines()
    parts = _times(lines[1]) if len(lines) > 1 else []
    return Usage(sum(int(minutes) * 60 + float(seconds) for minutes, seconds in parts) if parts else None)


def record(run: RunFiles, ended_at: float, usage: Usage) -> None:
    """Append the usage of a container that ended at `ended_at` to its file."""
    cpu = "-" if usage.cpu_seconds is None else f"{usage.cpu_seconds:.3f}"
    peak = "-" if usage.peak_bytes is None else str(usage.peak_bytes)
    with open(run.usage, "a") as file:
        file.write(f"{ended_at:.6f} {cpu} {peak}\n")


def pod_annotations(containers: Iterable[Path]) -> dict[str, str]:
    """The annotations of a pod, from the `use` files of its containers: the sums of CPU times and of peaks."""
    ends = [_ends(_text(path)) for path in containers]
    cpu = [end.cpu_seconds for of_one in ends for end in of_one if end.cpu_seconds is not None]
    peaks = [max(known) for of_one in ends if (known := [e.peak_bytes for e in of_one if e.peak_bytes is not None])]
    found = {CPU_SECONDS: f"{sum(cpu):.3f}"} if cpu else {}
    return found | ({PEAK_MEMORY: str(sum(peaks))} if peaks else {})


def _ends(text: str) -> list[Usage]:
    ends = {}
    for line in text.splitlines():
        at, cpu, peak = line.split(" ")
        ends[at] = Usage(None if cpu == "-" else float(cpu), None if peak == "-" else int(peak))
    return list(ends.values())


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
