"""Supervisors of containers, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_manager.local.agent import escaped_processes, resource_usage, supervisor
from queue_manager.local.agent.output_pipes import OutputPipes
from queue_manager.local.agent.pod_files import Layout, RunFiles
from tests.waiting import SECONDS, until

PIPES = OutputPipes()


@pytest.fixture(autouse=True, scope="module")
def pipes() -> Iterator[None]:
    yield
    PIPES.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFiles]:
    layout, uid = Layout(tmp_path), str(uuid.uuid4())
    layout.create(uid, "main")
    yield layout.run(uid, "main", 0)
    escaped_processes.kill({uid})


def uid_of(run: RunFiles) -> str:
    return run.container.parent.name


def start(run: RunFiles, script: str) -> tuple[supervisor.Process, asyncio.Event]:
    environment = {"PATH": "/usr/bin:/bin", escaped_processes.MARK: uid_of(run)}
    process = supervisor.spawn(run, ["/bin/sh", "-c", script], environment, str(run.work), PIPES)
    ended = asyncio.Event()
    process.watch(ended.set)
    return process, ended


def exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def zombies() -> set[int]:
    """Ended children of this process that were not waited for."""
    found = set()
    for pid in pids():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found.add(pid)
    return found


@pytest.mark.parametrize(("script", "code"), [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)])
async def test_the_exit_code_is_recorded(run: RunFiles, script: str, code: int) -> None:
    _, ended = start(run, script)
    await asyncio.wait_for(ended.wait(), SECONDS)
    known = run.read_exit()
    assert known is not None
    assert known[0] == code


async def test_the_log_has_the_output_of_both_streams(run: RunFiles) -> None:
    _, ended = start(run, "echo out; echo err >&2; kill -15 $$")
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert run.log.read_text() == "out\nerr\n"


@pytest.mark.parametrize("again", ["echo b >/dev/stdout", "echo b >/dev/stderr", "echo b | tee /dev/stderr >/dev/null"])
async def test_reopening_the_output_does_not_truncate_the_log(run: RunFiles, again: str) -> None:
    _, ended = start(run, f"echo a; {again}; echo c")
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert run.log.read_text() == "a\nb\nc\n"


@pytest.mark.parametrize("last", ["exit 0", "kill -9 $$", "kill -9 0"])
async def test_the_log_is_complete_when_the_container_has_ended(run: RunFiles, last: str) -> None:
    _, ended = start(run, f"head -c 1000000 /dev/zero; {last}")
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert run.log.stat().st_size == 1_000_000


async def test_no_process_of_a_container_is_left_after_its_end(run: RunFiles) -> None:
    before = zombies()
    _, ended = start(run, "echo $$")
    await asyncio.wait_for(ended.wait(), SECONDS)
    await until(lambda: zombies() <= before)
    await until(lambda: not any(run.base in supervisor.command_line(pid) for pid in pids()))


async def test_a_daemon_that_keeps_the_output_open_does_not_delay_the_end(run: RunFiles) -> None:
    _, ended = start(run, "setsid sh -c 'touch left; exec sleep 1000' & while ! [ -e left ]; do sleep 0.01; done")
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert not run.eof.exists()
    escaped_processes.kill({uid_of(run)})
    await until(run.eof.exists)


async def test_sigterm_reaches_the_container_and_its_own_exit_code_counts(run: RunFiles) -> None:
    process, ended = start(run, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")
    await until(lambda: run.log.exists() and run.log.read_text() == "ready\n")
    process.signal(signal.SIGTERM)
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert (run.read_exit() or (None,))[0] == 7


async def test_sigterm_reaches_a_container_whose_files_cannot_be_written(run: RunFiles) -> None:
    """As on a full disk: the intent to end it cannot be recorded, and it is ended all the same."""
    process, ended = start(run, "echo ready; while :; do sleep 0.05; done")
    await until(lambda: run.log.exists() and run.log.read_text() == "ready\n")
    shutil.rmtree(run.container)
    process.signal(signal.SIGTERM)
    await asyncio.wait_for(ended.wait(), SECONDS)


async def test_a_container_terminated_before_its_start_does_not_start(run: RunFiles) -> None:
    """A SIGTERM that the shell lost while it forked is recorded before it is sent."""
    run.end.touch()
    _, ended = start(run, "touch begun")
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert (run.read_exit() or (None,))[0] == 143
    assert not (run.work / "begun").exists()


async def test_no_sigterm_is_lost_at_the_start(tmp_path: Path) -> None:
    """Containers that would run without end, each signalled at another moment of its start."""
    layout = Layout(tmp_path)
    ends = []
    for moment in range(30):
        layout.create("uid", str(moment))
        process, ended = start(layout.run("uid", str(moment), 0), "while :; do sleep 0.05; done")
        await asyncio.sleep(moment / 10_000)
        process.signal(signal.SIGTERM)
        ends.append(ended)
    await asyncio.wait_for(asyncio.gather(*(ended.wait() for ended in ends)), SECONDS)


async def test_a_container_sees_default_signal_handling(run: RunFiles) -> None:
    """It inherits neither Python's ignored SIGPIPE nor the supervisor's traps."""
    _, ended = start(run, "grep -E '^Sig(Ign|Blk)' /proc/self/status")
    await asyncio.wait_for(ended.wait(), SECONDS)
    _, blocked, _, ignored = run.log.read_text().split()
    assert int(blocked, 16) == 0
    assert int(ignored, 16) & 0x7FFFFFFF == 0  # the C library keeps 32 and 33 to itself


async def test_the_end_of_a_container_is_noticed_while_its_files_are_unreadable(
    run: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read all files, so the refusal is simulated."""
    look = os.stat

    def refuse(path: str | Path, **how: Any) -> os.stat_result:
        if str(path).endswith(".eof"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path, **how)

    monkeypatch.setattr(os, "stat", refuse)
    _, ended = start(run, "exit 0")
    await asyncio.wait_for(ended.wait(), SECONDS)


