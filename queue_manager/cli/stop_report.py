"""Sentences about running Jobs when `sluice up` stops: printed while it stops, stored for `sluice down` to repeat."""

from __future__ import annotations

import contextlib
from pathlib import Path

from queue_manager.local.local_cluster import RunningCounts
from queue_manager.local.private_files import write_private
from queue_manager.local.storage.data_directory import LAST_STOP

LEFT_RUNNING = "left running"  # in the sentence of a stop with --leave-running
MAX_NAMES = 5  # of Jobs, in a sentence
COST = "nothing enforces their deadlines and memory limits meanwhile, and a restart of this machine costs each a retry"


def interruption(running: RunningCounts) -> str:
    """Return what a stop of `sluice up` does to running Jobs, as the end of its message; "" if nothing runs."""
    if not running.pods:
        return ""
    pods = counted(running.pods, "pod")
    what = counted(running.jobs, "Job") if running.jobs else pods
    return (
        f": {what} interrupted, the next `sluice up` starts {pods} again, which does not count as a retry; "
        "waiting up to 10 s for processes to end, Ctrl-C again does not wait"
    )


def departure(running: RunningCounts) -> str:
    """Return what a stop with --leave-running does to running pods, as the end of a line; "" if nothing runs."""
    if not running.pods:
        return ""
    what = counted(running.jobs, "Job") if running.jobs else counted(running.pods, "pod")
    return f": {what} left running, which the next `sluice up` finds again; {COST}"


def stopped_jobs(running: RunningCounts, *, left: bool, up: str = "sluice up") -> str:
    """Return what a stop did to running Jobs. `left`: with --leave-running. `up`: the command that continues them."""
    if not running.pods:
        return "no Job was running"
    pods = counted(running.pods, "pod")
    jobs = f"{counted(running.jobs, 'Job')} ({_listed(running.names)})" if running.jobs else pods
    if left:
        return f"{jobs} {LEFT_RUNNING}, with the processes of {pods}: `{up}` finds them again; {COST}"
    return f"{jobs} interrupted: `{up}` starts {pods} again, which does not count as a retry"


def without_data(said: str) -> str:
    """Return what a stop did to running Jobs whose data is removed: nothing continues, no process is left."""
    jobs, left, _ = said.partition(f" {LEFT_RUNNING}")
    return f"{jobs} ended" if left else said.partition(": ")[0]


def record(data_dir: Path, sentence: str) -> None:
    """Keep the sentence in the data directory, unless that has been removed or is full."""
    with contextlib.suppress(OSError):
        write_private(data_dir / LAST_STOP, f"{sentence}\n")


def forget(data_dir: Path) -> None:
    """At a start, delete the stored report of the last stop: after a crash it would be untrue."""
    (data_dir / LAST_STOP).unlink(missing_ok=True)


def recorded(data_dir: Path) -> str:
    """Return the sentence of the last stop; "" after a crash, or before the first stop."""
    try:
        return (data_dir / LAST_STOP).read_text().strip()
    except FileNotFoundError:
        return ""


def counted(number: int, noun: str) -> str:
    """A number with its noun, which gets an s unless the number is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(names: tuple[str, ...]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
