"""Deadlines on a machine that slept, or whose clock was set forward.

Deadlines, backoffs and times to live are times of the wall clock. Timers run on another, which stands still while a
laptop sleeps, and which nobody sets: a deadline that passed in the night would be met in the afternoon. So when the
wall clock has gone ahead of the timers, all that waits for a time is looked at; what is not due yet gets a new timer.
A clock that is set back needs nothing of this: a timer that fires too early ends in the same look.
"""

from __future__ import annotations

import asyncio

from job_controller.ports import Clock
from queue_manager.engine.runtime import Runtime

LOOK_SECONDS = 5.0
TOLERATED_SECONDS = 1.0  # that a look comes late, or the clock is slewed


def follow_clock(runtime: Runtime) -> None:
    """Have what `runtime` runs meet its deadlines when the clock jumps."""

    async def follow() -> None:
        before = _ahead(runtime.clock)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = _ahead(runtime.clock)
            if now - before > TOLERATED_SECONDS:
                runtime.hurry()
            before = now

    runtime.task(follow)


def _ahead(clock: Clock) -> float:
    """By how many seconds the wall clock is ahead of that of the timers."""
    return clock.now().timestamp() - asyncio.get_running_loop().time()
