"""Removes what tests have left on the real server, so that no test depends on another."""

from __future__ import annotations

import contextlib

from queue_manager.api.api_resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.api.component_names import PUBLIC_NAMESPACE, PUBLISHED_CONFIG
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError, Request

WORK = (JOBS, WORKLOADS, PODS)  # what a manager acts on
QUEUES = (LOCAL_QUEUES, CLUSTER_QUEUES, RESOURCE_FLAVORS, COHORTS, WORKLOAD_PRIORITY_CLASSES, ADMISSION_CHECKS)
SURROUNDINGS = (LIMIT_RANGES, RUNTIME_CLASSES)  # they change pods


async def clear(api: RestClient) -> None:
    """Remove Jobs, queues and what changes pods from all namespaces: a manager acts on every Job that it sees."""
    for resource in (*WORK, *QUEUES, *SURROUNDINGS):
        await remove_all(api, resource)
    await forget_published(api)


async def forget_published(api: RestClient) -> None:
    """Delete the configuration that managers of other tests have published: commands look for its Lease."""
    with contextlib.suppress(ApiError):
        await api.delete(CONFIG_MAPS, PUBLIC_NAMESPACE, PUBLISHED_CONFIG)


async def remove_all(api: RestClient, resource: Resource, namespace: str = "") -> None:
    """Delete all objects of a namespace, or of all for "", with their finalizers; none if the kind is not installed."""
    try:
        found = await api.list(resource, namespace)
    except ApiError as error:
        if error.status == 404:
            return
        raise
    for obj in found:
        meta = obj["metadata"]
        place = meta.get("namespace", "")
        with contextlib.suppress(ApiError):
            if meta.get("finalizers"):
                await api.patch(resource, place, meta["name"], {"metadata": {"finalizers": None}})
            await api.delete(resource, place, meta["name"], grace_period=0, propagation="Background")


async def forget_events(api: RestClient, namespace: str) -> None:
    answer = await api.transport.request(Request("DELETE", EVENTS.path(namespace)))
    assert answer.status == 200, answer.body
