"""Carries out the life cycle: one sync of a Workload decides one step (`lifecycle.rules`) and carries it out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from random import Random

from job_controller.event_reasons import CREATE_FAILED
from job_controller.model import Job, Key
from queue_manager.api import condition_types, event_reasons, keys, messages
from queue_manager.api.api_resources import ADMISSION_CHECKS, CLUSTER_QUEUES, EVENTS, JOBS, LOCAL_QUEUES, WORKLOADS
from queue_manager.api.events import Event
from queue_manager.api.types import AdmissionCheck, ClusterQueue, LocalQueue, Workload
from queue_manager.api.workload_names import job_name
from queue_manager.engine.cache import Cache
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.lifecycle import steps
from queue_manager.lifecycle.pod_causes import one_line
from queue_manager.lifecycle.refused_pods import newest_refusal, refusal_text
from queue_manager.lifecycle.rules import next_step
from queue_manager.lifecycle.transitions import Transition
from queue_manager.lifecycle.unscheduled import Unscheduled, unschedulable, unscheduled
from queue_manager.lifecycle.workload_settings import WorkloadSettings, without_future_times
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.scheduler.attempt_causes import AttemptCauses, awaits_pods
from queue_manager.scheduler.job_pods import JobPods
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.scheduler.workload_writer import Gone, WorkloadWriter

WORKERS = 10  # concurrent syncs
ORPHAN = "orphan"  # finalizer of a Job that is deleted with propagationPolicy Orphan
EXPLANATIONS = "lifecycle"  # slot of the writer
BY_OWNER = "owner"  # index of Workloads by the uid of their Job; `jobs` uses it too


class WorkloadController:
    """Advances each Workload by one step per sync."""

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkloadSettings,
        quota_cache: QuotaCache,
        writer: WorkloadWriter,
        running: JobPods,
        causes: AttemptCauses,
    ) -> None:
        """`running`: the pods that use nodes."""
        self._runtime = runtime
        self._settings = settings
        self._quota_cache = quota_cache
        self._writer = writer
        self._rng: Random = runtime.rng
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._jobs: Cache[Job] = runtime.cache(JOBS, Job)
        self.queue: WorkQueue[Key] = WorkQueue("workloads", metrics=runtime.metrics)
        self._workloads.index(BY_OWNER, _job_uid)
        self._workloads.subscribe(self._on_workload)
        self._jobs.subscribe(self._on_job)
        runtime.cache(CLUSTER_QUEUES, ClusterQueue).subscribe(self._on_cluster_queue)
        runtime.cache(LOCAL_QUEUES, LocalQueue).subscribe(self._on_local_queue)
        runtime.cache(ADMISSION_CHECKS, AdmissionCheck).subscribe(self._on_check)
        quota_cache.cycle_listeners.append(self._enqueue_cluster_queues)
        quota_cache.reason_listeners.append(self._enqueue_all)
        self._unschedulable = JobPods(runtime, "no node can take", lambda pod: unschedulable(pod) is not None)
        self._unschedulable.subscribe(self._on_unschedulable)
        self._causes = causes
        self._running = running
        self._running.subscribe(self._on_running)
        runtime.worker(self.queue, self.sync, WORKERS)

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Apply changed settings, and sync every Workload, since its deadlines may have changed."""
        self._settings = settings
        self._enqueue_all(workload.metadata.key for workload in self._workloads.values())

    # --- events ---

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self.queue.add(new.metadata.key, new=old is None)

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is not None and (new is None or new.metadata.deletion_timestamp is not None):
            for workload in self._workloads.lookup(BY_OWNER, job.metadata.uid):
                self.queue.add(workload.metadata.key)

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        queue = new or old
        if queue is not None and (old is None or new is None or old.spec != new.spec):
            self._enqueue_members([queue.metadata.key])

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        queue = new or old
        if queue is None or (old is not None and new is not None and not _matters(old, new)):
            return
        self._enqueue_cluster_queues([queue.metadata.name])

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        check = new or old
        if check is not None and (old is None or new is None or old.active != new.active):
            state = self._quota_cache.state
            self._enqueue_cluster_queues([q for q in state.queues if check.metadata.name in state.checks_of(q)])

    def _on_unschedulable(self, job_uid: str) -> None:
        """Enqueue the Workload of a Job whose pods became unschedulable or were placed (unschedulableTimeout)."""
        waiting = self._settings.pods_ready
        if waiting is not None and waiting.unschedulable_timeout is not None:
            for workload in self._workloads.lookup(BY_OWNER, job_uid):
                self.queue.add(workload.metadata.key)

    def _on_running(self, job_uid: str) -> None:
        """Enqueue the Workload of a deleted Job once no pod of the Job runs any more: the Workload can finish then."""
        job = self._jobs.by_uid(job_uid)
        gone = job is None or job.metadata.deletion_timestamp is not None
        if gone and not self._running.any_of(job_uid):
            for workload in self._workloads.lookup(BY_OWNER, job_uid):
                self.queue.add(workload.metadata.key)

    def _enqueue_cluster_queues(self, names: Collection[str]) -> None:
        """Enqueue the Workloads pending in these ClusterQueues, and those that hold quota through any LocalQueue."""
        chosen, local_queues = set(names), self._quota_cache.queues.local_queues
        self._enqueue_members([key for key, local in local_queues.items() if local.spec.cluster_queue in chosen])
        for holding in self._quota_cache.state.holdings.values():
            if holding.cluster_queue in chosen:
                self.queue.add(holding.key)

    def _enqueue_members(self, queues: list[Key]) -> None:
        self._enqueue_all(self._quota_cache.workloads_of(queues))

    def _enqueue_all(self, workloads: Iterable[Key]) -> None:
        for key in workloads:
            self.queue.add(key)

    # --- one step ---

    async def sync(self, key: Key) -> None:
        """Decide and carry out the next step of this Workload."""
        workload = self._workloads.get(key.namespace, key.name)
        if workload is None:
            return
        of_queues = self._quota_cache.view(workload)
        view = replace(
            of_queues,
            urgent_writes_wait=self._writer.is_busy,
            unscheduled=self._unscheduled(workload),
            pod_cause=self._causes.at_deadline(workload),
            pod_error=self._causes.error(workload) if of_queues.draining or of_queues.checks else "",
            owner_gone=await self._owner_gone(workload),
            jitter=self._rng.random(),
        )
        now = self._runtime.clock.now()
        self._settings = without_future_times(self._settings, now)
        step = next_step(workload, view, self._settings, now)
        is_evicted = workload.is_true(condition_types.EVICTED)
        if _stops_pods(step) and not view.pod_cause and not is_evicted and awaits_pods(workload):
            refusal = await self._refusal(workload)
            view = replace(view, pod_cause=refusal, pod_error=refusal)
            step = next_step(workload, view, self._settings, now)
        try:
            await self._carry_out(workload, step)
        except Gone:
            return
        except ApiError as error:
            if not error.is_not_found:
                raise

    def _unscheduled(self, workload: Workload) -> Unscheduled | None:
        """Pods of its Job that no node can take, while the Workload waits for its pods; else None."""
        return unscheduled(self._unschedulable.of(workload.job_uid)) if awaits_pods(workload) else None

    async def _refusal(self, workload: Workload) -> str:
        """Why the API server does not let the pods of its Job be created; "" if it does, or if that cannot be read.

        Only Events say it, so they are read once, when an attempt without a pod ends.
        """
        job = self._jobs.by_uid(workload.job_uid)
        if job is None or self._causes.has_pods(workload):
            return ""
        about = f"reason={CREATE_FAILED},involvedObject.uid={workload.job_uid}"
        try:
            events = await self._runtime.client.list(EVENTS, job.metadata.namespace, field_selector=about, type=Event)
        except ApiError:  # the attempt ends all the same
            return ""
        event = newest_refusal(job, events)
        return one_line(refusal_text(event)) if event is not None else ""

    async def _carry_out(self, workload: Workload, step: steps.Step) -> None:
        key, meta = workload.metadata.key, workload.metadata
        match step:
            case steps.Wait(until):
                self.queue.add_after(key, max(0.0, (until - self._runtime.clock.now()).total_seconds()))
                return
            case steps.Idle():
                return
            case steps.ApplyTransition(apply, cause) if cause.explains:
                self._explain(workload, apply, cause)
                return
            case steps.ApplyTransition(apply, cause):
                await self._writer.write(workload, apply, event_reasons.WORKLOAD_COMPONENT, cause)
            case steps.Deactivate(announced):
                own = {"resourceVersion": meta.resource_version, "annotations": {keys.DEACTIVATED_FOR: announced}}
                patch = {"metadata": own, "spec": {"active": False}}
                await self._runtime.client.patch(WORKLOADS, key.namespace, key.name, patch, type=Workload)
            case steps.RemoveFinalizer():
                await self._remove_finalizer(workload)
            case steps.DeleteExpired(owner, message):
                await self._delete(workload, owner, message)
        self.queue.add(key)

    def _explain(self, workload: Workload, apply: Transition, cause: Cause) -> None:
        """Queue a write that only explains the state of the Workload to people.

        The sync continues without waiting for the write. If the write fails, the Workload is synced again.
        """

        def failed(error: Exception) -> None:
            if not isinstance(error, Gone):
                self.queue.add_rate_limited(workload.metadata.key)

        component = event_reasons.WORKLOAD_COMPONENT
        self._writer.explain(workload, apply, component, cause, slot=EXPLANATIONS, failed=failed)

    async def _remove_finalizer(self, workload: Workload) -> None:
        """Remove our finalizer, and no other."""
        meta = workload.metadata
        rest = [f for f in meta.finalizers if f != keys.FINALIZER]
        patch = {"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid, "finalizers": rest}}
        await self._runtime.client.patch(WORKLOADS, meta.namespace, meta.name, patch, type=Workload)

    async def _delete(self, workload: Workload, owner: bool, message: str) -> None:
        meta, recorder = workload.metadata, self._runtime.recorder(event_reasons.WORKLOAD_COMPONENT)
        if not owner:
            await self._leave_cause(workload)
            await self._runtime.client.delete(WORKLOADS, meta.namespace, meta.name, uid=meta.uid)
            recorder.event(workload, "Normal", event_reasons.DELETED, message)
            return
        job = self._jobs.by_uid(workload.job_uid)
        if job is not None:
            await self._annotate(job, keys.DELETION_CAUSE, messages.RETENTION_OVER)
            await self._runtime.client.delete(
                JOBS, meta.namespace, job.metadata.name, uid=job.metadata.uid, propagation="Background"
            )
            recorder.event(job, "Normal", event_reasons.DELETED, message)

    async def _leave_cause(self, workload: Workload) -> None:
        """Copy the cause of failure from a Workload to its failed Job, before a retention deletes the Workload."""
        history, job = workload.status.requeue_history, self._jobs.by_uid(workload.job_uid)
        if job is not None and history is not None and history.pod_cause:
            await self._annotate(job, keys.POD_CAUSE, history.pod_cause)

    async def _annotate(self, job: Job, key: str, text: str) -> None:
        """Annotate a Job, unless it is gone or its API server refuses."""
        meta = job.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": {key: text}}}
        try:
            await self._runtime.client.patch(JOBS, meta.namespace, meta.name, patch)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict or error.is_rejected):
                raise

    async def _owner_gone(self, workload: Workload) -> bool:
        """Whether the Job is gone or being deleted, and none of its pods uses a node any more.

        Pods of a Job outlive it: they end in their own time, and while a finalizer of another controller keeps the Job
        nothing ends them. The cache of Jobs may lag behind that of Workloads, so the API server is asked before a Job
        that is not in the cache counts as gone.
        """
        owner, uid = workload.metadata.controller, workload.job_uid
        if not uid or (owner is not None and not owner.is_job):
            return False
        cached = self._jobs.by_uid(uid)
        if cached is not None and cached.metadata.deletion_timestamp is None:
            return False
        orphans = cached is not None and ORPHAN in cached.metadata.finalizers  # its pods become orphans
        if self._running.any_of(uid) and not orphans:
            return False
        return cached is not None or not await self._job_exists(workload)

    async def _job_exists(self, workload: Workload) -> bool:
        """Whether the API server has the Job now. Without a name, all Jobs of the namespace are listed."""
        meta, uid, client = workload.metadata, workload.job_uid, self._runtime.client
        name = meta.controller.name if meta.controller is not None else job_name(meta.name, uid)
        if not name:
            return any(job.metadata.uid == uid for job in await client.list(JOBS, meta.namespace, type=Job))
        try:
            return (await client.get(JOBS, meta.namespace, name, type=Job)).metadata.uid == uid
        except ApiError as error:
            if error.is_not_found:
                return False
            raise


def _stops_pods(step: steps.Step) -> bool:
    """Whether the step writes an eviction or a deactivation into the status."""
    return isinstance(step, steps.ApplyTransition) and step.cause in (Cause.EVICTION, Cause.DEACTIVATION)


def _job_uid(workload: Workload) -> tuple[str, ...]:
    return (workload.job_uid,) if workload.job_uid else ()


def _matters(old: ClusterQueue, new: ClusterQueue) -> bool:
    """Whether the change affects the Workloads of the ClusterQueue; a change of its status does not."""
    return old.spec != new.spec or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
