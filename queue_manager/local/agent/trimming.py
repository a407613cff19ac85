"""Logs of a bounded length: what is old is cut off the front of the file, while its writer goes on at the end.

A kubelet begins a new file every 10 MiB and keeps five. Here who writes the log knows of no kubelet, and so the file
stays: a hole is punched into it instead. The disk gets its blocks back, and every other byte keeps its offset, for the
writer as for those who read and for the index of times.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from functools import cache
from pathlib import Path
from typing import IO, Any

KEPT = 50 * 1024 * 1024  # bytes of a log; a kubelet's containerLogMaxSize times containerLogMaxFiles
STEP = 10 * 1024 * 1024  # bytes cut off at a time: a multiple of what file systems give back
PIECE = 64 * 1024

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # flags of fallocate(2)

log = logging.getLogger(__name__)


def surplus(size: int) -> int:
    """The offset up to which a log of this many bytes is to be cut off."""
    return max(0, (size - KEPT) // STEP * STEP)


def cut(path: Path, end: int) -> None:
    """Give the disk back what lies before `end`. A file system that cannot do that is told of once."""
    try:
        with open(path, "r+b") as file:
            if _fallocate()(file.fileno(), _PUNCH_HOLE | _KEEP_SIZE, 0, end):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    except FileNotFoundError:
        pass  # the pod is gone
    except OSError as error:
        _complain(path.parents[2], str(error))


@cache
def _complain(where: Path, why: str) -> None:
    log.warning("%s: the file system cannot shorten logs, they grow without bound: %s", where, why)


@cache
def _fallocate() -> Any:
    """The system call, which Python has only with a mode of its own. Raises OSError where there is none."""
    try:
        call = ctypes.CDLL(None, use_errno=True).fallocate
    except AttributeError:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return call


def still_there(file: IO[bytes], offset: int) -> int:
    """`offset`, or where the first whole line begins if that was cut off."""
    try:
        begin = os.lseek(file.fileno(), offset, os.SEEK_DATA)
    except OSError:  # the end of the file
        return offset
    if begin > offset:
        file.seek(begin)
        begin += file.read(PIECE).find(b"\n") + 1  # none: a line without end is shown from where it is
    return begin


def read(file: IO[bytes]) -> bytes:
    """The next piece of a log; empty at its end. What is cut off before it was read is passed over."""
    offset = file.tell()
    while True:
        piece = file.read(PIECE)
        found = still_there(file, offset)  # asked after reading: another thread may be cutting
        if not piece or found == offset:
            file.seek(offset + len(piece))
            return piece
        file.seek(offset := found)
