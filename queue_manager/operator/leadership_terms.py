"""Runs the chosen controllers against a cluster while this process holds the Lease.

Each period of leadership is one `LeadershipTerm`: a runtime, its caches and controllers, and the fence that their
writes pass.
A term is never resumed: its caches may be stale, and its pending writes may conflict with those of the next leader.
After losing the Lease, the process builds a new term, as a new process would, and becomes a candidate again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable
from typing import Literal

from queue_manager.configuration import KueueConfig
from queue_manager.configuration.published_form import published_data
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.clock_jumps import follow_clock
from queue_manager.engine.metric_registry import Exposition, MetricRegistry
from queue_manager.engine.reflector import SILENCE_SECONDS
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.engine.request_throttle import throttled
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Transport
from queue_manager.metrics.queue_metrics import ROLE
from queue_manager.operator.config_publication import ConfigPublication
from queue_manager.operator.election import Election, Fence, LeadershipLost
from queue_manager.operator.preflight import CannotStart
from queue_manager.operator.required_permissions import ALL, JOB_CONTROLLER, QUEUE
from queue_manager.operator.second_job_controller import SecondControllerDetector
from queue_manager.operator.standby import Standby
from queue_manager.operator.unserved_paths import UnservedPathTransport
from queue_manager.visibility_api import VisibilityApi
from queue_manager.wiring import attach_controllers

log = logging.getLogger(__name__)

MASTER_STATUS = "leader_election_master_status"  # as controller-runtime names it


class Controllers:
    """Run `run` as a task and end it with `stop`.

    The Job controller manages only Jobs with its name in spec.managedBy, unless `jobController.manage` is All.
    """

    def __init__(
        self,
        transport: ClusterTransport,
        config: KueueConfig,
        chosen: Iterable[str] = ALL,
        *,
        election: Election | None = None,
        namespaces: Collection[str] = (),
        silence: float = SILENCE_SECONDS,
        report: Callable[[str], None] = log.info,
        metrics: MetricRegistry | None = None,
        stands_by: bool = False,
        beside: Callable[[Transport], Transport] | None = None,
    ) -> None:
        """`election`: None if no other manager can exist. `report` logs one line for users.

        `namespaces`: the controllers see only objects of these, and of kinds without a namespace; (): all.
        `metrics`: metrics of other parts of the process, which are served with the metrics of each term.
        `stands_by`: answer the visibility API while another process leads, too.
        `beside`: puts the objects without a namespace beside the transport; None: the API server has them.
        `silence`: seconds without data after which a watch counts as broken.
        """
        self.ready = asyncio.Event()
        self._transport = transport
        self._config = config
        self._chosen = list(chosen)
        self._election = election
        self._namespaces = namespaces
        self._silence = silence
        self._report = report
        self._metrics = metrics
        self._beside = beside
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._term = self._new_term()
        self._stands_by = stands_by and election is not None
        self._standby: Standby | None = None

    @property
    def runtime(self) -> Runtime:
        """Return the runtime of the current term."""
        return self._term.runtime

    async def expose(self, accept: str) -> Exposition:
        """Return the metrics of the current term. Counters restart at 0 with each term, as in a new process."""
        return await self.runtime.metrics.expose(accept)

    def visibility(self) -> VisibilityApi | None:
        """Return the visibility API, of the standby while this process does not lead; None while the caches fill."""
        leads = self._election is None or self._election.is_leader
        if leads and not self.runtime.unready():
            return self._term.visibility
        return self._standby.visibility if self._standby is not None else None

    def reconfigure(self, config: KueueConfig) -> None:
        """Apply a new configuration. The caller has checked that no field changed that needs a restart."""
        self._config = config
        self._term.reconfigure(config)
        if self._standby is not None:
            self._standby.reconfigure(config)

    def unready(self) -> str:
        """Return why /readyz must fail, or "" if the process is ready.

        A candidate that waits for the Lease is ready once its standby is. Otherwise a rolling update of a Deployment
        could not proceed past its first replica.
        """
        if self._stop.is_set():
            return "stopping"
        if self._election is not None and not self._election.is_leader:
            return self._standby.unready() if self._standby is not None else ""
        return self.runtime.unready()

    async def run(self) -> None:
        """Acquire the Lease, fill the caches and run the controllers until `stop`; start over after a lost Lease.

        Raises CannotStart if listing takes too long, or the exception that ended a task of the runtime.
        """
        while not self._stop.is_set():
            self._task = asyncio.create_task(self._serve(), name="term")
            try:
                await self._task
            except LeadershipLost as lost:
                self._report(f"{lost}; becomes a candidate again")
                self._term = self._new_term()
            except asyncio.CancelledError:
                if not self._stop.is_set():
                    raise

    async def _serve(self) -> None:
        """Run one term, under the Lease if election is enabled. Raises LeadershipLost after the term's last write."""
        term = self._term
        try:
            if self._election is not None:
                await self._acquire(self._election)
            await term.serve(self._ready, self._stop)
        finally:
            term.close()
            if self._standby is not None:
                await self._standby.stopped()
                self._standby = None
            if self._election is not None:
                await self._election.release()

    async def _acquire(self, election: Election) -> None:
        """Acquire the Lease; while another process holds it, the standby answers."""
        if not self._stands_by:
            await election.acquire()
            return
        self._standby = Standby(self._transport, self._config, self._namespaces, self._silence)
        await election.acquire(self._standby.start)

    def _ready(self) -> None:
        if self._standby is not None:
            self._standby.stop()
        if self.ready.is_set():
            self._report("is the leader again")
        self.ready.set()

    def _new_term(self) -> LeadershipTerm:
        term = LeadershipTerm(
            self._transport,
            self._config,
            self._chosen,
            self._election,
            self._namespaces,
            self._silence,
            self._report,
            self._beside,
        )
        if self._metrics is not None:
            term.runtime.metrics.include(self._metrics)
        return term

    def stop(self) -> None:
        """End `run`. Requests in flight get up to 4.5 s to finish; the remaining work is cancelled."""
        self._stop.set()
        if self._task is not None and not self.runtime.is_working:
            self._task.cancel()  # `run` is waiting for the Lease or filling the caches


