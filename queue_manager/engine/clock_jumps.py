"""Deadlines on a machine that slept, or whose clock was set.

Deadlines, backoffs and times to live are times of the wall clock. Timers run on another, which stands still while a
laptop sleeps, and which nobody sets: a deadline that passed in the night would be met in the afternoon, and one whose
clock was set back in the meantime a day too late. So when the wall clock and the timers have moved apart, every key
that waits for a time is synced at once. What is not due yet gets a new timer; what counts from a time that is now in
the future begins anew (`workloads.clock_set_back`, `job_controller.times.counted_from`).
"""

from __future__ import annotations

import asyncio
import logging

from job_controller.ports import Clock
from queue_manager.engine.runtime import Runtime

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
TOLERATED_SECONDS = 1.0  # that a look comes late, or the clock is slewed


def follow_clock(runtime: Runtime) -> None:
    """Have what `runtime` runs meet its deadlines when the clock jumps, forward or back."""

    async def follow() -> None:
        before = _ahead(runtime.clock)
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            now = _ahead(runtime.clock)
            if abs(now - before) > TOLERATED_SECONDS:
                log.warning("the clock jumped", extra={"seconds": round(now - before, 1)})
                runtime.resync_delayed()
            before = now

    runtime.task(follow)


def _ahead(clock: Clock) -> float:
    """By how many seconds the wall clock is ahead of that of the timers."""
    return clock.now().timestamp() - asyncio.get_running_loop().time()
