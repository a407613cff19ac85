"""What a new cluster begins with: one queue that has the quota of its nodes.

The names are those of Kueue's own introduction, so that the manifests of its documentation run unchanged.
"""

from __future__ import annotations

from typing import Any

from queue_manager.engine.client import Client
from queue_manager.engine.resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS

FLAVOR = "default-flavor"
CLUSTER_QUEUE = "cluster-queue"
LOCAL_QUEUE = "user-queue"


async def create_first_queue(client: Client, cpu: str, memory: str) -> None:
    """Create flavor, ClusterQueue and LocalQueue `default/user-queue` with these quotas."""
    await client.create(RESOURCE_FLAVORS, "", {"metadata": {"name": FLAVOR}})
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": memory}]
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "resourceGroups": [
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": FLAVOR, "resources": quotas}]},
        ],
    }
    await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": CLUSTER_QUEUE}, "spec": spec})
    queue = {"metadata": {"name": LOCAL_QUEUE, "namespace": "default"}, "spec": {"clusterQueue": CLUSTER_QUEUE}}
    await client.create(LOCAL_QUEUES, "default", queue)
