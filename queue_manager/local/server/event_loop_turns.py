"""Split work that takes seconds into turns, so that only the client that requested it waits.

A list of thousands of objects through a selector of thousands of terms, or as a table whose columns evaluate paths,
consists of many small steps. Every `TURN_SECONDS` the event loop runs its other tasks. A client that disconnects
cancels the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

TURN_SECONDS = 0.02  # seconds


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Iterate over the items. Their source must not change meanwhile, because other tasks run in between."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for item in items:
        yield item
        if loop.time() - began > TURN_SECONDS:
            await asyncio.sleep(0)
            began = loop.time()
