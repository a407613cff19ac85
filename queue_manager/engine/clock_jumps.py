"""Deadlines on a machine that was suspended, or whose clock was set.

Deadlines, backoffs and TTLs are wall-clock times, but asyncio's timers follow the monotonic clock, which stops while a
laptop sleeps and is never set. So a deadline that passed during the night would be met hours late, and one whose clock
was set back would be met when the clock has caught up. Therefore, when the wall clock and the monotonic clock have
moved apart, every delayed key is synced at once. A key that is not due gets a new timer. Times that now lie in the
future are corrected (`lifecycle.clock_set_back`, `job_controller.times.effective_start`).
"""

from __future__ import annotations

import asyncio
import logging

from job_controller.ports import Clock
from queue_manager.engine.runtime import Runtime

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0  # between two comparisons of the clocks
TOLERATED_SECONDS = 1.0  # by which a check may be late, or the clock be slewed


def follow_clock(runtime: Runtime) -> None:
    """Register a task with `runtime` that syncs all delayed keys when the clock jumps, forward or back."""

    async def follow() -> None:
        before = _clock_offset(runtime.clock)
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            now = _clock_offset(runtime.clock)
            if abs(now - before) > TOLERATED_SECONDS:
                log.warning("the clock jumped", extra={"seconds": round(now - before, 1)})
                runtime.resync_delayed()
            before = now

    runtime.task(follow)


def _clock_offset(clock: Clock) -> float:
    """Seconds by which the wall clock is ahead of the event loop's clock."""
    return clock.now().timestamp() - asyncio.get_running_loop().time()
