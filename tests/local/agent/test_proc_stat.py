"""What is read of /proc/PID/stat, of real processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from queue_manager.local.agent.proc_stat import TICKS_PER_SECOND, ZOMBIE, process_stat


def test_session_and_start_of_this_process() -> None:
    stat = process_stat(os.getpid())
    assert stat is not None
    assert stat.session == os.getsid(0)
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 < stat.started < since_boot
    assert abs(stat.ticks / TICKS_PER_SECOND - sum(os.times()[:4])) < 1


def test_an_ended_child_is_a_zombie_until_it_is_waited_for_and_then_gone() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        stat = process_stat(child.pid)
        assert stat is not None
        assert stat.state == ZOMBIE
        child.wait()
        assert process_stat(child.pid) is None


def test_a_name_with_parentheses_and_spaces_shifts_no_field(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"], start_new_session=True) as child:
        try:
            stat = process_stat(child.pid)
            assert stat is not None
            assert (stat.state != ZOMBIE, stat.session) == (True, child.pid)
        finally:
            child.kill()
