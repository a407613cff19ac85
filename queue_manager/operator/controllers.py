"""The chosen controllers, from the first list to the last write, as often as this process is elected.

One leadership is one `Term`: a runtime, its caches and controllers, and the fence through which they write. A term that
is over is never taken up again: what it knew may be out of date, and what it still had to write may belong to another
leader by now. After a lost leadership a new term is built, as by a new process, and this process stands for election
again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable

from queue_manager.configuration import KueueConfig
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.clock_jumps import follow_clock
from queue_manager.engine.metric_registry import Exposed
from queue_manager.engine.reflector import SILENCE_SECONDS
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.throttle import throttled
from queue_manager.engine.transport import Transport
from queue_manager.metrics.workloads import ROLE
from queue_manager.operator.absence import PathsAreServed
from queue_manager.operator.election import Election, Fence, LeadershipLost
from queue_manager.operator.permissions import ALL, JOB_CONTROLLER, QUEUE
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.renewing_transport import ClusterTransport
from queue_manager.operator.rivals import RivalsAreReported
from queue_manager.wiring import attach_controllers

log = logging.getLogger(__name__)


class Controllers:
    """`run` as a task, `stop` to end it. The Job controller manages only Jobs that name it, unless configured."""

    def __init__(
        self,
        transport: ClusterTransport,
        config: KueueConfig,
        chosen: Iterable[str] = ALL,
        *,
        election: Election | None = None,
        silence: float = SILENCE_SECONDS,
        told: Callable[[str], None] = log.info,
    ) -> None:
        """`election`: who leads works; None: there is no other. `silence`: seconds without a word after which a watch
        is taken for dead. `told` takes what people should hear, a line at a time."""
        self.ready = asyncio.Event()
        self._transport = transport
        self._config = config
        self._chosen = list(chosen)
        self._election = election
        self._silence = silence
        self._told = told
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._term = self._new_term()

    @property
    def runtime(self) -> Runtime:
        """That of the current term."""
        return self._term.runtime

    def exposed(self, accept: str) -> Exposed:
        """The metrics of the current term: counters begin anew with each, as they do with a new process."""
        return self.runtime.metrics.exposed(accept)

    def reconfigure(self, config: KueueConfig) -> None:
        """Take over a new configuration, in which nothing has changed that needs a restart."""
        self._config = config
        self._term.reconfigure(config)

    def unready(self) -> str:
        """Why no traffic should come to us; empty if it may. Who waits for another leader is ready to follow it: else
        no update of a Deployment would ever get past the first replica."""
        if self._stop.is_set():
            return "stopping"
        waits = self._election is not None and not self._election.leads
        return "" if waits else self.runtime.unready()

    async def run(self) -> None:
        """Be elected, list, then work, until `stop`; again after each lost leadership.

        Raises CannotStart if listing takes too long, or what a part died of.
        """
        while not self._stop.is_set():
            self._task = asyncio.create_task(self._serve(), name="term")
            try:
                await self._task
            except LeadershipLost as lost:
                self._told(f"{lost}; stands for election again")
                self._term = self._new_term()
            except asyncio.CancelledError:
                if not self._stop.is_set():
                    raise

    async def _serve(self) -> None:
        """One term, with the lease if there is an election. Raises LeadershipLost once nothing is written any more."""
        term = self._term
        try:
            if self._election is not None:
                await self._election.win()
            await term.serve(self._ready, self._stop)
        finally:
            term.close()
            if self._election is not None:
                await self._election.release()

    def _ready(self) -> None:
        if self.ready.is_set():
            self._told("leads again")
        self.ready.set()

    def _new_term(self) -> Term:
        return Term(self._transport, self._config, self._chosen, self._election, self._silence, self._told)

    def stop(self) -> None:
        """Have `run` end: within 4.5 s what is under way is finished and the rest let go."""
        self._stop.set()
        if self._task is not None and not self.runtime.working:
            self._task.cancel()  # it stands for election, or is still listing


class Term:
    """The controllers of one leadership, on a runtime of their own."""

    def __init__(
        self,
        transport: ClusterTransport,
        config: KueueConfig,
        chosen: Iterable[str],
        election: Election | None,
        silence: float,
        told: Callable[[str], None],
    ) -> None:
        self._election = election
        served: Transport = PathsAreServed(transport)
        options = config.job_controller.options(manage="ManagedBy") if JOB_CONTROLLER in chosen else None
        if options is not None and options.manage == "All":
            served = RivalsAreReported(served, told)
        self._fence = Fence(served, election)
        limited = throttled(self._fence, config.client_connection.limit)
        self.runtime = Runtime(limited, SystemClock(), random.SystemRandom(), silence=silence)
        self._sync_timeout = config.controller.cache_sync_timeout.total_seconds()
        self._task: asyncio.Task[object] | None = None
        self._lost: LeadershipLost | None = None
        self.runtime.task(transport.follow)
        follow_clock(self.runtime)
        self._queue = attach_controllers(self.runtime, config, queue=QUEUE in chosen, job_controller=options)
        if election is not None:
            self.runtime.support(self._lead)
            self.runtime.metrics.add_label("kueue_", ROLE, "follower")

    def reconfigure(self, config: KueueConfig) -> None:
        if self._queue is not None:
            self._queue.reconfigure(config)

    def close(self) -> None:
        """From now on nothing is written, whatever of this term should still run."""
        self._fence.shut()

    async def serve(self, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """List, call `ready`, work until `stop`. Raises CannotStart, LeadershipLost, or what a part died of."""
        self._task = asyncio.current_task()
        if self._election is not None:
            self.runtime.metrics.add_label("kueue_", ROLE, "leader")
        try:
            async with asyncio.timeout(self._sync_timeout or None) as waiting, self.runtime:
                waiting.reschedule(None)
                ready()
                await stop.wait()
        except TimeoutError:
            names = ", ".join(self.runtime.unsynced())
            raise CannotStart(f"could not list {names} within {self._sync_timeout:.0f} s") from None
        except asyncio.CancelledError:
            if self._lost is not None:
                raise self._lost from None
            raise

    async def _lead(self) -> None:
        """No longer than we may: then the term ends at once, which is no failure of a part."""
        assert self._election is not None
        assert self._task is not None
        try:
            await self._election.keep()
        except LeadershipLost as lost:
            self._lost = lost
            self._fence.shut()
            self._task.cancel()
