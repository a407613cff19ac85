"""The visibility API of this process: positions and explanations of pending Workloads, from its caches.

`sluice up` mounts it in its API server, `sluice manager` serves it with `operator.visibility_server`. Positions are
read from the quota cache immediately (`visibility.pending_summary`). An explanation takes seconds in a queue of many
thousand Workloads (`visibility.served_explanation`). So it is computed in a thread, on what the caches have at this
moment, one at a time, with pauses as long, so that controllers get most of the processor. Further requests are refused
while MAX_WAITING wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from job_controller.json_tree import Json
from job_controller.model import Job, Key
from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOADS,
)
from queue_manager.api.types import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LimitRange,
    LocalQueue,
    Namespace,
    ResourceFlavor,
    RuntimeClass,
    Workload,
)
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.scheduler.quota_cache import QuotaCache
from queue_manager.visibility import pending_summary
from queue_manager.visibility.explain_record import Explanation
from queue_manager.visibility.pending_summary import (
    EXPLANATION,
    Answer,
    PendingSummaries,
    QueuePath,
    failure,
    not_found,
)
from queue_manager.visibility.scheduler_judgement import ClusterObjects
from queue_manager.visibility.served_explanation import WORKLOAD, concerning, document, explained_to_namespace

MAX_WAITING = 16  # requests for explanations, the one that is computed included


class Explanations:
    """Explains Workloads from the caches of a runtime, which are those of its quota cache."""

    def __init__(self, runtime: Runtime, quota_cache: QuotaCache) -> None:
        self._runtime = runtime
        self._quota_cache = quota_cache
        self._workloads = runtime.cache(WORKLOADS, Workload)
        self._turn = asyncio.Lock()
        self._next_start = 0.0  # by the clock of the event loop
        self._requests = 0

    async def answer(self, asked: QueuePath, query: Mapping[str, str]) -> Answer:
        """The explanation of a Workload of this LocalQueue, or a Status."""
        name = query.get(WORKLOAD, "")
        if not name:
            return failure(400, "BadRequest", f"the parameter {WORKLOAD} is missing: a Workload of this LocalQueue")
        if self._requests >= MAX_WAITING:
            return failure(429, "TooManyRequests", "too many explanations are being computed, try again later")
        self._requests += 1
        try:
            async with self._turn:
                await asyncio.sleep(self._next_start - asyncio.get_running_loop().time())
                return await self._explained(asked, name)
        except ApiError as error:
            return failure(503, "ServiceUnavailable", f"the Job cannot be read: {error}")
        finally:
            self._requests -= 1

    async def _explained(self, asked: QueuePath, name: str) -> Answer:
        key, queues = Key(asked.namespace, asked.name), self._quota_cache.queues
        local = queues.local_queues.get(key)
        if local is None or local.spec.cluster_queue not in queues.cluster_queues:
            return not_found("localqueue", asked.name)
        workload = self._workloads.get(asked.namespace, name)
        if workload is None or workload.local_queue != key:
            return not_found("workload", name)
        return Answer(200, document(await self._explain(workload, local.spec.cluster_queue), asked.version))

    async def _explain(self, workload: Workload, cluster_queue: str) -> Explanation:
        settings, now = self._quota_cache.settings, self._runtime.clock.now()
        objects, sharing = self._objects(), frozenset(self._quota_cache.state.relatives(cluster_queue))
        job = await self._job_of(workload)

        def compute() -> Explanation:
            return explained_to_namespace(job, workload, concerning(objects, sharing, settings), settings, now)

        return await self._in_thread(compute)

    async def _in_thread(self, compute: Callable[[], Explanation]) -> Explanation:
        """Run `compute` in a thread; the next one starts only after a pause of the same length."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            return await asyncio.to_thread(compute)
        finally:
            self._next_start = 2 * loop.time() - start

    async def _job_of(self, workload: Workload) -> Job | None:
        """The Job that controls the Workload. It is read, since a replica that waits for the Lease caches no Jobs."""
        owner = workload.metadata.controller
        if owner is None or not owner.is_job:
            return None
        job = await self._runtime.client.find(JOBS, workload.metadata.namespace, owner.name, type=Job)
        return job if job is not None and job.metadata.uid == owner.uid else None

    def _objects(self) -> ClusterObjects:
        cache = self._runtime.cache
        return ClusterObjects(
            workloads=self._workloads.values(),
            local_queues=cache(LOCAL_QUEUES, LocalQueue).values(),
            cluster_queues=cache(CLUSTER_QUEUES, ClusterQueue).values(),
            cohorts=cache(COHORTS, Cohort).values(),
            flavors=cache(RESOURCE_FLAVORS, ResourceFlavor).values(),
            checks=cache(ADMISSION_CHECKS, AdmissionCheck).values(),
            namespaces=cache(NAMESPACES, Namespace).values(),
            limit_ranges=cache(LIMIT_RANGES, LimitRange).values(),
            runtime_classes=cache(RUNTIME_CLASSES, RuntimeClass).values(),
        )


class VisibilityApi:
    """Answers GET requests to the visibility API. `explanations`: None as in Kueue, which has none."""

    group = pending_summary.GROUP
    versions = pending_summary.VERSIONS

    def __init__(self, summaries: PendingSummaries, explanations: Explanations | None = None) -> None:
        self.summaries = summaries
        self._explanations = explanations

    def serves(self, path: str) -> bool:
        """Whether the path names a subresource of a queue."""
        return pending_summary.parse(path) is not None

    async def answer(self, path: str, query: Mapping[str, str]) -> Answer | None:
        """The response to a GET request, perhaps a Status; None for a path that is not served."""
        asked = pending_summary.parse(path)
        if asked is None or asked.subresource != EXPLANATION:
            return self.summaries.answer(path, query)
        return await self._explanations.answer(asked, query) if self._explanations is not None else None

    def resources(self) -> list[Json]:
        """The entries of the group's APIResourceList."""
        return pending_summary.resources()

    def described(self) -> list[Json]:
        """The entries of the group in aggregated discovery (APIGroupDiscovery)."""
        return pending_summary.described()
