"""Records Events as client-go's recorder does, and writes them in the background.

`event` puts a record into a bounded queue and returns; it never blocks, fails or waits for the API server. Each object
has a queue of its own, so that its Events arrive in the order in which they were recorded, and a slow response about
one object delays no other. `event_correlation` merges repeated Events, aggregates similar ones and limits how many one
object can cause. An Event that cannot be written after a few attempts is counted in `events_dropped_total` and logged.

Syncs and status writes go first: `EventDeferral` slows all recorders of a runtime down while there is a backlog. Beyond
MAX_PENDING the newest Events are dropped and counted. BEHAVIOUR.md#q60-pending-events.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Literal, NamedTuple

from job_controller.model import Object
from job_controller.ports import Clock, Metrics
from job_controller.times import timestamp
from queue_manager.api.api_resources import EVENTS
from queue_manager.engine.cause_ids import CURRENT, CauseId
from queue_manager.engine.event_correlation import Correlator, Occurrence
from queue_manager.engine.event_deferral import EventDeferral
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH, ApiError
from queue_manager.engine.workqueue import WorkQueue

log = logging.getLogger(__name__)

MAX_PENDING = 50_000  # Events in memory, over all objects; about 1 KB each
MAX_MESSAGE = 1024  # characters; the API server refuses longer messages
MAX_NAME = 253  # characters
MAX_NAMES_TAKEN = 100  # attempts to find a free name
CONCURRENCY = 8  # delivery workers
RETRY_DELAYS_SECONDS = (1.0, 2.0, 4.0, 8.0)  # between attempts
# Besides 429 and 5xx; other 4xx statuses are final.
RETRYABLE_STATUSES = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ObjectReference(NamedTuple):
    """core/v1 ObjectReference."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str

    @property
    def object(self) -> tuple[str, ...]:
        """All fields but resourceVersion: equal for all versions of an object."""
        return self[:-1]


