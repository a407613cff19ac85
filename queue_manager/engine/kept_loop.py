"""The running event loop, looked up once.

Python 3.11 asks the system for its process id at each look-up of the running loop. Admission cycles and writes need the
loop dozens of times per Workload, mostly for its time.
"""

from __future__ import annotations

import asyncio


class KeptLoop:
    """The event loop that runs at the first call. An object that has one belongs to that loop."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop. Raises RuntimeError if no loop runs at the first call."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def time(self) -> float:
        """Return the time of the loop in seconds, which is virtual in some tests. Raises as `get`."""
        return self.get().time()
