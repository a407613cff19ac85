"""Pods that nobody will ever end: found out, marked Failed, deleted for good (spec section 4).

Four kinds of them, in the order in which they are looked for:

    terminated      ended pods beyond a number that the cluster keeps: evicted ones first, then the oldest
    out-of-service  being deleted, on a node that is not ready and that an admin has declared dead by its taint
    orphaned        bound to a node that is gone
    unscheduled     being deleted, and never bound

A node that is missing may only not be known yet. So it is in quarantine first, and only if it was missing all
that time and the API server confirms it are its pods orphans. Quarantine is forgotten at a restart, which
costs its length once more and nothing else.

A pod is marked before it is deleted: the Job controller waits for a phase, and a deletion that fails is
repeated next time. Only orphans get the condition DisruptionTarget, unless it names another cause already; pods that
had ended keep their own end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol

from job_controller.disruption_target import announcement, is_announced
from job_controller.model import Condition, Key, Object, Pod, Record
from job_controller.perform import CONFLICT, NOT_FOUND, each, status_of
from job_controller.pod_facts import LONG_AGO, is_terminal
from job_controller.ports import Clock, Metrics

log = logging.getLogger(__name__)

PERIOD = 20.0  # seconds between two rounds
QUARANTINE = timedelta(seconds=40)
TERMINATED_THRESHOLD = 12_500
DELETIONS_AT_ONCE = 20

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
DELETION_BY_POD_GC = "DeletionByPodGC"
NODE_GONE_MESSAGE = "PodGC: node no longer exists"

DELETED = "pod_gc_collector_force_delete_pods_total"
ERRORS = "pod_gc_collector_force_delete_pod_errors_total"

Reason = Literal["terminated", "out-of-service", "orphaned", "unscheduled"]


class NodeTaint(Record):
    key: str = ""


class GcNodeSpec(Record):
    taints: tuple[NodeTaint, ...] = ()


class NodeStatus(Record):
    conditions: tuple[Condition, ...] = ()


class GcNode(Object):
    """What decides about the pods of a node."""

    spec: GcNodeSpec = GcNodeSpec()
    status: NodeStatus = NodeStatus()


class Removal(NamedTuple):
    pod: Pod
    reason: Reason


Missing = Mapping[str, datetime]  # node name -> since when it is missing


def missing_nodes(before: Missing, pods: Iterable[Pod], nodes: Collection[str], now: datetime) -> Missing:
    """Nodes that pods name and that do not exist, with the time when each was first missed."""
    named = dict.fromkeys(pod.spec.node_name for pod in pods if pod.spec.node_name)
    return {name: before.get(name, now) for name in named if name not in nodes}


def out_of_quarantine(missing: Missing, now: datetime) -> list[str]:
    """Nodes missing for so long that the API server should be asked."""
    return [name for name, since in missing.items() if now - since >= QUARANTINE]


def removals(
    pods: Sequence[Pod], nodes: Mapping[str, GcNode], gone: Collection[str], threshold: int = TERMINATED_THRESHOLD
) -> list[Removal]:
    """What is to be removed, each pod once. `gone`: nodes that are known not to exist. Threshold 0: keep all."""
    found: dict[str, Removal] = {}
    for pod in _beyond(pods, threshold):
        found.setdefault(pod.metadata.uid, Removal(pod, "terminated"))
    for reason, holds in _RULES:
        for pod in pods:
            if pod.metadata.uid not in found and holds(pod, nodes, gone):
                found[pod.metadata.uid] = Removal(pod, reason)
    return list(found.values())


def _beyond(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """Ended pods above the threshold; those that are being deleted already are neither counted nor asked again."""
    ended = [pod for pod in pods if is_terminal(pod) and pod.metadata.deletion_timestamp is None]
    if threshold <= 0 or len(ended) <= threshold:
        return []
    return sorted(ended, key=_dispensable)[: len(ended) - threshold]


def _dispensable(pod: Pod) -> tuple[bool, datetime, str]:
    evicted = pod.status.phase == "Failed" and pod.status.reason == "Evicted"
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


def end_patch(removal: Removal, now: datetime) -> dict[str, Any] | None:
    """The status patch (strategic merge) that ends the pod before it is deleted; None if it has ended."""
    pod, reason = removal
    if is_terminal(pod):
        return None
    status: dict[str, Any] = {"phase": "Failed"}
    if reason == "orphaned" and not is_announced((c.type, c.status) for c in pod.status.conditions):
        status["conditions"] = [announcement(DELETION_BY_POD_GC, NODE_GONE_MESSAGE, now)]
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


class PodKeeper(Protocol):
    """Pods and nodes as these controllers need them: cached reads, live writes that raise errors with a status."""

    def pods(self) -> Sequence[Pod]: ...

    def pod(self, key: Key) -> Pod | None: ...

    def nodes(self) -> Mapping[str, GcNode]: ...

    async def node_exists(self, name: str) -> bool:
        """By what the API server says now."""
        ...

    async def patch_pod_status(self, key: Key, patch: Mapping[str, Any]) -> Pod: ...

    async def delete_pod_now(self, key: Key, uid: str) -> None:
        """With no grace."""
        ...


class PodGc:
    """Removes such pods in rounds: `run` as a task."""

    def __init__(
        self, keeper: PodKeeper, clock: Clock, metrics: Metrics, *, threshold: int = TERMINATED_THRESHOLD
    ) -> None:
        self._keeper = keeper
        self._clock = clock
        self._metrics = metrics
        self._threshold = threshold
        self._missing: Missing = {}

    async def run(self) -> None:
        """A round at once and then every PERIOD, until cancelled."""
        while True:
            await self.round()
            await asyncio.sleep(PERIOD)

    async def round(self) -> None:
        """One look at all pods. What cannot be removed is counted, logged, and met again next time."""
        now = self._clock.now()
        nodes = self._keeper.nodes()
        self._missing = missing_nodes(self._missing, self._keeper.pods(), nodes, now)
        gone = [name for name in out_of_quarantine(self._missing, now) if not await self._exists(name)]
        found = removals(self._keeper.pods(), nodes, gone, self._threshold)
        await each(found, self._remove, min(len(found), DELETIONS_AT_ONCE))

    async def _exists(self, node: str) -> bool:
        """A node that cannot be asked for is taken to exist."""
        try:
            return await self._keeper.node_exists(node)
        except Exception as error:
            log.warning("a missing node cannot be confirmed", extra={"node": node, "error": str(error)})
            return True

    async def _remove(self, removal: Removal) -> None:
        meta = removal.pod.metadata
        labels = {"namespace": meta.namespace, "reason": removal.reason}
        try:
            patch = end_patch(removal, self._clock.now())
            if patch is not None:
                await self._keeper.patch_pod_status(meta.key, patch)
            await self._keeper.delete_pod_now(meta.key, meta.uid)
        except Exception as error:
            if status_of(error) == NOT_FOUND or (status_of(error) == CONFLICT and self._keeper.pod(meta.key) is None):
                return
            self._metrics.inc(ERRORS, labels)
            log.warning("a lost pod cannot be removed", extra={"pod": str(meta.key), "error": str(error)})
            return
        self._metrics.inc(DELETED, labels)
