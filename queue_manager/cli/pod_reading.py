"""Reads the pods of Jobs: of one Job all, of many only those that can say why their Jobs do not run."""

from __future__ import annotations

from collections.abc import Sequence

from job_controller import conditions, model
from job_controller.condition_types import FAILED
from job_controller.labels import CONTROLLER_UID
from job_controller.model import Job
from queue_manager.api.api_resources import PODS
from queue_manager.cli.named_targets import JobTarget
from queue_manager.cli.permitted_lists import list_permitted
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.visibility.running_or_starting import failed_pods
from queue_manager.visibility.wire_types import Pod

MAX_NAMED = 50  # Jobs that one label selector names; for more, the pods of all Jobs are read


async def pods_of(client: RestClient, target: JobTarget) -> list[Pod]:
    """Return the pods of one Job, none if the user may not read pods."""
    try:
        return await pods_or_refusal(client, target)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return []


async def pods_or_refusal(client: RestClient, target: JobTarget) -> list[Pod]:
    """Return the pods of one Job. Raises ApiError if the user may not read pods."""
    if target.job is None:
        return []
    meta = target.job.metadata
    pods = await client.list(PODS, meta.namespace, label_selector=f"{CONTROLLER_UID}={meta.uid}", type=Pod)
    return [pod for pod in pods if (owner := pod.metadata.controller) is not None and owner.uid == meta.uid]


async def read_troubled_pods(client: RestClient, jobs: Sequence[Job], namespace: str) -> list[model.Pod]:
    """Return the pods of the troubled Jobs in one request, none if there is no such Job or the user may not read pods.

    `namespace`: of all the Jobs, "" for several.
    """
    uids = [job.metadata.uid for job in jobs if _is_troubled(job)]
    if not uids:
        return []
    named = f"{CONTROLLER_UID} in ({','.join(uids)})" if len(uids) <= MAX_NAMED else CONTROLLER_UID
    unsuccessful = "status.phase!=Succeeded"
    found = await list_permitted(client, PODS, model.Pod, namespace, label_selector=named, field_selector=unsuccessful)
    return found or []


def _is_troubled(job: Job) -> bool:
    end, status = conditions.finished(job.status), job.status
    if end is not None:
        return end.type == FAILED
    if not job.spec.suspend and (status.failed_indexes or status.active > (status.ready or 0)):
        return True
    return failed_pods(status) > 0 and not status.active  # of a suspended Job perhaps the cause of its last attempt
