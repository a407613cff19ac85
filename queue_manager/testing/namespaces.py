"""Namespaces for tests that share a cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kubernetes.client import CoreV1Api, CustomObjectsApi, V1Namespace, V1ObjectMeta

from queue_manager.api.api_resources import LOCAL_QUEUES
from queue_manager.local.first_queue import CLUSTER_QUEUE, LOCAL_QUEUE

if TYPE_CHECKING:
    from queue_manager.testing.cluster import Cluster

_QUEUE = {
    "apiVersion": LOCAL_QUEUES.api_version,
    "kind": LOCAL_QUEUES.kind,
    "metadata": {"name": LOCAL_QUEUE},
    "spec": {"clusterQueue": CLUSTER_QUEUE},
}


@contextmanager
def temporary_namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace with a LocalQueue `user-queue` of the first ClusterQueue; deleted at the end, without waiting."""
    name, core = f"test-{secrets.token_hex(4)}", CoreV1Api(cluster.api_client)
    core.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=name)))
    CustomObjectsApi(cluster.api_client).create_namespaced_custom_object(
        LOCAL_QUEUES.group, LOCAL_QUEUES.version, name, LOCAL_QUEUES.plural, _QUEUE
    )
    try:
        yield name
    finally:
        core.delete_namespace(name)
