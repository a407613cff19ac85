"""Waiting for facts that processes bring about."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Return when the condition (a function or coroutine function) holds; TimeoutError if it does not in time."""
    async with asyncio.timeout(seconds):
        while True:
            value = condition()
            if await value if isinstance(value, Awaitable) else value:
                return
            await asyncio.sleep(0.01)
