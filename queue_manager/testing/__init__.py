"""Clusters for the tests of other projects: `Cluster`, and fixtures of pytest (`queue_manager.pytest_plugin`).

    >>> from kubernetes.client import CoreV1Api
    >>> from queue_manager.testing import Cluster
    >>> with Cluster(nodes=2, cpu="4") as cluster:
    ...     [node.metadata.name for node in CoreV1Api(cluster.api_client).list_node().items]
    ['node-1', 'node-2']

The cluster is that of `sluice up`: a Kubernetes API server, the queue, the Job controller and a node agent that runs
the pods as processes of this machine, in real time. It runs in a process of its own, so that nothing that a test
replaces (time, environment, working directory, event loop) reaches it, and it ends with the process that started it.
"""

from queue_manager.testing.cluster import Cluster, ClusterFailed

__all__ = ["Cluster", "ClusterFailed"]
