"""Reads what a command waits for again and again, and continues when the server does not respond for a while.

Reads are frequent while something changes, and LONGEST_PAUSE_SECONDS or more apart otherwise. The pause grows with the
number of Jobs, so that waiting for many of them puts no load on the API server. A server that does not respond is tried
again for PATIENCE_SECONDS. The loop is not tenacity's, whose import takes a tenth of the start of these commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

from queue_manager.cli.connection import NoResponse
from queue_manager.cli.standard_streams import say

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 0.5
SECONDS_PER_JOB = 0.02  # added to the longest pause
PATIENCE_SECONDS = 60.0  # for a server that does not respond
NOTICE = f"no response from the cluster; trying again for {PATIENCE_SECONDS:.0f} s"

T = TypeVar("T")


class Pace:
    """Pauses between two reads, which grow until something has changed."""

    def __init__(self, jobs: int = 1) -> None:
        self._longest = LONGEST_PAUSE_SECONDS + SECONDS_PER_JOB * jobs
        self._pause = FIRST_PAUSE_SECONDS

    async def pause(self, *, changed: bool) -> None:
        """Sleep until the next read is due. `changed`: the last read found a change, so the pause is short again."""
        self._pause = FIRST_PAUSE_SECONDS if changed else min(1.5 * self._pause, self._longest)
        await asyncio.sleep(self._pause)


async def patiently(read: Callable[[], Awaitable[T]], notice: str = "") -> T:
    """Return the result of a read, which is repeated while the server does not respond. Raises NoResponse at last.

    `notice` is reported once if the server does not respond.
    """
    pace, until = Pace(), monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await read()
        except NoResponse:
            if monotonic() >= until:
                raise
            if notice:
                say(notice)
                notice = ""
            await pace.pause(changed=False)
