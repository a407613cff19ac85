"""Process-wide settings of garbage collector, event loop and signals."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import Callable
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLOSED = "the handler is closed"  # end of the message of uvloop's RuntimeError


def tune_garbage_collector() -> None:
    """Collect less often than Python does: most objects of a control loop are long-lived, or freed by their reference
    count.

    Called once by each program. Measured on watches and dict-heavy paths: two to three times as fast. A collection of
    10 000 new objects stops the event loop for 3 ms, one of 100 000 for 25 to 70 ms: kopf leaves 65 objects in
    reference cycles after each admission review, so every thousandth review and those behind it would wait that long.
    """
    gc.set_threshold(10_000, 50, 1000)


def event_loop() -> asyncio.Runner:
    """A Runner with uvloop if it is installed, else with asyncio's own loop."""
    with contextlib.suppress(ImportError):
        import uvloop

        def new_loop() -> asyncio.AbstractEventLoop:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            loop.set_exception_handler(_log_uncaught)
            return loop

        return asyncio.Runner(loop_factory=new_loop)
    return asyncio.Runner()


def _log_uncaught(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an uncaught exception, unless its connection is closed: uvloop fails on data that arrives after that.

    A TCP transport of uvloop that its peer has closed may report that it is not closing; then the exception shows it.
    """
    transport = context.get("transport")
    closed = transport is not None and (transport.is_closing() or CLOSED in str(context.get("exception")))
    if not closed:
        loop.default_exception_handler(context)


def stop_on_signals(stop: Callable[[], object]) -> None:
    """Call `stop` at the first SIGINT or SIGTERM; the second ends the program immediately. Replaces other handlers."""
    loop = asyncio.get_running_loop()

    def stop_once() -> None:
        stop()
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(
                number, signal.SIG_DFL
            )  # Python's own handler would cancel every task, with a traceback of each

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop_once)
