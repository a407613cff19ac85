"""Long answers are made in turns: who asks for what takes seconds waits for it, and nobody else does.

A list of thousands of objects through a selector of thousands of terms, or as a table of what paths find in them, is
many small steps. After a moment of them the event loop gets to everything else; a client that goes away meanwhile ends
the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

TURN = 0.02  # seconds


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, one by one. What they are read from must not change: others come in between."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for item in items:
        yield item
        if loop.time() - began > TURN:
            await asyncio.sleep(0)
            began = loop.time()
