"""Answers of pods/log."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_manager.local.agent.pod_files import Layout, RunFiles
from queue_manager.local.agent.pod_logs import PIECE_BYTES, LogFiles, LogIndexer
from queue_manager.local.container_logs_protocol import LogOptions
from queue_manager.local.status_errors import StatusError
from tests.local.agent.world import World, running
from tests.waiting import until

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
POD: dict[str, Any] = {
    "metadata": {"name": "pod", "namespace": "default", "uid": "u"},
    "spec": {"nodeName": "node-1", "containers": [{"name": "main"}]},
    "status": {},
}


def wrote(layout: Layout, text: str, number: int = 0) -> RunFiles:
    run = layout.run("u", "main", number)
    run.log.write_text(text)
    run.pid.write_text("1\n")
    run.exit.write_text("0\n")
    run.eof.touch()
    return run


async def read(layout: Layout, **options: Any) -> str:
    pieces = LogFiles(layout, lambda: NOW).open(POD, "main", LogOptions(**options))
    return b"".join([piece async for piece in pieces]).decode()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "one\ntwo\nthree\n"),
        ({"tail_lines": 1}, "three\n"),
        ({"tail_lines": 2}, "two\nthree\n"),
        ({"tail_lines": 9}, "one\ntwo\nthree\n"),
        ({"tail_lines": 0}, ""),
        ({"limit_bytes": 5}, "one\nt"),
        ({"limit_bytes": 0}, ""),
        ({"tail_lines": 2, "limit_bytes": 3}, "two"),
        ({"follow": True}, "one\ntwo\nthree\n"),
    ],
)
async def test_parts_of_a_log(layout: Layout, options: dict[str, Any], expected: str) -> None:
    wrote(layout, "one\ntwo\nthree\n")
    assert await read(layout, **options) == expected


async def test_an_unfinished_last_line_counts_as_a_line(layout: Layout) -> None:
    wrote(layout, "one\ntwo")
    assert await read(layout, tail_lines=1) == "two"


async def test_a_tail_that_spans_pieces(layout: Layout) -> None:
    wrote(layout, "".join(f"line {i}\n" for i in range(50_000)))
    assert (await read(layout, tail_lines=30_000)).count("\n") == 30_000


@pytest.mark.parametrize(
    "lines", [1, 2, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES - 1, 3 * PIECE_BYTES, 10**12]
)
async def test_a_tail_of_very_short_lines(layout: Layout, lines: int) -> None:
    wrote(layout, "\n" * (3 * PIECE_BYTES))
    assert len(await read(layout, tail_lines=lines)) == min(lines, 3 * PIECE_BYTES)


async def test_reading_a_long_tail_yields_to_other_tasks(layout: Layout) -> None:
    wrote(layout, "\n" * (40 * PIECE_BYTES))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    pieces = LogFiles(layout, lambda: NOW).open(POD, "main", LogOptions(tail_lines=10**12, limit_bytes=1))
    assert [piece async for piece in pieces] == [b"\n"]
    task.cancel()
    assert turns >= 40


@pytest.mark.parametrize("length", [PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 7])
async def test_a_very_long_line_is_sent_in_parts_with_the_time_of_its_beginning(layout: Layout, length: int) -> None:
    run = wrote(layout, "one\n" + "x" * length + "\ntwo\n" + "y" * length)
    times, lines = zip(*(line.split(" ") for line in (await read(layout, timestamps=True)).split("\n")), strict=True)
    assert list(lines) == ["one", "x" * length, "two", "y" * length]
    assert all(time.endswith("Z") for time in times)
    pieces = LogFiles(layout, lambda: NOW).open(POD, "main", LogOptions(timestamps=True))
    assert max([len(piece) async for piece in pieces]) < 3 * PIECE_BYTES
    assert run.log.stat().st_size == 2 * length + 9


async def test_the_previous_start_is_readable(layout: Layout) -> None:
    wrote(layout, "first\n", 0)
    wrote(layout, "second\n", 1)
    assert await read(layout, previous=True) == "first\n"
    assert await read(layout) == "second\n"


async def test_lines_carry_the_time_at_which_the_log_had_grown_to_them(layout: Layout) -> None:
    run = wrote(layout, "one\ntwo\nthree\n")
    early, later = NOW - timedelta(seconds=60), NOW - timedelta(seconds=10)
    run.index.write_text(f"{early.timestamp()} 4\n{later.timestamp()} 8\n")
    lines = (await read(layout, timestamps=True)).splitlines()
    assert lines[0] == "2026-01-01T11:59:00.000000000Z one"
    assert lines[1] == "2026-01-01T11:59:50.000000000Z two"
    assert lines[2].endswith("Z three")
    assert await read(layout, since_seconds=30) == "two\nthree\n"
    assert await read(layout, since_seconds=2**63 - 1) == await read(layout)


async def test_the_indexer_notes_growth(layout: Layout) -> None:
    run = wrote(layout, "one\n")
    indexer = LogIndexer(lambda: NOW)
    indexer.add(run)
    await until(run.index.exists)
    indexer.close()
    assert run.index.read_text() == f"{NOW.timestamp():.3f} 4\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, 'container "main" in pod "pod" is waiting to start: ContainerCreating'),
        ({"previous": True}, 'previous terminated container "main" in pod "pod" not found'),
    ],
)
def test_the_refusal_of_a_missing_log_names_the_cause(layout: Layout, options: dict[str, Any], message: str) -> None:
    with pytest.raises(StatusError) as refusal:
        LogFiles(layout, lambda: NOW).open(POD, "main", LogOptions(**options))
    assert (refusal.value.code, refusal.value.message) == (400, message)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("ErrImagePull", "image can't be pulled"),
        ("ImagePullBackOff", "trying and failing to pull image"),
        ("CreateContainerError", "CreateContainerError"),
    ],
)
def test_a_waiting_container_has_no_log(layout: Layout, reason: str, text: str) -> None:
    status = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason}}}]}
    with pytest.raises(StatusError) as refusal:
        LogFiles(layout, lambda: NOW).open(POD | {"status": status}, "main", LogOptions())
    assert refusal.value.message == f'container "main" in pod "pod" is waiting to start: {text}'


async def test_a_followed_log_ends_with_its_container(world: World) -> None:
    async with world.running():
        await world.create("echo one; while ! [ -e go ]; do sleep 0.02; done; echo two")
        pod = await world.when(running)
        seen = b""
        async for piece in world.logs.open(pod, "main", LogOptions(follow=True)):
            seen += piece
            (world.files(pod) / "work" / "go").touch()
    assert seen == b"one\ntwo\n"
