"""Reads the queues, flavors, priority classes and namespaces around Jobs, as far as the user may read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from job_controller.model import Key
from queue_manager.api import event_reasons
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    COHORTS,
    EVENTS,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
)
from queue_manager.api.events import Event
from queue_manager.api.messages import missing_class
from queue_manager.api.types import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Namespace,
    PriorityClass,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from queue_manager.cli.permitted_lists import list_permitted, seen
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.scheduling.resource_rules import ResourceRules
from queue_manager.visibility.obstacles import ReadableQueues

if TYPE_CHECKING:
    from queue_manager.configuration import KueueConfig


async def read_queues(
    client: RestClient, namespaces: Iterable[str], config: KueueConfig | None = None
) -> ReadableQueues:
    """Read the LocalQueues of these namespaces and all cluster-scoped objects. `config`: of the queue manager."""
    chosen = sorted(set(namespaces))
    try:
        lists = [await list_permitted(client, LOCAL_QUEUES, LocalQueue, namespace) for namespace in chosen]
    except ApiError as error:
        if not error.is_not_found:
            raise
        return ReadableQueues(installed=False)
    local = None if None in lists else [queue for some in lists for queue in some or ()]
    cluster = await seen(client, CLUSTER_QUEUES, ClusterQueue)
    flavors = await seen(client, RESOURCE_FLAVORS, ResourceFlavor)
    cohorts = await seen(client, COHORTS, Cohort)
    classes = await seen(client, WORKLOAD_PRIORITY_CLASSES, WorkloadPriorityClass)
    pod_classes = await read_pod_classes(client)
    found = ReadableQueues(
        local=None if local is None else {queue.metadata.key: queue for queue in local},
        cluster=None if cluster is None else {queue.metadata.name: queue for queue in cluster},
        flavors=None if flavors is None else {flavor.metadata.name: flavor for flavor in flavors},
        cohorts=None if cohorts is None else {cohort.metadata.name: cohort for cohort in cohorts},
        classes=None if classes is None else frozenset(one.metadata.name for one in classes),
        pod_classes=pod_classes,
        namespaces={name: labels for name in chosen if (labels := await _labels(client, name)) is not None},
        rules=resource_rules(config) if config is not None else None,
    )
    return await with_refused_classes(client, found, chosen)


async def read_pod_classes(client: RestClient) -> frozenset[str] | None:
    """Return the names of the PriorityClasses, which pods name; None if the user may not list them."""
    found = await seen(client, PRIORITY_CLASSES, PriorityClass)
    return None if found is None else frozenset(one.metadata.name for one in found)


async def with_refused_classes(client: RestClient, queues: ReadableQueues, namespaces: Iterable[str]) -> ReadableQueues:
    """Add what Events say of priority classes that a manager did not find, where the listed classes do not decide.

    They do not if the user may not list them, or if the manager has its classes from files.
    """
    unlisted = {key.namespace for key in queues.local or () if queues.is_unlisted(key)}
    chosen = set(namespaces) if queues.classes is None else unlisted & set(namespaces)
    reason = f"reason={event_reasons.PRIORITY_CLASS_NOT_FOUND}"
    lists = [await list_permitted(client, EVENTS, Event, each, field_selector=reason) for each in sorted(chosen)]
    events = [event for some in lists for event in some or ()]
    refused = {(event.involved_object.uid, missing_class(event.message)) for event in events}
    return replace(queues, refused_classes=frozenset(refused))


async def _labels(client: RestClient, namespace: str) -> dict[str, str] | None:
    try:
        return dict((await client.get(NAMESPACES, *Key("", namespace), type=Namespace)).metadata.labels)
    except ApiError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        return None


def resource_rules(config: KueueConfig) -> ResourceRules:
    """Return the rules by which requests count. Imported late: the import takes 0.1 s."""
    from queue_manager.lifecycle.workload_settings import settings_of

    return settings_of(config).resources
