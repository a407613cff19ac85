"""Runs the commands of the README and compares their output with the README.

In a console block a line after `$ ` is a command, the lines up to the next one are its output. Times, generated name
suffixes and ports differ from run to run and are compared by their form only; a line `...` stands for any lines. Blocks
marked `console` run on a cluster of this machine, those marked `console cluster` on a real API server. Commands in
running text and in tables are run as well, with VALUES for their words in capitals, unless NOT_RUN has a reason.
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
from tests.control_plane.server import ControlPlane

README = Path(__file__).resolve().parents[2] / "README.md"
LOCAL, CLUSTER = "console", "console cluster"
PROGRAMS = ("sluice", "kubectl", "make", "helm", "python")
VALUES = {
    "JOB": "huge",
    "QUEUE": "research",
    "CLUSTERQUEUE": "research",
    "FILE": "new.yaml",
    "F": "config/kueue_config.yaml",
    "WORD": "Backoff",
    "TEXT": "user",
    "RAN": "flaky",
    "INDEXED": "pi",
}
NOT_RUN = {
    "kubectl patch": "names a verb; what it would patch is said beside it",
    "python -m tests.local.readme_picture": "takes 90 s; tests/unit/test_readme.py draws from a recording",
    "sluice manager --config F": "needs a cluster; tests/control_plane/manager runs it",
    "sluice cancel JOB": "others need that Job; tests/local/cli/test_verbs.py cancels one",
    "sluice down": "others need the cluster; tests/local/cluster/test_background.py runs it",
    "sluice ps --watch": "does not end; tests/local/cli/test_ps_watch.py runs it",
    "sluice up --detach": "a second cluster; tests/local/cluster/test_background.py starts one",
    "sluice up --detach --wait": "a second cluster; tests/local/cluster/test_background.py starts one",
    "sluice up": "the first console block runs it",
    "sluice up --config F": "a second cluster; tests/local/cluster/test_reload.py starts one with a file",
}
"""Commands that are not run, and why. Targets of make take minutes: they are run with --dry-run."""
INSTEAD = {"sluice run -- CMD": "sluice run -q user-queue -- true"}
"""What is run for a command: at the end of the README there are several queues, and QUEUE is held."""
LAST_LINE_OF_UP = "Ctrl-C"
OTHERS = "! left behind"  # processes of other clusters on this machine, which the README knows nothing of
VARIABLE = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"(?<![\w.-])\d+(\.\d+)?(ms|s|m\d+s|m|h\d+m)(?![\w-])"), "TIME"),
    (re.compile(r"\d+(\.\d+)? s\b"), "TIME"),
    (re.compile(r"(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\dZ?"), "TIME"),
    # Suffixes of generated names and hashes in names of Workloads have one form: a hash may look like a suffix.
    (re.compile(r"-([bcdfghjklmnpqrstvwxz2456789]{5}|[0-9a-f]{5})(?=[\s'\"]|$)"), "-ENDING"),
    (re.compile(r"[█░]+"), "BAR"),
)


@dataclass(frozen=True)
class Step:
    command: str
    output: list[str]
    line: int


def steps(text: str, kind: str = LOCAL) -> list[list[Step]]:
    """The console blocks of this kind in a Markdown text, in order."""
    blocks: list[list[Step]] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = line == f"```{kind}" if not inside else False
            if inside:
                blocks.append([])
        elif inside and line.startswith("$ "):
            blocks[-1].append(Step(line[2:], [], number))
        elif inside and blocks[-1]:
            blocks[-1][-1].output.append(line)
    return blocks


def other_commands(text: str) -> list[str]:
    """The commands outside of console blocks: code in running text and tables, and indented lines; each one once."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^    (\S.*?)(?:\s{2,}#.*)?$", prose, re.MULTILINE)
    found = [*indented, *re.findall(r"`([^`\n]+)`", prose)]
    return list(dict.fromkeys(code for code in found if code.split()[0] in PROGRAMS and " " in code))


def runnable(command: str) -> str:
    """The command with VALUES in place of its words in capitals, a target of make as a dry run."""
    command = INSTEAD.get(command, command)
    if command.startswith("make "):
        return command.replace("make ", "make --dry-run ", 1)
    return re.sub(r"\b[A-Z]+\b", lambda match: VALUES.get(match[0], match[0]), command)


def difference(session: Session, blocks: list[list[Step]]) -> str:
    """Run the blocks; return the first output that has another form than the README shows, or ""."""
    for step in (step for block in blocks for step in block):
        actual = session.run(step)
        if not matches(step.output, actual):
            expected = [form(line) for line in step.output]
            lines = ["expected:", *expected, "printed:", *(form(line) for line in actual)]
            return "\n".join([f"README.md:{step.line}: $ {step.command}", *lines])
    return ""


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
    """A shell with an empty home directory. `sluice up` runs in the background until the session is closed.

    `kubeconfig`: of a cluster that is running already.
    """

    def __init__(self, folder: Path, kubeconfig: Path | None = None) -> None:
        self.folder = folder
        self.code = 0  # exit code of the last command
        self.env = {
            **os.environ,
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], *_kubectl()]),
            "COLUMNS": "150",
            "LOGNAME": "anna",  # whom outputs name as the user, on any machine
        }
        self.env.pop("KUBECONFIG", None)
        if kubeconfig is not None:
            self.env["KUBECONFIG"] = str(kubeconfig)
        self._cluster: subprocess.Popen[str] | None = None

    def run(self, step: Step) -> list[str]:
        """Run a command; returns its lines. `sluice up` is read until its last line."""
        if step.command.startswith("sluice up"):
            return self._up(step)
        if step.command.startswith("export "):
            name, _, value = step.command.removeprefix("export ").partition("=")
            self.env[name] = value.replace("~", str(self.folder))
            return []
        return self.execute(step.command)

    def execute(self, command: str) -> list[str]:
        """Run any other command; returns its lines, and keeps its exit code."""
        done = subprocess.run(
            ["bash", "-c", command],
            check=False,
            cwd=README.parent,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
        )
        self.code = done.returncode
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
    text = README.read_text()
    with tempfile.TemporaryDirectory() as folder:
        outputs = _outputs(Session(Path(folder)), steps(text))
    with tempfile.TemporaryDirectory() as folder, ControlPlane.start() as plane:
        outputs += _outputs(Session(Path(folder), plane.kubeconfig), steps(text, CLUSTER))
    lines = text.splitlines()
    for step, output in sorted(outputs, key=lambda one: one[0].line, reverse=True):
        if "..." not in step.output:
            of_machine = [line for line in step.output if line.startswith("!")]
            lines[step.line : step.line + len(step.output)] = [
                *of_machine,
                *(o for o in output if not o.startswith("!")),
            ]
    README.write_text("\n".join(lines) + "\n")


def _outputs(session: Session, blocks: list[list[Step]]) -> list[tuple[Step, list[str]]]:
    try:
        return [(step, session.run(step)) for block in blocks for step in block]
    finally:
        session.close()


if __name__ == "__main__":
    rewrite()
