"""Which process runs a cluster from a data directory."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from queue_manager.local.storage.lock_holder import UNKNOWN_PID, lock_holder, terminate

HOLD = """
import fcntl, os, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(str(os.getpid())); file.flush()
print("locked", flush=True)
time.sleep(600)
"""


def test_no_process_runs_from_a_directory_without_lock(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    assert lock_holder(tmp_path / "missing") is None


@pytest.mark.parametrize("text", ["", "x", "of this process", "99999999"])
def test_a_pid_counts_only_if_its_process_has_the_lock_open(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text.replace("of this process", str(os.getpid())))
    assert lock_holder(tmp_path) is None


def test_a_lock_whose_holder_cannot_be_seen_is_still_held(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (tmp_path / "lock").write_text("99999999")
        assert lock_holder(tmp_path) == UNKNOWN_PID


def test_the_process_that_holds_the_lock_is_found_and_ended(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        assert lock_holder(tmp_path) == holder.pid
        assert terminate(tmp_path, holder.pid, 30)
    assert holder.returncode == -15
    assert lock_holder(tmp_path) is None


def test_a_process_without_the_lock_is_not_ended(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert terminate(tmp_path, os.getpid(), 0)  # this test would be over
