"""Limits the length of logs: the oldest part is cut off the front of the file while its writer appends at the end.

A kubelet rotates to a new file every 10 MiB and keeps five. Here the process that writes the log outlives the agent and
cannot be asked to switch files. So a hole is punched into the file instead: the disk gets its blocks back, and every
other byte keeps its offset, for the writer, for readers and for the index of times.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from functools import cache
from pathlib import Path
from typing import IO, Any

MAX_LOG_BYTES = 50 * 1024 * 1024  # bytes of a log; a kubelet's containerLogMaxSize times containerLogMaxFiles
CUT_BYTES = 10 * 1024 * 1024  # bytes cut off at a time: a multiple of the block size of file systems
PIECE_BYTES = 64 * 1024

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # flags of fallocate(2)

log = logging.getLogger(__name__)


def surplus(size: int) -> int:
    """The offset up to which a log of this many bytes is cut off."""
    return max(0, (size - MAX_LOG_BYTES) // CUT_BYTES * CUT_BYTES)


def cut(path: Path, end: int) -> None:
    """Punch a hole from the beginning to `end`. If the file system does not support holes, a warning is logged once."""
    try:
        with open(path, "r+b") as file:
            if _fallocate()(file.fileno(), _PUNCH_HOLE | _KEEP_SIZE, 0, end):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    except FileNotFoundError:
        pass  # the pod is gone
    except OSError as error:
        _log_unsupported(path.parents[2], str(error))


@cache
def _log_unsupported(where: Path, why: str) -> None:
    log.warning("%s: the file system cannot shorten logs, they grow without bound: %s", where, why)


@cache
def _fallocate() -> Any:
    """The C function fallocate(2), since os.posix_fallocate takes no mode. Raises OSError if it does not exist."""
    try:
        call = ctypes.CDLL(None, use_errno=True).fallocate
    except AttributeError:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return call


def skip_hole(file: IO[bytes], offset: int) -> int:
    """`offset`; if the byte there was cut off, the beginning of the first whole line after the hole."""
    try:
        begin = os.lseek(file.fileno(), offset, os.SEEK_DATA)
    except OSError:  # the end of the file
        return offset
    if begin > offset:
        file.seek(begin)
        begin += file.read(PIECE_BYTES).find(b"\n") + 1  # without a newline, reading starts at the end of the hole
    return begin


def read(file: IO[bytes]) -> bytes:
    """The next piece of a log; empty at its end. A part that was cut off before it was read is skipped."""
    offset = file.tell()
    while True:
        piece = file.read(PIECE_BYTES)
        found = skip_hole(file, offset)  # checked after reading: another thread may be punching the hole
        if not piece or found == offset:
            file.seek(offset + len(piece))
            return piece
        file.seek(offset := found)
