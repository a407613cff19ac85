"""Carrying out a Decision: the writes of one sync, step by step."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from job_controller import job_patches, reasons
from job_controller.decision import (
    Count,
    CreatePods,
    Decision,
    DeletePods,
    Event,
    PodPlan,
    PrunePods,
    ReleasePods,
    Step,
    TrackPods,
    WriteStatus,
)
from job_controller.model import Job, Pod
from job_controller.options import JobControllerOptions
from job_controller.pod_facts import is_tracked
from job_controller.pod_identity import Identities
from job_controller.pod_manifest import manifest
from job_controller.ports import Cluster, Events, Metrics, PodPermits

log = logging.getLogger(__name__)

METRICS_PREFIX = "job_controller_"
NOT_FOUND, CONFLICT, REFUSED = 404, 409, 422  # HTTP; refused: the API server holds the object impossible

T = TypeVar("T")
Errors = list[Exception]


class StatusConflict(Exception):
    """The Job has changed or was deleted since it was read: read it and decide again."""


class PermitWithdrawn(Exception):
    """The Job lost the permit to have new pods between the decision to create them and the creation."""


class NoLabels(Exception):
    """The template has no labels, so nobody could find its pods."""


def status_of(error: Exception) -> int:
    """The HTTP status of an error of the cluster port; 0 if there was no answer."""
    status = getattr(error, "status", 0)
    return status if isinstance(status, int) else 0


async def each(items: Iterable[T], do: Callable[[T], Awaitable[None]], at_once: int) -> Errors:
    """Do it to all items, so many at a time. The errors, in the order of the items."""
    queue: Iterator[tuple[int, T]] = iter(enumerate(items))
    errors: dict[int, Exception] = {}

    async def hand() -> None:
        for number, item in queue:
            try:
                await do(item)
            except Exception as error:
                errors[number] = error

    async with asyncio.TaskGroup() as hands:
        for _ in range(at_once):
            hands.create_task(hand())
    return [errors[number] for number in sorted(errors)]


class Performer:
    """Writes for one Job at a time; keeps which Jobs had trouble creating pods, and what pods were created for."""

    def __init__(
        self,
        cluster: Cluster,
        events: Events,
        metrics: Metrics,
        options: JobControllerOptions,
        identities: Identities,
        permits: PodPermits,
    ) -> None:
        self._identities = identities
        self._cluster = cluster
        self._permits = permits
        self._events = events
        self._metrics = metrics
        self._options = options
        self._troubled: set[str] = set()  # UIDs of Jobs whose last creation failed

    def forget(self, uid: str) -> None:
        self._troubled.discard(uid)

    async def perform(self, job: Job, decision: Decision) -> Errors:
        """Carry out the steps until one fails. Raises StatusConflict, or the error of a status write."""
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
                return await self._each(pods, lambda pod: self._delete(job, pod, release))
            case PrunePods(pods):
                return await self._each(pods, lambda pod: self._delete(job, pod, False))
            case ReleasePods(pods, counts):
                errors = await self._each(pods, self._release)
                if not errors:
                    self._count_all(counts)
                return errors
            case TrackPods(pods):
                return await self._each(pods, self._track)
            case WriteStatus():
                return []

    async def _each(self, items: Sequence[T], do: Callable[[T], Awaitable[None]]) -> Errors:
        return await each(items, do, min(len(items), self._options.writes_in_flight))

    # --- status ---

    async def _write_status(self, job: Job, step: WriteStatus) -> Job:
        changes = job_patches.status_changes(job.status, step.status)
        try:
            written = await self._cluster.update_job_status(job, changes)
        except Exception as error:
            if status_of(error) in (CONFLICT, NOT_FOUND):  # a Job that is not found was deleted, or made again
                raise StatusConflict(str(error)) from error
            if status_of(error) == REFUSED:
                self._refused(job, changes, error)
                await self._write_numbers(job, changes)
            raise
        self._report(job, step.events)
        self._count_all(step.counts)
        return written

    def _refused(self, job: Job, changes: Mapping[str, object], error: Exception) -> None:
        """A status that the API server holds impossible is a bug, here or there: never silent."""
        log.error("status refused", extra={"job": str(job.metadata.key), "changes": changes, "error": str(error)})
        self._events.event(job, "Warning", reasons.EVENT_STATUS_REFUSED, str(error))

    async def _write_numbers(self, job: Job, changes: Mapping[str, object]) -> None:
        """Of a refused status at least the numbers of pods, so that people see what runs."""
        numbers = {name: changes[name] for name in ("active", "ready", "terminating") if name in changes}
        if numbers and numbers != changes:
            try:
                await self._cluster.update_job_status(job, numbers)
            except Exception as error:
                log.warning("numbers refused too", extra={"job": str(job.metadata.key), "error": str(error)})

    # --- creation ---

    async def _create(self, job: Job, step: CreatePods) -> Errors:
        """Create the pods; after a failure, in batches that start with one and double (spec 2.6)."""
        uid = job.metadata.uid
        if not (job.spec.template.get("metadata") or {}).get("labels"):
            self._events.event(
                job, "Warning", reasons.EVENT_CREATE_FAILED, f"Error creating: {reasons.NO_LABELS_MESSAGE}"
            )
            return [NoLabels(reasons.NO_LABELS_MESSAGE)]
        size = 1 if uid in self._troubled else self._options.writes_in_flight
        start = 0
        while start < len(step.plans):
            batch = step.plans[start : start + size]
            errors = await self._each(batch, lambda plan: self._create_one(job, plan, step.reason))
            if errors:
                if not any(isinstance(error, PermitWithdrawn) for error in errors):
                    self._troubled.add(uid)
                return errors
            start += size
            size = min(size * 2, self._options.max_creates)
        self._troubled.discard(uid)
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
                self._events.event(job, "Warning", reasons.EVENT_CREATE_FAILED, message)
            raise
        if plan.index is not None:
            current = self._cluster.pod(pod.metadata.key) or pod
            self._identities.created(job.metadata.uid, current, tree["metadata"]["annotations"])
        self._count("job_pods_creation_total", {"reason": reason, "status": "succeeded"})
        self._events.event(job, "Normal", reasons.EVENT_CREATED, f"Created pod: {pod.metadata.name}")

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
                self._events.event(job, "Warning", reasons.EVENT_DELETE_FAILED, f"Error deleting: {error}")
            raise
        self._events.event(job, "Normal", reasons.EVENT_DELETED, f"Deleted pod: {pod.metadata.name}")

    async def _release(self, pod: Pod) -> None:
        await self._patch(pod, job_patches.release(pod))

    async def _track(self, pod: Pod) -> None:
        await self._patch(pod, job_patches.track(pod, self._options.finalizer))

    async def _patch(self, pod: Pod, patch: Mapping[str, object]) -> None:
        try:
            await self._cluster.patch_pod(pod.metadata.key, patch)
        except Exception as error:
            if status_of(error) != NOT_FOUND:
                raise

    # --- what is told ---

    def _report(self, job: Job, events: Iterable[Event]) -> None:
        for event in events:
            self._events.event(job, event.type, event.reason, event.message)

    def _count_all(self, counts: Iterable[Count]) -> None:
        for count in counts:
            self._count(count.name, count.labels, count.by)

    def _count(self, name: str, labels: Mapping[str, str], by: float = 1) -> None:
        self._metrics.inc(METRICS_PREFIX + name, labels, by)


def is_namespace_terminating(error: Exception) -> bool:
    """The pod was refused because its namespace is going away, and the Job with it."""
    body = getattr(error, "body", None)
    details = body.get("details") if isinstance(body, Mapping) else None
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes or ())
