"""A process that is the first of its namespace reaps for others, passes signals on and ends as the program does."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has PID namespaces")

# Orphans come to a subreaper as they come to the first process.
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
def test_it_ends_as_the_program_ends(program: str, code: int) -> None:
    assert ends(program) == (code, "")


ORPHAN = """
orphan = int(subprocess.run(["sh", "-c", "sleep 0.1 >&2 & echo $!"], stdout=subprocess.PIPE).stdout)
try:
    while True:
        os.kill(orphan, 0)  # a zombie is still there
        time.sleep(0.01)  # nobody is told of the end of what is no child of theirs
except ProcessLookupError:
    print("reaped")
"""


def test_whose_parents_have_ended_are_reaped() -> None:
    assert ends(ORPHAN) == (0, "reaped\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_is_passed_on(name: str) -> None:
    program = f"""
signal.signal(signal.{name}, lambda *heard: sys.exit(7))
os.kill(os.getppid(), signal.{name})
while True:
    signal.pause()
"""
    assert ends(program) == (7, "")


def test_a_signal_that_nobody_handles_ends_both() -> None:
    """The kernel keeps it from a first process: a second Ctrl-C went unheard."""
    program = """
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.kill(os.getppid(), signal.SIGINT)
signal.pause()
"""
    assert ends(program) == (130, "")


def test_what_is_not_the_first_process_goes_on_as_it_is() -> None:
    program = "import os; from queue_manager.cli import init_process as f; p = os.getppid(); f.fork_as_init(); print(p)"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    own = subprocess.run(["sh", "-c", "echo $PPID"], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == own.stdout
