"""What follows a write of a Job or Workload that the API server answered with a conflict (409).

The write was decided on an outdated cache. The newest objects are read into the cache, and the Job is synced again at
once, without backoff. A conflict of a creation is different: either an earlier request, whose answer was lost, created
the Workload, or the name belongs to another owner and no retry can succeed before that Workload is deleted.
"""

from __future__ import annotations

from job_controller.model import Job
from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.engine.cache import Cache
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.jobs import planned_writes
from queue_manager.scheduler.workload_controller import BY_OWNER


async def refresh_after_conflict(
    client: RestClient, workloads: Cache[Workload], job: Job, action: planned_writes.PlannedWrite
) -> bool:
    """Read the objects that the action conflicted with into the cache; True if the Job can be synced again immediately.

    False: the Workload to be created belongs to another owner. Raises ApiError if a read fails.
    """
    if isinstance(action, planned_writes.CreateWorkload) and not await _was_created_before(client, job, action):
        return False
    await _refresh(client, workloads, job)
    return True


async def _was_created_before(client: RestClient, job: Job, action: planned_writes.CreateWorkload) -> bool:
    """Whether the Workload of this name was created for this Job, by an earlier request whose answer was lost."""
    meta = action.workload["metadata"]
    found = await client.get(WORKLOADS, meta["namespace"], meta["name"], type=Workload)
    return found.job_uid == job.metadata.uid


async def _refresh(client: RestClient, workloads: Cache[Workload], job: Job) -> None:
    """Read the Job and its Workloads into the cache, so that the next sync decides on their current state."""
    meta = job.metadata
    try:
        await client.get(JOBS, meta.namespace, meta.name, type=Job)
        for workload in workloads.lookup(BY_OWNER, meta.uid):
            await client.get(WORKLOADS, meta.namespace, workload.metadata.name, type=Workload)
    except ApiError as error:
        if not error.is_not_found:  # a deleted object leaves the cache with this answer
            raise
