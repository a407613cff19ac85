"""From Kueue to Sluice with Jobs that run: `sluice adopt --apply`, `sluice install`, and then the managers work.

The objects are those that the real Kueue left at a moment of a recording. The cluster's own Job controller runs them.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from queue_manager.adoption.kueue_installation import DEPLOYMENTS
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, NAMESPACES, PODS
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from tests.control_plane.conftest import ROOT, SLUICE, install_kinds, kubectl
from tests.control_plane.install.conftest import sluice
from tests.control_plane.install.installed_managers import SYSTEM, start
from tests.control_plane.install.live_jobs import endless, leads, owner, state
from tests.control_plane.manager.scenario import kubelet
from tests.control_plane.server import ControlPlane
from tests.local.queue import replay
from tests.simulation.recorded_moments import Moment, quiet_moments, restore
from tests.waiting import until

pytestmark = pytest.mark.control_plane

NS = "ns"  # of the recording
MANAGER = "kueue-controller-manager"
RECORDING = "b01"
LABELS = {"control-plane": "controller-manager"}
KUEUE = {"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.14.2"}


@dataclass
class KueueCluster:
    """Where a recorded moment is restored."""

    client: RestClient
    clock: SystemClock = field(default_factory=SystemClock)
    history: list[bytes] = field(default_factory=list)

    async def start(self) -> None:
        raise AssertionError("no manager runs here")

    async def kill(self) -> None:
        raise AssertionError("no manager runs here")


@pytest.fixture
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane.start() as plane:
        install_kinds(plane)
        yield plane


def one_runs_and_one_waits() -> Moment:
    """The first moment at which Kueue runs a Job, while another has no quota."""
    moments = quiet_moments(replay.load(RECORDING))
    return next(each for each in moments if sorted(map(is_admitted, each.of("Workload").values())) == [False, True])


def is_admitted(workload: dict[str, Any]) -> bool:
    return bool(workload.get("cond.Admitted", {}).get("status") == "True" and "cond.Finished" not in workload)


async def install_kueue(api: RestClient) -> None:
    """The Deployment, which is all that keeps `adopt` from having nothing to stop."""
    await api.create(NAMESPACES, "", {"metadata": {"name": SYSTEM}})
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [KUEUE]}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    await api.create(DEPLOYMENTS, SYSTEM, {"metadata": {"name": MANAGER, "labels": LABELS}, "spec": spec})


async def test_a_job_that_kueue_runs_keeps_its_pods_and_its_quota(
    cluster: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    await install_kueue(api)
    await restore(KueueCluster(api), one_runs_and_one_waits())  # type: ignore[arg-type]
    with cluster.controllers("job-controller", "garbage-collector-controller"):
        async with kubelet(api.transport, endless):
            await until(lambda: runs(api), "the admitted Job has its pods")
            before = await state(api, NS)
            assert sorted(before["suspended"].values()) == [False, True]

            await asyncio.to_thread(adopt, cluster, "--apply", "--save", str(tmp_path / "kueue.yaml"))
            manifests = await asyncio.to_thread(sluice, "install", "--set", "webhook.enabled=false")
            force = ("apply", "--server-side", "--force-conflicts", "-f", "-")
            await asyncio.to_thread(lambda: kubectl(cluster, *force, stdin=manifests.encode()))
            assert await state(api, NS) == before

            manager = await start(cluster, MANAGER, tmp_path / "manager")
            try:
                await until(lambda: leads(manager), "the manager leads")
                await until(lambda: counts_both(api), "the manager has counted both Workloads")
                assert await state(api, NS) == before
                await end_running(api)
                await until(lambda: runs(api), "the Job that waited has its pods")
            finally:
                await manager.stop()


def adopt(cluster: ControlPlane, *arguments: str) -> None:
    command = [*SLUICE, "adopt", "--kubeconfig", str(cluster.kubeconfig), "-n", SYSTEM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


async def runs(api: RestClient) -> bool:
    """Whether all pods of exactly one unsuspended Job are ready."""
    jobs = [job for job in await api.list(JOBS, NS) if not job["spec"]["suspend"]]
    return len(jobs) == 1 and jobs[0]["status"].get("ready") == jobs[0]["spec"]["parallelism"]


async def counts_both(api: RestClient) -> bool:
    [queue] = await api.list(CLUSTER_QUEUES)
    status = queue.get("status", {})
    return (status.get("admittedWorkloads"), status.get("pendingWorkloads")) == (1, 1)


async def end_running(api: RestClient) -> None:
    """Delete the Job that runs, with its pods."""
    [running] = [job["metadata"]["name"] for job in await api.list(JOBS, NS) if not job["spec"]["suspend"]]
    await api.delete(JOBS, NS, running, propagation="Background")
    await until(lambda: no_pods_of(api, running), "the garbage collector has deleted its pods")


async def no_pods_of(api: RestClient, job: str) -> bool:
    return all(owner(pod) != job for pod in await api.list(PODS, NS))
