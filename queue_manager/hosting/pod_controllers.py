"""Pod garbage collection and stale disruptions on the engine, for clusters without kube-controller-manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from job_controller.model import Key, Pod
from job_controller.pod_gc import TERMINATED_THRESHOLD, GcNode, PodGc
from job_controller.stale_disruption import StaleDisruptions
from queue_manager.api.api_resources import NODES, PODS
from queue_manager.engine.cache import Cache
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH, ApiError
from queue_manager.engine.workqueue import WorkQueue


class _PodCluster:
    """Implements `job_controller.pod_gc.PodCluster`."""

    def __init__(self, client: RestClient, pods: Cache[Pod], nodes: Cache[GcNode]) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes

    def pods(self) -> Sequence[Pod]:
        return self._pods.values()

    def pod(self, key: Key) -> Pod | None:
        return self._pods.get(*key)

    def nodes(self) -> Mapping[str, GcNode]:
        return {node.metadata.name: node for node in self._nodes.values()}

    async def node_exists(self, name: str) -> bool:
        try:
            await self._client.get(NODES, "", name, type=GcNode)
        except ApiError as error:
            if not error.is_not_found:
                raise
            return False
        return True

    async def patch_pod_status(self, key: Key, patch: Mapping[str, Any]) -> Pod:
        return await self._client.patch(PODS, *key, patch, subresource="status", content_type=STRATEGIC_PATCH, type=Pod)

    async def delete_pod_now(self, key: Key, uid: str) -> None:
        await self._client.delete(PODS, *key, uid=uid, grace_period=0)


def attach_pod_controllers(runtime: Runtime, *, terminated_pods: int = TERMINATED_THRESHOLD) -> PodGc:
    """Attach pod garbage collection and the removal of stale disruptions to a runtime, before it starts.

    `terminated_pods`: how many ended pods the cluster keeps; 0: all.
    """
    pods = runtime.cache(PODS, Pod)
    cluster = _PodCluster(runtime.client, pods, runtime.cache(NODES, GcNode))
    collector = PodGc(cluster, runtime.clock, runtime.metrics, threshold=terminated_pods)
    runtime.task(collector.run)
    queue: WorkQueue[Key] = WorkQueue("stale_disruptions", metrics=runtime.metrics)
    cleaner = StaleDisruptions(cluster, queue, runtime.clock)
    pods.subscribe(cleaner.pod_changed)
    runtime.worker(queue, cleaner.sync, 1)
    return collector