class LeadershipTerm:
    """The controllers of one leadership, on a runtime of their own."""

    def __init__(
        self,
        transport: ClusterTransport,
        config: KueueConfig,
        chosen: Iterable[str],
        election: Election | None,
        namespaces: Collection[str],
        silence: float,
        report: Callable[[str], None],
        beside: Callable[[Transport], Transport] | None,
    ) -> None:
        self._election = election
        self._namespaces = namespaces
        self._has_objects_from_files = beside is not None
        served: Transport = UnservedPathTransport(transport)
        if beside is not None:
            served = beside(served)
        options = config.job_controller.options(manage="ManagedBy") if JOB_CONTROLLER in chosen else None
        if options is not None and options.manage == "All":
            served = SecondControllerDetector(served, report)
        self._fence = Fence(served, election)
        limit = config.client_connection.limit
        self.runtime = Runtime(
            throttled(self._fence, limit),
            SystemClock(),
            random.Random(),
            silence=silence,
            event_transport=throttled(self._fence, limit),
            namespaces=namespaces,
            cluster_events=beside is None,
            server=transport.access.server,
        )
        self._sync_timeout = config.controller.cache_sync_timeout.total_seconds()
        self._task: asyncio.Task[object] | None = None
        self._lost: LeadershipLost | None = None
        self.runtime.task(transport.follow)
        follow_clock(self.runtime)
        self._queue = attach_controllers(self.runtime, config, queue=QUEUE in chosen, job_controller=options)
        self._publication = ConfigPublication(
            self.runtime.client, namespaces, self._published(config), self.runtime.rng
        )
        if QUEUE in chosen:
            self.runtime.task(self._publication.run)
        if election is not None:
            self.runtime.support(self._lead)
            self._report_role("follower")

    def reconfigure(self, config: KueueConfig) -> None:
        """Apply a new configuration to the queue's controllers."""
        if self._queue is not None:
            self._queue.reconfigure(config)
            self._publication.put(self._published(config))

    def _published(self, config: KueueConfig) -> dict[str, str]:
        election = self._election
        return published_data(
            config,
            self._namespaces,
            (election.namespace, election.lease) if election else None,
            holder=election.name if election else "",
            has_objects_from_files=self._has_objects_from_files,
        )

    @property
    def visibility(self) -> VisibilityApi | None:
        """Return the visibility API; None without the queue's controllers."""
        return self._queue.visibility if self._queue is not None else None

    def close(self) -> None:
        """Close the fence: writes of tasks of this term that still run are rejected."""
        self._fence.reject_writes()

    async def serve(self, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Fill the caches, call `ready`, run until `stop` is set.

        Raises CannotStart, LeadershipLost, or the exception that ended a task of the runtime.
        """
        self._task = asyncio.current_task()
        if self._election is not None:
            self._report_role("leader")
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

    def _report_role(self, role: Literal["leader", "follower"]) -> None:
        assert self._election is not None
        self.runtime.metrics.add_label("kueue_", ROLE, role)
        self.runtime.metrics.set(MASTER_STATUS, {"name": self._election.lease}, float(role == "leader"))

    async def _lead(self) -> None:
        """Renew the Lease until it is lost, then end the term immediately. Losing the Lease is not a task failure."""
        assert self._election is not None
        assert self._task is not None
        try:
            await self._election.renew()
        except LeadershipLost as lost:
            self._lost = lost
            self._fence.reject_writes()
            self._task.cancel()
