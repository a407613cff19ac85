"""Runs a command for each notice: its JSON on standard input, its facts in environment variables.

The command runs without a shell, once per notice: it may have acted before it failed, so it is not run again. Its
standard output is discarded, and the last line of its standard error is the reason of a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import IO

import msgspec

from queue_manager.last_line import last_line
from queue_manager.notifications.notice_sink_protocol import NotDelivered
from queue_manager.notifications.notices import Notice

PREFIX = "SLUICE_EVENT_"
MAX_REASON = 200  # characters of standard error


class CommandSink:
    """Runs one command. `hidden`: variables of this process that it does not get, because they are secrets."""

    name = "command"

    def __init__(
        self,
        command: Sequence[str],
        seconds: float,
        hidden: Collection[str] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._command = command
        self._seconds = seconds
        self._environment = {name: value for name, value in environment.items() if name not in hidden}

    def check(self) -> None:
        """Raises NotDelivered if the program does not exist."""
        if shutil.which(self._command[0], path=self._environment.get("PATH")) is None:
            raise NotDelivered(f"{self._command[0]}: no such program")

    async def deliver(self, notice: Notice) -> None:
        """Run the command. Raises NotDelivered if it cannot be started, fails or takes too long."""
        with _file_of(msgspec.json.encode(notice)) as facts:  # not a pipe: a command need not read what it gets
            process = await self._start(facts, variables(notice))
        try:
            async with asyncio.timeout(self._seconds):
                _, errors = await process.communicate()
        except TimeoutError:
            await _kill(process)
            raise NotDelivered(f"{self._command[0]} did not end within {self._seconds:g} s") from None
        except asyncio.CancelledError:  # this process stops
            await _kill(process)
            raise
        if process.returncode:
            raise NotDelivered(f"{self._command[0]} ended with code {process.returncode}{_reason(errors)}")

    async def _start(self, stdin: IO[bytes], facts: Mapping[str, str]) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=stdin,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={**self._environment, **facts},
                start_new_session=True,
            )
        except OSError as error:
            raise NotDelivered(f"{self._command[0]}: {error.strerror}") from error


def _file_of(data: bytes) -> IO[bytes]:
    """An unnamed file, in memory where the system can: a container may have no folder to write to."""
    in_memory = hasattr(os, "memfd_create")
    file = os.fdopen(os.memfd_create("notice"), "w+b") if in_memory else tempfile.TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.seek(0)
    return file


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the command and its children, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def variables(notice: Notice) -> dict[str, str]:
    """The facts as environment variables: `jobUid` is SLUICE_EVENT_JOB_UID. Absent facts are empty."""
    tree = msgspec.to_builtins(notice)
    return {
        PREFIX + re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(): "" if value is None else str(value).replace("\0", "")
        for name, value in tree.items()
    }


def _reason(errors: bytes) -> str:
    last = last_line(errors)
    return f": {last[:MAX_REASON]}" if last else ""
