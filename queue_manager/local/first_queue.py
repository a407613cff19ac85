"""What a new cluster begins with: one queue that has the quota of its nodes.

The names are those of Kueue's own introduction, so that the manifests of its documentation run unchanged.

Created once in the life of a cluster: who deletes it does not get it back. That it was created stands on the
namespace of its LocalQueue, written last, so a start that failed or was killed halfway is made good by the next.

Its quota follows the nodes, with which a cluster may come back larger or smaller, until somebody else changes it.
"""

from __future__ import annotations

from typing import Any

from queue_manager.engine.client import Client
from queue_manager.engine.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS, Resource
from queue_manager.engine.transport import ApiError

FLAVOR = "default-flavor"
CLUSTER_QUEUE = "cluster-queue"
LOCAL_QUEUE = "user-queue"
NAMESPACE = "default"
DONE = "sluice/first-queue"  # annotation
QUOTA = "sluice/quota-of-nodes"  # annotation of the ClusterQueue: what it got of its nodes, "CPU MEMORY"


async def ensure_first_queue(client: Client, cpu: str, memory: str) -> bool:
    """Create the first queue unless this cluster has had it, or has LocalQueues of its own; else have its quota follow
    the nodes. True: one of the two was done.
    """
    home = await client.get(NAMESPACES, "", NAMESPACE)
    if DONE in home["metadata"].get("annotations", {}):
        return await follow_nodes(client, cpu, memory)
    wanted = not await client.list(LOCAL_QUEUES)
    if wanted:
        await create_first_queue(client, cpu, memory)
    await client.patch(NAMESPACES, "", NAMESPACE, {"metadata": {"annotations": {DONE: LOCAL_QUEUE}}})
    return wanted


async def follow_nodes(client: Client, cpu: str, memory: str) -> bool:
    """Give the first queue the quota of today's nodes, if it still has that of those there were. True: done."""
    queues = [q for q in await client.list(CLUSTER_QUEUES) if q["metadata"]["name"] == CLUSTER_QUEUE]
    for queue in queues:
        given = queue["metadata"].get("annotations", {}).get(QUOTA, "").split()
        if len(given) != 2 or given == [cpu, memory] or queue["spec"].get("resourceGroups") != _groups(*given):
            return False
        change = {
            "metadata": {
                "annotations": {QUOTA: f"{cpu} {memory}"},
                "resourceVersion": queue["metadata"]["resourceVersion"],
            },
            "spec": {"resourceGroups": _groups(cpu, memory)},
        }
        await client.patch(CLUSTER_QUEUES, "", CLUSTER_QUEUE, change)
    return bool(queues)


async def create_first_queue(client: Client, cpu: str, memory: str) -> None:
    """Create flavor, ClusterQueue and LocalQueue `default/user-queue` with these quotas; what is there stays."""
    await _create(client, RESOURCE_FLAVORS, "", {"metadata": {"name": FLAVOR}})
    metadata = {"name": CLUSTER_QUEUE, "annotations": {QUOTA: f"{cpu} {memory}"}}
    spec = {"namespaceSelector": {}, "resourceGroups": _groups(cpu, memory)}
    await _create(client, CLUSTER_QUEUES, "", {"metadata": metadata, "spec": spec})
    queue = {"metadata": {"name": LOCAL_QUEUE, "namespace": NAMESPACE}, "spec": {"clusterQueue": CLUSTER_QUEUE}}
    await _create(client, LOCAL_QUEUES, NAMESPACE, queue)


def _groups(cpu: str, memory: str) -> list[dict[str, Any]]:
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": memory}]
    return [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": FLAVOR, "resources": quotas}]}]


async def _create(client: Client, resource: Resource, namespace: str, obj: dict[str, Any]) -> None:
    try:
        await client.create(resource, namespace, obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
