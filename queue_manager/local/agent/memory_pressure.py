"""The nodes that an agent serves: their allocatable resources, and the MemoryPressure condition that the agent writes.

MemoryPressure becomes True when less than the threshold is free, and stays True until the threshold has not been met
for the transition period, so that a node which has just evicted a pod accepts no BestEffort pods. One timer per node
ends it. A condition that an earlier agent left as True is set to False at the start, as the kubelet does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from job_controller.model import Object, ObjectMeta
from job_controller.times import timestamp
from queue_manager.api.api_resources import NODES
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import STRATEGIC_PATCH
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.local.agent.environment import Host
from queue_manager.local.agent.eviction_order import RECLAIMING, THRESHOLD_MET
from queue_manager.local.placement.placement_objects import MEMORY_PRESSURE, NodeObject, is_pressed, node_of
from queue_manager.scheduling.amounts import Amounts, amount


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """Status, reason and message of the MemoryPressure condition, and the reason of its Event."""

    status: str
    reason: str
    message: str
    event: str


SUFFICIENT = NodeMemory(
    "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"
)
INSUFFICIENT = NodeMemory(
    "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"
)


class OwnNodes:
    """State by the name of the node. `transition`: seconds for which the condition outlives its cause."""

    def __init__(self, runtime: Runtime, hosts: Sequence[Host], transition: float) -> None:
        self._runtime = runtime
        self._hosts = {host.name: host for host in hosts}
        self._transition = transition
        self._known = runtime.cache(NODES, NodeObject)
        self._known.subscribe(self._changed)
        self._amounts: dict[str, Amounts] = {}
        self._pressed: dict[str, asyncio.TimerHandle] = {}
        self._events = runtime.recorder("kubelet")
        self._writes: WorkQueue[str] = WorkQueue("agent-nodes")
        runtime.worker(self._writes, self._write)

    def host(self, node: str) -> Host:
        """The values of a node for the downward API. Raises KeyError for a node of another agent."""
        return self._hosts[node]

    def allocatable(self, node: str) -> Amounts:
        """The allocatable resources of the node, in placement's amounts."""
        found = self._amounts.get(node)
        if found is None:
            found = self._amounts[node] = self._read(node)
        return found

    def is_pressed(self, node: str) -> bool:
        """Whether the node is under memory pressure, or was within the transition period."""
        return node in self._pressed

    def threshold_met(self, node: str) -> None:
        """Record that less memory than the threshold is free."""
        if (timer := self._pressed.get(node)) is not None:
            timer.cancel()
        self._pressed[node] = asyncio.get_running_loop().call_later(self._transition, self._relieved, node)
        self._record_event(node, "Warning", THRESHOLD_MET, RECLAIMING)
        self._writes.add(node)

    def _relieved(self, node: str) -> None:
        del self._pressed[node]
        self._writes.add(node)

    def _changed(self, _old: NodeObject | None, new: NodeObject | None) -> None:
        node = new.metadata.name if new is not None else ""
        self._amounts.pop(node, None)
        if new is not None and node in self._hosts and is_pressed(new) != self.is_pressed(node):
            self._writes.add(node)

    def _read(self, node: str) -> Amounts:
        found = self._known.get("", node)
        if found is not None:
            return node_of(found).allocatable
        return {name: amount(name, quantity) for name, quantity in self._hosts[node].allocatable.items()}

    async def _write(self, node: str) -> None:
        found = self._known.get("", node)
        if found is None or is_pressed(found) == self.is_pressed(node):
            return
        memory = INSUFFICIENT if self.is_pressed(node) else SUFFICIENT
        now = timestamp(self._runtime.clock.now())
        condition = {"type": MEMORY_PRESSURE, "status": memory.status, "reason": memory.reason}
        condition |= {"message": memory.message, "lastHeartbeatTime": now, "lastTransitionTime": now}
        status = {"status": {"conditions": [condition]}}
        await self._runtime.client.patch(
            NODES, "", node, status, subresource="status", content_type=STRATEGIC_PATCH, type=NodeObject
        )
        self._record_event(node, "Normal", memory.event, f"Node {node} status is now: {memory.event}")

    def _record_event(self, node: str, type: str, reason: str, message: str) -> None:
        """Record an Event about a node; its uid is the node's name, as in the kubelet's Events."""
        about = Object(api_version="v1", kind="Node", metadata=ObjectMeta(name=node, uid=node))
        self._events.event(about, "Warning" if type == "Warning" else "Normal", reason, message)
