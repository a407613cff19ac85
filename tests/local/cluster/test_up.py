"""`sluice up` as its user meets it: start, stop, kill -9, a second one, a bad configuration."""

from __future__ import annotations

import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from job_controller.model import Job, Pod
from queue_manager.api.types import ClusterQueue, Workload
from queue_manager.engine.client import Client
from queue_manager.engine.resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS
from tests.local.cluster.conftest import Up, processes_of, sluice, until

Start = Callable[..., Up]


def job(name: str, command: str, **spec: object) -> dict[str, object]:
    container = {"name": "main", "image": "local", "command": ["sh", "-c", command]}
    return {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
        "spec": {
            "suspend": True,
            **spec,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{**container, "resources": {"requests": {"cpu": "100m"}}}],
                }
            },
        },
    }


async def job_named(client: Client, name: str) -> Job:
    return await client.get(JOBS, "default", name, type=Job)


def has(job: Job, condition: str) -> bool:
    return any(c.type == condition and c.is_true for c in job.status.conditions)


async def ended(client: Client, name: str, condition: str = "Complete") -> Job:
    async def so() -> bool:
        return has(await job_named(client, name), condition)

    await until(so, f"{name} is {condition}")
    return await job_named(client, name)


async def running(client: Client, name: str) -> None:
    async def so() -> bool:
        return (await job_named(client, name)).status.ready == 1

    await until(so, f"{name} runs")


async def test_a_queued_job_runs_as_a_real_process_and_gives_its_quota_back(start: Start, tmp_path: Path) -> None:
    up = start()
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


async def test_only_the_owner_may_read_the_kubeconfig_and_the_data(start: Start) -> None:
    up = start()
    assert stat.S_IMODE(up.kubeconfig.stat().st_mode) == 0o600
    assert stat.S_IMODE(up.data_dir.stat().st_mode) == 0o700


async def test_a_second_up_on_the_same_data_is_refused_and_names_the_first(start: Start) -> None:
    up = start()
    second = sluice("up", "--data-dir", str(up.data_dir))
    assert second.returncode == 3
    assert str(up.process.pid) in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_it_cleanly_and_no_process_is_left(start: Start, number: signal.Signals) -> None:
    up = start()
    marker = f"31{up.process.pid}"
    async with up.client() as client:
        await client.create(JOBS, "default", job("sleeps", f"sleep {marker} & sleep {marker}"))
        await running(client, "sleeps")
    assert processes_of(marker)
    assert up.stop(number) == 0
    assert processes_of(marker) == []
    assert not [line for line in up.lines if "Traceback" in line or "ERROR" in line]


async def test_after_kill_9_finished_jobs_stay_finished_and_running_pods_are_adopted(
    start: Start, tmp_path: Path
) -> None:
    """The process started before the kill is the one that ends the Job: nothing runs twice, nothing is lost."""
    first = start()
    gate, runs = tmp_path / "gate", tmp_path / "runs"
    async with first.client() as client:
        await client.create(JOBS, "default", job("finished", "true"))
        finished = await ended(client, "finished")
        waits = f"echo run >> {runs}; until [ -e {gate} ]; do sleep 0.05; done"
        await client.create(JOBS, "default", job("survives", waits))
        await running(client, "survives")
        await client.create(
            JOBS, "default", job("ends-meanwhile", f"echo run >> {runs}; sleep 0.3; exit 7", backoffLimit=0)
        )
        await running(client, "ends-meanwhile")
    first.kill()
    second = start()
    async with second.client() as client:
        assert (await job_named(client, "finished")).status == finished.status
        failed = await ended(client, "ends-meanwhile", "Failed")
        assert failed.status.failed == 1
        gate.touch()
        survived = await ended(client, "survives")
        assert (survived.status.succeeded, survived.status.failed) == (1, 0)
        pods = await client.list(PODS, "default", type=Pod)
        codes = {
            pod.metadata.name.rsplit("-", 1)[0]: status.state.terminated.exit_code
            for pod in pods
            for status in pod.status.container_statuses
            if status.state.terminated
        }
        assert codes == {"finished": 0, "survives": 0, "ends-meanwhile": 7}
    assert runs.read_text().splitlines() == ["run", "run"]


async def test_deleting_a_job_ends_its_process_and_its_workload(start: Start) -> None:
    up = start()
    marker = f"32{up.process.pid}"
    async with up.client() as client:
        await client.create(JOBS, "default", job("goes", f"sleep {marker}"))
        await running(client, "goes")
        await client.delete(JOBS, "default", "goes", propagation="Background")

        async def gone() -> bool:
            left = [*await client.list(WORKLOADS, type=Workload), *await client.list(PODS, type=Pod)]
            return not left and not processes_of(marker)

        await until(gone, "workload, pod and process are gone")


async def test_a_bad_configuration_ends_it_with_file_line_and_field(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "waitForPodsReady:\n  timeout: 5x\n  requeuingStrategy:\n    timestamp: Sometimes\nfoo: 1\n"
    )
    done = sluice("up", "--data-dir", str(tmp_path / "data"), "--config", str(config))
    assert done.returncode == 2
    for place in (f"{config}:4: waitForPodsReady.timeout", f"{config}:6: waitForPodsReady.requeuingStrategy.timestamp"):
        assert place in done.stderr
    assert f"{config}:7: foo" in done.stderr
    assert not (tmp_path / "data").exists()
