"""Kills containers that use more memory than their limit, on machines where no cgroup does (see cgroups.py).

Memory is sampled once a second, only while containers with limits.memory run. The sample counts what a cgroup could not
reclaim: anonymous and shared memory, not the pages of mapped files. A container that exceeds its limit for less than a
second may go unnoticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from queue_manager.local.agent.escaped_processes import kill
from queue_manager.local.agent.pod_worker import PodWorker
from queue_manager.local.agent.proc_memory import Limit, Sizes, by_container, over_limit, unreclaimable

log = logging.getLogger(__name__)

PERIOD = 1.0  # seconds between two samples


class OomKiller:
    """Kills containers above limits.memory. Run `run` as a task; call `wake` when a container starts."""

    def __init__(self, pods: Callable[[], Collection[PodWorker]], root: Path) -> None:
        """`pods`: returns the workers of pods that are not finished. `root`: root of the pods' files."""
        self._pods = pods
        self._root = root
        self._awake = asyncio.Event()
        self.wake: Callable[[], None] = self._awake.set

    async def run(self) -> None:
        """Sample every PERIOD seconds while containers with limits.memory run, until cancelled. Errors are logged."""
        while True:
            await self._awake.wait()
            limits = {worker.uid: found for worker in self._pods() if (found := worker.processes.sampled_limits())}
            if not limits:
                self._awake.clear()
                continue
            try:
                await self._sample(limits)
            except OSError:
                log.exception("the memory of containers could not be read")
            await asyncio.sleep(PERIOD)

    async def _sample(self, limits: Mapping[str, Mapping[str, int]]) -> None:
        pods = {uid: Limit([uid], min(found.values())) for uid, found in limits.items()}
        suspects = await asyncio.to_thread(over_limit, pods, self._root, unreclaimable)
        for worker in self._pods():
            if worker.uid in suspects:
                self._judge(worker, suspects[worker.uid])

    def _judge(self, worker: PodWorker, sizes: Sizes) -> None:
        sessions = worker.processes.sessions()
        used = by_container(sizes[worker.uid], sessions)
        for container, limit in worker.processes.sampled_limits().items():
            if used.get(container, 0) > limit:
                worker.processes.kill_for_memory(container)
                if len(sessions) == 1:  # a single container: all processes of the pod are its
                    kill({worker.uid}, self._root)
