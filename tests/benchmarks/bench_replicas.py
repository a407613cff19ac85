"""Memory of the replica that leads and of the one that waits, with 0 and 5 000 queued Jobs on a real API server.

    python -m tests.benchmarks.bench_replicas [--jobs 5000]

Both are `sluice manager` with queue, Job controller, webhooks, metrics and the visibility API, as `sluice install` runs
them. A tenth of the Jobs is admitted and has pods, the others are pending. The limit is that of the installation.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from job_controller.json_tree import Json
from job_controller.quantities import parse
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS, SECRETS
from queue_manager.api.component_names import WEBHOOK_SECRET
from queue_manager.engine.process_tuning import event_loop, tune_garbage_collector
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.settings import Settings
from tests.benchmarks.bench_queue import Meter, values_of
from tests.benchmarks.queue_load import IN_FLIGHT, client_of
from tests.control_plane.conftest import install_kinds
from tests.control_plane.manager.process import Manager
from tests.control_plane.server import ControlPlane
from tests.process_figures import peak_resident_bytes, resident_bytes
from tests.waiting import until

NAMESPACE, QUEUE = "team", "main"
CONFIG = f"""apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metrics: {{enableClusterQueueResources: true}}
leaderElection: {{resourceNamespace: {NAMESPACE}, leaseDuration: 60s, renewDeadline: 50s, retryPeriod: 10s}}
jobController: {{manage: All}}
"""
# Renewals of the Lease are rare, so that it is seen when nothing else is written any more.
SERVERS = ("--metrics-port", "0", "--webhook-port", "0", "--visibility-port", "0")
QUEUED_WITHIN_SECONDS = 1200.0


def job(number: int) -> Json:
    """About 2 KB."""
    env = [{"name": f"SETTING_{index}", "value": f"value-{index}-of-job-{number}"} for index in range(12)]
    resources = {"requests": {"cpu": "1", "memory": "4Gi"}}
    container = {"name": "main", "image": "registry.example.com/training:v1", "env": env, "resources": resources}
    meta = {"name": f"training-{number}", "labels": {"kueue.x-k8s.io/queue-name": QUEUE}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": meta, "spec": {"suspend": True, "template": template}}


async def set_up(client: RestClient, quota: int) -> None:
    await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    await client.create(SECRETS, NAMESPACE, {"metadata": {"name": WEBHOOK_SECRET}})
    await client.create(RESOURCE_FLAVORS, "", {"metadata": {"name": QUEUE}, "spec": {}})
    resources = [{"name": "cpu", "nominalQuota": str(quota)}, {"name": "memory", "nominalQuota": "100Ti"}]
    groups = [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": QUEUE, "resources": resources}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": QUEUE}, "spec": spec})
    await client.create(LOCAL_QUEUES, NAMESPACE, {"metadata": {"name": QUEUE}, "spec": {"clusterQueue": QUEUE}})


async def replica(plane: ControlPlane, folder: Path, until: str) -> Manager:
    """A manager that has announced this."""
    folder.mkdir()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(plane.kubeconfig.read_text())
    return await Manager.start(kubeconfig, config=CONFIG, until=until, ports=SERVERS)


async def queued(leader: Manager) -> float:
    """The Workloads that the leader counts."""
    answer = await leader.get("/metrics")
    return sum(
        sum(values_of(answer, metric)) for metric in ("kueue_pending_workloads", "kueue_admitted_active_workloads")
    )


def memory_limit() -> int:
    """Of the container, in bytes."""
    return int(parse(Settings().resources["limits"]["memory"]))


async def bench(jobs: int) -> None:
    table = Table(title="Resident memory of the replicas, in MiB")
    for column in ("queued Jobs", "replica", "now", "peak", "peak of limit"):
        table.add_column(column, justify="left" if column == "replica" else "right")

    def add(count: int, replicas: dict[str, Manager]) -> None:
        for name, manager in replicas.items():
            now, peak = (read(manager.process.pid) for read in (resident_bytes, peak_resident_bytes))
            table.add_row(str(count), name, f"{now / 2**20:.0f}", f"{peak / 2**20:.0f}", f"{peak / memory_limit():.0%}")

    with TemporaryDirectory() as folder, ControlPlane.start() as plane:
        install_kinds(plane)
        async with client_of(plane, IN_FLIGHT) as runtime:
            client = runtime.client
            await set_up(client, jobs // 10)
            leader = await replica(plane, Path(folder) / "leader", "ready")
            waiting = await replica(plane, Path(folder) / "waiting", "waiting: ")
            replicas = {"leads": leader, "waits": waiting}
            quiet = Meter(plane, client.transport).quiet
            try:
                await quiet()
                add(0, replicas)
                await asyncio.gather(*(client.create(JOBS, NAMESPACE, job(number)) for number in range(jobs)))

                async def are_queued() -> bool:
                    return await queued(leader) == jobs

                await until(are_queued, "all Jobs are queued", seconds=QUEUED_WITHIN_SECONDS)
                await quiet()
                add(jobs, replicas)
            finally:
                for manager in replicas.values():
                    await manager.stop()
    Console(width=110).print(table)
    print(f"requests and limits of an installation: {Settings().resources}")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--jobs", type=int, default=5000)
    options = parser.parse_args(arguments)
    tune_garbage_collector()
    with event_loop() as loop:
        loop.run(bench(options.jobs))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
