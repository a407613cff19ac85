"""What a new cluster begins with: one queue that has the quota of its nodes.

The names are those of Kueue's own introduction, so that the manifests of its documentation run unchanged.

Created once in the life of a cluster: who deletes it does not get it back. That it was created stands on the
namespace of its LocalQueue, written last, so a start that failed or was killed halfway is made good by the next.
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


async def ensure_first_queue(client: Client, cpu: str, memory: str) -> bool:
    """Create the first queue unless this cluster has had it, or has LocalQueues of its own. True: it did."""
    home = await client.get(NAMESPACES, "", NAMESPACE)
    if DONE in home["metadata"].get("annotations", {}):
        return False
    wanted = not await client.list(LOCAL_QUEUES)
    if wanted:
        await create_first_queue(client, cpu, memory)
    await client.patch(NAMESPACES, "", NAMESPACE, {"metadata": {"annotations": {DONE: LOCAL_QUEUE}}})
    return wanted


async def create_first_queue(client: Client, cpu: str, memory: str) -> None:
    """Create flavor, ClusterQueue and LocalQueue `default/user-queue` with these quotas; what is there stays."""
    await _create(client, RESOURCE_FLAVORS, "", {"metadata": {"name": FLAVOR}})
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": memory}]
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "resourceGroups": [
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": FLAVOR, "resources": quotas}]},
        ],
    }
    await _create(client, CLUSTER_QUEUES, "", {"metadata": {"name": CLUSTER_QUEUE}, "spec": spec})
    queue = {"metadata": {"name": LOCAL_QUEUE, "namespace": NAMESPACE}, "spec": {"clusterQueue": CLUSTER_QUEUE}}
    await _create(client, LOCAL_QUEUES, NAMESPACE, queue)


async def _create(client: Client, resource: Resource, namespace: str, obj: dict[str, Any]) -> None:
    try:
        await client.create(resource, namespace, obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
