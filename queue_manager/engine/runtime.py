"""The base of all controllers: caches, a client, Event recorders, workers and tasks, started and stopped together.

    runtime = Runtime(transport, clock, rng)
    controller = Controller(runtime)        # subscribes to caches, registers workers and tasks
    async with runtime:                     # reflectors -> synced -> workers and tasks
        await stopped                       # the program's own reason to end

Controllers are constructed before the start, so that every index and subscriber exists when the first object arrives. A
worker loop, reflector or task that raises ends the `async with` block with its error; a failing sync of a key does not,
the queue retries that key.

Stopping takes less than five seconds, and the `end_seconds` of support parts beyond that: queues drop the keys that are
not started, workers finish their current key, recorders write pending Events, then the rest is cancelled. Cancelling is
safe because every write leaves a state from which the next start continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Self

from job_controller.model import Object
from job_controller.ports import Clock
from queue_manager.api.api_resources import Resource
from queue_manager.engine.cache import Cache, T
from queue_manager.engine.event_deferral import EventDeferral
from queue_manager.engine.event_recorder import EventRecorder
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.namespaced_cache import NamespacedCache
from queue_manager.engine.reflector import SILENCE_SECONDS, Reflector
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Transport
from queue_manager.engine.workqueue import K, WorkQueue

log = logging.getLogger(__name__)

# Together less than 5 s.
FINISH_SECONDS = 2.0  # for workers to finish their current key
DELIVER_SECONDS = 1.0  # for each recorder to write its Events
CANCEL_SECONDS = 0.5  # each for tasks, workers and reflectors to end after cancel()

BACKLOG_KEYS = 32  # queued keys, over all queues
BACKLOG_WRITES = 4  # urgent writes, queued or under way
SILENCE = "reflector_silence_seconds"
COMPONENT = "sluice"  # reporting component of Events about undecodable objects

Work = Callable[[], Coroutine[Any, Any, object]]


@dataclass(frozen=True, slots=True)
class _Part:
    """A coroutine function that runs as long as the runtime; `group` receives its task."""

    name: str
    run: Work
    group: list[asyncio.Task[object]]


class Runtime:
    """Runs controllers on one API server, with a client, caches fed by watches, work queues and Event recorders."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        rng: Random,
        *,
        metrics: MetricRegistry | None = None,
        silence: float | None = SILENCE_SECONDS,
        event_transport: Transport | None = None,
        namespaces: Collection[str] = (),
        cluster_events: bool = True,
        server: str = "",
    ) -> None:
        """`silence`: seconds without a byte after which a watch is abandoned; None: the server is in this process.

        `event_transport` sends the Events, so that a rate limit of `transport` does not count them; None: `transport`.
        `namespaces`: caches have only the objects of these; (): of all. `cluster_events`: write Events about objects
        without a namespace. `server`: its URL, for traces; "": none.
        """
        self.metrics = MetricRegistry() if metrics is None else metrics
        self.client = RestClient(transport, self.metrics, server=server)
        self._event_client = (
            self.client if event_transport is None else RestClient(event_transport, self.metrics, server=server)
        )
        self.clock = clock
        self.rng = rng
        self._transport = transport
        self._silence = silence
        self.namespaces = tuple(dict.fromkeys(namespaces))
        self._cluster_events = cluster_events
        self._caches: dict[tuple[Resource, type, str, str], Cache[Any]] = {}
        self._reflectors: list[Reflector[Any]] = []
        self._recorders: dict[str, EventRecorder] = {}
        self._queues: list[WorkQueue[Any]] = []
        self._urgent_writes: list[Callable[[], int]] = []
        self._event_deferral = EventDeferral(self.is_backlogged)
        self._end_seconds = CANCEL_SECONDS  # of support parts
        self._support_parts: list[_Part] = []  # started before the first list
        self._parts: list[_Part] = []  # workers and tasks, started when the caches are synced
        self._support_tasks: list[asyncio.Task[object]] = []  # of support parts, reflectors and recorders: stopped last
        self._worker_tasks: list[asyncio.Task[object]] = []
        self._tasks: list[asyncio.Task[object]] = []
        self._parent: asyncio.Task[Any] | None = None  # the task inside `async with`
        self._started = False
        self._stopping = False
        self._fatal_error: BaseException | None = None
        self._interrupted = False
        self.metrics.before_exposition(self._measure_silence)

    # --- what controllers use ---

    def cache(
        self, resource: Resource, type: type[T], *, label_selector: str = "", field_selector: str = ""
    ) -> Cache[T]:
        """The cache of a collection. Equal arguments return the same cache."""
        chosen = (resource, type, label_selector, field_selector)
        if chosen not in self._caches:
            selectors = {"label_selector": label_selector, "field_selector": field_selector}
            made = self._caches[chosen] = self._cache(resource, type, selectors)
            self.client.attach_cache(made, resource, type, **selectors)
        cache: Cache[T] = self._caches[chosen]
        return cache

    def recorder(self, component: str) -> EventRecorder:
        """The recorder of the Events that `component` reports."""
        recorder = self._recorders.get(component)
        if recorder is None:
            recorder = EventRecorder(
                self._event_client,
                self.clock,
                component,
                pace=self._event_deferral,
                metrics=self.metrics,
                cluster_wide=self._cluster_events,
            )
            self._recorders[component] = recorder
            self._support(f"events {component}", recorder.run)
        return recorder

    def worker(self, queue: WorkQueue[K], sync: Callable[[K], Awaitable[object]], concurrency: int = 1) -> None:
        """Call `sync` for each key of the queue, at most `concurrency` keys at a time."""
        self._queues.append(queue)
        self._part(_Part(f"worker {queue.name}", lambda: queue.run(sync, concurrency), self._worker_tasks))

    def task(self, run: Work) -> None:
        """Run a coroutine function beside the workers until the runtime stops. An exception in it stops the runtime."""
        self._part(_Part(f"task {getattr(run, '__qualname__', '')}", run, self._tasks))

    def support(self, run: Work, *, end_seconds: float = CANCEL_SECONDS) -> None:
        """Run a coroutine function from before the first list until after the last write. An exception stops the
        runtime. `end_seconds`: how long it may take to end after it is cancelled.
        """
        self._end_seconds = max(self._end_seconds, end_seconds)
        self._support_parts.append(_Part(f"support {getattr(run, '__qualname__', '')}", run, self._support_tasks))

    def add_urgent_writes(self, count: Callable[[], int]) -> None:
        """Register a function that counts the unfinished writes that let work run; Events wait for these."""
        self._urgent_writes.append(count)

    def is_backlogged(self) -> bool:
        """Whether BACKLOG_KEYS or more keys are queued over all queues, or BACKLOG_WRITES or more urgent writes."""
        urgent = sum(count() for count in self._urgent_writes)
        return urgent >= BACKLOG_WRITES or urgent + sum(map(len, self._queues)) >= BACKLOG_KEYS

    def resync_delayed(self) -> None:
        """Sync all delayed keys now, because the clock may have jumped past their time."""
        for queue in self._queues:
            queue.flush_delayed()

    # --- start and stop ---

    @property
    def is_working(self) -> bool:
        """Whether the caches are synced and the workers run, and the runtime is not stopping."""
        return self._started and not self._stopping and self._fatal_error is None

    def unready(self) -> str:
        """Why the runtime is not working, as text; "" if it is."""
        return "" if self.is_working else f"not listed yet: {', '.join(self.unsynced()) or 'nothing started'}"

    def unsynced(self) -> list[str]:
        """Names of the collections that have not been listed yet."""
        return list(dict.fromkeys(str(r.resource) for r in self._reflectors if not r.synced.is_set()))

    async def __aenter__(self) -> Self:
        if self._parent is not None:
            raise RuntimeError("a Runtime can run only once")
        self._parent = asyncio.current_task()
        try:
            for part in self._support_parts:
                self._start(part.name, part.run, part.group)
            for reflector in self._reflectors:
                self._start(f"reflector {reflector.resource}", reflector.run, self._support_tasks)
            for recorder in self._recorders.values():
                self._start(f"events {recorder.component}", recorder.run, self._support_tasks)
            for reflector in list(self._reflectors):
                await reflector.synced.wait()
        except asyncio.CancelledError as error:
            await self._stop(0.0)
            self._settle(error)
            raise
        self._started = True
        for part in self._parts:
            self._start(part.name, part.run, part.group)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything. Raises the error of a part that failed, unless the block itself raised."""
        await self._stop(0.0 if error is not None else FINISH_SECONDS)
        self._settle(error)

    def _settle(self, error: BaseException | None) -> None:
        """If a failed part has cancelled the block, raise the error of the part instead of CancelledError."""
        assert self._parent is not None
        cancelled_by_others = self._interrupted and self._parent.uncancel() > 0
        by_fatal_error = isinstance(error, asyncio.CancelledError) and self._interrupted and not cancelled_by_others
        if self._fatal_error is not None and (error is None or by_fatal_error):
            raise self._fatal_error

    async def _stop(self, grace_seconds: float) -> None:
        """Stop tasks, then workers (after up to `grace_seconds`), then recorders, last the reflectors."""
        self._stopping = True
        await _cancel(self._tasks)
        for queue in self._queues:
            queue.close()
        if self._worker_tasks and grace_seconds:
            await asyncio.wait(self._worker_tasks, timeout=grace_seconds)
        await _cancel(self._worker_tasks)
        if self._started:
            for recorder in list(self._recorders.values()):  # reflectors still run, and may make a recorder
                await recorder.drain(DELIVER_SECONDS if grace_seconds else 0.0)
        await _cancel(self._support_tasks, self._end_seconds)

    # --- parts ---

    def _cache(self, resource: Resource, type: type[T], selectors: Mapping[str, str]) -> Cache[T]:
        """Create a cache and the reflectors that fill it."""
        if not resource.namespaced or not self.namespaces:
            return self._reflected(resource, type, selectors)
        parts = {each: self._reflected(resource, type, selectors, each) for each in self.namespaces}
        return NamespacedCache(str(resource), parts)

    def _reflected(
        self, resource: Resource, type: type[T], selectors: Mapping[str, str], namespace: str = ""
    ) -> Cache[T]:
        cache: Cache[T] = Cache(str(resource))
        reflector = Reflector(
            self._transport,
            resource,
            type,
            cache,
            rng=self.rng,
            namespace=namespace,
            **selectors,
            metrics=self.metrics,
            undecodable=self._report_undecodable,
            silence=self._silence,
        )
        self._reflectors.append(reflector)
        self._support(f"reflector {resource}", reflector.run)
        return cache

    def _measure_silence(self) -> None:
        """Set the gauge of each resource: the longest silence among its watches."""
        longest: dict[str, float] = {}
        for reflector in self._reflectors:
            if (seconds := reflector.silent_for()) is not None:
                name = str(reflector.resource)
                longest[name] = max(seconds, longest.get(name, 0.0))
        for name, seconds in longest.items():
            self.metrics.set(SILENCE, {"resource": name}, seconds)

    def _report_undecodable(self, head: Object, why: str) -> None:
        self.recorder(COMPONENT).event(head, "Warning", "Undecodable", f"The object is ignored: {why}")

    def _support(self, name: str, run: Work) -> None:
        """Start a reflector or recorder immediately if it was requested after the start."""
        if self._parent is not None and not self._stopping:
            self._start(name, run, self._support_tasks)

    def _part(self, part: _Part) -> None:
        self._parts.append(part)
        if self._started and not self._stopping:
            self._start(part.name, part.run, part.group)

    def _start(self, name: str, run: Work, group: list[asyncio.Task[object]]) -> None:
        task: asyncio.Task[object] = asyncio.create_task(run(), name=name)
        task.add_done_callback(self._ended)
        group.append(task)

    def _ended(self, task: asyncio.Task[object]) -> None:
        if task.cancelled():
            error: BaseException | None = None if self._stopping else RuntimeError("cancelled from outside the runtime")
        else:
            error = _single(task.exception())
        if error is None:
            return
        log.critical("a part of the runtime failed", extra={"part": task.get_name()}, exc_info=error)
        if self._fatal_error is None:
            self._fatal_error = error
        if not self._stopping and not self._interrupted and self._parent is not None:
            self._interrupted = True
            self._parent.cancel()


async def _cancel(tasks: list[asyncio.Task[object]], seconds: float = CANCEL_SECONDS) -> None:
    """Cancel tasks and wait for them; log those that are still running after `seconds`."""
    for task in tasks:
        task.cancel()
    running = [task for task in tasks if not task.done()]
    if not running:
        return
    _, stuck = await asyncio.wait(running, timeout=seconds)
    for task in stuck:
        log.error("a part of the runtime does not stop", extra={"part": task.get_name()})


def _single(error: BaseException | None) -> BaseException | None:
    """The only error in an exception group of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
