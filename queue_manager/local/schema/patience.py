"""Limit the processor time of work whose length is controlled by the author of a definition or a request body.

A CEL rule may compare every item of a list with every other, and PyYAML parses slowly. The steps that `cel` counts do
not have a fixed cost, so a timer of the kernel (ITIMER_PROF) interrupts the work. It measures the processor time of
this process, so other load on the machine does not matter. It needs the main thread and a free SIGPROF; without these,
work is not limited. The signal is handled between two Python instructions. A single match of RE2 is one instruction,
and `patterns` limits it separately.

Work inside a request on the event loop (`Turn`) has a lower limit: after TURN_SECONDS it raises TakesLong. The caller
then runs the same work in another process (`long_work`) and starts the request again, from its bytes and with the
results known so far; nothing has been stored yet. So validation runs outside the event loop, while the write is still
decided and stored in one step on the loop, against the state at that time.
"""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import FrameType
from typing import NamedTuple, ParamSpec, TypeVar

import orjson

from job_controller.json_tree import Json

P = ParamSpec("P")
T = TypeVar("T")

SECONDS = 1.0  # legitimate work takes milliseconds
TURN_SECONDS = 0.05  # while the event loop is blocked
SHORTCUT_SECONDS = 0.02
AGAIN = 0.1  # seconds until the next alarm, if the exception of the first was lost in a finalizer
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class Overtime(Exception):
    """The work exceeded its time limit."""


class Work(NamedTuple):
    """A function of JSON values, by its name in `long_work`, and its arguments as JSON."""

    name: str
    arguments: bytes


class TakesLong(Exception):
    """The request needs work done in another process; `work` is that work, if it is already known."""

    def __init__(self, work: Work | None = None) -> None:
        super().__init__(work)
        self.work = work


class Turn:
    """One request on an event loop. `answers` are the results from another process; None until one is needed.

    A result of None means that the work exceeded its limit there as well. `skips_shortcuts` is set after a shortcut
    exceeded its limit. Unless the request is handled `on_loop`, limited work is done in the other process at once: the
    timer cannot interrupt a thread.
    """

    def __init__(self, *, on_loop: bool = True) -> None:
        self.answers: dict[Work, list[Json] | None] | None = None if on_loop else {}
        self.skips_shortcuts = not on_loop
        self._token: Token[Turn | None]

    def __enter__(self) -> None:
        """Attribute limited work inside the block to this request."""
        self._token = _turn.set(self)

    def __exit__(self, *error: object) -> None:
        _turn.reset(self._token)


_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


def shortcut(test: Callable[[T], bool], value: T) -> bool:
    """Return whether a value passes a test that saves other work; False also if the test exceeds SHORTCUT_SECONDS."""
    turn = _turn.get()
    if turn is not None and turn.skips_shortcuts:
        return False
    if _watch.working:  # the alarm belongs to the enclosing work
        return test(value)
    try:
        return patiently(SHORTCUT_SECONDS, test, value)
    except Overtime:
        if turn is not None:
            turn.skips_shortcuts = True
        return False


def limited(work: Callable[[], T], name: str, arguments: Callable[[], list[Json]], read: Callable[..., T]) -> T:
    """Return the result of `work`. Raises Overtime, and TakesLong within a Turn.

    `name` and `arguments` describe the same work for another process, and `read` converts the result from there.
    """
    turn = _turn.get()
    if turn is None:
        return patiently(SECONDS, work)
    if turn.answers is None:
        try:
            return patiently(TURN_SECONDS, work)
        except Overtime:
            raise TakesLong from None
    task = Work(name, orjson.dumps(arguments()))
    if task not in turn.answers:
        raise TakesLong(task)
    answer = turn.answers[task]
    if answer is None:
        raise Overtime
    return read(*answer)


class _Watch:
    """Ignores an alarm that arrives after the work has ended."""

    working = False

    def ring(self, number: int, frame: FrameType | None) -> None:
        if self.working:
            raise Overtime


_watch = _Watch()


def patiently(seconds: float, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`. Raises Overtime when it computes for longer than `seconds`. Costs two system calls.

    The garbage collector is disabled meanwhile: Python discards exceptions, such as that of the alarm, in its
    callbacks.
    """
    if not _can_limit():
        return work(*args, **kwargs)
    collects = gc.isenabled()
    gc.disable()
    try:
        _watch.working = True
        signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
        try:
            return work(*args, **kwargs)
        finally:
            _watch.working = False
    except Overtime:
        _watch.working = False  # the alarm may have interrupted the `finally` above
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if collects:
            gc.enable()


def _can_limit() -> bool:
    """Return whether work can be limited here. False within limited work, too."""
    if _watch.working or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGPROF)
    if handler is signal.SIG_DFL:
        signal.signal(signal.SIGPROF, handler := _watch.ring)
    return handler == _watch.ring
