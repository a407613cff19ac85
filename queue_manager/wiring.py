"""Puts the queue together: its controllers on one runtime, and the rules for what is submitted to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from job_controller.json_tree import Json
from job_controller.model import Job
from job_controller.ports import PodPermits
from queue_manager.api.keys import DEFAULT_NAME
from queue_manager.api.resources import LOCAL_QUEUES, NAMESPACES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from queue_manager.api.types import LocalQueue, Namespace, Workload, WorkloadPriorityClass
from queue_manager.api.webhook import QueueAdmission, WithoutEffectWarnings
from queue_manager.configuration import KueueConfig
from queue_manager.engine.runtime import Runtime
from queue_manager.jobs.controller import JobQueueController
from queue_manager.jobs.standing import JobStanding
from queue_manager.jobs.webhook import JobAdmission, SubmissionContext
from queue_manager.lifecycle.settings import Settings, settings_of, taken_over
from queue_manager.metrics.workloads import QueueMetrics
from queue_manager.scheduler.admission_loop import Scheduler
from queue_manager.scheduler.job_pods import JobPods, uses_node
from queue_manager.scheduler.queue_status import QueueStatusController
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.without_effect_events import WithoutEffectEvents
from queue_manager.scheduler.workload_controller import WorkloadController
from queue_manager.scheduler.workload_writer import WorkloadWriter


@dataclass(frozen=True, slots=True)
class QueueManager:
    """What others reach of the queue; the rest runs by itself."""

    ledger: QuotaCache
    scheduler: Scheduler
    permits: PodPermits  # for a Job controller on the same runtime
    admission: tuple[
        JobAdmission | QueueAdmission | WithoutEffectWarnings, ...
    ]  # to be mounted by the embedded API server
    reconfigure: Callable[[KueueConfig], None]  # with what `configuration.reloading` does not refuse


def add_queue_controllers(runtime: Runtime, config: KueueConfig) -> QueueManager:
    """Construct all controllers of the queue on a runtime that has not started yet."""
    settings = settings_of(config)
    writer = WorkloadWriter(runtime, runtime.cache(WORKLOADS, Workload))
    ledger = QuotaCache(runtime, settings)
    scheduler = Scheduler(runtime, settings, ledger, writer)
    running = JobPods(runtime, "use nodes", uses_node)
    workloads = WorkloadController(runtime, settings, ledger, writer, running)
    standing = JobStanding(runtime, settings, running)
    jobs = JobQueueController(runtime, settings, writer, running, standing)
    QueueStatusController(runtime, ledger)
    WithoutEffectEvents(runtime)
    metrics = QueueMetrics(runtime, ledger, writer, config.metrics)
    lookup = _Lookup(runtime, settings, standing)

    def reconfigure(new: KueueConfig) -> None:
        lookup.settings = taken_over(lookup.settings, settings_of(new), runtime.clock.now())
        for user in (jobs, workloads, scheduler, ledger):
            user.use(lookup.settings)
        metrics.chosen = new.metrics

    admission = (JobAdmission(lookup), QueueAdmission(), WithoutEffectWarnings())
    return QueueManager(ledger, scheduler, standing, admission, reconfigure)


class _Lookup:
    """What is around a Job, from the caches."""

    def __init__(self, runtime: Runtime, settings: Settings, standing: JobStanding) -> None:
        self.settings = settings
        self._standing = standing
        self._namespaces = runtime.cache(NAMESPACES, Namespace)
        self._local_queues = runtime.cache(LOCAL_QUEUES, LocalQueue)
        self._classes = runtime.cache(WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)

    def __call__(self, job: Json) -> SubmissionContext:
        meta = job.get("metadata") or {}
        name = meta.get("namespace", "")
        namespace = self._namespaces.get("", name)
        own = namespace.metadata.labels if namespace is not None else {}
        return SubmissionContext(
            managed=self.settings.manages({"kubernetes.io/metadata.name": name, **own}),
            manage_all=self.settings.manage_all,
            default_queue=self._local_queues.get(name, DEFAULT_NAME) is not None,
            default_class=self._classes.get("", DEFAULT_NAME) is not None,
            bounds=self.settings.bounds,
            owner_managed=self._standing.parent(_head(meta)) is not None,
        )


def _head(meta: Json) -> Job:
    """The part of a submitted Job by which its parent is found."""
    kept = {name: meta[name] for name in ("namespace", "labels", "ownerReferences") if meta.get(name)}
    return msgspec.convert({"metadata": kept}, Job)
