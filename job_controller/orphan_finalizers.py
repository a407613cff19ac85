"""Removing the tracking finalizer from pods that no sync will count (upstream syncOrphanPod, BEHAVIOUR.md#b34-orphans).

These are pods whose Job is deleted or finished, and pods without a controller. With the finalizer they could not be
deleted. Candidates come from the pod cache, so a start finds what the last run left behind. The Job is read live before
a finalizer is removed, because the cache may not have a new Job yet.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from job_controller import conditions, job_patches
from job_controller.managed_by import is_handled
from job_controller.model import Job, Key, Pod
from job_controller.options import JobControllerOptions
from job_controller.perform import CONFLICT, NOT_FOUND, for_each, status_of
from job_controller.ports import JobClient


class Orphans(NamedTuple):
    """The key of one sweep: all pods of a Job by UID, or one pod without a controller."""

    namespace: str
    job: str = ""
    uid: str = ""
    pod: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job or self.pod}"


class OrphanQueue(Protocol):
    """The work queue of the sweeper."""

    def add(self, key: Orphans) -> None:
        """Add the key unless it is queued already."""
        ...


class OrphanSweeper:
    """The controller. The host calls `job_changed` and `pod_changed` for every change, and `sync` for queued keys."""

    def __init__(self, cluster: JobClient, queue: OrphanQueue, options: JobControllerOptions) -> None:
        self._cluster = cluster
        self._queue = queue
        self._options = options
        self._finalizers = options.swept_finalizers

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Enqueue the tracked pods of a Job that finished or was deleted (`new` is None)."""
        job = new if new is not None else old
        if job is not None and (new is None or conditions.finished(new.status) is not None):
            meta = job.metadata
            if any(self._is_tracked(pod) for pod in self._cluster.pods_of(meta.uid)):
                self._queue.add(Orphans(meta.namespace, job=meta.name, uid=meta.uid))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Enqueue a tracked pod that has no controller, or whose Job is finished or gone."""
        if new is None or not self._is_tracked(new):
            return
        meta = new.metadata
        owner = meta.controller
        if owner is None:
            self._queue.add(Orphans(meta.namespace, pod=meta.name))
        elif owner.kind == "Job" and owner.api_version.startswith("batch/"):
            job = self._cluster.job(Key(meta.namespace, owner.name))
            if job is None or job.metadata.uid != owner.uid or conditions.finished(job.status) is not None:
                self._queue.add(Orphans(meta.namespace, job=owner.name, uid=owner.uid))

    async def sync(self, orphans: Orphans) -> None:
        """Remove the finalizers if the pods are still orphans. Raises errors that the host should retry."""
        if orphans.pod:
            pod = self._cluster.pod(Key(orphans.namespace, orphans.pod))
            if pod is not None and self._is_tracked(pod) and pod.metadata.controller is None:
                await self._remove_finalizer(pod)
            return
        key = Key(orphans.namespace, orphans.job)
        if self._will_be_counted(self._cluster.job(key), orphans.uid):
            return
        if self._will_be_counted(await self._cluster.read_job(key), orphans.uid):
            return
        tracked = [pod for pod in self._cluster.pods_of(orphans.uid) if self._is_tracked(pod)]
        errors = await for_each(tracked, self._remove_finalizer, min(len(tracked), self._options.writes_in_flight))
        if errors:
            raise errors[0]

    def _will_be_counted(self, job: Job | None, uid: str) -> bool:
        """Whether this Job exists under that UID and its pods will still be counted."""
        if job is None or job.metadata.uid != uid:
            return False
        return not is_handled(job, self._options.manage) or conditions.finished(job.status) is None

    async def _remove_finalizer(self, pod: Pod) -> None:
        """Remove the finalizer if the pod has not changed: another Job may be adopting it.

        A conflict is not retried, because the change that caused it enqueues the pod again.
        """
        try:
            patch = job_patches.remove_finalizer(pod, this_version=True)
            await self._cluster.patch_pod(pod.metadata.key, patch)
        except Exception as error:
            if status_of(error) not in (NOT_FOUND, CONFLICT):
                raise

    def _is_tracked(self, pod: Pod) -> bool:
        return not self._finalizers.isdisjoint(pod.metadata.finalizers)
