"""A program on a terminal of the test's own."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios
from collections.abc import Mapping

from tests.waiting import until

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]")
PRINTED_OVER = re.compile(r"[^\x08]\x08")


class Terminal:
    """A terminal of 24 lines and 80 columns, and the program that runs on it."""

    def __init__(self, *command: str, env: Mapping[str, str]) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.set_blocking(self._ours, False)
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**inherited, "TERM": "xterm-256color", **env},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one system call
            start_new_session=True,
        )
        os.close(theirs)
        self._read = b""

    @property
    def raw(self) -> str:
        """All that was printed so far."""
        try:
            while part := os.read(self._ours, 65536):
                self._read += part
        except OSError:  # nothing more so far, or the program has ended
            pass
        return self._read.decode(errors="replace")

    @property
    def text(self) -> str:
        """The same without colours, movements of the cursor, and what was printed over."""
        return PRINTED_OVER.sub("", ESCAPES.sub("", self.raw))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    async def until_shows(self, text: str) -> None:
        """Wait until this has been printed."""
        await until(lambda: text in self.text, f"{text!r} on the terminal")

    async def until_ended(self) -> int:
        """Wait for the end of the program; returns its exit code."""
        await until(lambda: (self.raw, self.process.poll())[1] is not None, "the end of the program")
        return int(self.process.returncode)

    def close(self) -> None:
        """End the program."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
