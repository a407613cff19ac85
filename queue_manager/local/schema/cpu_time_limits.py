"""Limit the processor time of work whose length is controlled by the author of a definition or a request body.

A CEL rule may compare every item of a list with every other, and PyYAML parses slowly. The steps that `cel` counts do
not have a fixed cost, so a timer of the kernel (ITIMER_PROF) interrupts the work. It measures the processor time of
this process, so other load on the machine does not matter. It needs the main thread and a free SIGPROF; without these,
work is not limited. The signal is handled between two Python instructions. A single match of RE2 is one instruction,
and `patterns` limits it separately.

Work inside a request on the event loop (`LimitedRequest`) has a lower limit: after EVENT_LOOP_SECONDS it raises
NeedsWorkerProcess. The caller then runs the same work in another process (`worker_process`) and starts the request
again, from its bytes and with the results known so far; nothing has been stored yet. So validation runs outside the
event loop, while the write is still decided and stored in one step on the loop, against the state at that time.
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

MAX_SECONDS = 1.0  # legitimate work takes milliseconds
EVENT_LOOP_SECONDS = 0.05  # while the event loop is blocked
SHORTCUT_SECONDS = 0.02
ALARM_INTERVAL_SECONDS = 0.1  # until the next alarm, if the first came during an import or was lost in a finalizer
IMPORT_SYSTEM = "<frozen importlib"  # how the file names of its code begin
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class TimeLimitExceeded(Exception):
    """The work exceeded its time limit."""


class Work(NamedTuple):
    """A function of JSON values, by its name in `worker_process`, and its arguments as JSON."""

    name: str
    arguments: bytes


class NeedsWorkerProcess(Exception):
    """The request has exceeded its time. `work`: what another process is to do; None: a second run will name it."""

    def __init__(self, work: Work | None = None) -> None:
        super().__init__(work)
        self.work = work


class LimitedRequest:
    """One request on an event loop. `answers` are the results from another process; None until one is needed.

    A result of None means that the work exceeded its limit there as well. `skips_shortcuts` is set after a shortcut
    exceeded its limit. Unless the request is handled `on_loop`, limited work goes to the other process without a first
    attempt here: the timer cannot interrupt a thread.
    """

    def __init__(self, *, on_loop: bool = True) -> None:
        self.answers: dict[Work, list[Json] | None] | None = None if on_loop else {}
        self.skips_shortcuts = not on_loop
        self._token: Token[LimitedRequest | None]

    def __enter__(self) -> None:
        """Attribute limited work inside the block to this request."""
        self._token = _current_request.set(self)

    def __exit__(self, *error: object) -> None:
        _current_request.reset(self._token)


_current_request: ContextVar[LimitedRequest | None] = ContextVar("limited request", default=None)


def shortcut(test: Callable[[T], bool], value: T) -> bool:
    """Return whether a value passes a test that saves other work; False also if the test exceeds SHORTCUT_SECONDS."""
    request = _current_request.get()
    if request is not None and request.skips_shortcuts:
        return False
    if _alarm.working:  # the alarm belongs to the enclosing work
        return test(value)
    try:
        return run_with_limit(SHORTCUT_SECONDS, test, value)
    except TimeLimitExceeded:
        if request is not None:
            request.skips_shortcuts = True
        return False


def limited(work: Callable[[], T], name: str, arguments: Callable[[], list[Json]], read: Callable[..., T]) -> T:
    """Return the result of `work`. Raises TimeLimitExceeded, and NeedsWorkerProcess within a LimitedRequest.

    `name` and `arguments` describe the same work for another process, and `read` converts the result from there.
    """
    request = _current_request.get()
    if request is None:
        return run_with_limit(MAX_SECONDS, work)
    if request.answers is None:
        try:
            return run_with_limit(EVENT_LOOP_SECONDS, work)
        except TimeLimitExceeded:
            raise NeedsWorkerProcess from None
    task = Work(name, orjson.dumps(arguments()))
    if task not in request.answers:
        raise NeedsWorkerProcess(task)
    answer = request.answers[task]
    if answer is None:
        raise TimeLimitExceeded
    return read(*answer)


class _Alarm:
    """Ignores an alarm that arrives after the work has ended."""

    working = False

    def ring(self, number: int, frame: FrameType | None) -> None:
        if self.working and not _imports(frame):
            raise TimeLimitExceeded


def _imports(frame: FrameType | None) -> bool:
    """Return whether a module is being imported.

    An exception between two instructions of the import system can leave its lock held, and then no other thread imports
    anything any more. The next alarm interrupts the work.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith(IMPORT_SYSTEM):
            return True
        frame = frame.f_back
    return False


_alarm = _Alarm()


def run_with_limit(seconds: float, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`. Raises TimeLimitExceeded when it computes for longer than `seconds`.

    Costs two system calls.

    The garbage collector is disabled meanwhile: Python discards exceptions, such as that of the alarm, in its
    callbacks.
    """
    if not _can_limit():
        return work(*args, **kwargs)
    collects = gc.isenabled()
    gc.disable()
    try:
        _alarm.working = True
        signal.setitimer(signal.ITIMER_PROF, seconds, ALARM_INTERVAL_SECONDS)
        try:
            return work(*args, **kwargs)
        finally:
            _alarm.working = False
    except TimeLimitExceeded:
        _alarm.working = False  # the alarm may have interrupted the `finally` above
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if collects:
            gc.enable()


def _can_limit() -> bool:
    """Return whether the timer can be used: in the main thread, and not within work that is limited already."""
    if _alarm.working or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGPROF)
    if handler is signal.SIG_DFL:
        signal.signal(signal.SIGPROF, handler := _alarm.ring)
    return handler == _alarm.ring
