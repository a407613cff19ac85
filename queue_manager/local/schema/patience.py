"""A bound on the processor time of work whose length the author of a definition or a body chooses.

A CEL rule may compare every item of a list with every other, and PyYAML reads slowly. The steps that `cel` counts do
not show what one step costs, so a timer of the kernel ends the work. It counts the processor time of this process, so
other load on the machine changes nothing. It needs the main thread and a free SIGPROF; elsewhere work is not bounded.
The timer acts between two steps of Python. A single match of RE2 is one step, and `patterns` bounds it by itself.

Work inside a request that an event loop answers (`Turn`) gets less: after TURN_SECONDS it raises TakesLong. The code
that answers the request then has the same work done in another process (`long_work`) and begins the request again,
from its bytes and with the answers that are known; nothing was stored before. So validation happens away from the
loop, and storing is still decided and done in one step on it, from the state of that moment.
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

SECONDS = 1.0  # what is right takes milliseconds
TURN_SECONDS = 0.05  # while everybody waits
SHORTCUT_SECONDS = 0.02
AGAIN = 0.1  # seconds until the next alarm, should a finalizer have swallowed the first
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class Overtime(Exception):
    """The work took too long."""


class Work(NamedTuple):
    """A function of JSON values, by its name in `long_work`, and its arguments as JSON."""

    name: str
    arguments: bytes


class TakesLong(Exception):
    """The request needs the help of another process; `work` is what that must do, once it is known."""

    def __init__(self, work: Work | None = None) -> None:
        super().__init__(work)
        self.work = work


class Turn:
    """One request on an event loop. `answers` are those of another process; None until one is needed.

    An answer of None means that the work took too long there as well. `skips_shortcuts`: one took long already.
    """

    def __init__(self) -> None:
        self.answers: dict[Work, list[Json] | None] | None = None
        self.skips_shortcuts = False
        self._token: Token[Turn | None]

    def __enter__(self) -> None:
        """Limited work inside belongs to this request."""
        self._token = _turn.set(self)

    def __exit__(self, *error: object) -> None:
        _turn.reset(self._token)


_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


def shortcut(test: Callable[[T], bool], value: T) -> bool:
    """Whether a value passes a test that spares other work; False, too, if the test takes longer than it may spare."""
    turn = _turn.get()
    if turn is not None and turn.skips_shortcuts:
        return False
    if _watch.working:  # the alarm is for the work around this
        return test(value)
    try:
        return patiently(SHORTCUT_SECONDS, test, value)
    except Overtime:
        if turn is not None:
            turn.skips_shortcuts = True
        return False


def limited(work: Callable[[], T], name: str, arguments: Callable[[], list[Json]], read: Callable[..., T]) -> T:
    """What `work` returns. Raises Overtime, and TakesLong within a Turn.

    `name` and `arguments` are the same work for another process, and `read` makes the result from its answer.
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
    """Whether the alarm is meant: it may come when the work has just ended."""

    working = False

    def ring(self, number: int, frame: FrameType | None) -> None:
        if self.working:
            raise Overtime


_watch = _Watch()


def patiently(seconds: float, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work`. Raises Overtime when it computes for longer. Costs two system calls.

    The garbage collector pauses meanwhile: Python would swallow an alarm that rings in one of its callbacks.
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
        _watch.working = False  # it may have rung just before the line above
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if collects:
            gc.enable()


def _can_limit() -> bool:
    """False within limited work, too."""
    if _watch.working or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGPROF)
    if handler is signal.SIG_DFL:
        signal.signal(signal.SIGPROF, handler := _watch.ring)
    return handler == _watch.ring
