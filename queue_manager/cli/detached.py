"""`sluice up --detach`: starts `sluice up` as a process in a session of its own, with its output in the data directory.

The process reports through NOTIFY_SOCKET that it is ready. If it ends before, the command prints what it wrote and ends
with its exit code.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import BinaryIO, NoReturn

from queue_manager.api.api_resources import NAMESPACES
from queue_manager.cli.connection import connect, default_data_dir
from queue_manager.cli.exit_codes import EXIT_OK, EXIT_UNEXPECTED, CommandRefused
from queue_manager.cli.running_options import differences
from queue_manager.cli.standard_streams import write
from queue_manager.cli.up_address import how_to_reach, served_address
from queue_manager.engine.service_notification import READY, VARIABLE
from queue_manager.local.storage import data_directory
from queue_manager.local.storage.data_directory import KUBECONFIG, OLD_UP_LOG, UP_LOG
from queue_manager.local.storage.lock_holder import lock_holder

POLL_SECONDS = 0.1
LOCK_SECONDS = 30.0  # for the imports of the process until it locks the data directory, on a busy machine
MAX_LOG_BYTES = 4 << 20  # a longer log is put aside at the next start


def start(args: argparse.Namespace, data_dir: Path) -> int:
    """Start the cluster unless one runs from this directory already; return the exit code.

    With --wait, return when its API server answers. Raises CommandRefused if one runs that has other options than were
    given.
    """
    holder = lock_holder(data_dir)
    if holder is not None:
        running = f"already running{described(holder)}{how_to_reach(data_dir)}"
        if without_effect := options_without_effect(args, holder):
            raise CommandRefused(f"{running}{without_effect}; {how_to_start_another(data_dir)}")
        write(f"{running}; it keeps the options of its start")
        return _wait_for_server(data_dir, args.wait) if args.wait else EXIT_OK
    prepare(data_dir)
    with _log(data_dir) as log, _ready_socket() as ready:
        began = log.tell()
        process = _spawn(args, data_dir, log, ready.getsockname())
        reached = _wait(process, lambda: _is_ready(ready), args.wait) if args.wait else _locked(process, data_dir)
    if process.poll() is not None:
        _refuse_failed(process.returncode, data_dir, began)
    for line in warnings_of(_written(data_dir, began)):
        write(line)
    return _report(process.pid, args, data_dir, reached=reached)


def options_without_effect(args: argparse.Namespace, pid: int) -> str:
    """Return `; this option has no effect: --cpu 8 (it has 4)`; "" if the running cluster has all the given options."""
    others = differences(args, pid)
    what = "these options have" if len(others) > 1 else "this option has"
    return f"; {what} no effect: {', '.join(others)}" if others else ""


def how_to_start_another(data_dir: Path) -> str:
    """Return what to do to start a cluster while one runs in this directory."""
    return f"stop it first ({down_command(data_dir)}), or choose another --data-dir"


def described(pid: int) -> str:
    """Return ` as process 17`, or "" for a process that cannot be seen from here."""
    return f" as process {pid}" if pid else ""


def prepare(data_dir: Path) -> None:
    """Create the directory for the log. Raises JournalUnusable if others may write to it."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    data_directory.refuse_shared(data_dir)
    data_directory.refuse_foreign_files(data_dir)


def down_command(data_dir: Path) -> str:
    """Return the command that stops the cluster of this directory."""
    return f"sluice down{_option(data_dir)}"


def up_command(data_dir: Path) -> str:
    """Return the command that continues with the cluster of this directory."""
    return f"sluice up{_option(data_dir)}"


def _option(data_dir: Path) -> str:
    return "" if data_dir == default_data_dir() else f" --data-dir {quote(str(data_dir))}"


def foreground_arguments(args: argparse.Namespace, data_dir: Path) -> list[str]:
    """Return the arguments of the same `up` without --detach. Paths are absolute."""
    result = ["up", "--data-dir", str(data_dir.absolute())]
    for name in ("nodes", "port", "cpu", "memory"):
        if (value := getattr(args, name)) is not None:
            result += [f"--{name}", str(value)]
    if args.config:
        result += ["--config", str(Path(args.config).absolute())]
    if args.leave_running:
        result.append("--leave-running")
    levels = ",".join(f"{logger}={level}" if logger else level for logger, level in args.log_level.items())
    return [*result, "--log-format", args.log_format, "--log-level", levels]


