"""The process that writes the output of containers: what it keeps apart, holds back and survives."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from queue_manager.local.agent import output_keeper, supervisor
from queue_manager.local.agent.output_pipes import OutputPipes
from queue_manager.local.agent.pod_files import Layout, RunFiles
from queue_manager.local.agent.termination_message import FALLBACK, termination_message
from tests.waiting import SECONDS, until


@pytest.fixture
def pipes() -> Iterator[OutputPipes]:
    with closing(OutputPipes()) as found:
        yield found


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    layout = Layout(tmp_path)
    layout.create("uid", "main")
    return layout.run("uid", "main", 0)


def start(run: RunFiles, pipes: OutputPipes, script: str) -> asyncio.Event:
    process = supervisor.spawn(run, ["/bin/sh", "-c", script], {"PATH": os.defpath}, str(run.work), pipes)
    ended = asyncio.Event()
    process.watch(ended.set)
    return ended


def keepers() -> set[int]:
    """The keepers that this process has started and that run."""
    asked = ["ps", "-ww", "-o", "pid=,stat=,args=", "--ppid", str(os.getpid())]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True)
    lines = [line.split(None, 2) for line in shown.stdout.splitlines()]
    return {int(pid) for pid, state, args in lines if state[0] != "Z" and output_keeper.__file__ in args}


async def output(run: RunFiles, pipes: OutputPipes, script: str) -> str:
    await asyncio.wait_for(start(run, pipes, script).wait(), SECONDS)
    return run.log.read_text()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo a; echo b >&2; echo c", "a\nb\nc\n"),
        ("for i in 1 2 3; do echo out $i; echo err $i >&2; done", "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"),
        ("echo a; echo b >&2; echo c; echo d >&2; printf 'Name: '", "a\nb\nc\nd\nName: "),
    ],
)
async def test_lines_written_while_the_keeper_sleeps_are_logged_in_their_order(
    run: RunFiles, pipes: OutputPipes, script: str, expected: str
) -> None:
    before = keepers()
    ended = start(run, pipes, f"touch begun; until [ -e go ]; do sleep 0.02; done; {script}; touch done")
    await until((run.work / "begun").exists)
    (keeper,) = keepers() - before
    os.kill(keeper, signal.SIGSTOP)
    (run.work / "go").touch()
    await until((run.work / "done").exists)
    os.kill(keeper, signal.SIGCONT)
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert run.log.read_text() == expected


async def test_no_line_ends_up_inside_one_of_the_other_stream(run: RunFiles, pipes: OutputPipes) -> None:
    """An unbuffered program writes a line and its end one after the other."""
    part = "for i in $(seq 300); do printf 'a line of %s' $1 >&$2; printf '\\n' >&$2; done"
    text = await output(run, pipes, f"set -- out 1; {part} & set -- err 2; {part}; wait")
    assert sorted(text.splitlines()) == ["a line of err"] * 300 + ["a line of out"] * 300


async def test_a_prompt_is_logged_though_its_line_has_no_end(run: RunFiles, pipes: OutputPipes) -> None:
    ended = start(run, pipes, "printf 'Name: '; until [ -e go ]; do sleep 0.02; done; echo Anna")
    await until(lambda: run.log.exists() and run.log.read_text() == "Name: ")
    (run.work / "go").touch()
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert run.log.read_text() == "Name: Anna\n"


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo boom >&2; echo cleaning up; exit 3", "boom"),
        ("trap 'echo removed /tmp/x' EXIT; echo boom >&2; exit 3", "boom"),
        ("echo a; echo boom >/dev/stderr; echo b", "boom"),
        ("echo no error on standard error; exit 3", "no error on standard error"),
        ("printf '\\n' >&2; echo the last; exit 3", "the last"),
    ],
)
async def test_the_cause_is_the_last_line_of_standard_error(
    run: RunFiles, pipes: OutputPipes, script: str, cause: str
) -> None:
    await output(run, pipes, script)
    assert termination_message(run, "File", 3) == cause


async def test_a_kubelets_message_is_the_end_of_the_log(run: RunFiles, pipes: OutputPipes) -> None:
    await output(run, pipes, "echo boom >&2; echo cleaning up; exit 3")
    assert termination_message(run, FALLBACK, 3) == "boom\ncleaning up"


async def test_the_cause_is_known_though_a_daemon_keeps_the_output_open(run: RunFiles, pipes: OutputPipes) -> None:
    daemon = "setsid sh -c 'echo $$ >left; exec sleep 1000' & until [ -s left ]; do sleep 0.01; done"
    await output(run, pipes, f"{daemon}; echo boom >&2; echo cleaning up; exit 3")
    assert not run.eof.exists()
    assert termination_message(run, "File", 3) == "boom"
    os.kill(int((run.work / "left").read_text()), signal.SIGKILL)
    await until(run.eof.exists)


async def test_the_second_start_does_not_have_the_cause_of_the_first(run: RunFiles, pipes: OutputPipes) -> None:
    await output(run, pipes, "echo first >&2; exit 3")
    run.reset()
    await output(run, pipes, "echo second; exit 3")
    assert termination_message(run, "File", 3) == "second"


async def test_after_the_death_of_the_keeper_containers_start_and_are_logged(
    run: RunFiles, pipes: OutputPipes, caplog: pytest.LogCaptureFixture
) -> None:
    before = keepers()
    assert await output(run, pipes, "echo one") == "one\n"
    (keeper,) = keepers() - before
    os.kill(keeper, signal.SIGKILL)
    await until(lambda: keeper not in keepers())
    run.remove()
    assert await output(run, pipes, "echo two") == "two\n"
    assert len(keepers() - before) == 1
    assert "the process that wrote the logs of the containers has died" in caplog.text


async def test_a_container_that_writes_after_the_death_of_the_keeper_ends(run: RunFiles, pipes: OutputPipes) -> None:
    before = keepers()
    ended = start(run, pipes, "echo one; until [ -e go ]; do sleep 0.02; done; echo two; touch wrote")
    await until(lambda: run.log.exists() and run.log.read_text() == "one\n")
    (keeper,) = keepers() - before
    os.kill(keeper, signal.SIGKILL)
    await until(lambda: keeper not in keepers())  # until then the pipe can be written to
    (run.work / "go").touch()
    await asyncio.wait_for(ended.wait(), SECONDS)
    known = run.read_exit()
    assert known is not None
    assert known[0] == 128 + signal.SIGPIPE


async def test_a_log_that_cannot_be_written_is_written_later(run: RunFiles, pipes: OutputPipes) -> None:
    """As on a full disk: the container blocks, and no byte is lost."""
    ended = start(run, pipes, "touch begun; until [ -e go ]; do sleep 0.02; done; seq 100000; echo boom >&2; exit 3")
    await until((run.work / "begun").exists)
    run.log.unlink()
    run.log.mkdir()
    (run.work / "go").touch()
    await asyncio.sleep(0.2)  # the container has written what its pipe takes
    assert not ended.is_set()
    run.log.rmdir()
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert run.log.read_text().splitlines() == [*map(str, range(1, 100_001)), "boom"]
    assert termination_message(run, "File", 3) == "boom"


async def test_the_keeper_ends_after_its_agent_and_the_last_container(tmp_path: Path) -> None:
    layout, pipes, before = Layout(tmp_path), OutputPipes(), keepers()
    layout.create("uid", "main")
    run = layout.run("uid", "main", 0)
    ended = start(run, pipes, "echo one; until [ -e go ]; do sleep 0.02; done; echo two")
    await until(lambda: run.log.exists() and run.log.read_text() == "one\n")
    (keeper,) = keepers() - before
    pipes.close()
    (run.work / "go").touch()
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert run.log.read_text() == "one\ntwo\n"
    await until(lambda: keeper not in keepers())


async def test_the_keeper_lets_go_of_a_container_whose_directory_is_gone(run: RunFiles, pipes: OutputPipes) -> None:
    go = run.container.parent / "go"
    ended = start(run, pipes, f"touch begun; until [ -e {go} ]; do sleep 0.02; done; seq 1000000")
    await until((run.work / "begun").exists)
    shutil.rmtree(run.container)
    go.touch()
    await asyncio.wait_for(ended.wait(), SECONDS)


def test_a_container_too_many_for_the_keepers_files_costs_no_other_its_output(tmp_path: Path) -> None:
    ours, its = socket.socketpair()
    limited = ["/bin/sh", "-c", 'ulimit -n 13; exec "$@"', "sh", sys.executable, "-I", "-S", output_keeper.__file__]
    with subprocess.Popen(limited, stdin=its, stderr=subprocess.PIPE) as keeper:
        its.close()
        logs = [tmp_path / f"{number}.log" for number in range(8)]
        closed, held = select.poll(), []
        for log in logs:
            (out, writing), (err, nobody) = os.pipe(), os.pipe()
            message = f"-1 -1 {log.with_suffix('')}".encode() + output_keeper.END
            socket.send_fds(ours, [message], [out, err])
            os.write(writing, b"output\n")
            closed.register(writing, 0)  # reports POLLERR once nobody reads
            held.append(writing)
            for fd in (out, err, nobody):
                os.close(fd)
        assert closed.poll(SECONDS * 1000)
        for fd in (*held, ours.detach()):
            os.close(fd)
        assert keeper.communicate(timeout=SECONDS)[1] == b""
    assert keeper.returncode == 0
    taken = [log.read_text() for log in logs if log.exists()]
    assert taken == ["output\n"] * len(taken)
    assert 0 < len(taken) < len(logs)


def test_the_keeper_imports_the_standard_library_alone() -> None:
    listed = "import sys; sys.path.insert(0, sys.argv[1]); import output_keeper; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", listed, str(Path(output_keeper.__file__).parent)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    known = {*sys.stdlib_module_names, "__main__", "output_keeper"}
    assert {name.partition(".")[0] for name in shown.stdout.split()} <= known