class Pending(NamedTuple):
    """An Event that was recorded at `time` and is not written yet."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    time: datetime
    cause: CauseId | None = None


class EventRecorder:
    """Implements `job_controller.ports.Events`. Call `run` as a task."""

    def __init__(
        self,
        client: RestClient,
        clock: Clock,
        component: str,
        *,
        pace: EventDeferral | None = None,
        metrics: Metrics | None = None,
        cluster_wide: bool = True,
    ) -> None:
        """`pace`: the pace that all recorders of the client share; None: this recorder alone has one, and knows no
        backlog.

        `cluster_wide`: whether Events about objects without a namespace are written, or only logged.
        """
        self.component = component
        self.dropped = 0
        self._client = client
        self._clock = clock
        self._pace = EventDeferral() if pace is None else pace
        self._metrics = metrics
        self._cluster_wide = cluster_wide
        self._by_object: dict[str, list[Pending]] = {}  # uid (or name) of the object -> its Events, oldest first
        self._pending = 0
        self._queue: WorkQueue[str] = WorkQueue(f"events-{component}", traced=False)
        self._correlator = Correlator()
        self._last_name = 0
        self._running: asyncio.Task[Any] | None = None

    def event(self, regarding: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Record an Event about an object; returns immediately. Messages are cut at MAX_MESSAGE characters."""
        meta = regarding.metadata
        if not meta.namespace and not self._cluster_wide:
            log.info(message, extra={"kind": regarding.kind, "key": meta.name, "reason": reason})
            return
        reference = ObjectReference(
            regarding.api_version, regarding.kind, meta.namespace, meta.name, meta.uid, meta.resource_version
        )
        if self._pace.pending >= MAX_PENDING:
            self._report_lost(reference, reason, "too many Events are waiting for the API server")
            return
        object_id = meta.uid or str(meta.key)
        self._by_object.setdefault(object_id, []).append(
            Pending(reference, type, reason, message[:MAX_MESSAGE], self._clock.now(), CURRENT.get())
        )
        self._pending += 1
        self._pace.pending += 1
        self._queue.add(object_id)

    async def run(self) -> None:
        """Write Events until cancelled, or until `drain` has written the rest."""
        self._running = asyncio.current_task()
        await self._queue.run(self._deliver_for_object, CONCURRENCY)

    async def drain(self, seconds: float) -> None:
        """Stop; allow `seconds` for writing the Events that are already recorded."""
        self._queue.finish()
        if self._running is not None:
            await asyncio.wait([self._running], timeout=seconds)
        if self._pending:
            log.warning("Events not delivered before the stop", extra={"count": self._pending})
        self._queue.close()

    async def _deliver_for_object(self, object_id: str) -> None:
        events = self._by_object.get(object_id)
        if events is None:
            return  # the previous delivery has written these Events too
        while events:
            try:
                await self._deliver(events[0])
            finally:
                del events[0]
                self._pending -= 1
                self._pace.pending -= 1
        del self._by_object[object_id]

    async def _deliver(self, event: Pending) -> None:
        CURRENT.set(event.cause)
        occurrence = self._correlator.take(
            (self.component, *event.regarding.object), event.type, event.reason, event.message, event.time
        )
        if occurrence is None:
            self._count("events_suppressed_total")
            return
        for delay in (*RETRY_DELAYS_SECONDS, None):
            try:
                async with self._pace.turn():
                    await self._write(event, occurrence)
                return
            except ApiError as error:
                if not error.is_passing and error.status not in RETRYABLE_STATUSES:
                    self._report_lost(event.regarding, event.reason, str(error))
                    return
                why = str(error)
            except OSError as error:
                why = str(error)
            if delay is not None:
                await asyncio.sleep(delay)
        self._report_lost(event.regarding, event.reason, why)

    async def _write(self, event: Pending, occurrence: Occurrence) -> None:
        """Increase the count of the existing Event, or create one."""
        namespace = event.regarding.namespace or "default"
        if occurrence.name:
            patch = {
                "count": occurrence.count,
                "lastTimestamp": timestamp(event.time),
                "message": occurrence.message,
            }
            try:
                await self._client.patch(
                    EVENTS, namespace, occurrence.name, patch, content_type=STRATEGIC_PATCH, type=Object
                )
                return
            except ApiError as error:
                if not error.is_not_found:  # Events expire after an hour: create another one
                    raise
        name = await self._create(namespace, event, occurrence)
        self._correlator.written(occurrence, name)

    async def _create(self, namespace: str, event: Pending, occurrence: Occurrence) -> str:
        """Create the Event and return its name; if another recorder has taken the name, try the next."""
        for _ in range(MAX_NAMES_TAKEN):
            name = self._name(event)
            try:
                await self._client.create(EVENTS, namespace, self._manifest(name, event, occurrence), type=Object)
                return name
            except ApiError as error:
                if not error.is_name_taken:
                    raise
        raise OSError(f"{MAX_NAMES_TAKEN} names are taken")

    def _manifest(self, name: str, event: Pending, occurrence: Occurrence) -> dict[str, Any]:
        regarding = event.regarding
        reference = {
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
            "apiVersion": regarding.api_version,
            "resourceVersion": regarding.resource_version,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": regarding.namespace or "default"},
            "involvedObject": {field: value for field, value in reference.items() if value},
            "type": event.type,
            "reason": event.reason,
            "message": occurrence.message,
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": "",  # the host name, which controllers leave empty
            "eventTime": None,
            "firstTimestamp": timestamp(occurrence.first),
            "lastTimestamp": timestamp(event.time),
            "count": occurrence.count,
        }

    def _name(self, event: Pending) -> str:
        """`<object>.<hex of the time in ns>`, strictly increasing: under a virtual clock Events can share a time."""
        nanoseconds = (event.time - EPOCH) // timedelta(microseconds=1) * 1000
        self._last_name = max(nanoseconds, self._last_name + 1)
        suffix = f".{self._last_name:x}"
        return event.regarding.name[: MAX_NAME - len(suffix)] + suffix

    def _report_lost(self, regarding: ObjectReference, reason: str, why: str) -> None:
        self.dropped += 1
        self._count("events_dropped_total")
        if self.dropped & (self.dropped - 1):
            return  # log only the 1st, 2nd, 4th, 8th ...
        key = f"{regarding.namespace}/{regarding.name}" if regarding.namespace else regarding.name
        extra = {"key": key, "uid": regarding.uid, "reason": reason, "error": why, "lost": self.dropped}
        log.error("an Event is lost", extra=extra)

    def _count(self, metric: str) -> None:
        if self._metrics is not None:
            self._metrics.inc(metric, {"component": self.component})
