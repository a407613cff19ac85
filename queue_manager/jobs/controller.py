"""The controller of Jobs in a queue: it asks `decide` for the next action of a Job, performs it, and asks again.

It also copies changed values of WorkloadPriorityClasses to the Workloads that refer to them.
"""

from __future__ import annotations

from datetime import datetime

from job_controller.conditions import finished
from job_controller.json_tree import Json
from job_controller.model import Job, Key
from queue_manager.api import event_reasons, keys, reasons
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from queue_manager.api.types import (
    ClusterQueue,
    Namespace,
    PriorityClass,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
from queue_manager.api.without_effect import without_effect
from queue_manager.engine.cache import Cache, controller_uid
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.jobs import following_rules, planned_writes, webhook
from queue_manager.jobs.decide import decide
from queue_manager.jobs.job_permits import JobPermits
from queue_manager.jobs.job_situation import MAX_ANCESTORS, JobContext
from queue_manager.jobs.workload_manifest import prebuilt_name, priority_of
from queue_manager.jobs.write_conflicts import refresh_after_conflict
from queue_manager.lifecycle import overrides
from queue_manager.lifecycle.pod_causes import cause_of_failure
from queue_manager.lifecycle.refused_write_events import is_due
from queue_manager.lifecycle.status_draft import WorkloadEvent
from queue_manager.lifecycle.transitions import Transition
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.lifecycle.write_causes import Cause
from queue_manager.scheduler.job_pods import JobPods
from queue_manager.scheduler.past_causes import PastCauses
from queue_manager.scheduler.workload_writer import Gone, WorkloadWriter

WORKERS = 10
EXPLANATIONS = "jobs"  # slot of the writer
CREATION_LATENCY = "kueue_workload_creation_latency_seconds"
_BY_CLASS = "workload-priority-class"  # index of Jobs and of Workloads by the WorkloadPriorityClass that each names
_BY_NAMESPACE = "namespace"
_BY_PARENT = "parent"
_BY_PREBUILT = "prebuilt"


class JobQueueController:
    """Reconciles each Job with its Workload. The pods of a Job are the Job controller's."""

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkloadSettings,
        writer: WorkloadWriter,
        job_pods: JobPods,
        failed_pods: JobPods,
        past_causes: PastCauses,
        permits: JobPermits,
    ) -> None:
        """`job_pods`: which Jobs have pods that use nodes. `failed_pods`: the pods that have failed."""
        self._runtime = runtime
        self._settings = settings
        self._writer = writer
        self._recorder = runtime.recorder(event_reasons.JOB_COMPONENT)
        self._jobs: Cache[Job] = runtime.cache(JOBS, Job)
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._namespaces: Cache[Namespace] = runtime.cache(NAMESPACES, Namespace)
        self._flavors: Cache[ResourceFlavor] = runtime.cache(RESOURCE_FLAVORS, ResourceFlavor)
        self._cluster_queues: Cache[ClusterQueue] = runtime.cache(CLUSTER_QUEUES, ClusterQueue)
        self._classes: Cache[WorkloadPriorityClass] = runtime.cache(WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
        self._pod_classes: Cache[PriorityClass] = runtime.cache(PRIORITY_CLASSES, PriorityClass)
        self._job_pods = job_pods
        self._failed_pods = failed_pods
        self._past_causes = past_causes
        self._permits = permits
        self.queue: WorkQueue[Key] = WorkQueue("jobs-queue", metrics=runtime.metrics)
        self.classes: WorkQueue[str] = WorkQueue("workload-priority-classes", metrics=runtime.metrics)
        # By Job UID: the last Event about why the Job cannot be queued, and when it was recorded.
        self._last_events: dict[str, tuple[WorkloadEvent, datetime]] = {}
        # By Job UID, while it has no Workload: the resourceVersion with which it was first seen.
        self._first_seen: dict[str, str] = {}
        self._rejected_annotations: dict[str, str] = {}  # by Job UID: the last Event text about labels and annotations
        self._jobs.index(_BY_CLASS, _class_label)
        self._jobs.index(_BY_PREBUILT, _prebuilt_key)
        self._jobs.index(_BY_NAMESPACE, lambda job: (job.metadata.namespace,))
        self._jobs.index(_BY_PARENT, controller_uid)
        self._jobs.subscribe(self._on_job)
        self._job_pods.subscribe(self._on_job_pods)
        self._workloads.index(_BY_CLASS, _class_reference)
        self._workloads.subscribe(self._on_workload)
        self._namespaces.subscribe(self._on_namespace)
        self._flavors.subscribe(self._on_place)
        self._cluster_queues.subscribe(self._on_place)
        self._classes.subscribe(self._on_class)
        runtime.worker(self.queue, self.sync, WORKERS)
        runtime.worker(self.classes, self.sync_class)

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Apply new settings and sync all Jobs: others may be managed now."""
        self._settings = self._permits.settings = settings
        for job in self._jobs.values():
            self._resync(job)

    # --- which Jobs to sync ---

    def _resync(self, job: Job) -> None:
        """Sync a Job whose surroundings changed, and announce that its permission to have pods may have changed."""
        self.queue.add(job.metadata.key)
        self._permits.announce(job.metadata.key)

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        if new is not None:
            if old is None:
                self._first_seen[new.metadata.uid] = new.metadata.resource_version
            self.queue.add(new.metadata.key, new=old is None)
        elif old is not None:
            self._first_seen.pop(old.metadata.uid, None)
            self._last_events.pop(old.metadata.uid, None)
            self._rejected_annotations.pop(old.metadata.uid, None)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        workload = new or old
        if workload is None:
            return
        owners = [workload.job_uid, old.job_uid if old is not None else ""]
        for uid in dict.fromkeys(owners):  # the previous owner too: it has lost this Workload
            job = self._jobs.by_uid(uid)
            if job is not None:
                self._resync(job)
                self._resync_descendants(uid)
        for waiting in self._jobs.lookup(_BY_PREBUILT, str(workload.metadata.key)):
            self.queue.add(waiting.metadata.key)

    def _resync_descendants(self, uid: str, depth: int = MAX_ANCESTORS) -> None:
        """Sync all Jobs below this one, at every depth: the Jobs in between need not change, and so may enqueue
        nothing.
        """
        for child in self._jobs.lookup(_BY_PARENT, uid) if depth else ():
            self._resync(child)
            self._resync_descendants(child.metadata.uid, depth - 1)

    def _on_job_pods(self, job_uid: str) -> None:
        """Sync a suspended Job when one of its pods changes: its stop may have waited for the end of that pod."""
        job = self._jobs.by_uid(job_uid)
        if job is not None and job.spec.suspend:
            self.queue.add(job.metadata.key)

    def _on_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        """Resync the Jobs of a changed namespace: its labels decide whether its Jobs are managed."""
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            for job in self._jobs.lookup(_BY_NAMESPACE, new.metadata.name):
                self._resync(job)

    def _on_place(self, old: ResourceFlavor | ClusterQueue | None, new: ResourceFlavor | ClusterQueue | None) -> None:
        """Resync the Jobs that wait for a flavor or ClusterQueue that was missing, when it appears."""
        if old is None and new is not None:
            for job in self._jobs.values():
                if job.spec.suspend:
                    self.queue.add(job.metadata.key)

    def _on_class(self, old: WorkloadPriorityClass | None, new: WorkloadPriorityClass | None) -> None:
        if new is None:
            return
        if old is None:  # Jobs that name the class may wait for it
            self._sync_jobs_of_class(new.metadata.name)
            return
        if old.value != new.value:
            self.classes.add(new.metadata.name)
        if overrides.of_class(old.metadata.annotations) != overrides.of_class(new.metadata.annotations):
            self._sync_jobs_of_class(new.metadata.name)

    def _sync_jobs_of_class(self, name: str) -> None:
        for job in self._jobs.lookup(_BY_CLASS, name):
            self.queue.add(job.metadata.key)

    # --- syncing ---

    async def sync(self, key: Key) -> None:
        """Perform the next action for a Job, and enqueue the Job again if there may be another one.

        Raises ApiError for answers that are worth a retry with backoff.
        """
        job = self._jobs.get(key.namespace, key.name)
        if job is None:
            return
        owned = self._permits.workloads_of(job)
        context = self._context(job)
        if owned or not context.managed:
            self._first_seen.pop(job.metadata.uid, None)
        if not context.managed and not owned and context.parent is None:
            return
        self._report_rejected_annotations(job)
        action = decide(job, owned, context)
        if isinstance(action, planned_writes.Nothing):
            return
        try:
            again = await self._perform(job, action)
        except Gone:
            return
        except ApiError as error:
            if error.is_not_found:
                return
            if not (error.is_conflict and await self._refreshed(job, action)):
                self._report_rejection(job, error)
                raise
            again = True
        if again:
            self.queue.add(key)

    def _context(self, job: Job) -> JobContext:
        classes = {c.metadata.name: c for c in self._classes.values()}
        pod_classes = {c.metadata.name: c for c in self._pod_classes.values()}
        return JobContext(
            uses_nodes=job.spec.suspend and self._job_pods.any_of(job.metadata.uid),
            prebuilt=self._workloads.get(job.metadata.namespace, prebuilt_name(job)) if prebuilt_name(job) else None,
            parent=self._permits.parent(job),
            managed=self._permits.managed(job),
            priority=priority_of(job, classes, pod_classes),
            flavors={f.metadata.name: f for f in self._flavors.values()},
            cluster_queue_exists=self._cluster_queue_exists(job),
            waits_for_pods=self._settings.pods_ready is not None,
            first_seen=self._first_seen.get(job.metadata.uid, job.metadata.resource_version),
            labels_to_copy=self._settings.label_keys_to_copy,
            overrides=self._overrides(job),
            pod_cause=self._pod_cause(job),
        )

    def _pod_cause(self, job: Job) -> str:
        uid = job.metadata.uid
        return cause_of_failure(job.status, self._failed_pods.of(uid), self._past_causes.last_of(uid))

    def _overrides(self, job: Job) -> dict[str, str]:
        """The accepted annotations of the Job's priority class and of the Job, which take precedence."""
        bounds = self._settings.bounds
        return overrides.accepted(self._of_class(job), bounds) | overrides.accepted(job.metadata.annotations, bounds)

    def _of_class(self, job: Job) -> dict[str, str]:
        found = self._classes.get("", job.metadata.labels.get(keys.PRIORITY_CLASS, ""))
        return overrides.of_class(found.metadata.annotations) if found is not None else {}

    def _cluster_queue_exists(self, job: Job) -> bool:
        """Whether every ClusterQueue whose quota the Job's Workloads hold exists."""
        admissions = (w.status.admission for w in self._permits.workloads_of(job))
        return all(self._cluster_queues.get("", a.cluster_queue) is not None for a in admissions if a is not None)

    def _report_rejected_annotations(self, job: Job) -> None:
        """Record an Event about labels and annotations that no webhook has rejected and that have no effect, or not
        their own; once for each text.
        """
        own, annotations = job.metadata.labels, job.metadata.annotations
        bounds = self._settings.bounds
        name = own.get(keys.PRIORITY_CLASS, "")
        configured = "the configuration applies"
        problems = (
            ("", overrides.errors(annotations, bounds), configured),
            (f"WorkloadPriorityClass {name}: ", overrides.errors(self._of_class(job), bounds), configured),
            ("", webhook.malformed_metadata(own, annotations), "this has no effect"),
        )
        texts = [place + "; ".join([*map(str, errors), effect]) for place, errors, effect in problems if errors]
        text = "; ".join(texts)
        if text != self._rejected_annotations.get(job.metadata.uid, "") and not finished(job.status):
            self._rejected_annotations[job.metadata.uid] = text
            if text:
                self._record(job, WorkloadEvent("Warning", event_reasons.INVALID_OVERRIDE, text))

    async def _perform(self, job: Job, action: planned_writes.PlannedWrite) -> bool:
        """Perform the action, then record its Event. Returns whether there may be another action immediately."""
        client, meta = self._runtime.client, job.metadata
        match action:
            case planned_writes.CreateWorkload(tree, event):
                await client.create(WORKLOADS, meta.namespace, tree, type=Workload)
                self._observe_creation(job)
                self._record(job, event)
                self._record(job, _without_effect(job))
            case planned_writes.DeleteWorkload(workload, event):
                key = workload.metadata.key
                await client.delete(WORKLOADS, key.namespace, key.name, uid=workload.metadata.uid)
                self._record(job, event)
            case planned_writes.ReleaseWorkload(workload):
                others = [f for f in workload.metadata.finalizers if f != keys.FINALIZER]
                await self._patch_workload(workload, {"metadata": {"finalizers": others}})
            case planned_writes.UpdateWorkload(workload, patch, event):
                await self._patch_workload(workload, patch)
                self._record(job, event)
            case planned_writes.WriteWorkloadStatus(workload, transition, cause, event):
                if cause.explains:
                    self._explain(job, workload, transition, cause)
                    return False
                await self._writer.write(workload, transition, event_reasons.WORKLOAD_COMPONENT, cause)
                self._record(job, event)
            case planned_writes.PatchJob(patch, event, warning):
                job = await client.patch(JOBS, meta.namespace, meta.name, patch, type=Job)
                self._record(job, warning)
                self._record(job, event)
            case planned_writes.RecordEvent(event):
                self._record_once(job, event)
                return False
            case planned_writes.Nothing():
                return False
        return True

    def _explain(self, job: Job, workload: Workload, transition: Transition, cause: Cause) -> None:
        """Queue a write of the Workload that only explains its state to people.

        The sync continues without waiting for the write. If the write fails, the Job is synced again.
        """

        def failed(error: Exception) -> None:
            if not isinstance(error, Gone):
                self.queue.add_rate_limited(job.metadata.key)

        component = event_reasons.WORKLOAD_COMPONENT
        self._writer.explain(workload, transition, component, cause, slot=EXPLANATIONS, failed=failed)

    def _observe_creation(self, job: Job) -> None:
        if job.metadata.creation_timestamp is not None:
            seconds = (self._runtime.clock.now() - job.metadata.creation_timestamp).total_seconds()
            self._runtime.metrics.observe(CREATION_LATENCY, {"job_kind": "Job"}, max(0.0, seconds))

    async def _patch_workload(self, workload: Workload, patch: Json) -> None:
        meta = workload.metadata
        own = {"resourceVersion": meta.resource_version, "uid": meta.uid}
        patch = {**patch, "metadata": {**(patch.get("metadata") or {}), **own}}
        await self._runtime.client.patch(WORKLOADS, meta.namespace, meta.name, patch, type=Workload)

    async def _refreshed(self, job: Job, action: planned_writes.PlannedWrite) -> bool:
        return await refresh_after_conflict(self._runtime.client, self._workloads, job, action)

    def _report_rejection(self, job: Job, error: ApiError) -> None:
        """Record an Event about a request that the API server will reject again, and again while it does (`is_due`)."""
        if error.is_rejected or error.is_conflict:
            event = WorkloadEvent("Warning", event_reasons.QUEUEING_REFUSED, f"Cannot be queued: {error.message}")
            _, last = self._last_events.get(job.metadata.uid, (None, None))
            self._record_once(job, event, again=is_due(last, self._runtime.clock.now()))

    def _record_once(self, job: Job, event: WorkloadEvent, *, again: bool = False) -> None:
        """Record an Event, unless it is the last one of `_last_events`. `again`: then too."""
        last, _ = self._last_events.get(job.metadata.uid, (None, None))
        if again or last != event:
            self._last_events[job.metadata.uid] = event, self._runtime.clock.now()
            self._record(job, event)

    def _record(self, job: Job, event: WorkloadEvent | None) -> None:
        if event is not None:
            self._recorder.event(job, *event)

    async def sync_class(self, name: str) -> None:
        """Write the new value of a WorkloadPriorityClass to all Workloads that refer to it and are not finished.

        The order of the writes keeps a pending Workload from preempting another one of its class meanwhile.
        """
        found = self._classes.get("", name)
        if found is None:
            return
        for workload in following_rules.in_order_of_priorities(self._workloads.lookup(_BY_CLASS, name), found.value):
            await self._patch_workload(workload, {"spec": {"priority": found.value}})


def _without_effect(job: Job) -> WorkloadEvent | None:
    """The Event about fields of the pod template that have no effect."""
    meta = {"labels": job.metadata.labels, "annotations": job.metadata.annotations}
    sentences = without_effect(str(JOBS), {"metadata": meta, "spec": {"template": job.spec.template}})
    return WorkloadEvent("Warning", reasons.FIELDS_WITHOUT_EFFECT, "; ".join(sentences)) if sentences else None


def _prebuilt_key(job: Job) -> list[str]:
    name = prebuilt_name(job)
    return [str(Key(job.metadata.namespace, name))] if name else []


def _class_label(job: Job) -> list[str]:
    name = job.metadata.labels.get(keys.PRIORITY_CLASS)
    return [name] if name else []


def _class_reference(workload: Workload) -> list[str]:
    reference = workload.spec.priority_class_ref
    return [reference.name] if reference is not None and reference.group == keys.GROUP else []
