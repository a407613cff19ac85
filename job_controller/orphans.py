"""Taking the tracking finalizer off pods that nobody will count any more (spec 2.1, 9).

Such are pods whose Job is gone or has finished, and pods that have no controller. Without this, they could
never be deleted. It works from what the cache tells of each pod, so a start finds what was left behind by the
last run. Before a finalizer goes the Job is read live: the cache may not know it yet.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from job_controller import conditions, job_patches
from job_controller.model import Job, Key, Pod
from job_controller.options import JobControllerOptions
from job_controller.perform import CONFLICT, NOT_FOUND, each, status_of
from job_controller.ports import Cluster


class Orphans(NamedTuple):
    """What one sweep is about: all pods of a Job by UID, or one pod without controller."""

    namespace: str
    job: str = ""
    uid: str = ""
    pod: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.job or self.pod}"


class OrphanQueue(Protocol):
    def add(self, key: Orphans) -> None: ...


class OrphanSweeper:
    """`job_changed` and `pod_changed` are told of every change, `sync` works on keys of its own queue."""

    def __init__(self, cluster: Cluster, queue: OrphanQueue, options: JobControllerOptions) -> None:
        self._cluster = cluster
        self._queue = queue
        self._options = options
        self._sweeps = options.sweeps

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new if new is not None else old
        if job is not None and (new is None or conditions.finished(new.status) is not None):
            meta = job.metadata
            if any(self._is_tracked(pod) for pod in self._cluster.pods_of(meta.uid)):
                self._queue.add(Orphans(meta.namespace, job=meta.name, uid=meta.uid))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
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
        """Free these pods if they are orphans indeed. Raises what should be repeated."""
        if orphans.pod:
            pod = self._cluster.pod(Key(orphans.namespace, orphans.pod))
            if pod is not None and self._is_tracked(pod) and pod.metadata.controller is None:
                await self._free(pod)
            return
        key = Key(orphans.namespace, orphans.job)
        if self._in_good_hands(self._cluster.job(key), orphans.uid):
            return
        if self._in_good_hands(await self._cluster.read_job(key), orphans.uid):
            return
        tracked = [pod for pod in self._cluster.pods_of(orphans.uid) if self._is_tracked(pod)]
        errors = await each(tracked, self._free, min(len(tracked), self._options.writes_in_flight))
        if errors:
            raise errors[0]

    def _in_good_hands(self, job: Job | None, uid: str) -> bool:
        """Whether this Job exists and somebody will still count its pods."""
        if job is None or job.metadata.uid != uid:
            return False
        return not self._options.manages(job) or conditions.finished(job.status) is None

    async def _free(self, pod: Pod) -> None:
        """Only in the version we know: the pod may be adopted at this moment. Its next change tells us again."""
        try:
            patch = job_patches.release(pod, this_version=True)
            await self._cluster.patch_pod(pod.metadata.key, patch)
        except Exception as error:
            if status_of(error) not in (NOT_FOUND, CONFLICT):
                raise

    def _is_tracked(self, pod: Pod) -> bool:
        return not self._sweeps.isdisjoint(pod.metadata.finalizers)
