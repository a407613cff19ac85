"""Cgroups (v2) of containers: the kernel enforces limits.memory and limits.cpu where Sluice may create cgroups.

Sluice may do so where a cgroup is delegated to it: its own cgroup has the memory controller, is writable, and
contains no process but Sluice (`systemd-run --user --scope -p Delegate=yes sluice up` starts it in such a one). An
older systemd delegates memory only; limits.cpu is then not enforced. A cgroup that distributes controllers may not
contain processes itself, so Sluice moves into a child:

    <own cgroup>/sluice-agent                          the agent, the supervisors and the writers of logs
    <own cgroup>/<pod uid>.<container>.<start>         the processes of one start of a container with limits

What is written there is what a kubelet writes: memory.max and memory.oom.group (a container out of memory is killed as
a whole), no swap, cpu.max per 100 ms. Containers outlive the agent in their cgroups, and keep their limits.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from queue_manager.local.agent.limit_fields import Limits
from queue_manager.local.agent.pod_files import RunFiles

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
AGENT = "sluice-agent"
CPU_PERIOD = 100_000  # microseconds, as a kubelet's cpuCFSQuotaPeriod
LEAST_CPU_QUOTA = 1_000  # microseconds; the kernel refuses less


class Cgroups:
    """The cgroups of containers below a cgroup delegated to Sluice (see `delegated`)."""

    def __init__(self, root: Path, *, limits_cpu: bool) -> None:
        """`limits_cpu`: whether the cpu controller is available."""
        self.limits_cpu = limits_cpu
        self._root = root
        self._ended: set[Path] = set()

    def create(self, run: RunFiles, limits: Limits) -> Path:
        """Create the cgroup of one start of a container with these limits and record its path. Raises OSError."""
        self._remove_ended()
        path = self._root / f"{run.pod}.{run.container.name}.{run.number}"
        path.mkdir(exist_ok=True)
        enforced = limits if self.limits_cpu else limits._replace(cpu=None)
        for file, value in settings(enforced).items():
            (path / file).write_text(value)
        run.cgroup.write_text(f"{path}\n")
        return path

    def end(self, path: Path) -> None:
        """Kill what still runs in a container's cgroup and remove it, now or when the processes are gone."""
        with contextlib.suppress(OSError):  # cgroup.kill needs Linux 5.14, the other files do not
            (path / "cgroup.kill").write_text("1")
        self._ended.add(path)
        self._remove_ended()

    def _remove_ended(self) -> None:
        for path in list(self._ended):
            with contextlib.suppress(OSError):
                path.rmdir()
            if not path.exists():
                self._ended.discard(path)


def settings(limits: Limits) -> dict[str, str]:
    """The cgroup files to write for these limits, with their content."""
    written: dict[str, str] = {}
    if limits.memory is not None:
        written |= {"memory.max": str(limits.memory), "memory.oom.group": "1", "memory.swap.max": "0"}
    if limits.cpu is not None:
        quota = max(LEAST_CPU_QUOTA, limits.cpu * CPU_PERIOD // 1000)
        written["cpu.max"] = f"{quota} {CPU_PERIOD}"
    return written


def was_oom_killed(path: Path) -> bool:
    """Whether the kernel's OOM killer killed a process of this cgroup. False if the cgroup is gone."""
    try:
        events = (path / "memory.events").read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in events)


def delegated(mount: Path = MOUNT, own: Path = OWN) -> Cgroups | None:
    """Move this process into a child cgroup; returns where it may create cgroups, None if it may create none."""
    root = _own_cgroup(mount, own)
    if root is None:
        return None
    try:
        controllers = {"cpu", "memory"}.intersection((root / "cgroup.controllers").read_text().split())
        if "memory" not in controllers or (root / "cgroup.procs").read_text().split() != [str(os.getpid())]:
            return None
        (root / AGENT).mkdir(exist_ok=True)
        (root / AGENT / "cgroup.procs").write_text(str(os.getpid()))
        (root / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))
    except OSError:
        return None
    return Cgroups(root, limits_cpu="cpu" in controllers)


def _own_cgroup(mount: Path, own: Path) -> Path | None:
    """The directory of this process's cgroup in the unified hierarchy, if it is writable."""
    try:
        path = next(line for line in own.read_text().splitlines() if line.startswith("0::")).removeprefix("0::")
    except (OSError, StopIteration):
        return None
    root = mount / path.lstrip("/")
    return root if os.access(root, os.W_OK) else None
