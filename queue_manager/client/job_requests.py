"""What the client asks the API server for, other than Jobs of the official client.

Why a Job never starts, and what failed in it, is read from the same objects as by `sluice submit` and `sluice show`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from job_controller.labels import CONTROLLER_UID
from job_controller.model import Job, Key
from queue_manager.api.api_resources import JOBS, PODS, WORKLOADS
from queue_manager.api.keys import JOB_UID
from queue_manager.api.types import Workload
from queue_manager.cli.published_config import published
from queue_manager.cli.queue_reading import read_queues
from queue_manager.engine.json_codec import decoder, encode
from queue_manager.engine.rest_client import Head, RestClient
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.visibility.obstacles import Obstacle, further, obstacles
from queue_manager.visibility.wire_types import Pod

FIELD_MANAGER = "sluice-client"


async def create_job(client: RestClient, namespace: str, tree: Mapping[str, Any]) -> Key:
    """Create a Job from its manifest; the server refuses unknown fields. Returns its key. Raises ApiError."""
    query = {"fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
    answer = await client.transport.request(Request("POST", JOBS.path(namespace), query=query, body=encode(tree)))
    if not answer.is_success:
        raise ApiError.of(answer.status, answer.body, answer.headers)
    return decoder(Head).decode(answer.body).metadata.key


async def read_workloads(client: RestClient, namespace: str, job_uid: str) -> list[Workload] | None:
    """The Workloads of a Job; None if the user may not list them, [] if the cluster does not have the kind."""
    try:
        return await client.list(WORKLOADS, namespace, label_selector=f"{JOB_UID}={job_uid}", type=Workload)
    except ApiError as error:
        if error.is_forbidden:
            return None
        if not error.is_not_found:
            raise
        return []


async def lasting_obstacles(client: RestClient, job: Job, workload: Workload | None, default_ns: str) -> list[Obstacle]:
    """What keeps the Job from ever starting, its nodes apart; none if it only has to wait, or if unknown."""
    namespaces = [job.metadata.namespace]
    queues = await read_queues(client, namespaces, await published(client, namespaces))
    found = list(obstacles(job, workload, queues, default_ns))
    return [found[0], *further(found)] if found and found[0].never and found[0].certain else []


async def read_pods(client: RestClient, job: Job) -> list[Pod]:
    """The pods of the Job that still exist."""
    selector = f"{CONTROLLER_UID}={job.metadata.uid}"
    return await client.list(PODS, job.metadata.namespace, label_selector=selector, type=Pod)


async def read_visible_pods(client: RestClient, job: Job) -> list[Pod]:
    """The pods of the Job that still exist; none if the user may not read pods."""
    try:
        return await read_pods(client, job)
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return []
