"""`sluice down`: ends the cluster of a data directory, and says what that did to running Jobs.

It works for a cluster in the background and for one in another terminal. Without --remove-data the objects, logs and
working directories of pods stay for the next `sluice up`.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from queue_manager.cli.detached import down_command, up_command
from queue_manager.cli.exit_codes import EXIT_NEVER, EXIT_OK, CommandRefused
from queue_manager.cli.standard_streams import write
from queue_manager.cli.stop_report import LEFT_RUNNING, counted, recorded, without_data
from queue_manager.cli.up_address import directory
from queue_manager.local.agent import escaped_processes
from queue_manager.local.storage import data_directory
from queue_manager.local.storage.lock_holder import UNKNOWN_PID, lock_holder, terminate


def run(args: argparse.Namespace) -> int:
    """Stop the cluster and return the exit code: 0 also if none was running."""
    data_dir = directory(args.data_dir)
    if args.remove_data:
        refuse_foreign(data_dir)
    pid = lock_holder(data_dir)
    if pid is None:
        write(f"no cluster runs from {data_dir}")
        said = ""
    else:
        said = stop(data_dir, pid, args.timeout)
        write(without_data(said) if args.remove_data else said)
    if args.remove_data:
        write(removed(data_dir))
    else:
        report_left(data_dir, said)
    return EXIT_OK


def stop(data_dir: Path, pid: int, seconds: float) -> str:
    """End the process of the cluster; return what it said about its Jobs. Raises CommandRefused if it keeps running."""
    if pid == UNKNOWN_PID:
        raise CommandRefused(f"{data_dir} is in use by a process that cannot be seen from here: stop it where it runs")
    try:
        ended = terminate(data_dir, pid, seconds)
    except PermissionError as error:
        raise CommandRefused(f"process {pid}, which runs from {data_dir}, belongs to another user") from error
    if not ended:
        raise CommandRefused(
            f"process {pid} is still stopping after {seconds:g} s; wait for it, or kill -9 {pid}: its pods then keep "
            "running, and the next `sluice up` finds them again"
        )
    write(f"stopped process {pid}, the cluster of {data_dir}")
    return recorded(data_dir) or "it ended without saying what became of its Jobs"


def report_left(data_dir: Path, said: str) -> None:
    """Print how to end the processes of pods that keep running, and what finds them unless the stop has `said` so."""
    if not (found := pods_left(data_dir)):
        return
    ends = f"{down_command(data_dir)} --remove-data"
    if LEFT_RUNNING in said:
        write(f"to end them: {ends}")
    else:
        pods = counted(len(found), "pod")
        write(f"processes of {pods} keep running: `{up_command(data_dir)}` finds them again, `{ends}` ends them")


def pods_left(data_dir: Path) -> dict[str, list[int]]:
    """Return the pids of running processes by the UID of their pod, for the pods of this directory."""
    root = (data_dir / data_directory.PODS).resolve()
    return {uid: pids for uid, pids in escaped_processes.marked(root).items() if (root / uid).exists()}


def refuse_foreign(data_dir: Path) -> None:
    """Raise CommandRefused unless the directory is one that a cluster of this user has run from."""
    if data_dir.exists() and not (data_dir / data_directory.LOCK).is_file():
        raise CommandRefused(f"{data_dir} is not the data directory of a cluster", EXIT_NEVER)
    data_directory.refuse_foreign_files(data_dir)


def removed(data_dir: Path) -> str:
    """End the processes of pods, and remove the files of the cluster, and the directory if nothing else is in it."""
    if not data_dir.exists():
        return f"{data_dir} does not exist"
    if found := pods_left(data_dir):
        escaped_processes.end(found, (data_dir / data_directory.PODS).resolve())
    for path in (data_dir / name for name in data_directory.ALL):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if any(data_dir.iterdir()):
        return f"removed the cluster's files from {data_dir}, which has other files"
    os.rmdir(data_dir)
    return f"removed {data_dir}"
