"""What the author of a definition wrote (patterns, rules) gets a second of processor time for one object, no more.

Python's regular expressions try every way to match, of which a pattern as short as `^(a+)+$` has very many, and a rule
may compare every item of a list with every other. Everybody else would wait. Steps that are counted (cel) do not see
what one step costs, so a timer of the kernel ends the work: it counts the time this process computes, so that a busy
machine changes nothing. It needs the main thread and a free SIGPROF; elsewhere the work is not limited.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SECONDS = 1.0  # what is right takes milliseconds
AGAIN = 0.1  # seconds, should something have swallowed the first
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class Overtime(Exception):
    """The work took too long."""


class _Watch:
    """Whether the alarm is meant: it may come when the work has just ended."""

    working = False

    def ring(self, number: int, frame: FrameType | None) -> None:
        if self.working:
            raise Overtime


_watch = _Watch()


def patiently(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns. Raises Overtime when it takes too long. Costs two system calls."""
    if not _can_limit():
        return work(*args, **kwargs)
    try:
        _watch.working = True
        signal.setitimer(signal.ITIMER_PROF, SECONDS, AGAIN)
        try:
            return work(*args, **kwargs)
        finally:
            _watch.working = False
    except Overtime:
        _watch.working = False  # it may have rung just before the line above
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _can_limit() -> bool:
    """False within limited work, too."""
    if _watch.working or threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGPROF) is signal.SIG_DFL:
        signal.signal(signal.SIGPROF, _watch.ring)
    return signal.getsignal(signal.SIGPROF) == _watch.ring
