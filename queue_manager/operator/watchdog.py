"""Ends a manager whose event loop hangs, and says where.

While the loop hangs, no probe is answered, so a kubelet kills the process after its third failure; but no record
says what it was doing. A thread of `faulthandler`, which needs neither the loop nor the interpreter's lock, writes the
stack of every thread to stderr and ends the process. While the loop runs, it puts that off again and again. An
admission cycle is one synchronous call, so a cycle without end is ended as well. BEHAVIOUR.md#q141-watchdog.

The process ends with exit code 1 and nothing is written any more: like a process that dies, it loses the Lease, and the
next leader reads the state from the API server.
"""

from __future__ import annotations

import asyncio
import faulthandler

HANG_SECONDS = 40.0  # a kubelet, whose third probe fails after that, would kill the process without a trace
PUT_OFF_SECONDS = 5.0


async def watch_event_loop(hang_seconds: float = HANG_SECONDS, put_off_seconds: float = PUT_OFF_SECONDS) -> None:
    """End the process once the event loop has not run for `hang_seconds`. Cancel this coroutine to stop watching."""
    try:
        while True:
            faulthandler.dump_traceback_later(hang_seconds, exit=True)
            await asyncio.sleep(put_off_seconds)
    finally:
        faulthandler.cancel_dump_traceback_later()
