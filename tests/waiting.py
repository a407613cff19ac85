"""Waiting in real time for what processes and servers do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

from queue_manager.engine.transport_protocol import ApiError

SECONDS = 60.0  # how long a test waits for what must happen
NOT_YET = (ApiError, OSError, LookupError, aiohttp.ClientError)
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.002, 0.05


async def until(condition: Callable[[], object], what: str = "a condition", *, seconds: float = SECONDS) -> None:
    """Return when the condition (a function or coroutine function) holds; AssertionError if it does not in time.

    An API error, and an object or file that is missing, count as not yet.
    """
    pause, error = FIRST_PAUSE_SECONDS, ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    value = condition()
                    if await value if isinstance(value, Awaitable) else value:
                        return
                except NOT_YET as raised:
                    error = f" ({raised!r})"
                await asyncio.sleep(pause)
                pause = min(1.5 * pause, LONGEST_PAUSE_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:.0f} s: {what}{error}") from None
