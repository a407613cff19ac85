"""Queued Jobs as real processes of a node agent, on the embedded and on a real server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from job_controller.model import Pod
from queue_manager.api.types import ClusterQueue, Workload
from queue_manager.engine.resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS
from tests.local.cluster.conftest import Up, processes_of, until
from tests.local.cluster.fleet import Fleet
from tests.local.cluster.work import ended, job, running

Begin = Callable[..., Up | Fleet]


async def test_a_queued_job_runs_as_a_real_process_and_gives_its_quota_back(cluster: Begin, tmp_path: Path) -> None:
    up = cluster()
    proof = tmp_path / "proof"
    async with up.client() as client:
        await client.create(JOBS, "default", job("writes", f"echo $HOSTNAME > {proof}"))
        done = await ended(client, "writes")
        assert done.status.succeeded == 1
        assert proof.read_text().startswith("writes-")

        async def free() -> bool:
            queue = await client.get(CLUSTER_QUEUES, "", "cluster-queue", type=ClusterQueue)
            usage = [r.total for flavor in queue.status.flavors_reservation or () for r in flavor.resources]
            return usage != [] and all(str(total) == "0" for total in usage)

        await until(free, "the quota is free again")


async def test_deleting_a_job_ends_its_process_and_its_workload(cluster: Begin) -> None:
    up = cluster()
    marker = f"32{os.getpid()}"
    async with up.client() as client:
        await client.create(JOBS, "default", job("goes", f"sleep {marker}"))
        await running(client, "goes")
        await client.delete(JOBS, "default", "goes", propagation="Background")

        async def gone() -> bool:
            left = [*await client.list(WORKLOADS, type=Workload), *await client.list(PODS, type=Pod)]
            return not left and not processes_of(marker)

        await until(gone, "workload, pod and process are gone")
