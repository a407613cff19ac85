"""Processes of pods whose cluster does not exist any more."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from queue_manager.cli.up import print_leftovers
from queue_manager.local.agent import escaped_processes, supervisor
from queue_manager.local.agent.output_pipes import OutputPipes
from queue_manager.local.agent.pod_files import Layout
from tests.waiting import until


async def test_what_a_removed_cluster_left_is_reported_with_age_and_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uid, layout = str(uuid.uuid4()), Layout(tmp_path / "gone" / "pods")
    layout.prepare()
    layout.create(uid, "main")
    run = layout.run(uid, "main", 0)
    environment = {"PATH": os.defpath, escaped_processes.MARK: uid, escaped_processes.PLACE: str(layout.pod(uid))}
    script = ["/bin/sh", "-c", "sleep 1000; true"]
    with closing(OutputPipes()) as pipes:
        process = supervisor.spawn(run, script, environment, str(run.work), pipes)
    try:
        await until(lambda: len(escaped_processes.marked().get(uid, ())) == 3)  # the supervisor, its command, and sleep
        assert escaped_processes.leftover_processes(tmp_path / "new" / "pods").get(tmp_path / "gone") is None
        shutil.rmtree(tmp_path / "gone")
        found = escaped_processes.leftover_processes(tmp_path / "new" / "pods")[tmp_path / "gone"]
        assert found[0].pid == process.pid
        assert found[0].command == "/bin/sh -c sleep 1000; true"
        assert 0 <= found[0].age() < 60
        print_leftovers(tmp_path / "new")
        (line,) = [line for line in capsys.readouterr().out.splitlines() if str(tmp_path) in line]
        pids = " ".join(str(pid) for pid in sorted(p.pid for p in found))
        assert re.fullmatch(
            rf"! left behind  3 processes of a cluster whose folder {tmp_path}/gone is gone, the oldest has run "
            rf"for \d+s: /bin/sh -c sleep 1000; true; to end: kill -9 {pids}",
            line,
        )
    finally:
        escaped_processes.kill({uid})


def test_processes_have_ended_before_their_files_are_removed(tmp_path: Path) -> None:
    """The kernel ends a process a moment after the signal."""
    uid = str(uuid.uuid4())
    started = [subprocess.Popen(["sleep", "1000"], env={escaped_processes.MARK: uid}, cwd=tmp_path) for _ in range(50)]
    assert escaped_processes.end({uid}) == len(started)
    assert all(process.poll() == -signal.SIGKILL for process in started)


def test_processes_that_start_others_meanwhile_are_ended_with_them(tmp_path: Path) -> None:
    """A process may fork between the walk through /proc and the signal to it."""
    uid = str(uuid.uuid4())
    script = "i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i + 1)); done; wait"
    started = [
        subprocess.Popen(["sh", "-c", script], env={**os.environ, escaped_processes.MARK: uid}, cwd=tmp_path)
        for _ in range(4)
    ]
    try:
        assert escaped_processes.end({uid}) > 0
        assert uid not in escaped_processes.marked()
    finally:
        escaped_processes.end({uid})
        for process in started:
            process.wait()
