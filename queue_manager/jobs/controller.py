"""Keeps each Job and its Workload in step: asks `decide` what to do, does it, asks again."""

from __future__ import annotations

from job_controller.conditions import finished
from job_controller.json_tree import Json
from job_controller.model import Job, Key
from queue_manager.api import condition_types, event_reasons, keys, reasons
from queue_manager.api.resources import (
    JOBS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from queue_manager.api.types import Namespace, PriorityClass, ResourceFlavor, Workload, WorkloadPriorityClass
from queue_manager.api.without_effect import without_effect
from queue_manager.engine.cache import Cache, controller_uid
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import ApiError
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.jobs import actions, webhook
from queue_manager.jobs.actions import MAX_ANCESTORS
from queue_manager.jobs.decide import decide
from queue_manager.jobs.standing import JobStanding
from queue_manager.jobs.workload_manifest import prebuilt_name, priority_of
from queue_manager.lifecycle import overrides
from queue_manager.lifecycle.settings import Settings
from queue_manager.lifecycle.status_draft import Event
from queue_manager.scheduler.job_pods import JobPods
from queue_manager.scheduler.workload_controller import BY_OWNER
from queue_manager.scheduler.workload_writer import Gone, WorkloadWriter

WORKERS = 10
REFUSALS = (400, 403, 409, 413, 422)  # answers about what was asked for, not about the server's state
CREATION_LATENCY = "kueue_workload_creation_latency_seconds"
_BY_CLASS = "workload-priority-class"  # indexes of Jobs and of Workloads, by the class that each names
_BY_NAMESPACE = "namespace"
_BY_PARENT = "parent"
_BY_PREBUILT = "prebuilt"


class JobQueueController:
    """The Job's side of queueing; running its pods is the Job controller's business."""

    def __init__(
        self, runtime: Runtime, settings: Settings, writer: WorkloadWriter, running: JobPods, standing: JobStanding
    ) -> None:
        """`running`: the pods that use nodes."""
        self._runtime = runtime
        self._settings = settings
        self._writer = writer
        self._recorder = runtime.recorder(event_reasons.JOB_COMPONENT)
        self._jobs: Cache[Job] = runtime.cache(JOBS, Job)
        self._workloads: Cache[Workload] = runtime.cache(WORKLOADS, Workload)
        self._namespaces: Cache[Namespace] = runtime.cache(NAMESPACES, Namespace)
        self._flavors: Cache[ResourceFlavor] = runtime.cache(RESOURCE_FLAVORS, ResourceFlavor)
        self._classes: Cache[WorkloadPriorityClass] = runtime.cache(WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
        self._pod_classes: Cache[PriorityClass] = runtime.cache(PRIORITY_CLASSES, PriorityClass)
        self._running = running
        self._standing = standing
        self.queue: WorkQueue[Key] = WorkQueue("jobs-queue", metrics=runtime.metrics)
        self.classes: WorkQueue[str] = WorkQueue("workload-priority-classes", metrics=runtime.metrics)
        self._told: dict[str, Event] = {}  # by Job uid: what was said last about one that cannot be queued
        self._refused: dict[str, str] = {}  # by Job uid: what was said last about its overrides
        self._jobs.index(_BY_CLASS, _class_label)
        self._jobs.index(_BY_PREBUILT, _prebuilt_key)
        self._jobs.index(_BY_NAMESPACE, lambda job: (job.metadata.namespace,))
        self._jobs.index(_BY_PARENT, controller_uid)
        self._jobs.subscribe(self._on_job)
        self._running.subscribe(self._on_running)
        self._workloads.index(_BY_CLASS, _class_reference)
        self._workloads.subscribe(self._on_workload)
        self._namespaces.subscribe(self._on_namespace)
        self._flavors.subscribe(self._on_flavor)
        self._classes.subscribe(self._on_class)
        runtime.worker(self.queue, self.sync, WORKERS)
        runtime.worker(self.classes, self.sync_class)

    def reconfigure(self, settings: Settings) -> None:
        """From now on; other Jobs may be ours."""
        self._settings = self._standing.settings = settings
        for job in self._jobs.values():
            self._look_at(job)

    # --- what to look at ---

    def _look_at(self, job: Job) -> None:
        """Something around the Job has changed: sync it, and say that it may have pods now, or no longer."""
        self.queue.add(job.metadata.key)
        self._standing.announce(job.metadata.key)

    def _on_job(self, old: Job | None, new: Job | None) -> None:
        if new is not None:
            self.queue.add(new.metadata.key, new=old is None)
        elif old is not None:
            self._told.pop(old.metadata.uid, None)
            self._refused.pop(old.metadata.uid, None)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        workload = new or old
        if workload is None:
            return
        owners = [workload.job_uid, old.job_uid if old is not None else ""]
        for uid in dict.fromkeys(owners):  # one that it belonged to until now has none any more
            job = self._jobs.by_uid(uid)
            if job is not None:
                self._look_at(job)
                self._look_below(uid)
        for waiting in self._jobs.lookup(_BY_PREBUILT, str(workload.metadata.key)):
            self.queue.add(waiting.metadata.key)

    def _look_below(self, uid: str, depth: int = MAX_ANCESTORS) -> None:
        """All that depend on this Job, also through others in between: nothing of those need change with it."""
        for child in self._jobs.lookup(_BY_PARENT, uid) if depth else ():
            self._look_at(child)
            self._look_below(child.metadata.uid, depth - 1)

    def _on_running(self, job_uid: str) -> None:
        """A stop waits for the last pod."""
        job = self._jobs.by_uid(job_uid)
        if job is not None and job.spec.suspend:
            self.queue.add(job.metadata.key)

    def _on_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        """Its labels say whether its Jobs are ours. They may be known before it: each kind has its own watch."""
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            for job in self._jobs.lookup(_BY_NAMESPACE, new.metadata.name):
                self._look_at(job)

    def _on_flavor(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        """Jobs that were admitted to it before it was deleted, or before we knew it, wait for it."""
        if old is None and new is not None:
            for job in self._jobs.values():
                if job.spec.suspend:
                    self.queue.add(job.metadata.key)

    def _on_class(self, old: WorkloadPriorityClass | None, new: WorkloadPriorityClass | None) -> None:
        if new is None:
            return
        if old is None:  # Jobs may have waited for it
            for job in self._jobs.lookup(_BY_CLASS, new.metadata.name):
                self.queue.add(job.metadata.key)
        elif old.value != new.value:
            self.classes.add(new.metadata.name)

    # --- work ---

    async def sync(self, key: Key) -> None:
        job = self._jobs.get(key.namespace, key.name)
        if job is None:
            return
        owned = self._standing.workloads_of(job)
        context = self._context(job)
        if not context.managed and not owned and context.parent is None:
            return
        self._tell_refused_overrides(job)
        action = decide(job, owned, context)
        if isinstance(action, actions.Nothing):
            return
        try:
            again = await self._perform(job, action)
        except Gone:
            return
        except ApiError as error:
            if error.status == 404:
                return
            if error.status != 409 or (
                isinstance(action, actions.CreateWorkload) and not await self._is_ours(job, action)
            ):
                self._tell_refusal(job, error)
                raise
            again = True  # somebody else wrote; what they wrote is on its way into the cache
            await self._refresh(job)
        if again:
            self.queue.add(key)

    def _context(self, job: Job) -> actions.JobContext:
        classes = {c.metadata.name: c for c in self._classes.values()}
        pod_classes = {c.metadata.name: c for c in self._pod_classes.values()}
        return actions.JobContext(
            uses_nodes=job.spec.suspend and self._running.any_of(job.metadata.uid),
            prebuilt=self._workloads.get(job.metadata.namespace, prebuilt_name(job)) if prebuilt_name(job) else None,
            parent=self._standing.parent(job),
            managed=self._standing.managed(job),
            priority=priority_of(job, classes, pod_classes),
            flavors={f.metadata.name: f for f in self._flavors.values()},
            waits_for_pods=self._settings.pods_ready is not None,
            labels_to_copy=self._settings.label_keys_to_copy,
            overrides=overrides.accepted(job.metadata.annotations, self._settings.bounds),
        )

    def _tell_refused_overrides(self, job: Job) -> None:
        """Where admission did not refuse them, the Job is told once what they mean."""
        own, notes = job.metadata.labels, job.metadata.annotations
        meaning = {
            "the configuration applies": overrides.errors(notes, self._settings.bounds),
            "this has no effect": webhook.without_effect(own, notes),
        }
        said = ["; ".join([*map(str, errors), what]) for what, errors in meaning.items() if errors]
        text = "; ".join(said)
        if text != self._refused.get(job.metadata.uid, "") and not finished(job.status):
            self._refused[job.metadata.uid] = text
            if text:
                self._tell(job, Event("Warning", event_reasons.INVALID_OVERRIDE, text))

    async def _perform(self, job: Job, action: actions.Action) -> bool:
        """Do it; then tell. True if there may be more to do at once."""
        client, meta = self._runtime.client, job.metadata
        match action:
            case actions.CreateWorkload(tree, event):
                await client.create(WORKLOADS, meta.namespace, tree, type=Workload)
                self._observe_creation(job)
                self._tell(job, event)
                self._tell(job, _without_effect(job))
            case actions.DeleteWorkload(workload, told):
                key = workload.metadata.key
                await client.delete(WORKLOADS, key.namespace, key.name, uid=workload.metadata.uid)
                self._tell(job, told)
            case actions.ReleaseWorkload(workload):
                rest = [f for f in workload.metadata.finalizers if f != keys.FINALIZER]
                await self._patch_workload(workload, {"metadata": {"finalizers": rest}})
            case actions.UpdateWorkload(workload, patch, told):
                await self._patch_workload(workload, patch)
                self._tell(job, told)
            case actions.WriteWorkloadStatus(workload, transition, told):
                await self._writer.write(workload, transition, event_reasons.WORKLOAD_COMPONENT)
                self._tell(job, told)
            case actions.PatchJob(patch, told):
                job = await client.patch(JOBS, meta.namespace, meta.name, patch, type=Job)
                self._tell(job, told)
            case actions.RecordEvent(event):
                self._tell_once(job, event)
                return False
            case actions.Nothing():
                return False
        return True

    def _observe_creation(self, job: Job) -> None:
        if job.metadata.creation_timestamp is not None:
            seconds = (self._runtime.clock.now() - job.metadata.creation_timestamp).total_seconds()
            self._runtime.metrics.observe(CREATION_LATENCY, {"job_kind": "Job"}, max(0.0, seconds))

    async def _patch_workload(self, workload: Workload, patch: Json) -> None:
        meta = workload.metadata
        own = {"resourceVersion": meta.resource_version, "uid": meta.uid}
        patch = {**patch, "metadata": {**(patch.get("metadata") or {}), **own}}
        await self._runtime.client.patch(WORKLOADS, meta.namespace, meta.name, patch, type=Workload)

    async def _refresh(self, job: Job) -> None:
        """Read what we conflicted with, so that the next look is not at the same old state."""
        meta = job.metadata
        await self._runtime.client.get(JOBS, meta.namespace, meta.name, type=Job)
        for workload in self._workloads.lookup(BY_OWNER, meta.uid):
            await self._runtime.client.get(WORKLOADS, meta.namespace, workload.metadata.name, type=Workload)

    async def _is_ours(self, job: Job, action: actions.CreateWorkload) -> bool:
        """Whether what is there already under this name was made for this Job, by an answer that did not arrive."""
        meta = action.workload["metadata"]
        found = await self._runtime.client.get(WORKLOADS, meta["namespace"], meta["name"], type=Workload)
        return found.job_uid == job.metadata.uid

    def _tell_refusal(self, job: Job, error: ApiError) -> None:
        """Once for each text. Only what the server will say again: not that it is busy, or that we are too many."""
        if error.status in REFUSALS:
            self._tell_once(job, Event("Warning", event_reasons.QUEUEING_REFUSED, f"Cannot be queued: {error.message}"))

    def _tell_once(self, job: Job, event: Event) -> None:
        if self._told.get(job.metadata.uid) != event:
            self._told[job.metadata.uid] = event
            self._tell(job, event)

    def _tell(self, job: Job, event: Event | None) -> None:
        if event is not None:
            self._recorder.event(job, *event)

    async def sync_class(self, name: str) -> None:
        """The value of a priority class changed: all Workloads that refer to it follow (spec 3.5)."""
        found = self._classes.get("", name)
        if found is None:
            return
        for workload in self._workloads.lookup(_BY_CLASS, name):
            if workload.spec.priority != found.value and not workload.is_true(condition_types.FINISHED):
                await self._patch_workload(workload, {"spec": {"priority": found.value}})


def _without_effect(job: Job) -> Event | None:
    """What to report of annotations that have no effect."""
    meta = {"labels": job.metadata.labels, "annotations": job.metadata.annotations}
    sentences = without_effect(str(JOBS), {"metadata": meta, "spec": {"template": job.spec.template}})
    return Event("Warning", reasons.FIELDS_WITHOUT_EFFECT, "; ".join(sentences)) if sentences else None


def _prebuilt_key(job: Job) -> list[str]:
    name = prebuilt_name(job)
    return [str(Key(job.metadata.namespace, name))] if name else []


def _class_label(job: Job) -> list[str]:
    name = job.metadata.labels.get(keys.PRIORITY_CLASS)
    return [name] if name else []


def _class_reference(workload: Workload) -> list[str]:
    reference = workload.spec.priority_class_ref
    return [reference.name] if reference is not None and reference.group == keys.GROUP else []
