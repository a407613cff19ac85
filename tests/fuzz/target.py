"""What a fuzz target is, and what must hold for every input.

A decoder returns a value or raises one of its documented errors, within CPU_SECONDS; a value that it returned can be
written and read again without a change. The first line of an input, its *head*, chooses between decoders of a target;
the rest is the *body*.
"""

from __future__ import annotations

import gc
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

CPU_SECONDS = 1.0  # of this process, so that a busy machine fails no input
HANG_CPU_SECONDS = 10  # after which an input is interrupted

Decode = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class Target:
    """`decode(head, body)` raises one of `refusals` for an input that it does not accept.

    heads       those that a mutation may choose; with none an input has no head
    tokens      words of the format that mutations insert
    """

    decode: Decode
    refusals: tuple[type[Exception], ...]
    heads: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()


class Failure(AssertionError):
    """An input for which a decoder did not do what it documents."""


class Interrupted(BaseException):
    """No `except Exception` of a decoder may catch this."""


def split(target: Target, data: bytes) -> tuple[str, bytes]:
    """The head and the body of an input."""
    if not target.heads:
        return "", data
    head, _, body = data.partition(b"\n")
    return head.decode("latin-1"), body


def check(target: Target, data: bytes) -> bool:
    """Decode an input; whether it was accepted. Raises Failure, or what the decoder should not have raised."""
    head, body = split(target, data)
    began = time.process_time()
    try:
        with _interrupted(), _logged_exceptions():
            target.decode(head, body)
        accepted = True
    except target.refusals:
        accepted = False
    except Interrupted:
        raise Failure(f"still running after {HANG_CPU_SECONDS} s of CPU") from None
    seconds = time.process_time() - began
    if seconds > CPU_SECONDS and _again(target, head, body) > CPU_SECONDS:
        raise Failure(f"took {seconds:.1f} s of CPU")
    return accepted


def _again(target: Target, head: str, body: bytes) -> float:
    """Seconds of CPU of a second run, without imports, first compilations and a collection of garbage."""
    gc.collect()
    began = time.process_time()
    with suppress(target.refusals):
        target.decode(head, body)
    return time.process_time() - began


@contextmanager
def _interrupted() -> Iterator[None]:
    """Raise Interrupted in work that takes too long. The product itself uses another timer (`schema.time_limits`)."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class _Exceptions(logging.Handler):
    """Keeps exceptions that the product logs as unexpected, such as those behind a response 500."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None and self.first is None:
            self.first = record.exc_info[1]


@contextmanager
def _logged_exceptions() -> Iterator[None]:
    """Raise an exception that was logged instead of raised."""
    log, handler = logging.getLogger("queue_manager"), _Exceptions()
    propagates, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates
    if handler.first is not None:
        raise Failure(f"logged as unexpected: {handler.first!r}") from handler.first


def require_stable(what: str, first: object, second: object) -> None:
    """Raises Failure if the second reading of a value is not equal to the first."""
    if first != second:
        raise Failure(f"{what} changes when it is written and read again:\n  {first!r}\n  {second!r}")