@contextmanager
def _log(data_dir: Path) -> Iterator[BinaryIO]:
    """Open the log file, readable by its owner only; rename an old log longer than MAX_LOG_BYTES first."""
    path = data_dir / UP_LOG
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(data_dir / OLD_UP_LOG)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.seek(0, os.SEEK_END)
        yield file


@contextmanager
def _ready_socket() -> Iterator[socket.socket]:
    """The socket on which the process reports that it is ready."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready,
    ):
        ready.bind(f"{folder}/notify")
        ready.settimeout(POLL_SECONDS)
        yield ready


def _spawn(args: argparse.Namespace, data_dir: Path, log: BinaryIO, address: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "queue_manager.cli.main", *foreground_arguments(args, data_dir)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={**os.environ, VARIABLE: address},
        start_new_session=True,
    )


def _is_ready(ready: socket.socket) -> bool:
    """Whether READY=1 has come; waits POLL_SECONDS for a message."""
    try:
        return READY.encode() in ready.recv(4096)
    except TimeoutError:
        return False


def _wait(process: subprocess.Popen[bytes], condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds; False if the process ends before, or the time is over."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        if condition():
            return True
    return False


def _locked(process: subprocess.Popen[bytes], data_dir: Path) -> bool:
    """Wait until the process has locked the directory, where other commands find it. False if it does not in time."""

    def is_locked() -> bool:
        time.sleep(POLL_SECONDS)  # a lock does not signal that it is taken
        return lock_holder(data_dir) == process.pid

    return _wait(process, is_locked, LOCK_SECONDS)


def _refuse_failed(code: int, data_dir: Path, began: int) -> NoReturn:
    """Raise CommandRefused for a process that ended while it started, with what it wrote and its exit code."""
    written = _written(data_dir, began)
    said = [line for line in written.splitlines() if line.startswith("sluice up: ")]
    reason = said[-1].removeprefix("sluice up: ") if said else f"ended with code {code}"
    raise CommandRefused(f"{reason} (log: {data_dir / UP_LOG})", code if code > 0 else EXIT_UNEXPECTED)


def _written(data_dir: Path, began: int) -> str:
    """What the process has written to its log since it began."""
    with open(data_dir / UP_LOG, "rb") as file:
        file.seek(began)
        return file.read(1 << 16).decode("utf-8", "replace")


def warnings_of(written: str) -> Iterator[str]:
    """Yield the lines of the steps that `up` marks with "!", each with its continuation lines."""
    is_warning = False
    for line in written.splitlines():
        is_warning = line.startswith("! ") or (is_warning and line.startswith("  "))
        if is_warning:
            yield line


def _report(pid: int, args: argparse.Namespace, data_dir: Path, *, reached: bool) -> int:
    log, waited = data_dir / UP_LOG, args.wait
    if waited and not reached:
        write(f"process {pid} is not ready after {waited:g} s and keeps starting; its log: {log}")
        return EXIT_UNEXPECTED
    state = f"running as process {pid}{served_address(data_dir)}" if waited else f"starting as process {pid}"
    write(state)
    write(f"  log:  {log}")
    if args.config:
        write(f"  to apply a changed {args.config}: kill -HUP {pid}; the log has the answer")
    write(f"  stop: {down_command(data_dir)}")
    write("To use it:" if waited else "Once it is ready:")
    write(f"  export KUBECONFIG={quote(str(data_dir / KUBECONFIG))}")
    write("  sluice run -- hostname")
    return EXIT_OK


def _wait_for_server(data_dir: Path, seconds: float) -> int:
    """Wait until the cluster that was found running answers; return the exit code."""
    if asyncio.run(_answers(data_dir / KUBECONFIG, seconds)):
        return EXIT_OK
    write(f"its API server does not answer after {seconds:g} s")
    return EXIT_UNEXPECTED


async def _answers(kubeconfig: Path, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                try:
                    async with connect(str(kubeconfig), None) as client:
                        await client.get(NAMESPACES, "", "default")
                except CommandRefused:  # it may still be starting
                    await asyncio.sleep(POLL_SECONDS)
                else:
                    return True
    return False
