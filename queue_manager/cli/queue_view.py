"""Reads what is around Jobs, as far as the user may see it."""

from __future__ import annotations

from collections.abc import Iterable

from job_controller.model import Key, Object
from queue_manager.api.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)
from queue_manager.api.types import ClusterQueue, LocalQueue, Namespace, ResourceFlavor, WorkloadPriorityClass
from queue_manager.engine.client import Client, O
from queue_manager.engine.transport import ApiError
from queue_manager.visibility.obstacles import Queues


async def read_queues(client: Client, namespaces: Iterable[str]) -> Queues:
    """The LocalQueues of these namespaces, and all that belongs to no namespace."""
    chosen = sorted(set(namespaces))
    lists = [await _seen(client, LOCAL_QUEUES, LocalQueue, namespace) for namespace in chosen]
    local = None if None in lists else [queue for some in lists for queue in some or ()]
    cluster = await _seen(client, CLUSTER_QUEUES, ClusterQueue)
    flavors = await _seen(client, RESOURCE_FLAVORS, ResourceFlavor)
    classes = await _seen(client, WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
    return Queues(
        local=None if local is None else {queue.metadata.key: queue for queue in local},
        cluster=None if cluster is None else {queue.metadata.name: queue for queue in cluster},
        flavors=None if flavors is None else {flavor.metadata.name: flavor for flavor in flavors},
        classes=None if classes is None else frozenset(one.metadata.name for one in classes),
        namespaces={name: labels for name in chosen if (labels := await _labels(client, name)) is not None},
        cohorts=bool(await _seen(client, COHORTS, Object)),
    )


async def _seen(client: Client, resource: Resource, type: type[O], namespace: str = "") -> list[O] | None:
    try:
        return await client.list(resource, namespace, type=type)
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        return None


async def _labels(client: Client, namespace: str) -> dict[str, str] | None:
    try:
        return dict((await client.get(NAMESPACES, *Key("", namespace), type=Namespace)).metadata.labels)
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        return None
