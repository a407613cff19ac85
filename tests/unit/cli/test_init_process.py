"""A process that is the first of its namespace reaps orphans, forwards signals and exits as the program does."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has PID namespaces")

# A subreaper gets orphans, as the first process does.
FIRST = """
import ctypes, os, signal, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1)
os.getpid, own = lambda: 1, os.getpid
from queue_manager.cli import init_process
init_process.fork_as_init()
"""


def ends(program: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", FIRST + program], stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("program", "code"),
    [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("os.kill(own(), signal.SIGKILL)", 137)],
    ids=["well", "refused", "killed"],
)
def test_it_exits_as_the_program_does(program: str, code: int) -> None:
    assert ends(program) == (code, "")


ORPHAN = """
orphan = int(subprocess.run(["sh", "-c", "sleep 0.1 >&2 & echo $!"], stdout=subprocess.PIPE).stdout)
try:
    while True:
        os.kill(orphan, 0)  # a zombie is still there
        time.sleep(0.01)  # only a parent is notified of the end of a process
except ProcessLookupError:
    print("reaped")
"""


def test_orphans_are_reaped() -> None:
    assert ends(ORPHAN) == (0, "reaped\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_is_forwarded(name: str) -> None:
    program = f"""
signal.signal(signal.{name}, lambda *heard: sys.exit(7))
os.kill(os.getppid(), signal.{name})
while True:
    signal.pause()
"""
    assert ends(program) == (7, "")


def test_an_unhandled_signal_ends_both() -> None:
    """The kernel does not deliver it to a first process without a handler."""
    program = """
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.kill(os.getppid(), signal.SIGINT)
signal.pause()
"""
    assert ends(program) == (130, "")


def test_a_process_that_is_not_the_first_is_unchanged() -> None:
    program = "import os; from queue_manager.cli import init_process as f; p = os.getppid(); f.fork_as_init(); print(p)"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    own = subprocess.run(["sh", "-c", "echo $PPID"], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == own.stdout
