"""Builds the SubmissionContext of a Job on a real cluster, on every replica: what the rules of Jobs read.

Namespaces and the default LocalQueues and WorkloadPriorityClass come from small caches with a runtime of their own: the
controllers' caches exist only while this replica leads. The owner of a Job is read when a Job is owned by a Job, which
is rare.
"""

from __future__ import annotations

import asyncio

from job_controller.json_tree import Json
from job_controller.model import Job
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.api.workload_names import workload_name
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.jobs.job_situation import MAX_ANCESTORS
from queue_manager.jobs.managed_jobs import is_queued
from queue_manager.jobs.submission_contexts import SubmissionContexts, ownership, queue_of_import
from queue_manager.jobs.webhook import SubmissionContext
from queue_manager.jobs.workload_manifest import queue_name
from queue_manager.lifecycle.workload_settings import Bounds, WorkloadSettings

OWNER_SECONDS = 2.0  # for all reads of owners, and of a Workload, less than the timeout of the webhook


class ClusterContexts:
    """Builds the SubmissionContext of a submitted Job. Constructed before `runtime` starts."""

    def __init__(self, runtime: Runtime, settings: WorkloadSettings) -> None:
        self._client = runtime.client
        self._contexts = SubmissionContexts(runtime, settings, only_defaults=True)

    def reconfigure(self, settings: WorkloadSettings) -> None:
        """Apply new settings to the Jobs that are submitted from now on."""
        self._contexts.settings = settings

    @property
    def bounds(self) -> Bounds:
        """The bounds of annotations that override the configuration."""
        return self._contexts.settings.bounds

    async def of(self, job: Json, *, with_owner: bool, with_import: bool = False) -> SubmissionContext:
        """Return what the admission rules need to know about the cluster for this Job.

        With `with_owner` the owners of the Job are read, to find whether it belongs to a managed Job; without, it does
        not. With `with_import` its Workload is read, to find whether `sluice import` made one. Raises ApiError, OSError
        or TimeoutError if an owner cannot be read.
        """
        owner_managed = False
        if with_owner and (job.get("metadata") or {}).get("ownerReferences"):
            async with asyncio.timeout(OWNER_SECONDS):
                owner_managed = await self._is_owner_managed(ownership(job))
        imported_to = await self._queue_of_import(ownership(job)) if with_import else ""
        return self._contexts.of(job, owner_managed=owner_managed, imported_to=imported_to)

    async def _queue_of_import(self, job: Job) -> str:
        meta = job.metadata
        name = workload_name(meta.name, meta.uid)
        try:
            async with asyncio.timeout(OWNER_SECONDS):
                found = await self._client.get(WORKLOADS, meta.namespace, name, type=Workload)
        except ApiError as error:
            if error.is_not_found:
                return ""
            raise
        return queue_of_import([found])

    async def _is_owner_managed(self, job: Job) -> bool:
        """As `JobPermits.parent`: a Job without a queue name belongs to the nearest managed Job above it."""
        if queue_name(job):
            return False
        for _ in range(MAX_ANCESTORS):
            owner = await self._owner(job)
            if owner is None:
                return False
            if self._is_managed(owner):
                return True
            job = owner
        return True

    def _is_managed(self, job: Job) -> bool:
        queued = is_queued(queue_name(job), manage_all=self._contexts.settings.manage_all)
        return queued and self._contexts.is_selected(job.metadata.namespace)

    async def _owner(self, job: Job) -> Job | None:
        owner = job.metadata.controller
        if owner is None or not owner.is_job:
            return None
        try:
            found = await self._client.get(JOBS, job.metadata.namespace, owner.name, type=Job)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        return found if found.metadata.uid == owner.uid else None
