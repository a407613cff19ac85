"""Samples the memory that the pods of each node use, and evicts one pod when less than the threshold is free.

Memory is sampled only while containers run. After an eviction the node is not sampled until the evicted pod is gone,
because its memory has to be returned before another pod is chosen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

from job_controller import quantities
from queue_manager.local.agent.container_starts import Container
from queue_manager.local.agent.eviction_order import ContainerUse, PodUse, PressurePolicy, available, evict
from queue_manager.local.agent.pod_status import Termination
from queue_manager.local.agent.pod_worker import PodWorker
from queue_manager.local.agent.proc_memory import Limit, Sizes, by_container, over_limit
from queue_manager.local.placement.pod_preemption import PlacedPod
from queue_manager.scheduling.amounts import Amounts

log = logging.getLogger(__name__)


class EvictablePods(Protocol):
    """The part of the agent that the evictor uses."""

    def pods(self) -> Collection[PodWorker]:
        """The workers of all pods that are not finished."""
        ...

    def held(self, uid: str) -> PlacedPod | None:
        """The node and the requests of an admitted pod; None for any other."""
        ...

    def evict(self, uid: str, verdict: Termination) -> None:
        """End the pod immediately and report `verdict` as the reason."""
        ...


class AllocatableNodes(Protocol):
    """The part of OwnNodes that the evictor uses."""

    def allocatable(self, node: str) -> Amounts:
        """The allocatable resources of the node."""
        ...

    def threshold_met(self, node: str) -> None:
        """Record that less memory than the threshold is free on the node."""
        ...


class Evictor:
    """Evicts pods from nodes that run out of memory. Run `run` as a task; call `wake` when a container starts."""

    def __init__(self, pods: EvictablePods, nodes: AllocatableNodes, policy: PressurePolicy, root: Path) -> None:
        self._pods = pods
        self._nodes = nodes
        self._policy = policy
        self._root = root
        self._awake = asyncio.Event()
        self._evicted: dict[str, str] = {}  # node -> uid of the last evicted pod
        self.wake: Callable[[], None] = self._awake.set

    async def run(self) -> None:
        """Sample every `policy.period` seconds while containers run, until cancelled. Errors are logged."""
        while True:
            await self._awake.wait()
            await asyncio.sleep(self._policy.period)
            pods = self._running()
            if not pods:
                self._awake.clear()
                continue
            try:
                found = await asyncio.to_thread(over_limit, self._limits(pods), self._root)
            except OSError:
                log.exception("the memory of pods could not be read")
                continue
            for node, sizes in found.items():
                self._relieve(node, sizes)

    def _running(self) -> dict[str, list[PodWorker]]:
        """Workers by node, of pods that have a running container; the others use no memory."""
        found: dict[str, list[PodWorker]] = {}
        for worker in self._pods.pods():
            if worker.running and (held := self._pods.held(worker.uid)) is not None:
                found.setdefault(held.node, []).append(worker)
        return found

    def _memory(self, node: str) -> int:
        return self._nodes.allocatable(node).get("memory", 0)

    def _limits(self, pods: Mapping[str, list[PodWorker]]) -> dict[str, Limit]:
        """The memory limit of each node to sample, without nodes no larger than the threshold or with an eviction under
        way.
        """
        threshold = self._policy.threshold
        return {
            node: Limit([worker.uid for worker in workers], memory - threshold)
            for node, workers in pods.items()
            if (memory := self._memory(node)) > threshold
            and not any(worker.uid == self._evicted.get(node) for worker in workers)
        }

    def _relieve(self, node: str, sizes: Sizes) -> None:
        uses = [
            _use(worker, held, sizes[worker.uid])
            for worker in self._pods.pods()
            if worker.uid in sizes and (held := self._pods.held(worker.uid)) is not None
        ]
        capacity, threshold = self._memory(node), self._policy.threshold
        if available(capacity, uses) >= threshold:
            return
        self._nodes.threshold_met(node)
        eviction = evict(capacity, threshold, uses)
        if eviction is not None:
            self._evicted[node] = eviction.uid
            self._pods.evict(eviction.uid, eviction.verdict)


def _use(worker: PodWorker, held: PlacedPod, sizes: Mapping[int, int]) -> PodUse:
    used = by_container(sizes, worker.processes.sessions())
    running = [container for container in worker.containers if container.running]
    containers = [_container_use(container, used.get(container.name, 0)) for container in running]
    return PodUse(held.uid, sum(sizes.values()), held.requests.get("memory", 0), held.priority, containers)


def _container_use(container: Container, used: int) -> ContainerUse:
    request = str(((container.spec.get("resources") or {}).get("requests") or {}).get("memory", "0"))
    return ContainerUse(container.name, used, quantities.parse(request), quantities.canonical_text(request))
