"""The process that writes the output of all containers of a node to their logs. Started by `output_pipes`.

Theory. Standard output and standard error of a container are a pipe each, as in other container runtimes, because the
last line of standard error is the cause of a failure (`termination_message`): what a program empties from a buffer
after its error, or prints while it cleans up, is not. One process reads both pipes of all containers. It

  - appends whole lines to the log, so that no line of one stream ends up inside one of the other. The beginning of a
    line is held for HOLD_SECONDS, or until MOST_HELD bytes are there: a prompt or a progress bar has no end;
  - keeps the order in which lines were written. Where it finds lines in both pipes, inotify says in which order the
    pipes were written to, as runs: several writes to one pipe in a row are one event. Both pipes are read up to where
    they were at one moment: no event came while the sizes of their data were read. If each run has as many lines
    as any other, the order is exact; else lines that were written while this process slept may have changed places.
    Without inotify (not Linux) standard output goes first;
  - writes the end of standard error to `.err`, at most every TAIL_SECONDS: a process that left the container may hold
    the pipes after its end;
  - creates `.eof` when the last writer has closed both pipes.

It outlives the agent: it is in a session of its own, so that no signal for the agent or a container reaches it, and it
ends when the agent has closed its end of the socket and no pipe is left. On a full disk it reads no more of that
container, which blocks, and tries again every RETRY_SECONDS, unless the directory of the container is gone: then it
closes the pipes.

This file is executed by its path, without site-packages: it imports the standard library only, and starts in 20 ms.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import socket
import struct
import sys
import termios
import time
from collections.abc import Collection, Sequence
from math import ceil, inf

PIECE = 1 << 16  # bytes read at a time
HOLD_SECONDS = 0.05
MOST_HELD = 1 << 14
TAIL_BYTES = 1 << 16  # of standard error that are kept: a stack trace may follow the line of the error
TAIL_SECONDS = 0.5
RETRY_SECONDS = 1.0
END = b"\0"  # of a message: the watches of both pipes and the base path; two descriptors come with each
OUT, ERR = "out", "err"  # which stream
ENDED = select.POLLHUP | select.POLLERR | select.POLLNVAL
SIZE_READS = 8  # at most, of pipes that are being written to


def merged(out: Sequence[bytes], err: Sequence[bytes], runs: Sequence[str]) -> list[bytes]:
    """Lines of both streams in the order of their writes.

    `runs`: the streams in the order in which they were written to, or as much of that as is known. The first ones may
    be of lines that were read before: a write may be reported after its data were read. A line whose end has not been
    read yet has a run, too: b"" stands for it.
    """
    order = list(runs)
    while order.count(OUT) > len(out) or order.count(ERR) > len(err):
        del order[0]
    order += [stream for stream in (OUT, ERR) if stream not in order]
    lines, runs_left = {OUT: list(out), ERR: list(err)}, {OUT: order.count(OUT), ERR: order.count(ERR)}
    found: list[bytes] = []
    for stream in order:
        left = lines[stream]
        count = ceil(len(left) / runs_left[stream])  # longer runs first: many programs end with a single line
        found += left[:count]
        del left[:count]
        runs_left[stream] -= 1
    return found


class OutputStream:
    """One of the two streams of a container. `held`: the beginning of a line, since the time `since`."""

    __slots__ = ("held", "kind", "since")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.held = b""
        self.since = 0.0

    def lines(self, piece: bytes, now: float) -> bytes:
        """Take what was read; return the lines that are complete, or too long to be held."""
        text = self.held + piece
        end = text.rfind(b"\n") + 1
        if end or not self.held:
            self.since = now
        if len(text) - end > MOST_HELD:
            end = len(text)
        self.held = text[end:]
        return text[:end]

    def rest(self) -> bytes:
        """Return what is held, which is written as it is."""
        text, self.held = self.held, b""
        return text


class Output:
    """The output of one start of a container. `base`: the common prefix of its files."""

    def __init__(self, base: str, out: int, err: int) -> None:
        self.base = base
        self.streams = {out: OutputStream(OUT), err: OutputStream(ERR)}
        self.runs: list[str] = []  # of writes since the last read: the stream of each
        self.tail = b""  # of standard error
        self.tail_at = inf  # when it is written
        self.unwritten = b""  # while the disk is full
        self.retry_at = 0.0
        self._log: int | None = None

    def written_to(self, fd: int) -> None:
        """Note a write to a pipe."""
        kind = self.streams[fd].kind
        if self.runs[-1:] != [kind]:
            self.runs.append(kind)

    def sizes(self, ended: Collection[int]) -> dict[int, int]:
        """How many bytes are to be read from pipes that have data, or are among those that have ended."""
        found = {fd: _size(fd) for fd in self.streams}
        return {fd: size for fd, size in found.items() if size or fd in ended}

    def read(self, sizes: dict[int, int], now: float) -> list[int]:
        """Read pipes, and append what was read. Return those that have ended: nothing was there to be read."""
        texts, ended = {OUT: b"", ERR: b""}, []
        for fd, size in sizes.items():
            piece, stream = os.read(fd, size) if size else b"", self.streams[fd]
            if stream.kind == ERR and piece:
                self.tail = (self.tail + piece)[-TAIL_BYTES:]
                self.tail_at = min(self.tail_at, now + TAIL_SECONDS)
            texts[stream.kind] = stream.lines(piece, now) if piece else stream.rest()
            if not piece:
                os.close(fd)
                del self.streams[fd]
                ended.append(fd)
        runs, self.runs = self.runs, []
        if all(texts.values()):
            begun = {stream.kind: [b""] for stream in self.streams.values() if stream.held}
            out, err = (_lines(texts[kind]) + begun.get(kind, []) for kind in (OUT, ERR))
            self.append(b"".join(merged(out, err, runs)), now)
        else:
            self.append(b"".join(texts.values()), now)
        return ended

    def write_due(self, now: float) -> None:
        """Write the end of standard error if it is time, and the beginnings of lines that were held long enough."""
        if now >= self.tail_at:
            self._write_tail()
        for stream in self.streams.values():
            if stream.held and now >= stream.since + HOLD_SECONDS:
                self.append(stream.rest(), now)

    def append(self, text: bytes, now: float) -> None:
        """Append to the log, after what could not be written before. Raises FileNotFoundError if its directory is
        gone.
        """
        self.unwritten += text
        try:
            if self._log is None:
                self._log = os.open(f"{self.base}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            while self.unwritten:
                self.unwritten = self.unwritten[os.write(self._log, self.unwritten) :]
        except OSError:
            if not os.path.isdir(os.path.dirname(self.base)):
                raise FileNotFoundError(self.base) from None
            self.retry_at = now + RETRY_SECONDS

    def wakes_at(self) -> float:
        """When there is something to do without new data; inf: never."""
        if self.unwritten:
            return self.retry_at
        return min([self.tail_at, *(s.since + HOLD_SECONDS for s in self.streams.values() if s.held)])

    def end(self) -> None:
        """Write the end of standard error, and that the log is complete."""
        if self.tail_at < inf:
            self._write_tail()
        with contextlib.suppress(OSError):
            _write(f"{self.base}.eof", b"\n")

    def _write_tail(self) -> None:
        self.tail_at = inf
        with contextlib.suppress(OSError):
            _write(f"{self.base}.err.new", self.tail)
            os.rename(f"{self.base}.err.new", f"{self.base}.err")

    def close(self) -> None:
        """Close everything. A container that still writes gets SIGPIPE."""
        for fd in self.streams:
            os.close(fd)
        self.streams.clear()
        if self._log is not None:
            os.close(self._log)
            self._log = None


class Keeper:
    """Reads the pipes of all containers, and the agent's messages about new ones.

    `events`: of inotify, whose watches the agent adds before a container starts; None: the order of writes is unknown.
    """

    def __init__(self, agent: socket.socket, events: int | None) -> None:
        self._agent: socket.socket | None = agent
        self._events = events
        self._watched: dict[int, int] = {}  # pipe by watch
        self._message = b""
        self._descriptors: list[int] = []
        self._outputs: set[Output] = set()
        self._wakes: dict[Output, float] = {}  # when there is something to do without new data
        self._by_fd: dict[int, Output] = {}
        self._poll = select.poll()
        self._poll.register(agent, select.POLLIN)
        agent.setblocking(False)

    def run(self) -> None:
        """Work until the agent and all containers have ended."""
        while self._agent is not None or self._outputs:
            ready = dict(self._poll.poll(self._pause()))
            now = time.monotonic()
            if self._agent is not None and self._agent.fileno() in ready:
                self._receive()
            os.sched_yield()  # a writer may be between its write and the event
            for output in {self._by_fd[fd]: None for fd in ready if fd in self._by_fd}:
                self._read(output, [fd for fd, what in ready.items() if what & ENDED], now)
            for output in [each for each, at in self._wakes.items() if at <= now]:
                self._step(output, now)

    def _read(self, output: Output, ended: Collection[int], now: float) -> None:
        """Read both pipes of an output up to where they were at one moment."""
        self._take_events()
        for _ in range(SIZE_READS):
            sizes = output.sizes(ended)
            if not self._take_events():
                break
        self._step(output, now, sizes)

    def _take_events(self) -> bool:
        """Hand the events of writes to the outputs. Returns whether there were any."""
        if self._events is None:
            return False
        try:
            events = os.read(self._events, PIECE)
        except BlockingIOError:
            return False
        for watch, _, _, _ in struct.iter_unpack("iIII", events):
            if watch not in self._watched:
                self._receive()  # the agent has sent the message of a new container before it starts
            if (output := self._by_fd.get(pipe := self._watched.get(watch, -1))) is not None:
                output.written_to(pipe)
        return True

    def _pause(self) -> float | None:
        """Milliseconds until there is something to do without new data; None: never."""
        return max(0.0, min(self._wakes.values()) - time.monotonic()) * 1000 + 1 if self._wakes else None

    def _receive(self) -> None:
        """Take the pipes of new containers, if there are any. Of one for which this process may not have more files,
        the pipes are closed.
        """
        if self._agent is None:
            return
        try:
            data, descriptors, flags, _ = socket.recv_fds(self._agent, PIECE, 64)
        except BlockingIOError:
            return
        except ConnectionError:
            data, descriptors, flags = b"", [], 0
        self._descriptors += descriptors
        if flags & socket.MSG_CTRUNC:
            for fd in self._descriptors:
                os.close(fd)
            self._descriptors = []
        *messages, self._message = (self._message + data).split(END)
        for message in messages if self._descriptors else ():
            out, err, *self._descriptors = self._descriptors
            out_watch, err_watch, base = message.split(b" ", 2)
            self._watched |= {int(out_watch): out, int(err_watch): err}
            output = Output(os.fsdecode(base), out, err)
            self._outputs.add(output)
            self._listen(output)
        if not data:
            self._poll.unregister(self._agent)
            self._agent.close()
            self._agent = None

    def _listen(self, output: Output) -> None:
        for fd in output.streams:
            self._by_fd[fd] = output
            self._poll.register(fd, select.POLLIN)

    def _ignore(self, *fds: int) -> None:
        for fd in fds:
            if self._by_fd.pop(fd, None) is not None:
                self._poll.unregister(fd)

    def _forget(self, *fds: int) -> None:
        """The pipes are closed, and with them their watches."""
        self._ignore(*fds)
        for watch in [watch for watch, fd in self._watched.items() if fd in fds]:
            del self._watched[watch]

    def _step(self, output: Output, now: float, sizes: dict[int, int] | None = None) -> None:
        """Read pipes, or write what waits. While the disk is full, the pipes of the container are not read."""
        was_full = bool(output.unwritten)
        try:
            if sizes is None:
                output.append(b"", now)
                output.write_due(now)
            else:
                self._forget(*output.read(sizes, now))
        except FileNotFoundError:
            self._close(output)
            return
        if not output.streams and not output.unwritten:
            output.end()
            self._close(output)
            return
        if output.unwritten:
            self._ignore(*output.streams)
        elif was_full:
            self._listen(output)
        self._wakes.pop(output, None)
        if (at := output.wakes_at()) < inf:
            self._wakes[output] = at

    def _close(self, output: Output) -> None:
        self._forget(*output.streams)
        self._outputs.discard(output)
        self._wakes.pop(output, None)
        output.close()


def _lines(text: bytes) -> list[bytes]:
    """The lines of a text with their ends; a carriage return ends none."""
    *lines, rest = text.split(b"\n")
    return [line + b"\n" for line in lines] + [rest] * bool(rest)


def _size(fd: int) -> int:
    """How many bytes a pipe has."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def _write(path: str, text: bytes) -> None:
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)


def main() -> None:
    """Keep the output of the containers whose pipes come through the socket that is file descriptor 0.

    The argument, if any, is the file descriptor of inotify.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    Keeper(socket.socket(fileno=0), int(sys.argv[1]) if sys.argv[1:] else None).run()


if __name__ == "__main__":
    main()
