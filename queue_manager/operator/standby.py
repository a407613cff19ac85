"""Answers the visibility API on a replica that waits for the Lease, from caches of its own.

The caches of the controllers exist only while this process leads: a term lists everything anew, because caches that lag
behind the last writes of the previous leader would admit into quota that is in use. Positions of pending Workloads
admit nothing. So a replica that waits fills caches that are only read, and keeps them until its term has its own.
The order is the leader's: it follows from the objects alone (BEHAVIOUR.md#q52-positions-of-pending-workloads).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection

from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.engine.runtime import Runtime
from queue_manager.operator.election import Fence
from queue_manager.operator.unserved_paths import UnservedPathTransport
from queue_manager.visibility_api import VisibilityApi
from queue_manager.wiring import attach_visibility

log = logging.getLogger(__name__)


class Standby:
    """Read-only caches while a replica waits for the Lease: `start`, then `stop`; each may be called twice."""

    def __init__(
        self, transport: ClusterTransport, config: KueueConfig, namespaces: Collection[str], silence: float
    ) -> None:
        """`namespaces` and `silence`: as for `Controllers`."""
        fence = Fence(UnservedPathTransport(transport), None)
        fence.reject_writes()
        # The metrics of this runtime are not served: the term's runtime has families of the same names.
        self._runtime = Runtime(fence, SystemClock(), random.SystemRandom(), silence=silence, namespaces=namespaces)
        self._runtime.task(transport.follow)
        self._visibility, self.reconfigure = attach_visibility(self._runtime, config)
        self._task: asyncio.Task[None] | None = None
        self._failed = False

    @property
    def visibility(self) -> VisibilityApi | None:
        """The visibility API; None unless the caches are filled and up to date."""
        return self._visibility if self._runtime.is_working else None

    def unready(self) -> str:
        """Why the caches are not filled yet; "" if they are, or if filling them has not begun."""
        return self._runtime.unready() if self._task is not None and not self._failed else ""

    def start(self) -> None:
        """Begin to fill the caches."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="standby")

    def stop(self) -> None:
        """Drop the caches in the background."""
        if self._task is not None:
            self._task.cancel()

    async def stopped(self) -> None:
        """Wait until its tasks have ended."""
        if self._task is not None:
            self.stop()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            async with self._runtime:
                await asyncio.Event().wait()
        except Exception:
            self._failed = True
            log.exception("the standby failed: this replica does not answer the visibility API until it leads")