async def test_background_children_end_with_their_container(run: RunFiles) -> None:
    _, ended = start(run, "sleep 1000 & echo $!")
    await asyncio.wait_for(ended.wait(), SECONDS)
    child = int(run.log.read_text())
    await until(lambda: not exists(child))


async def test_processes_that_left_the_group_are_found_by_their_environment(run: RunFiles) -> None:
    uid = uid_of(run)
    _, ended = start(run, "setsid sh -c 'touch left; exec sleep 1000' & while ! [ -e left ]; do sleep 0.01; done")
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert escaped_processes.kill({"another"}) == 0
    assert escaped_processes.kill({uid}) == 1
    await until(lambda: uid not in escaped_processes.marked())


async def test_a_running_container_is_adopted_and_its_end_noticed(run: RunFiles) -> None:
    first, _ = start(run, "touch begun; while ! [ -e stop ]; do sleep 0.02; done; exit 5")
    await until((run.work / "begun").exists)
    first.release()
    second = supervisor.adopt(run)
    assert second is not None
    assert second.pid == first.pid
    ended = asyncio.Event()
    second.watch(ended.set)
    (run.work / "stop").touch()
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert (run.read_exit() or (None,))[0] == 5


async def test_a_container_is_adopted_as_soon_as_it_was_started(tmp_path: Path) -> None:
    """posix_spawn returns before the kernel knows the arguments of the new process."""
    layout = Layout(tmp_path)
    for number in range(20):
        layout.create("uid", str(number))
        run = layout.run("uid", str(number), 0)
        first, _ = start(run, "sleep 1000")
        second = supervisor.adopt(run)
        assert second is not None
        assert second.pid == first.pid
        second.release()
        first.signal(signal.SIGKILL)


async def test_another_process_with_the_recorded_pid_is_not_adopted(run: RunFiles) -> None:
    run.pid.write_text(f"{os.getpid()}\n")
    assert supervisor.adopt(run) is None


async def test_an_ended_container_is_not_adopted(run: RunFiles) -> None:
    _, ended = start(run, "exit 0")
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert supervisor.adopt(run) is None


async def test_a_half_written_exit_code_does_not_count(run: RunFiles) -> None:
    run.exit.write_text("12")
    assert run.read_exit() is None


def test_the_data_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "pods")
    layout.prepare()
    assert (tmp_path / "pods").stat().st_mode & 0o777 == 0o700


async def test_an_exit_code_waits_until_it_can_be_written(run: RunFiles) -> None:
    """On a full disk: a container that succeeded must not count as killed and run again."""
    run.exit.mkdir()
    process, ended = start(run, "exit 3")
    await until(lambda: "sleep" in children(process.pid))
    assert not ended.is_set()
    run.exit.rmdir()
    await asyncio.wait_for(ended.wait(), SECONDS)
    known = run.read_exit()
    assert known is not None
    assert known[0] == 3


def children(pid: int) -> list[str]:
    """The names of the programs that a process has started."""
    found = []
    for child in pids():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            head, _, tail = Path(f"/proc/{child}/stat").read_text().rpartition(")")
            if int(tail.split()[1]) == pid:
                found.append(head.partition("(")[2])
    return found


BURN = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"


async def test_the_cpu_time_of_all_processes_of_a_container_is_known(run: RunFiles) -> None:
    process, ended = start(run, f"sh -c '{BURN}'; {BURN}")
    await ended.wait()
    reported = resource_usage.of_times(run)
    assert process.usage.cpu_seconds is not None
    assert reported.cpu_seconds is not None
    assert 0.02 < reported.cpu_seconds <= process.usage.cpu_seconds


async def test_the_peak_of_a_container_is_known_if_it_is_larger_than_ours(run: RunFiles, tmp_path: Path) -> None:
    size = resource_usage.own_peak() + (100 << 20)
    process, ended = start(run, f"{sys.executable} -c 'bytearray({size})'")
    await ended.wait()
    assert process.usage.peak_bytes is not None
    assert size < process.usage.peak_bytes < size + (100 << 20)
    other = Layout(tmp_path).run(uid_of(run), "main", 1)
    process, ended = start(other, "true")
    await ended.wait()
    assert process.usage.peak_bytes is None
