"""A day of retries in virtual time: queue manager and Job controller on the embedded API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from job_controller.model import Job, Pod
from queue_manager.api.api_resources import JOBS, PODS, WORKLOADS
from queue_manager.api.types import Workload
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.kueue_config import WaitForPodsReady
from queue_manager.simulation.kubelet import PodScript
from queue_manager.simulation.virtual_time import run_virtual
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


def script(pod: Pod) -> PodScript:
    """`fails` fails after half a minute, `hangs` never becomes ready, all others succeed."""
    name = pod.metadata.name
    if name.startswith("fails"):
        return PodScript(ends_after=30.0, exit_code=1)
    if name.startswith("hangs"):
        return PodScript(ready_after=None, ends_after=None)
    return PodScript()


@dataclass(frozen=True)
class DayEnd:
    """The state after a day."""

    jobs: dict[str, Job]
    pods: list[Pod]
    workloads: dict[str, Workload]
    history: list[bytes]


async def day(seed: int, limit: int = 6) -> DayEnd:
    """24 hours of three Jobs. `limit` is the backoffLimit of the one that fails; all else has its defaults."""
    config = KueueConfig(wait_for_pods_ready=WaitForPodsReady(timeout=timedelta(minutes=5)))
    async with World(seed, script, config) as world:
        await world.apply(QUEUES)
        for name, allowed in (("fails", limit), ("hangs", 6), ("succeeds", 6)):
            await world.apply(job(name, allowed))
        await asyncio.sleep(DAY)
        jobs = await world.client.list(JOBS, type=Job)
        workloads = await world.client.list(WORKLOADS, type=Workload)
        return DayEnd(
            {job.metadata.name: job for job in jobs},
            await world.client.list(PODS, type=Pod),
            {owner.name: w for w in workloads if (owner := w.metadata.controller)},
            world.history,
        )


def test_a_job_that_always_fails_is_retried_every_ten_minutes_for_a_day() -> None:
    """10 s doubling up to 600 s: six retries in the first quarter of an hour, then one every 630 s."""
    evening = run_virtual(day(1, limit=1000))
    failed = evening.jobs["fails"].status.failed
    # Backoffs of 10, 20 .. 320 s, each after an attempt of 30 s; then one attempt every 630 s.
    expected = 7 + (DAY - 7 * 30 - 630) // 630
    assert abs(failed - expected) <= 2
    phases = Counter(pod.status.phase for pod in evening.pods if pod.metadata.name.startswith("fails"))
    assert phases["Failed"] == failed


def test_a_job_that_always_fails_has_failed_after_seven_tries() -> None:
    """The default backoffLimit is 6."""
    status = run_virtual(day(1)).jobs["fails"].status
    assert status.failed == 7
    assert [(c.type, c.reason) for c in status.conditions if c.status == "True"] == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]


def test_a_job_that_never_becomes_ready_is_requeued_with_growing_backoff() -> None:
    """Each attempt lasts 300 s; the backoffs double from 60 s up to 3600 s."""
    evening = run_virtual(day(1))
    waits = [min(60 * 2**n, 3600) for n in range(40)]
    ends = [sum(waits[:n]) + 300 * (n + 1) for n in range(40)]  # of the n-th attempt
    expected = sum(end <= DAY for end in ends)
    state = evening.workloads["hangs"].status.requeue_state
    assert state is not None
    assert abs((state.count or 0) - expected) <= 1
    assert evening.jobs["succeeds"].status.succeeded == 1


def test_the_same_seed_gives_the_same_api_history_byte_for_byte() -> None:
    first, second, other = (run_virtual(day(seed)).history for seed in (7, 7, 8))
    assert len(first) > 800
    assert first == second
    assert first != other
