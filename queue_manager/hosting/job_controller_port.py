"""The Job controller on the engine: implements its port, and attaches it to a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from job_controller import ttl
from job_controller.controller import JobController
from job_controller.model import Job, Key, Pod
from job_controller.options import JobControllerOptions
from job_controller.orphan_finalizers import Orphans, OrphanSweeper
from job_controller.ports import PodPermits
from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.engine.cache import Cache
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH, ApiError
from queue_manager.engine.workqueue import WorkQueue

COMPONENT = "job-controller"  # reporting component of Events, as the built-in Job controller's

_BY_OWNER = "job controller: controller uid"
_BY_LACK_OF_OWNER = "job controller: namespace, without controller"
_BY_NAMESPACE = "job controller: namespace"


class JobCluster:
    """Implements `job_controller.ports.Cluster` on two caches and a client that applies its responses to them."""

    def __init__(self, client: RestClient, jobs: Cache[Job], pods: Cache[Pod]) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods
        jobs.index(_BY_NAMESPACE, lambda job: (job.metadata.namespace,))
        pods.index(_BY_OWNER, _controller_uid)
        pods.index(_BY_LACK_OF_OWNER, _namespace_if_orphan)

    def job(self, key: Key) -> Job | None:
        """The cached Job, or None."""
        return self._jobs.get(*key)

    def jobs(self, namespace: str) -> Iterable[Job]:
        """The cached Jobs of a namespace."""
        return self._jobs.lookup(_BY_NAMESPACE, namespace)

    def pod(self, key: Key) -> Pod | None:
        """The cached pod, or None."""
        return self._pods.get(*key)

    def pods_of(self, job_uid: str) -> Iterable[Pod]:
        """The cached pods whose controller is this Job."""
        return self._pods.lookup(_BY_OWNER, job_uid)

    def orphans(self, namespace: str) -> Iterable[Pod]:
        """The cached pods of a namespace that have no controller."""
        return self._pods.lookup(_BY_LACK_OF_OWNER, namespace)

    async def read_job(self, key: Key) -> Job | None:
        """The Job as the API server has it now, or None."""
        try:
            return await self._client.get(JOBS, *key, type=Job)
        except ApiError as error:
            if not error.is_not_found:
                raise
            self._forget(self._jobs, key)
            return None

    async def create_pod(self, namespace: str, manifest: Mapping[str, Any]) -> Pod:
        """Create a pod and return it. Raises ApiError."""
        return await self._client.create(PODS, namespace, manifest, type=Pod)

    async def patch_pod(self, key: Key, patch: Mapping[str, Any]) -> Pod:
        """Patch a pod (strategic merge). Raises ApiError.

        After a 404 the cache no longer has the pod.
        """
        try:
            return await self._client.patch(PODS, *key, patch, content_type=STRATEGIC_PATCH, type=Pod)
        except ApiError as error:
            if error.is_not_found:
                self._forget(self._pods, key, str(patch.get("metadata", {}).get("uid", "")))
            raise

    async def delete_pod(self, key: Key, uid: str, resource_version: str = "") -> None:
        """Delete a pod, on the condition of uid and resourceVersion. Raises ApiError.

        After a 404 the cache no longer has the pod.
        """
        try:
            await self._client.delete(PODS, *key, uid=uid, resource_version=resource_version)
        except ApiError as error:
            if error.is_not_found:
                self._forget(self._pods, key, uid)
            raise

    async def update_job_status(self, job: Job, status: Mapping[str, Any]) -> Job:
        """Patch the status of a Job, on the condition of its uid and resourceVersion. Raises ApiError."""
        meta = job.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
        return await self._client.patch(JOBS, *meta.key, patch, subresource="status", type=Job)

    async def delete_job(self, key: Key, uid: str) -> None:
        """Delete a Job with propagationPolicy Foreground. Raises ApiError."""
        await self._client.delete(JOBS, *key, uid=uid, propagation="Foreground")

    @staticmethod
    def _forget(cache: Cache[Job] | Cache[Pod], key: Key, uid: str = "") -> None:
        """Drop an object from the cache after the API server answered 404 for it."""
        known = cache.get(*key)
        if known is not None and uid in ("", known.metadata.uid):
            cache.forget_uid(known.metadata.uid)


def _controller_uid(pod: Pod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner is not None and owner.is_job else ()


def _namespace_if_orphan(pod: Pod) -> tuple[str, ...]:
    return () if pod.metadata.controller is not None else (pod.metadata.namespace,)


def attach_job_controller(
    runtime: Runtime, options: JobControllerOptions | None = None, permits: PodPermits | None = None
) -> JobController:
    """Attach the Job controller, the orphan sweeper and, if it manages all Jobs, the TTL controller to a runtime.

    Call it before the runtime starts. With manage "ManagedBy" kube-controller-manager applies the TTLs. `permits`
    decides which Jobs may have pods, None: all; it is asked only after every cache of the runtime is synced.
    """
    options = options or JobControllerOptions()
    jobs, pods = runtime.cache(JOBS, Job), runtime.cache(PODS, Pod)
    cluster = JobCluster(runtime.client, jobs, pods)
    metrics = runtime.metrics

    queue: WorkQueue[Key] = WorkQueue("job", metrics=metrics)
    controller = JobController(cluster, queue, runtime.recorder(COMPONENT), runtime.clock, metrics, options, permits)
    orphan_queue: WorkQueue[Orphans] = WorkQueue("job_orphan_pod", metrics=metrics)
    sweeper = OrphanSweeper(cluster, orphan_queue, options)

    on_job: list[Callable[[Job | None, Job | None], None]] = [controller.job_changed, sweeper.job_changed]
    runtime.worker(queue, controller.sync, options.concurrent_syncs)
    runtime.worker(orphan_queue, sweeper.sync, options.concurrent_syncs)
    if options.manage == "All":
        ttl_queue: WorkQueue[Key] = WorkQueue("ttl_jobs_to_delete", metrics=metrics)
        expirer = ttl.TtlController(cluster, ttl_queue, runtime.clock, metrics)
        on_job.append(expirer.job_changed)
        runtime.worker(ttl_queue, expirer.sync, options.concurrent_syncs)
    for job_subscriber in on_job:
        jobs.subscribe(job_subscriber)
    for pod_subscriber in (controller.pod_changed, sweeper.pod_changed):
        pods.subscribe(pod_subscriber)
    return controller
