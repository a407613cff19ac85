"""An event loop whose time is virtual: when no task is ready, its time jumps to the next timer.

Programs on it run as fast as the machine computes, and always in the same order: there is no selector, socket, thread
or clock, so no outside event can intervene. What would hang a real loop is an error here: `Deadlock` if tasks wait and
no timer is set, `Livelock` if they keep each other busy while time stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar

R = TypeVar("R")

START = datetime(2026, 1, 1, tzinfo=UTC)
MAX_ROUNDS = 1_000_000  # iterations of the loop without time advancing


class Deadlock(RuntimeError):
    """All tasks wait, and no timer is set."""


class Livelock(RuntimeError):
    """Tasks keep running, and time does not advance."""


class VirtualLoop(asyncio.BaseEventLoop):
    """`time()` starts at 0 and moves only from timer to timer."""

    def __init__(self, max_rounds: int = MAX_ROUNDS) -> None:
        super().__init__()
        self._now = 0.0
        self._rounds = 0
        self._max_rounds = max_rounds
        self._clock_resolution = 1e-9  # timers due at the same time run in one iteration
        self._selector = _TimerSelector(self)

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._now

    def advance(self, timeout: float | None) -> None:
        """Move to the next timer. `timeout` None: no callback and no timer is left."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set; waiting:\n" + _waiting(self))
        if timeout <= 0:
            # A timer within the clock's resolution runs now, so time must reach it: otherwise its callback finds
            # that it is too early, and sets it again.
            if timers and self._now < timers[0].when() < self._now + self._clock_resolution:
                self._now = timers[0].when()
            self._rounds += 1
            if self._rounds > self._max_rounds:
                raise Livelock(f"{self._max_rounds} rounds at time {self._now}; waiting:\n" + _waiting(self))
            return
        self._rounds = 0
        self._now = max(self._now, timers[0].when())

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> NoReturn:  # type: ignore[override]
        """Raises RuntimeError: threads would make the order of events nondeterministic."""
        raise RuntimeError(f"no threads under virtual time: {func!r}")

    def _process_events(self, event_list: list[Any]) -> None:
        """Does nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        """Does nothing: there is no other thread."""


class _TimerSelector:
    """Replaces the selector of the loop: selecting advances the time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        self._loop.advance(timeout)
        return []


class VirtualClock:
    """The wall clock of a virtual loop: `start` plus the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: datetime = START) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> datetime:
        """The current virtual time, timezone-aware, in UTC."""
        return self._start + timedelta(seconds=self._loop.time())


def virtual_clock() -> VirtualClock:
    """The clock of the running loop, with the `start` passed to `run_virtual`."""
    loop = asyncio.get_running_loop()
    return VirtualClock(loop, getattr(loop, "start", START))


def run_virtual(coro: Coroutine[Any, Any, R], start: datetime = START, until: datetime | timedelta | None = None) -> R:
    """Run a coroutine in virtual time and return its result; tasks that it leaves running are cancelled.

    `start` is the initial `virtual_clock().now()`. Raises TimeoutError if the coroutine has not returned at `until` (a
    time, or a duration), Deadlock or Livelock if it never can.
    """
    end = until - start if isinstance(until, datetime) else until
    # Return the result outside the task: the standard library formats the task into an error message that is never
    # shown, and the result may be the API history of a day.
    results: list[R] = []

    async def limited() -> None:
        async with asyncio.timeout(None if end is None else end.total_seconds()):
            results.append(await coro)

    def loop() -> VirtualLoop:
        loop = VirtualLoop()
        loop.start = start  # type: ignore[attr-defined]
        return loop

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(limited())
    return results[0]


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    return "\n".join(f"  {task.get_name()}: {_where(task)}" for task in tasks) or "  no task"


def _where(task: asyncio.Task[Any]) -> str:
    """The innermost coroutine that a task waits in."""
    coro: Any = task.get_coro()
    while getattr(getattr(coro, "cr_await", None), "cr_frame", None) is not None:
        coro = coro.cr_await
    frame = getattr(coro, "cr_frame", None)
    if frame is None:
        return "done"
    return f"{coro.__qualname__} ({frame.f_code.co_filename}:{frame.f_lineno})"
