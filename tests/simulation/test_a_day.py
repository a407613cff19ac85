"""A day of retries in virtual time: the queue manager and the Job controller over the embedded API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

from job_controller.model import Job, Pod
from queue_manager.engine.resources import JOBS, PODS
from queue_manager.simulation.kubelet import Outcome
from queue_manager.simulation.virtual import run_virtual
from queue_manager.simulation.world import World

DAY = timedelta(hours=24).total_seconds()

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default-flavor}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cluster-queue}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu]
      flavors:
        - name: default-flavor
          resources: [{name: cpu, nominalQuota: 2}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: default}
spec: {clusterQueue: cluster-queue}
"""


def job(name: str, backoff_limit: int = 6) -> str:
    return f"""
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels: {{kueue.x-k8s.io/queue-name: user-queue}}
spec:
  suspend: true
  backoffLimit: {backoff_limit}
  template:
    spec:
      restartPolicy: Never
      containers:
        - {{name: main, image: none, command: ["true"], resources: {{requests: {{cpu: 1}}}}}}
"""


def script(pod: Pod) -> Outcome:
    """`fails` fails after half a minute, `hangs` never gets ready, all others succeed."""
    name = pod.metadata.name
    if name.startswith("fails"):
        return Outcome(ends_after=30.0, exit_code=1)
    if name.startswith("hangs"):
        return Outcome(ready_after=None, ends_after=None)
    return Outcome()


async def day(seed: int) -> World:
    async with World(seed, script) as world:
        await world.apply(QUEUES)
        for name, limit in (("fails", 1000), ("hangs", 6), ("succeeds", 6)):
            await world.apply(job(name, limit))
        await asyncio.sleep(DAY)
        world.jobs = {job.metadata.name: job for job in await world.client.list(JOBS, type=Job)}  # type: ignore[attr-defined]
        world.pods = await world.client.list(PODS, type=Pod)  # type: ignore[attr-defined]
        return world


def test_a_job_that_always_fails_is_retried_every_ten_minutes_for_a_day() -> None:
    """10 s doubling up to the cap of 600 s: seven retries in the first 21 minutes, then one each 630 s."""
    world = run_virtual(day(1))
    failed = world.jobs["fails"].status.failed  # type: ignore[attr-defined]
    # Waits 10..320 s sum up to 630 s, each attempt takes 30 s; what is left of the day has a period of 630 s.
    expected = 7 + (DAY - 7 * 30 - 630) // 630
    assert abs(failed - expected) <= 2
    assert Counter(pod.status.phase for pod in world.pods if pod.metadata.name.startswith("fails"))["Failed"] == failed  # type: ignore[attr-defined]


def test_the_same_seed_gives_the_same_api_history_byte_for_byte() -> None:
    first, second, other = (run_virtual(day(seed)).history for seed in (7, 7, 8))
    assert len(first) > 1000
    assert first == second
    assert first != other
