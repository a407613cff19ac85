"""Carrying out a Decision: the API writes of one sync, step by step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from job_controller import event_reasons, job_patches, messages
from job_controller.model import Job, Pod
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import is_tracked
from job_controller.pod_identity import PodIdentities
from job_controller.pod_manifest import manifest
from job_controller.ports import Events, JobClient, Metrics, PodPermits
from job_controller.sync_steps import (
    Count,
    CreatePods,
    Decision,
    DeletePods,
    JobEvent,
    PodPlan,
    PrunePods,
    ReleasePods,
    Step,
    TrackPods,
    WriteStatus,
)

log = logging.getLogger(__name__)

METRICS_PREFIX = "job_controller_"
NOT_FOUND, CONFLICT, UNPROCESSABLE = 404, 409, 422  # HTTP status codes; 422: the object is invalid

T = TypeVar("T")
Errors = list[Exception]


class StatusConflict(Exception):
    """The Job has changed (409) or was deleted (404) since it was read: the caller must read it and decide again."""


class PermitWithdrawn(Exception):
    """The Job lost its permit for new pods after the decision to create them."""


class NoLabels(Exception):
    """The pod template has no labels, so no selector can match its pods."""


def status_of(error: Exception) -> int:
    """The HTTP status of an error of the cluster port; 0 if there was no response."""
    status = getattr(error, "status", 0)
    return status if isinstance(status, int) else 0


async def for_each(items: Iterable[T], do: Callable[[T], Awaitable[None]], concurrency: int) -> Errors:
    """Call `do` for all items, at most `concurrency` at a time. Returns the errors in the order of the items."""
    queue: Iterator[tuple[int, T]] = iter(enumerate(items))
    errors: dict[int, Exception] = {}

    async def worker() -> None:
        for number, item in queue:
            try:
                await do(item)
            except Exception as error:
                errors[number] = error

    async with asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(worker())
    return [errors[number] for number in sorted(errors)]


class Performer:
    """Carries out the steps of a Decision; remembers of which Jobs the last pod creation failed.

    `identities` is given the annotations with which each pod of an index was created.
    """

    def __init__(
        self,
        cluster: JobClient,
        events: Events,
        metrics: Metrics,
        options: JobControllerOptions,
        identities: PodIdentities,
        permits: PodPermits,
    ) -> None:
        self._identities = identities
        self._cluster = cluster
        self._permits = permits
        self._events = events
        self._metrics = metrics
        self._options = options
        self._failing_creations: set[str] = set()  # UIDs of Jobs whose last creation failed

    def forget(self, uid: str) -> None:
        """Drop what is kept for the Job with this UID."""
        self._failing_creations.discard(uid)

    async def perform(self, job: Job, decision: Decision) -> Errors:
        """Carry out the steps until one fails. Returns the errors of the failed step, or an empty list.

        Raises StatusConflict, or the error of a status write.
        """
        self._report(job, decision.events)
        for step in decision.steps:
            if isinstance(step, WriteStatus):
                job = await self._write_status(job, step)
                continue
            errors = await self._pods_step(job, step)
            if errors:
                return errors
        return []

    async def _pods_step(self, job: Job, step: Step) -> Errors:
        match step:
            case CreatePods():
                return await self._create(job, step)
            case DeletePods(pods, release):
                return await self._for_each(pods, lambda pod: self._delete(job, pod, release))
            case PrunePods(pods):
                return await self._for_each(pods, lambda pod: self._delete(job, pod, False))
            case ReleasePods(pods, counts):
                errors = await self._for_each(pods, self._release)
                if not errors:
                    self._count_all(counts)
                return errors
            case TrackPods(pods):
                return await self._for_each(pods, self._track)
            case WriteStatus():
                return []

    async def _for_each(self, items: Sequence[T], do: Callable[[T], Awaitable[None]]) -> Errors:
        return await for_each(items, do, min(len(items), self._options.writes_in_flight))

    # --- status ---

    async def _write_status(self, job: Job, step: WriteStatus) -> Job:
        changes = job_patches.status_changes(job.status, step.status)
        try:
            written = await self._cluster.update_job_status(job, changes)
        except Exception as error:
            if status_of(error) in (CONFLICT, NOT_FOUND):
                raise StatusConflict(str(error)) from error
            if status_of(error) == UNPROCESSABLE:
                self._report_rejected_status(job, changes, error)
                await self._write_pod_counts(job, changes)
            raise
        self._report(job, step.events)
        self._count_all(step.counts)
        return written

    def _report_rejected_status(self, job: Job, changes: Mapping[str, object], error: Exception) -> None:
        """Log and record an Event about a rejected status: a bug in this code, or a newer validation rule."""
        log.error("status rejected", extra={**_named(job), "changes": changes, "error": str(error)})
        self._events.event(job, "Warning", event_reasons.STATUS_REFUSED, str(error))

    async def _write_pod_counts(self, job: Job, changes: Mapping[str, object]) -> None:
        """Write at least the pod counts of a rejected status, so that users see what runs."""
        counts = {name: changes[name] for name in ("active", "ready", "terminating") if name in changes}
        if counts and counts != changes:
            try:
                await self._cluster.update_job_status(job, counts)
            except Exception as error:
                log.warning("pod counts rejected too", extra={**_named(job), "error": str(error)})

    # --- creation ---

    async def _create(self, job: Job, step: CreatePods) -> Errors:
        """Create the pods.

        If the last creation for this Job failed, the first batch has one pod and each following batch twice as many
        (upstream manageJob, SlowStartInitialBatchSize); otherwise the first batch has options.writes_in_flight pods.
        """
        uid = job.metadata.uid
        if not (job.spec.template.get("metadata") or {}).get("labels"):
            self._events.event(
                job, "Warning", event_reasons.CREATE_FAILED, f"Error creating: {messages.NO_LABELS_MESSAGE}"
            )
            return [NoLabels(messages.NO_LABELS_MESSAGE)]
        size = 1 if uid in self._failing_creations else self._options.writes_in_flight
        start = 0
        while start < len(step.plans):
            batch = step.plans[start : start + size]
            errors = await self._for_each(batch, lambda plan: self._create_one(job, plan, step.reason))
            if errors:
                if not any(isinstance(error, PermitWithdrawn) for error in errors):
                    self._failing_creations.add(uid)
                return errors
            start += size
            size = min(size * 2, self._options.max_creates)
        self._failing_creations.discard(uid)
        return []

    async def _create_one(self, job: Job, plan: PodPlan, reason: str) -> None:
        if not self._permits.may_create_pods(job):
            raise PermitWithdrawn(str(job.metadata.key))
        tree = manifest(job, plan, self._options.finalizer)
        try:
            with self._permits.creating(job):
                pod = await self._cluster.create_pod(job.metadata.namespace, tree)
        except Exception as error:
            self._count("job_pods_creation_total", {"reason": reason, "status": "failed"})
            if not is_namespace_terminating(error):
                message = f"Error creating: {error}"
                self._events.event(job, "Warning", event_reasons.CREATE_FAILED, message)
            raise
        if plan.index is not None:
            current = self._cluster.pod(pod.metadata.key) or pod
            self._identities.created(job.metadata.uid, current, tree["metadata"]["annotations"])
        self._count("job_pods_creation_total", {"reason": reason, "status": "succeeded"})
        self._events.event(job, "Normal", event_reasons.CREATED, f"Created pod: {pod.metadata.name}")

    # --- deletion and finalizers ---

    async def _delete(self, job: Job, pod: Pod, release: bool) -> None:
        key, uid = pod.metadata.key, pod.metadata.uid
        version = pod.metadata.resource_version if release else ""
        try:
            if release and is_tracked(pod):
                marked = await self._cluster.patch_pod(key, job_patches.begin_deletion(pod))
                version = marked.metadata.resource_version
            await self._cluster.delete_pod(key, uid, version)
        except Exception as error:
            if status_of(error) == NOT_FOUND:
                return
            if status_of(error) != CONFLICT:
                self._events.event(job, "Warning", event_reasons.DELETE_FAILED, f"Error deleting: {error}")
            raise
        self._events.event(job, "Normal", event_reasons.DELETED, f"Deleted pod: {pod.metadata.name}")

    async def _release(self, pod: Pod) -> None:
        await self._patch(pod, job_patches.remove_finalizer(pod))

    async def _track(self, pod: Pod) -> None:
        await self._patch(pod, job_patches.add_finalizer(pod, self._options.finalizer))

    async def _patch(self, pod: Pod, patch: Mapping[str, object]) -> None:
        try:
            await self._cluster.patch_pod(pod.metadata.key, patch)
        except Exception as error:
            if status_of(error) != NOT_FOUND:
                raise

    # --- Events and metrics ---

    def _report(self, job: Job, events: Iterable[JobEvent]) -> None:
        for event in events:
            self._events.event(job, event.type, event.reason, event.message)

    def _count_all(self, counts: Iterable[Count]) -> None:
        for count in counts:
            self._count(count.name, count.labels, count.by)

    def _count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        self._metrics.inc(METRICS_PREFIX + name, labels, by)


def _named(job: Job) -> dict[str, str]:
    """The fields of a log line that name the Job."""
    return {"key": str(job.metadata.key), "uid": job.metadata.uid}


def is_namespace_terminating(error: Exception) -> bool:
    """Whether the request was rejected because the namespace is being deleted (cause NamespaceTerminating)."""
    body = getattr(error, "body", None)
    details = body.get("details") if isinstance(body, Mapping) else None
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes or ())
