"""Logs keep their last 50 MiB, as with a kubelet's defaults."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from queue_manager.local.agent import log_trimming
from queue_manager.local.agent.log_trimming import CUT_BYTES, MAX_LOG_BYTES, PIECE_BYTES
from queue_manager.local.agent.pod_files import Layout, RunFiles
from queue_manager.local.agent.pod_logs import LogIndexer
from tests.local.agent.test_logs import read, wrote
from tests.local.agent.world import World
from tests.waiting import until

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LINE = 64  # bytes, the newline included
MIB = 1024 * 1024


@cache
def numbered(size: int) -> str:
    """Lines of LINE bytes that contain their offset."""
    return "".join(f"{offset:063}\n" for offset in range(0, size, LINE))


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.fixture
def long(layout: Layout) -> RunFiles:
    """The log of a running container, 75 MiB."""
    run = wrote(layout, numbered(75 * MIB))
    run.exit.unlink()
    return run


async def shortened(run: RunFiles) -> None:
    indexer = LogIndexer(lambda: NOW)
    indexer.add(run)
    await until(lambda: on_disk(run.log) <= MAX_LOG_BYTES + CUT_BYTES)
    indexer.close()


@pytest.mark.parametrize(
    ("size", "end"),
    [
        (0, 0),
        (MAX_LOG_BYTES, 0),
        (MAX_LOG_BYTES + CUT_BYTES - 1, 0),
        (MAX_LOG_BYTES + CUT_BYTES, CUT_BYTES),
        (MAX_LOG_BYTES + 5 * CUT_BYTES + 1, 5 * CUT_BYTES),
    ],
)
def test_the_number_of_bytes_that_are_cut_off(size: int, end: int) -> None:
    assert log_trimming.surplus(size) == end


async def test_a_long_log_frees_the_disk_space_of_its_beginning(layout: Layout, long: RunFiles) -> None:
    await shortened(long)
    text = await read(layout)
    assert text == numbered(75 * MIB)[20 * MIB + LINE :]  # the line at the cut may be half of one
    assert long.log.stat().st_size == 75 * MIB


async def test_parts_of_a_shortened_log(layout: Layout, long: RunFiles) -> None:
    await shortened(long)
    last = numbered(75 * MIB)[-2 * LINE :]
    assert await read(layout, tail_lines=2) == last
    assert len(await read(layout, tail_lines=10**9)) == 55 * MIB - LINE
    assert await read(layout, limit_bytes=LINE) == numbered(75 * MIB)[20 * MIB + LINE : 20 * MIB + 2 * LINE]
    assert len(await read(layout, since_time=NOW - timedelta(days=1))) == 55 * MIB - LINE


async def test_a_very_long_line_is_trimmed(layout: Layout) -> None:
    run = wrote(layout, "x" * (75 * MIB))
    await shortened(run)
    assert await read(layout) == "x" * (55 * MIB)


async def test_the_index_of_times_is_trimmed_with_the_log(layout: Layout, long: RunFiles) -> None:
    long.index.write_text(f"1.000 {10 * MIB}\n2.000 {20 * MIB}\n3.000 {30 * MIB}\n")
    await shortened(long)
    assert long.index.read_text() == f"3.000 {30 * MIB}\n{NOW.timestamp():.3f} {75 * MIB}\n"


async def test_a_log_whose_index_cannot_be_written_is_trimmed(layout: Layout, long: RunFiles) -> None:
    """As on the disk that the log has filled."""
    indexer = LogIndexer(lambda: NOW)
    indexer.add(long)
    long.index.mkdir()
    await until(lambda: on_disk(long.log) <= MAX_LOG_BYTES + CUT_BYTES)
    with open(long.log, "a") as log:
        log.write(numbered(CUT_BYTES))
    await until(lambda: on_disk(long.log) <= MAX_LOG_BYTES + CUT_BYTES)
    indexer.close()


async def test_a_reader_behind_the_cut_continues_at_the_next_whole_line(layout: Layout, long: RunFiles) -> None:
    with open(long.log, "rb", buffering=0) as file:
        assert len(log_trimming.read(file)) == PIECE_BYTES
        log_trimming.cut(long.log, 20 * MIB)
        assert log_trimming.read(file).startswith(numbered(75 * MIB)[20 * MIB + LINE :][:LINE].encode())


async def test_the_long_log_of_an_ended_container_is_trimmed(world: World) -> None:
    async with world.running():
        await world.create(f"yes | head -c {75 * MIB}; echo last")
        pod = await world.over()
        await until(lambda: on_disk(world.files(pod) / "0.log") <= MAX_LOG_BYTES + CUT_BYTES)
        assert await world.output(pod, tail_lines=2) == "y\nlast\n"
