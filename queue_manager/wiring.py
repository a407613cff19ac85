"""The composition root: attaches every controller to a runtime, for all shells in the same way.

A controller is attached before its runtime starts, in one of two equivalent ways:

    Controller(runtime, ...)        a controller of `queue_manager`: its constructor subscribes it to the caches and
                                    registers its workers and tasks with the runtime
    attach_...(runtime, ...)        in `hosting`, for the controllers of `job_controller`, which know no Runtime

A shell (`local.local_cluster`, `operator.leadership_terms`, `simulation.world`) calls `attach_controllers` once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, overload

from job_controller.json_tree import Json
from job_controller.options import JobControllerOptions
from job_controller.ports import PodPermits
from queue_manager.accounting.recorder import HistoryRecorder
from queue_manager.api.api_resources import WORKLOADS
from queue_manager.api.queue_admission import QueueAdmission, WithoutEffectWarnings
from queue_manager.api.types import Workload
from queue_manager.configuration import KueueConfig
from queue_manager.engine.runtime import Runtime
from queue_manager.hosting.job_controller_port import attach_job_controller
from queue_manager.hosting.pod_controllers import attach_pod_controllers
from queue_manager.jobs.class_admission import PriorityClassAdmission
from queue_manager.jobs.controller import JobQueueController
from queue_manager.jobs.job_permits import JobPermits
from queue_manager.jobs.submission_contexts import SubmissionContexts, ownership, queue_of_import
from queue_manager.jobs.webhook import JobAdmission, SubmissionContext
from queue_manager.lifecycle.workload_settings import reconfigured, settings_of
from queue_manager.metrics.queue_metrics import QueueMetrics
from queue_manager.notifications.notifier import attach_notifications
from queue_manager.scheduler.admission_loop import Scheduler
from queue_manager.scheduler.attempt_causes import AttemptCauses
from queue_manager.scheduler.job_pods import JobPods, uses_node
from queue_manager.scheduler.past_causes import PastCauses
from queue_manager.scheduler.protections import Protections
from queue_manager.scheduler.queue_status import QueueStatusController
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.without_effect_events import WithoutEffectEvents
from queue_manager.scheduler.workload_controller import WorkloadController
from queue_manager.scheduler.workload_writer import WorkloadWriter
from queue_manager.visibility.pending_summary import PendingSummaries
from queue_manager.visibility_api import Explanations, VisibilityApi


@dataclass(frozen=True, slots=True)
class QueueManager:
    """The parts of the attached queue controllers that a shell uses."""

    quota_cache: QuotaCache
    scheduler: Scheduler
    visibility: VisibilityApi
    permits: PodPermits  # decides for the Job controller which Jobs may have pods
    # Plugins for the embedded API server.
    admission: tuple[JobAdmission | QueueAdmission | PriorityClassAdmission | WithoutEffectWarnings, ...]
    reconfigure: Callable[[KueueConfig], None]  # applies a configuration that `configuration.reloading` accepts


@overload
def attach_controllers(
    runtime: Runtime,
    config: KueueConfig,
    *,
    queue: Literal[True] = True,
    job_controller: JobControllerOptions | None = None,
    pod_controllers: bool = False,
    history: str = "",
) -> QueueManager: ...


@overload
def attach_controllers(
    runtime: Runtime,
    config: KueueConfig,
    *,
    queue: bool,
    job_controller: JobControllerOptions | None = None,
    pod_controllers: bool = False,
    history: str = "",
) -> QueueManager | None: ...


def attach_controllers(
    runtime: Runtime,
    config: KueueConfig,
    *,
    queue: bool = True,
    job_controller: JobControllerOptions | None = None,
    pod_controllers: bool = False,
    history: str = "",
) -> QueueManager | None:
    """Attach the chosen controllers to a runtime that has not started yet. Returns the queue, or None without `queue`.

    `job_controller`: options of the embedded Job controller; None if kube-controller-manager runs the Jobs. With
    `queue` the embedded controller creates pods only for Jobs that the queue permits. `pod_controllers`: also run pod
    garbage collection and clear stale disruption conditions, for clusters without kube-controller-manager. `history`:
    the URL of the queue's history if the configuration has none; "": no history then.
    """
    manager = attach_queue_controllers(runtime, config, history) if queue else None
    if job_controller is not None:
        attach_job_controller(runtime, job_controller, manager.permits if manager is not None else None)
    if pod_controllers:
        attach_pod_controllers(runtime)
    return manager


def attach_queue_controllers(runtime: Runtime, config: KueueConfig, history: str = "") -> QueueManager:
    """Attach all controllers of the queue to a runtime that has not started yet."""
    settings = settings_of(config)
    writer = WorkloadWriter(runtime, settings, runtime.cache(WORKLOADS, Workload))
    quota_cache = QuotaCache(runtime, settings)

    def follows_job(workload: Workload) -> bool:
        return permits.is_followed(workload)

    job_pods = JobPods(runtime, "use nodes", uses_node)
    failed_pods = JobPods(runtime, "have failed", lambda pod: pod.status.has_failed)
    past_causes, causes = PastCauses(runtime), AttemptCauses(job_pods, failed_pods)
    scheduler = Scheduler(runtime, settings, quota_cache, writer, follows_job, causes.error)
    workloads = WorkloadController(runtime, settings, quota_cache, writer, job_pods, causes)
    Protections(runtime, quota_cache, workloads.queue.add)
    permits = JobPermits(runtime, settings, job_pods)
    jobs = JobQueueController(runtime, settings, writer, job_pods, failed_pods, past_causes, permits)
    queue_status = QueueStatusController(runtime, quota_cache)
    WithoutEffectEvents(runtime)
    attach_notifications(runtime, config.notifications, past_causes)
    metrics = QueueMetrics(runtime, quota_cache, writer, config.metrics)
    contexts = SubmissionContexts(runtime, settings)
    url = config.history.url or history
    recorder = None
    if config.history.enable and url:
        recorder = HistoryRecorder(runtime, url, config.history, interruptible=bool(history))

    def reconfigure(new: KueueConfig) -> None:
        contexts.settings = reconfigured(contexts.settings, settings_of(new), runtime.clock.now())
        for controller in (jobs, workloads, writer, scheduler, quota_cache, queue_status):
            controller.reconfigure(contexts.settings)
        metrics.config = new.metrics
        if recorder is not None:
            recorder.reconfigure(new.history)

    def context(job: Json) -> SubmissionContext:
        owned = ownership(job)
        imported_to = queue_of_import(permits.workloads_of(owned))
        return contexts.of(job, owner_managed=permits.parent(owned) is not None, imported_to=imported_to)

    classes = PriorityClassAdmission(lambda: contexts.settings.bounds)
    admission = (JobAdmission(context), QueueAdmission(), classes, WithoutEffectWarnings())
    return QueueManager(quota_cache, scheduler, _visibility(runtime, quota_cache), permits, admission, reconfigure)


def attach_visibility(runtime: Runtime, config: KueueConfig) -> tuple[VisibilityApi, Callable[[KueueConfig], None]]:
    """Attach only the visibility API, which writes nothing; return it, and the function that reconfigures it."""
    quota_cache = QuotaCache(runtime, settings_of(config))
    return _visibility(runtime, quota_cache), lambda new: quota_cache.reconfigure(settings_of(new))


def _visibility(runtime: Runtime, quota_cache: QuotaCache) -> VisibilityApi:
    cached = runtime.cache(WORKLOADS, Workload)
    summaries = PendingSummaries(quota_cache.queues, lambda key: cached.get(*key))
    return VisibilityApi(summaries, Explanations(runtime, quota_cache))
