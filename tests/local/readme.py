"""Runs the console blocks of the README and compares their output with the README.

A line after `$ ` is a command, the lines up to the next one are its output. Times, generated name suffixes and ports
differ from run to run and are compared by their form only; a line `...` stands for any lines.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.control_plane import provide

README = Path(__file__).resolve().parents[2] / "README.md"
LAST_LINE_OF_UP = "Ctrl-C"
OTHERS = "! left behind"  # processes of other clusters on this machine, which the README knows nothing of
VARIABLE = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"(?<![\w.-])\d+(\.\d+)?(ms|s|m\d+s|m|h\d+m)(?![\w-])"), "TIME"),
    (re.compile(r"\d+(\.\d+)? s\b"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    # Suffixes of generated names and hashes in names of Workloads have one form: a hash may look like a suffix.
    (re.compile(r"-([bcdfghjklmnpqrstvwxz2456789]{5}|[0-9a-f]{5})(?=[\s'\"]|$)"), "-ENDING"),
    (re.compile(r"[█░]+"), "BAR"),
)


@dataclass(frozen=True)
class Step:
    command: str
    output: list[str]
    line: int


def steps(text: str) -> list[list[Step]]:
    """The console blocks of a Markdown text, in order."""
    blocks: list[list[Step]] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = line == "```console" if not inside else False
            if inside:
                blocks.append([])
        elif inside and line.startswith("$ "):
            blocks[-1].append(Step(line[2:], [], number))
        elif inside and blocks[-1]:
            blocks[-1][-1].output.append(line)
    return blocks


def form(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, name in VARIABLE:
        line = pattern.sub(name, line)
    return " ".join(line.split())


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether the output has the expected form."""
    want = [form(line) for line in expected if says_something(line)]
    have = [form(line) for line in actual if says_something(line)]
    return _matches(want, have)


def says_something(line: str) -> bool:
    """Whether the line counts: empty lines do not, nor those marked `!`, which are about this machine."""
    return bool(line.strip()) and not line.startswith("!")


def _matches(want: list[str], have: list[str]) -> bool:
    if not want:
        return not have
    if want[0] == "...":
        return any(_matches(want[1:], have[skip:]) for skip in range(len(have) + 1))
    return bool(have) and want[0] == have[0] and _matches(want[1:], have[1:])


class Session:
    """A shell with an empty home directory. `sluice up` runs in the background until the session is closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], *_kubectl()]),
            "COLUMNS": "150",
        }
        self.env.pop("KUBECONFIG", None)
        self._cluster: subprocess.Popen[str] | None = None

    def run(self, step: Step) -> list[str]:
        """Run a command; returns its lines. `sluice up` is read until its last line."""
        if step.command.startswith("sluice up"):
            return self._up(step)
        if step.command.startswith("export "):
            name, _, value = step.command.removeprefix("export ").partition("=")
            self.env[name] = value.replace("~", str(self.folder))
            return []
        done = subprocess.run(
            ["bash", "-c", step.command],
            check=False,
            cwd=README.parent,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
        )
        return self._home(done.stdout).splitlines()

    def _up(self, step: Step) -> list[str]:
        self._cluster = subprocess.Popen(
            ["bash", "-c", f"exec {step.command}"],
            cwd=README.parent,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._cluster.stdout is not None
        lines: list[str] = []
        for line in self._cluster.stdout:
            if OTHERS not in line:
                lines.append(self._home(line).rstrip())
            if line.startswith(LAST_LINE_OF_UP):
                break
        return lines

    def _home(self, text: str) -> str:
        return text.replace(str(self.folder), "~")

    def close(self) -> int | None:
        """Ctrl-C for `sluice up`; returns its exit code."""
        if self._cluster is None:
            return None
        self._cluster.send_signal(signal.SIGINT)
        return self._cluster.wait(30)


def _kubectl() -> list[str]:
    """The folder of the kubectl of `make control-plane`, for machines that have no other."""
    found = provide.find("kubectl")
    return [str(found.parent)] if found else []


def rewrite() -> None:
    """Put the current output of the commands into the README: `python -m tests.local.readme`."""
    lines = README.read_text().splitlines()
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))
        try:
            outputs = [(step, session.run(step)) for block in steps("\n".join(lines)) for step in block]
        finally:
            session.close()
    for step, output in reversed(outputs):
        if "..." not in step.output:
            lines[step.line : step.line + len(step.output)] = output
    README.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    rewrite()
