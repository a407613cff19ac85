"""Samples the containers that no cgroup measures, while they run.

Each is sampled every tenth of a second while it is young, later every second. What a container uses between its last
sample and its end is missed, unless it is killed (pod_processes.py). The memory of its first sample does not count: its
program may just be loaded, and the container end before the next sample.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from time import monotonic

from queue_manager.local.agent.pod_worker import PodWorker
from queue_manager.local.agent.proc_usage import sample

log = logging.getLogger(__name__)

YOUNG_SECONDS = 5.0
YOUNG_PERIOD = 0.1  # seconds between two samples while a container is young
PERIOD = 1.0
PAUSE_FACTOR = 20  # a pause is at least this many times as long as the sampling before it


class UsageSampler:
    """Samples running containers periodically. Run `run` as a task; call `wake` when a container starts."""

    def __init__(self, pods: Callable[[], Collection[PodWorker]]) -> None:
        """`pods`: returns the workers of pods that are not finished."""
        self._pods = pods
        self._awake = asyncio.Event()
        self._born: dict[int, float] = {}  # when each supervisor was first sampled
        self.wake: Callable[[], None] = self._awake.set

    async def run(self) -> None:
        """Sample containers while any runs without a cgroup, until cancelled. Errors are logged."""
        while True:
            await self._awake.wait()
            workers = {pid: (worker, name) for worker in self._pods() for pid, name in worker.processes.unmeasured()}
            if not workers:
                self._awake.clear()
                self._born.clear()
                continue
            begun = monotonic()
            self._born = {pid: self._born.get(pid, begun) for pid in workers}
            try:
                found = await asyncio.to_thread(lambda pids: {pid: sample(pid) for pid in pids}, list(workers))
            except OSError:
                log.exception("the use of containers could not be read")
                found = {}
            for pid, usage in found.items():
                worker, name = workers[pid]
                is_first = self._born[pid] == begun
                worker.processes.add_sample(name, pid, usage._replace(peak_bytes=None) if is_first else usage)
            young = any(begun - born < YOUNG_SECONDS for born in self._born.values())
            await asyncio.sleep(max(YOUNG_PERIOD if young else PERIOD, PAUSE_FACTOR * (monotonic() - begun)))
