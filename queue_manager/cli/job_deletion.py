"""Deletes Jobs with their pods, and waits until both are gone: for `cancel`, `submit --replace` and `run --rm`."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from job_controller.model import Job
from job_controller.pod_facts import is_terminal
from queue_manager.api import keys
from queue_manager.api.api_resources import JOBS
from queue_manager.cli.named_targets import JobTarget, get_or_none
from queue_manager.cli.pod_reading import pods_of
from queue_manager.cli.polling import Pace, patiently
from queue_manager.cli.standard_streams import say
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError

SILENT_SECONDS = 3.0  # after which a line reports what the deletion waits for


async def announce(client: RestClient, job: Job, user: str, key: str = keys.CANCELLED_BY) -> None:
    """Annotate a Job with the user who deletes it, for the history. Nothing happens if the user may not write Jobs.

    `key`: of the annotation, by what the user does.
    """
    if not user:
        return
    annotations = {"metadata": {"uid": job.metadata.uid, "annotations": {key: user}}}
    with suppress(ApiError):
        await client.patch(JOBS, *job.metadata.key, annotations)


async def delete(client: RestClient, job: Job, *, dry_run: bool = False) -> None:
    """Delete a Job in the foreground: it exists until its pods are gone. Not an error if it does not exist."""
    meta = job.metadata
    try:
        await client.delete(JOBS, *meta.key, uid=meta.uid, propagation="Foreground", dry_run=dry_run)
    except ApiError as error:
        if not error.is_not_found:
            raise


async def until_gone(client: RestClient, job: Job, then: str = "") -> None:
    """Return when the Job does not exist any more. After SILENT_SECONDS, report what it waits for.

    `then`: what the command does afterwards, and so not before.
    """
    pace = Pace()
    reporter = asyncio.create_task(_report(client, job, then))
    try:
        while await patiently(lambda: _exists(client, job)):
            await pace.pause(changed=False)
    finally:
        reporter.cancel()


async def _exists(client: RestClient, job: Job) -> bool:
    found = await get_or_none(client, JOBS, job.metadata.key, Job)
    return found is not None and found.metadata.uid == job.metadata.uid


async def _report(client: RestClient, job: Job, then: str) -> None:
    await asyncio.sleep(SILENT_SECONDS)
    pods = await pods_of(client, JobTarget(job, None))
    left = [pod.metadata.name for pod in pods if not is_terminal(pod)]
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        what = f"pod {left[0]}{more} to end"
    else:
        what = "a manager to release its Workload (`sluice doctor` says whether one runs)"
    after = f"; {then}" if then else ""
    say(f"{job.metadata.key}: waiting for {what}{after}; Ctrl-C leaves the deletion to the cluster")
