"""`sluice ps --watch` as a process, on a terminal and in a file."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from queue_manager.api.api_resources import JOBS
from queue_manager.cli.machine_formats import SCHEMA_VERSION
from tests.local.cli.conftest import User
from tests.local.cli.terminal import ESCAPES, Terminal
from tests.local.cluster.conftest import EMBEDDED, SLUICE
from tests.waiting import until

INTERRUPTED = 130
LONG_NAME = "a-job-with-a-rather-long-name-for-eighty-columns"


@pytest.fixture
def on_terminal() -> Iterator[Callable[..., Terminal]]:
    """Run `sluice ps --watch` on a terminal."""
    opened: list[Terminal] = []

    def run(user: User, **env: str) -> Terminal:
        command = [*SLUICE, "ps", "--watch", "--kubeconfig", str(user.up.kubeconfig)]
        opened.append(Terminal(*command, env=env))
        return opened[-1]

    yield run
    for terminal in opened:
        terminal.close()


def in_file(user: User, file: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
    command = [*SLUICE, "ps", "--watch", "--kubeconfig", str(user.up.kubeconfig), *arguments]
    return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)


@EMBEDDED
async def test_a_terminal_is_redrawn_by_changes_and_left_clean(
    user: Callable[..., User], on_terminal: Callable[..., Terminal]
) -> None:
    me = user()
    terminal = on_terminal(me)
    await terminal.until_shows("follows changes; Ctrl-C ends")
    me.submit(LONG_NAME)
    await terminal.until_shows("Running")
    terminal.type("\x03")
    assert await terminal.until_ended() == INTERRUPTED
    assert "Traceback" not in terminal.raw
    assert "\x1b[32mRunning" in terminal.raw
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l")  # the cursor is visible again
    lines = terminal.raw.replace("\r\x1b[2K", "\n").split("\n")
    assert max(len(ESCAPES.sub("", line).rstrip()) for line in lines) <= 80


@EMBEDDED
async def test_no_color_is_respected(user: Callable[..., User], on_terminal: Callable[..., Terminal]) -> None:
    me = user()
    me.submit("plain")
    terminal = on_terminal(me, NO_COLOR="1")
    await terminal.until_shows("Running")
    assert "\x1b[32m" not in terminal.raw


@EMBEDDED
async def test_a_file_gets_each_changed_line(user: Callable[..., User], tmp_path: Path) -> None:
    me = user()
    me.submit("first")
    await me.until_state("first", "Running")
    file = tmp_path / "lines"
    with file.open("wb") as out:
        watch = in_file(me, out)
    await until(lambda: "first" in file.read_text(), "the first line")
    me.submit("second", command="[sleep, '1']")
    await until(lambda: ("second", "Succeeded") in states(file.read_text()), "the end of the second Job")
    me.says("deactivate", "first")
    await until(lambda: ("first", "Deactivated") in states(file.read_text()), "the change of the first Job")
    async with me.up.client() as client:
        await client.delete(JOBS, "default", "second")
    await until(lambda: ("second", "Deleting") in states(file.read_text()), "the deletion of the second Job")
    watch.send_signal(signal.SIGINT)
    assert watch.wait(30) == INTERRUPTED
    found = states(file.read_text())
    assert found[0] == ("first", "Running")
    assert len(found) == len(set(zip(file.read_text().splitlines()[1:], found, strict=True)))  # no line twice


def states(text: str) -> list[tuple[str, str]]:
    return [(line.split()[1], line.split()[4]) for line in text.splitlines()[1:]]


async def test_a_program_gets_a_json_object_per_line(user: Callable[..., User], tmp_path: Path) -> None:
    me = user()
    file = tmp_path / "lines"
    with file.open("wb") as out:
        watch = in_file(me, out, "-o", "json", "--state", "Succeeded")
    me.submit("quick", command="['true']")
    me.submit("runs")

    def ended() -> list[Any]:
        return [json.loads(line) for line in file.read_text().splitlines()]

    await until(ended, "the end of the Job")
    watch.send_signal(signal.SIGINT)
    assert watch.wait(30) == INTERRUPTED
    assert {(row["name"], row["state"], row["schemaVersion"]) for row in ended()} == {
        ("quick", "Succeeded", SCHEMA_VERSION)
    }
