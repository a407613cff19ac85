"""The chosen controllers on one runtime, and their life: elected if need be, from the first list to the last write."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.clock_jumps import follow_clock
from queue_manager.engine.job_cluster import run_job_controller
from queue_manager.engine.reflector import SILENCE
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.throttle import throttled
from queue_manager.jobs.queue_manager import add_queue_controllers
from queue_manager.operator.absence import PathsAreServed
from queue_manager.operator.election import Election, Fence, LeadershipLost
from queue_manager.operator.permissions import ALL, JOB_CONTROLLER, QUEUE
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.transport import ClusterTransport
from queue_manager.workloads.metrics import ROLE


class Controllers:
    """`run` as a task, `stop` to end it. The Job controller manages only Jobs that name it, unless configured."""

    def __init__(
        self,
        transport: ClusterTransport,
        config: KueueConfig,
        chosen: Iterable[str] = ALL,
        *,
        election: Election | None = None,
        silence: float = SILENCE,
    ) -> None:
        """`election`: who leads works; None: there is no other. `silence`: seconds without a word after which a watch
        is taken for dead."""
        self.ready = asyncio.Event()
        self._election = election
        self._lost: LeadershipLost | None = None
        served = PathsAreServed(transport)
        fenced = Fence(served, election) if election is not None else served
        limited = throttled(fenced, config.client_connection.limit)
        self.runtime = Runtime(limited, SystemClock(), random.SystemRandom(), silence=silence)
        self._sync_timeout = config.controller.cache_sync_timeout.total_seconds()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[object] | None = None
        self.runtime.task(transport.follow)
        follow_clock(self.runtime)
        chosen = list(chosen)
        self._queue = add_queue_controllers(self.runtime, config) if QUEUE in chosen else None
        if JOB_CONTROLLER in chosen:
            permits = self._queue.permits if self._queue is not None else None
            run_job_controller(self.runtime, config.job_controller.options(manage="ManagedBy"), permits)
        if election is not None:
            self.runtime.support(self._lead)
            self.runtime.metrics.add_label("kueue_", ROLE, "follower")

    def reconfigure(self, config: KueueConfig) -> None:
        """Take over a new configuration, in which nothing has changed that needs a restart."""
        if self._queue is not None:
            self._queue.reconfigure(config)

    def unready(self) -> str:
        """Why no traffic should come to us; empty if it may. Who waits for another leader is ready to follow it: else
        no update of a Deployment would ever get past the first replica."""
        if self._stop.is_set():
            return "stopping"
        waits = self._election is not None and not self._election.leads
        return "" if waits else self.runtime.unready()

    async def run(self) -> None:
        """Be elected, list, then work until `stop`. Raises CannotStart if listing takes too long, LeadershipLost, or
        what a part died of."""
        if self._stop.is_set():
            return
        self._task = asyncio.current_task()
        try:
            await self._begin()
        finally:
            if self._election is not None:
                await self._election.release()

    async def _begin(self) -> None:
        try:
            if self._election is not None:
                await self._election.win()
                self.runtime.metrics.add_label("kueue_", ROLE, "leader")
            async with asyncio.timeout(self._sync_timeout or None) as waiting, self.runtime:
                waiting.reschedule(None)
                self.ready.set()
                await self._stop.wait()
        except TimeoutError:
            names = ", ".join(self.runtime.unsynced())
            raise CannotStart(f"could not list {names} within {self._sync_timeout:.0f} s") from None
        except asyncio.CancelledError:
            if self._lost is not None:
                raise self._lost from None
            if not self._stop.is_set():
                raise

    async def _lead(self) -> None:
        """No longer than we may: then everything ends at once, and is no failure of a part."""
        assert self._election is not None
        assert self._task is not None
        try:
            await self._election.keep()
        except LeadershipLost as lost:
            self._lost = lost
            self._task.cancel()

    def stop(self) -> None:
        """Have `run` end: within 4.5 s what is under way is finished and the rest let go."""
        self._stop.set()
        if self._task is not None and not self.runtime.working:
            self._task.cancel()  # it is still listing
