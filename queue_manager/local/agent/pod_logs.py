"""Logs of containers: plain files, each with an index of times.

The output of a container is appended to `<n>.log` by a process that outlives the agent (see supervisor.py), so nothing
is lost and nothing blocks when the agent is killed. That process adds no times to the lines. Instead the agent records
the size of a growing log about once a second, as lines `<seconds since 1970> <size>` in `<n>.idx`. The time of a line
is that of the first record that covers its end, else the mtime of the log, so `--timestamps`, `--since` and
`--since-time` are exact to about a second. The beginning of a long log is cut off (see log_trimming.py).

Logs are read in pieces of 64 KiB, with a return to the event loop after each. A followed log is polled five times a
second, only while it is followed.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

from job_controller.json_tree import Json
from queue_manager.local.agent import log_trimming
from queue_manager.local.agent.log_trimming import PIECE_BYTES
from queue_manager.local.agent.pod_files import Layout, RunFiles
from queue_manager.local.agent.supervisor import LINGER_SECONDS
from queue_manager.local.container_logs_protocol import LogOptions
from queue_manager.local.status_errors import StatusError, bad_request

POLL_SECONDS = 0.2
ALL = 100 * 365 * 86_400  # seconds; a longer duration could leave the range of datetime
INDEX_SECONDS = 1.0


@dataclass(slots=True)
class TimeIndex:
    """The index of one log: pairs of a time and the size that the log had then."""

    sizes: list[int] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)

    @classmethod
    def read(cls, run: RunFiles) -> TimeIndex:
        """Read the index of a log; empty if the file does not exist. Lines without a size are skipped."""
        index = cls()
        try:
            lines = run.index.read_text().splitlines()
        except FileNotFoundError:
            return index
        for line in lines:
            seconds, _, size = line.partition(" ")
            if size.isdecimal():
                index.times.append(datetime.fromtimestamp(float(seconds), UTC))
                index.sizes.append(int(size))
        return index

    @property
    def last(self) -> int:
        """The size recorded last; 0 without records."""
        return self.sizes[-1] if self.sizes else 0

    def write(self, run: RunFiles) -> None:
        """Replace the file of the log's index by this one. Raises OSError."""
        notes = zip(self.times, self.sizes, strict=True)
        new = run.index.with_suffix(".new")  # renamed into place, so that the index is never half written
        new.write_text("".join(f"{time.timestamp():.3f} {size}\n" for time, size in notes))
        new.replace(run.index)

    def cut(self, end: int) -> TimeIndex:
        """The index without records that end at or before `end`."""
        first = bisect.bisect_right(self.sizes, end)
        return TimeIndex(self.sizes[first:], self.times[first:])

    def time_at(self, offset: int, otherwise: datetime) -> datetime:
        """The earliest recorded time at which the log had at least `offset` bytes; `otherwise` if none is recorded."""
        i = bisect.bisect_left(self.sizes, offset)
        return min(self.times[i], otherwise) if i < len(self.times) else otherwise

    def offset_since(self, since: datetime, otherwise: datetime, size: int) -> int:
        """The offset at which lines not older than `since` begin. `otherwise`: the mtime of the log."""
        if otherwise < since:
            return size
        i = bisect.bisect_left(self.times, since)
        return self.sizes[i - 1] if i > 0 else 0


