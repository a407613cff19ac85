"""Pod garbage collection: marking pods Failed and deleting them where no other component will (upstream
pkg/controller/podgc).

    terminated      terminal pods beyond the threshold: evicted pods first, then the oldest
    out-of-service  being deleted, on a node that is not ready and has the taint node.kubernetes.io/out-of-service
    orphaned        bound to a node that does not exist
    unscheduled     being deleted, and never bound

A missing node may only be absent from the cache. So it is quarantined first; its pods are orphaned if it was missing
throughout QUARANTINE and a live read confirms that. The quarantine is kept in memory and starts again after a restart.

A pod is marked Failed before it is deleted, because the Job controller waits for a terminal phase; a deletion that
fails is repeated in the next round. Only orphaned pods get the condition DisruptionTarget, unless it is True already.
Terminal pods keep their phase. See BEHAVIOUR.md#b36-pod-gc.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol

from job_controller import pod_phases
from job_controller.disruption_target import announcement, is_announced
from job_controller.model import Condition, Key, Object, Pod, Record
from job_controller.perform import CONFLICT, NOT_FOUND, for_each, status_of
from job_controller.pod_facts import LONG_AGO, is_terminal
from job_controller.ports import Clock, Metrics

log = logging.getLogger(__name__)

PERIOD_SECONDS = 20.0
QUARANTINE = timedelta(seconds=40)
TERMINATED_THRESHOLD = 12_500  # pods
MAX_CONCURRENT_DELETIONS = 20

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
EVICTED = "Evicted"  # reason of a pod that the kubelet evicted
DELETION_BY_POD_GC = "DeletionByPodGC"
NODE_GONE_MESSAGE = "PodGC: node no longer exists"

DELETED = "pod_gc_collector_force_delete_pods_total"
ERRORS = "pod_gc_collector_force_delete_pod_errors_total"

Reason = Literal["terminated", "out-of-service", "orphaned", "unscheduled"]


class NodeTaint(Record):
    """core/v1 Taint, of which only the key is read."""

    key: str = ""


class GcNodeSpec(Record):
    """core/v1 NodeSpec, of which only the taints are read."""

    taints: tuple[NodeTaint, ...] = ()


class NodeStatus(Record):
    """core/v1 NodeStatus, of which only the conditions are read."""

    conditions: tuple[Condition, ...] = ()


class GcNode(Object):
    """The fields of a node that decide about its pods."""

    spec: GcNodeSpec = GcNodeSpec()
    status: NodeStatus = NodeStatus()


class Removal(NamedTuple):
    """A pod to remove, and the label `reason` of the metrics."""

    pod: Pod
    reason: Reason


Missing = Mapping[str, datetime]  # node name -> when it was first missing


def missing_nodes(before: Missing, pods: Iterable[Pod], nodes: Collection[str], now: datetime) -> Missing:
    """The nodes that pods are bound to and that are not in the cache, with the time when each was first missing: not
    later than `now`, to which the clock may have been set back.
    """
    named = dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name)
    return {name: min(before.get(name, now), now) for name in named if name not in nodes}


def out_of_quarantine(missing: Missing, now: datetime) -> list[str]:
    """The nodes that were missing for at least QUARANTINE, to be confirmed by a live read."""
    return [name for name, since in missing.items() if now - since >= QUARANTINE]


def removals(
    pods: Sequence[Pod], nodes: Mapping[str, GcNode], gone: Collection[str], threshold: int = TERMINATED_THRESHOLD
) -> list[Removal]:
    """The pods to remove, each once. `gone`: nodes confirmed not to exist. `threshold`: terminal pods to keep; 0 keeps
    all.
    """
    found: dict[str, Removal] = {}
    for pod in _over_threshold(pods, threshold):
        found.setdefault(pod.metadata.uid, Removal(pod, "terminated"))
    for reason, holds in _RULES:
        for pod in pods:
            if pod.metadata.uid not in found and holds(pod, nodes, gone):
                found[pod.metadata.uid] = Removal(pod, reason)
    return list(found.values())


def _over_threshold(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """The terminal pods beyond the threshold. Pods that are being deleted neither count nor are deleted again."""
    ended = [pod for pod in pods if is_terminal(pod) and pod.metadata.deletion_timestamp is None]
    if threshold <= 0 or len(ended) <= threshold:
        return []
    return sorted(ended, key=_removal_key)[: len(ended) - threshold]


def _removal_key(pod: Pod) -> tuple[bool, datetime, str]:
    """Sort key: evicted pods first, then by creation time."""
    evicted = pod.status.has_failed and pod.status.reason == EVICTED
    return not evicted, pod.metadata.creation_timestamp or LONG_AGO, pod.metadata.uid


def _is_out_of_service(pod: Pod, nodes: Mapping[str, GcNode], _: Collection[str]) -> bool:
    node = nodes.get(pod.spec.node_name)
    if pod.metadata.deletion_timestamp is None or node is None:
        return False
    ready = any(condition.type == "Ready" and condition.is_true for condition in node.status.conditions)
    return not ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def _is_orphaned(pod: Pod, _: Mapping[str, GcNode], gone: Collection[str]) -> bool:
    return pod.spec.node_name in gone


def _is_unscheduled(pod: Pod, _: Mapping[str, GcNode], __: Collection[str]) -> bool:
    return pod.metadata.deletion_timestamp is not None and not pod.spec.node_name


_RULES: tuple[tuple[Reason, Callable[[Pod, Mapping[str, GcNode], Collection[str]], bool]], ...] = (
    ("out-of-service", _is_out_of_service),
    ("orphaned", _is_orphaned),
    ("unscheduled", _is_unscheduled),
)


def failed_patch(removal: Removal, now: datetime) -> dict[str, Any] | None:
    """The status patch (strategic merge) that sets phase=Failed before the deletion; None for a terminal pod."""
    pod, reason = removal
    if is_terminal(pod):
        return None
    status: dict[str, Any] = {"phase": pod_phases.FAILED}
    if reason == "orphaned" and not is_announced((c.type, c.status) for c in pod.status.conditions):
        status["conditions"] = [announcement(DELETION_BY_POD_GC, NODE_GONE_MESSAGE, now)]
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


class PodCluster(Protocol):
    """What the host of `PodGc` and `stale_disruption.StaleDisruptions` implements: reads of a cache, and requests.

    The exceptions of a failed request have an integer attribute `status`, the HTTP status code.
    """

    def pods(self) -> Sequence[Pod]:
        """All pods of the cache."""
        ...

    def pod(self, key: Key) -> Pod | None:
        """The pod as the cache has it, None if absent."""
        ...

    def nodes(self) -> Mapping[str, GcNode]:
        """All nodes of the cache by name."""
        ...

    async def node_exists(self, name: str) -> bool:
        """Whether the API server has the node now, bypassing the cache."""
        ...

    async def patch_pod_status(self, key: Key, patch: Mapping[str, Any]) -> Pod:
        """Strategic merge patch of the status subresource."""
        ...

    async def delete_pod_now(self, key: Key, uid: str) -> None:
        """Delete the pod with this UID with grace period 0."""
        ...


class PodGc:
    """The collector. The host runs `run` as a task."""

    def __init__(
        self, cluster: PodCluster, clock: Clock, metrics: Metrics, *, threshold: int = TERMINATED_THRESHOLD
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._metrics = metrics
        self._threshold = threshold
        self._missing: Missing = {}

    async def run(self) -> None:
        """Run a round immediately and then every PERIOD_SECONDS, until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(PERIOD_SECONDS)

    async def round(self) -> None:
        """Remove what is due among all pods. Failed removals are counted, logged, and tried again in the next round."""
        now = self._clock.now()
        nodes = self._cluster.nodes()
        self._missing = missing_nodes(self._missing, self._cluster.pods(), nodes, now)
        gone = [name for name in out_of_quarantine(self._missing, now) if not await self._exists(name)]
        found = removals(self._cluster.pods(), nodes, gone, self._threshold)
        await for_each(found, self._remove, min(len(found), MAX_CONCURRENT_DELETIONS))

    async def _exists(self, node: str) -> bool:
        """Whether the node exists; True if the request fails, so that nothing is deleted."""
        try:
            return await self._cluster.node_exists(node)
        except Exception as error:
            log.warning("cannot confirm that a node is missing", extra={"node": node, "error": str(error)})
            return True

    async def _remove(self, removal: Removal) -> None:
        meta = removal.pod.metadata
        labels = {"namespace": meta.namespace, "reason": removal.reason}
        try:
            patch = failed_patch(removal, self._clock.now())
            if patch is not None:
                await self._cluster.patch_pod_status(meta.key, patch)
            await self._cluster.delete_pod_now(meta.key, meta.uid)
        except Exception as error:
            if status_of(error) == NOT_FOUND or (status_of(error) == CONFLICT and self._cluster.pod(meta.key) is None):
                return
            self._metrics.inc(ERRORS, labels)
            log.warning("cannot remove pod", extra={"key": str(meta.key), "uid": meta.uid, "error": str(error)})
            return
        self._metrics.inc(DELETED, labels)
