"""Reads everything on which the scheduler's decisions depend, as far as the user may read it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOADS,
    Resource,
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
from queue_manager.engine.rest_client import O, RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.visibility.scheduler_judgement import ClusterObjects


class _Forbidden(Exception):
    """The user may not list this kind in all namespaces, or in one that matters; the text names it."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The objects of the queue in the whole cluster, as far as the user may list them.

    `objects` is None if the user may not list some kind in all namespaces; `not_seen` names that kind.
    """

    objects: ClusterObjects | None
    not_seen: tuple[str, ...] = ()


async def read_cluster(client: RestClient, namespaces: Collection[str] = ()) -> ClusterView:
    """Read all objects, or none if one kind is forbidden. Those that refer to others are read before those.

    `namespaces`: the only ones in which the manager manages Jobs; (): all.
    """

    async def everywhere(resource: Resource, type: type[O]) -> list[O]:
        return [each for place in namespaces or [""] for each in await _all(client, resource, type, place)]

    try:
        objects = ClusterObjects(
            workloads=await everywhere(WORKLOADS, Workload),
            local_queues=await everywhere(LOCAL_QUEUES, LocalQueue),
            cluster_queues=await _all(client, CLUSTER_QUEUES, ClusterQueue),
            cohorts=await _all(client, COHORTS, Cohort),
            flavors=await _all(client, RESOURCE_FLAVORS, ResourceFlavor),
            checks=await _all(client, ADMISSION_CHECKS, AdmissionCheck),
            namespaces=await _all(client, NAMESPACES, Namespace),
            limit_ranges=await everywhere(LIMIT_RANGES, LimitRange),
            runtime_classes=await _all(client, RUNTIME_CLASSES, RuntimeClass),
        )
    except _Forbidden as forbidden:
        return ClusterView(None, (f"{forbidden}: how much quota is free, and who holds it",))
    return ClusterView(objects)


async def _all(client: RestClient, resource: Resource, type: type[O], namespace: str = "") -> list[O]:
    """All objects, or those of a namespace; none if the cluster does not have the kind."""
    try:
        return await client.list(resource, namespace, type=type)
    except ApiError as error:
        if error.is_forbidden:
            where = f" of {f'namespace {namespace}' if namespace else 'all namespaces'}" if resource.namespaced else ""
            raise _Forbidden(f"{resource.plural}{where}") from error
        if not error.is_not_found:
            raise
        return []