class LogIndexer:
    """Records the growth of logs while their containers run, with one timer for all logs."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._runs: dict[RunFiles, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, run: RunFiles) -> None:
        """Start recording: the container of this log runs."""
        self._runs[run] = TimeIndex.read(run).last
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INDEX_SECONDS, self._tick)

    def remove(self, run: RunFiles) -> None:
        """Stop recording: the container has ended. Its last lines get the mtime of the log as their time."""
        self._shorten(run, self._runs.pop(run, 0), _size(run.log))

    def close(self) -> None:
        """Stop recording all logs. Growth since the last record is not recorded."""
        self._runs.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        for run, known in self._runs.items():
            size = _size(run.log)
            if size > known:
                self._runs[run] = size
                self._shorten(run, known, size)
                # On a full disk the record is lost, and its lines get a later time. The log has been shortened before.
                with contextlib.suppress(OSError), open(run.index, "a") as file:
                    file.write(f"{self._now().timestamp():.3f} {size}\n")
        again = asyncio.get_running_loop().call_later
        self._timer = again(INDEX_SECONDS, self._tick) if self._runs else None

    def _shorten(self, run: RunFiles, known: int, size: int) -> None:
        end = log_trimming.surplus(size)
        if end > log_trimming.surplus(known):
            # In a thread: cutting off gigabytes takes a tenth of a second.
            asyncio.get_running_loop().run_in_executor(None, log_trimming.cut, run.log, end)
            with contextlib.suppress(OSError):  # on a full disk the index keeps its old records
                TimeIndex.read(run).cut(end).write(run)


class LogFiles:
    """Answers pods/log from the agent's files."""

    def __init__(self, layout: Layout, now: Callable[[], datetime]) -> None:
        self._layout = layout
        self._now = now

    def open(self, pod: Json, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The log of a container of the pod, in pieces.

        Raises StatusError 400 immediately, with the API server's message, if the container has not started yet. A
        followed log ends when its container has ended.
        """
        run = self._run(pod, container, options.previous)
        since = options.since_time
        if options.since_seconds is not None:
            since = self._now() - timedelta(seconds=min(options.since_seconds, ALL))
        return _stream(run, replace(options, since_time=since, follow=options.follow and not options.previous))

    def _run(self, pod: Json, name: str, previous: bool) -> RunFiles:
        metadata = pod["metadata"]
        runs = self._layout.runs(metadata["uid"], name)
        if previous:
            runs = runs[:-1]
            if not runs:
                message = f'previous terminated container "{name}" in pod "{metadata["name"]}" not found'
                raise bad_request(message)
        if not runs:
            raise self._not_started(pod, name)
        return runs[-1]

    def _not_started(self, pod: Json, name: str) -> StatusError:
        """The error for a container that has not started (kubelet validateContainerLogStatus)."""
        status = pod.get("status") or {}
        statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        state = next((s.get("state") or {} for s in statuses if s["name"] == name), {})
        pod_name = pod["metadata"]["name"]
        reason = (state.get("waiting") or {}).get("reason") or ""
        if not pod["spec"].get("nodeName"):
            return bad_request(f"pod {pod_name} does not have a host assigned")
        if reason in ("ErrImagePull", "ImagePullBackOff"):
            what = "image can't be pulled" if reason == "ErrImagePull" else "trying and failing to pull image"
            return bad_request(f'container "{name}" in pod "{pod_name}" is waiting to start: {what}')
        if "terminated" in state:
            return bad_request(f'container "{name}" in pod "{pod_name}" is terminated')
        return bad_request(
            f'container "{name}" in pod "{pod_name}" is waiting to start: {reason or "ContainerCreating"}'
        )


# --- reading -----------------------------------------------------------------------------------------------


async def _stream(run: RunFiles, options: LogOptions) -> AsyncIterator[bytes]:
    left = options.limit_bytes
    async for piece in _pieces(run, options):
        if left is not None:
            piece, left = piece[:left], left - len(piece)
        if piece:
            yield piece
        if left is not None and left <= 0:
            return


async def _pieces(run: RunFiles, options: LogOptions) -> AsyncIterator[bytes]:
    try:
        file = open(run.log, "rb", buffering=0)  # noqa: SIM115, ASYNC230 - a local file, read in small pieces
    except FileNotFoundError:
        return
    with file:
        file.seek(await _begin(file, run, options))
        lines = _Dating(run)
        waited = 0.0  # seconds waited for the end of the log after the end of the container
        while True:
            ended = run.read_exit() is not None or not _is_alive(run)
            # Checked before reading, so that output written before the end is not missed.
            over = not options.follow or (ended and (run.eof.exists() or waited >= LINGER_SECONDS))
            while piece := log_trimming.read(file):
                yield lines.add(piece, file.tell()) if options.timestamps else piece
                await asyncio.sleep(0)
            if over:
                break
            waited += POLL_SECONDS if ended else 0
            await asyncio.sleep(POLL_SECONDS)
        yield lines.end(file.tell())


class _Dating:
    """Prefixes lines with their times. An unfinished line is held back until it ends or is as long as a piece."""

    def __init__(self, run: RunFiles) -> None:
        self._run = run
        self._index = TimeIndex.read(run)
        self._rest = b""  # the held-back part of an unfinished line
        self._begun = False  # the beginning of the unfinished line has been returned already

    def add(self, piece: bytes, offset: int) -> bytes:
        """The output that can be returned after adding a piece of the log that ends at `offset`."""
        begun = b""
        if self._begun:
            begun, newline, piece = piece.partition(b"\n")
            begun += newline
            self._begun = not newline
        *lines, self._rest = (self._rest + piece).split(b"\n")
        dated = begun + b"".join(self._dated(lines, offset - len(self._rest)))
        if len(self._rest) < PIECE_BYTES:
            return dated
        self._begun = True
        return dated + self.end(offset)

    def end(self, offset: int) -> bytes:
        """Return the part of an unfinished line that was held back."""
        rest, self._rest = self._rest, b""
        return b"".join(self._dated([rest], offset))[:-1] if rest else b""

    def _dated(self, lines: list[bytes], end: int) -> Iterator[bytes]:
        """Each line with the time it was written, RFC 3339. `end`: the offset after the last line."""
        if end > self._index.last:
            self._index = TimeIndex.read(self._run)
        modified = _modified(self._run.log)
        offset = end - sum(len(line) + 1 for line in lines)
        for line in lines:
            offset += len(line) + 1
            when = self._index.time_at(offset, modified)
            yield when.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode() + line + b"\n"


def _is_alive(run: RunFiles) -> bool:
    """Whether the supervisor still runs and may write an exit code; one that was killed leaves none."""
    known = run.read_pid()
    if known is None:
        return False
    try:
        os.kill(known[0], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def _begin(file: IO[bytes], run: RunFiles, options: LogOptions) -> int:
    """The offset to read from: the later of those that `since_time` and `tail_lines` give."""
    size = os.fstat(file.fileno()).st_size
    first = begin = log_trimming.skip_hole(file, 0)
    if options.since_time is not None:
        begin = max(first, TimeIndex.read(run).offset_since(options.since_time, _modified(run.log), size))
    if options.tail_lines is not None:
        begin = max(begin, await _tail(file, first, size, options.tail_lines))
    return begin


async def _tail(file: IO[bytes], first: int, size: int, lines: int) -> int:
    """The offset at which the last `lines` lines after `first` begin; an unfinished line counts."""
    if lines <= 0:
        return size
    position = size
    while position > first:
        step = min(PIECE_BYTES, position - first)
        position -= step
        file.seek(position)
        piece = file.read(step)
        end = step - 1 if position + step == size and piece.endswith(b"\n") else step
        found = piece.count(b"\n", 0, end)
        if found >= lines:
            return position + _last_but(lines, piece, end) + 1
        lines -= found
        await asyncio.sleep(0)
    return first


def _last_but(count: int, piece: bytes, end: int) -> int:
    """The offset of the `count`-th newline from the end."""
    for _ in range(count):
        end = piece.rfind(b"\n", 0, end)
    return end


def _modified(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
