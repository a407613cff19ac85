"""Queues the events of Jobs, and delivers them to each sink without holding up a controller.

A subscriber of the caches only puts notices into bounded queues, one for each sink, so that a slow receiver does not
delay the others. A full queue drops the newest notice, which is logged and counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping

from job_controller.model import Job, Pod
from queue_manager.api.api_resources import JOBS, PODS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.api.workload_names import workload_name
from queue_manager.configuration.notifications_section import Notifications
from queue_manager.engine.cache import controller_uid
from queue_manager.engine.metric_registry import MetricRegistry
from queue_manager.engine.runtime import Runtime
from queue_manager.notifications.command_sink import CommandSink
from queue_manager.notifications.notice_sink_protocol import NotDelivered, Sink
from queue_manager.notifications.notices import Notice, of_job, of_workload
from queue_manager.notifications.webhook_sink import WebhookSink
from queue_manager.scheduler.past_causes import PastCauses

log = logging.getLogger(__name__)

MAX_WAITING = 1000  # notices per sink
FAILED_PODS = "notifications: controller uid of failed pods"
METRIC = "sluice_notifications_total"


class Notifier:
    """Makes notices of changes of Jobs and Workloads, and queues them. Construct it before the runtime starts."""

    def __init__(
        self, runtime: Runtime, events: Collection[str], sinks: Collection[Sink], past_causes: PastCauses
    ) -> None:
        self._events = frozenset(events)
        self._begun = runtime.clock.now().replace(microsecond=0)  # conditions have whole seconds
        self._outboxes = [_Outbox(sink, runtime.metrics) for sink in sinks]
        self._workloads = runtime.cache(WORKLOADS, Workload)
        self._past_causes = past_causes
        self._pods = runtime.cache(PODS, Pod)
        self._pods.index(FAILED_PODS, lambda pod: controller_uid(pod) if pod.status.has_failed else ())
        self._jobs, self._clock = runtime.cache(JOBS, Job), runtime.clock
        self._jobs.subscribe(self._job_changed)
        self._workloads.subscribe(self._workload_changed)
        for outbox in self._outboxes:
            runtime.task(outbox.run)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        if new is not None:
            pods = self._pods.lookup(FAILED_PODS, new.metadata.uid)
            past = self._past_causes.last_of(new.metadata.uid)
            self._put(of_job(old, new, self._begun, self._workload_of(new), pods, past))

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        job = self._job_of(new) if new is not None else None
        pods = self._pods.lookup(FAILED_PODS, new.job_uid) if new is not None else ()
        self._put(of_workload(old, new, self._begun, self._clock.now(), job, pods))

    def _job_of(self, workload: Workload) -> Job | None:
        owner = workload.metadata.controller
        found = self._jobs.get(workload.metadata.namespace, owner.name) if owner is not None else None
        return found if found is not None and found.metadata.uid == workload.job_uid else None

    def _workload_of(self, job: Job) -> Workload | None:
        meta = job.metadata
        found = self._workloads.get(meta.namespace, workload_name(meta.name, meta.uid))
        return found if found is not None and found.job_uid == meta.uid else None

    def _put(self, notice: Notice | None) -> None:
        if notice is not None and notice.type in self._events:
            for outbox in self._outboxes:
                outbox.put(notice)


class _Outbox:
    """The bounded queue of notices for one sink, and the task that delivers them."""

    def __init__(self, sink: Sink, metrics: MetricRegistry) -> None:
        self._sink = sink
        self._metrics = metrics
        self._queue: asyncio.Queue[Notice] = asyncio.Queue(MAX_WAITING)

    def put(self, notice: Notice) -> None:
        """Add a notice, or drop it if the queue is full."""
        try:
            self._queue.put_nowait(notice)
        except asyncio.QueueFull:
            self._count("dropped")
            self._warn("a notification is dropped, because too many wait", notice)

    async def run(self) -> None:
        """Deliver notices in their order until cancelled, and then log how many are lost."""
        try:
            self._sink.check()
        except (NotDelivered, ValueError) as error:
            log.warning("notifications cannot be delivered", extra={"sink": self._sink.name, "error": str(error)})
        try:
            while True:
                await self._deliver(await self._queue.get())
        finally:
            if not self._queue.empty():
                extra = {"sink": self._sink.name, "count": self._queue.qsize()}
                log.warning("notifications are lost, because this process stops", extra=extra)

    async def _deliver(self, notice: Notice) -> None:
        try:
            await self._sink.deliver(notice)
        except NotDelivered as error:
            self._count("failed")
            self._warn("a notification is not delivered", notice, str(error))
        except Exception:  # a mistake here must not stop the controllers
            self._count("failed")
            log.exception("a notification failed", extra={"sink": self._sink.name, "event": notice.id})
        else:
            self._count("delivered")

    def _count(self, result: str) -> None:
        self._metrics.inc(METRIC, {"sink": self._sink.name, "result": result})

    def _warn(self, what: str, notice: Notice, error: str = "") -> None:
        extra = {"sink": self._sink.name, "type": notice.type, "key": f"{notice.namespace}/{notice.job}"}
        log.warning(what, extra=extra | ({"error": error} if error else {}))


def attach_notifications(
    runtime: Runtime,
    settings: Notifications | None,
    past_causes: PastCauses,
    environment: Mapping[str, str] = os.environ,
) -> Notifier | None:
    """Attach the configured sinks to a runtime that has not started; None without a configured one."""
    if settings is None:
        return None
    sinks: list[Sink] = []
    webhook = settings.webhook
    if settings.command:
        hidden = {webhook.secret_env} if webhook is not None else set()
        sinks.append(CommandSink(settings.command, settings.command_timeout.total_seconds(), hidden, environment))
    if webhook is not None:
        sinks.append(WebhookSink(webhook, runtime.clock, runtime.rng, environment))
    return Notifier(runtime, settings.events, sinks, past_causes) if sinks else None
