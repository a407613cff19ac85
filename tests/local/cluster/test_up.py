"""`sluice up` as a process: start, stop, kill -9, a second one, invalid configurations."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
import yaml

from job_controller.model import Pod
from queue_manager.api.api_resources import JOBS, LOCAL_QUEUES, PODS
from tests.local.cluster.conftest import ROOT, SLUICE, Up, processes_of, sluice
from tests.local.cluster.work import ended, job, job_named, running
from tests.waiting import SECONDS, until

Start = Callable[..., Up]
QUOTA_OF_CPU = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"


async def test_only_the_owner_may_read_the_kubeconfig_and_the_data(start: Start) -> None:
    up = start()
    assert stat.S_IMODE(up.kubeconfig.stat().st_mode) == 0o600
    assert stat.S_IMODE(up.data_dir.stat().st_mode) == 0o700


async def test_root_is_warned(start: Start) -> None:
    assert any(line.startswith("! root ") for line in start().lines) == (os.geteuid() == 0)


async def test_each_start_has_a_new_token_and_the_same_certificate(start: Start) -> None:
    first = start()
    before, certificate = yaml.safe_load(first.kubeconfig.read_text()), (first.data_dir / "serving.pem").read_bytes()
    first.stop()
    second = start()
    after = yaml.safe_load(second.kubeconfig.read_text())
    assert after["users"][0]["user"]["token"] != before["users"][0]["user"]["token"]
    assert (second.data_dir / "serving.pem").read_bytes() == certificate
    authority = "certificate-authority-data"
    assert after["clusters"][0]["cluster"][authority] == before["clusters"][0]["cluster"][authority]


async def test_a_second_up_on_the_same_data_is_refused_with_the_pid_of_the_first(start: Start) -> None:
    up = start()
    second = sluice("up", "--data-dir", str(up.data_dir))
    assert second.returncode == 3
    assert str(up.process.pid) in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_all_processes(start: Start, number: signal.Signals) -> None:
    up = start()
    marker = f"31{up.process.pid}"
    async with up.client() as client:
        await client.create(JOBS, "default", job("sleeps", f"sleep {marker} & sleep {marker}"))
        await running(client, "sleeps")
    assert processes_of(marker)
    assert up.stop(number) == 0
    assert processes_of(marker) == []
    assert not [line for line in up.lines if "Traceback" in line or "ERROR" in line]


async def test_a_stop_and_a_start_cost_a_job_no_retry(start: Start, tmp_path: Path) -> None:
    """Its pod continues under its name; `show` reports the shutdown of its node and no failure of its command."""
    up = start()
    gate, runs = tmp_path / "gate", tmp_path / "runs"
    async with up.client() as client:
        waits = f"echo run >> {runs}; until [ -e {gate} ]; do sleep 0.05; done"
        await client.create(JOBS, "default", job("goes-on", waits, backoffLimit=0))
        await running(client, "goes-on")
        (pod,) = await client.list(PODS, "default", type=Pod)
    assert up.stop() == 0
    assert (
        "stopping: 1 Job interrupted, the next `sluice up` starts 1 pod again, which does not count as a retry; "
        in "\n".join(up.lines)
    )
    second = start()
    async with second.client() as client:

        async def runs_again() -> bool:
            return runs.read_text().split() == ["run", "run"]

        await until(runs_again, "the pod runs again")
        shown = sluice("show", "goes-on", "--kubeconfig", str(second.kubeconfig))
        (row,) = [line for line in shown.stdout.splitlines() if line.startswith(pod.metadata.name)]
        assert "NodeShutdown: Pod was terminated in response to imminent node shutdown." in " ".join(row.split())
        assert "143" not in row
        gate.touch()
        done = await ended(client, "goes-on")
        assert (done.status.succeeded, done.status.failed) == (1, 0)
        assert [p.metadata.uid for p in await client.list(PODS, "default", type=Pod)] == [pod.metadata.uid]


async def test_a_second_signal_ends_it_at_once_without_output(start: Start) -> None:
    """Running processes are left to the next start, as after kill -9."""
    up = start()
    marker = f"32{up.process.pid}"
    async with up.client() as client:
        await client.create(JOBS, "default", job("stays", f"trap '' TERM; sleep {marker}; sleep {marker}"))
        await running(client, "stays")
    assert up.process.stdout is not None
    up.process.send_signal(signal.SIGINT)
    while not up.process.stdout.readline().startswith("stopping"):
        pass
    up.process.send_signal(signal.SIGINT)
    assert up.process.stdout.read() == ""
    assert up.process.wait(SECONDS) == -signal.SIGINT
    again = start()
    assert again.stop() == 0
    assert processes_of(marker) == []


async def test_after_kill_9_finished_jobs_stay_finished_and_running_pods_are_adopted(
    start: Start, tmp_path: Path
) -> None:
    """The process started before the kill ends the Job: nothing runs twice, and nothing is lost."""
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


@pytest.mark.kubectl
async def test_metrics_are_served_on_the_port_of_the_api_server(start: Start) -> None:
    """They need the token, as all its paths do; no other port is opened for them."""
    up = start()
    command = ["kubectl", "--kubeconfig", str(up.kubeconfig), "get", "--raw", "/metrics"]
    served = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout
    assert (
        'kueue_pending_workloads{cluster_queue="cluster-queue",replica_role="standalone",status="active"} 0.0' in served
    )
    assert served.count("# HELP ") == served.count("# TYPE ") > 10
    assert not [line for line in up.lines if "serving" in line]


async def test_processes_of_a_removed_data_directory_are_reported_at_the_next_start(
    start: Start, tmp_path: Path
) -> None:
    first, pid = start(), tmp_path / "pid"
    async with first.client() as client:
        await client.create(JOBS, "default", job("stays", f"echo $$$$ > {pid}; exec sleep 300"))
        await running(client, "stays")
        await until(pid.exists)
    first.kill()
    shutil.rmtree(first.data_dir)
    second = start()
    place = f"of a cluster whose folder {first.data_dir} is gone"
    said = next(line for line in second.lines if place in line)
    _, _, pids = said.partition("; to end: kill -9 ")
    try:
        assert pid.read_text().strip() in pids.split()
    finally:
        subprocess.run(["kill", "-9", *pids.split()], check=True)
    second.stop()
    assert not any(place in line for line in start().lines)


async def test_metrics_and_probes_get_own_ports_if_configured(start: Start, tmp_path: Path) -> None:
    """An address in the configuration must not be ignored silently."""
    config = tmp_path / "config.yaml"
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    config.write_text(f'{head}metrics: {{bindAddress: "127.0.0.1:0"}}\n')
    up = start("--config", str(config))
    urls = [line.split()[-1] for line in up.lines if "serving" in line]
    assert [url.rpartition("/")[2] for url in urls] == ["metrics"]
    async with aiohttp.ClientSession() as session, session.get(urls[0]) as answer:
        assert "kueue_admitted_active_workloads" in await answer.text()
    port = urls[0].split(":")[2].split("/")[0]
    config.write_text(f'{head}health: {{healthProbeBindAddress: "127.0.0.1:{port}"}}\n')
    second = sluice("up", "--data-dir", str(tmp_path / "second"), "--config", str(config))
    assert second.returncode == 3
    assert f"cannot serve health on 127.0.0.1:{port}" in second.stderr


async def test_a_start_after_a_failed_first_start_creates_the_first_queue(start: Start, tmp_path: Path) -> None:
    """With a port in use the store exists already; the cluster is still new."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        failed = sluice("up", "--data-dir", str(tmp_path / "data"), "--port", str(number))
    assert failed.returncode == 3
    assert f"port {number} of this machine is taken; choose another --port" in failed.stderr
    up = start()
    assert up.data_dir == tmp_path / "data"
    async with up.client() as client:
        assert await client.get(LOCAL_QUEUES, "default", "user-queue")


@pytest.mark.parametrize("most", [30_000, 200_000])
async def test_a_start_on_a_full_disk_is_reported_and_can_be_repeated(start: Start, tmp_path: Path, most: int) -> None:
    """Whether the database or the first objects do not fit."""
    program = ["sh", "-c", f'ulimit -f {most // 512}; exec "$@"', "-", *SLUICE]
    flags = ["up", "--data-dir", str(tmp_path / "data")]
    failed = subprocess.run([*program, *flags], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    assert failed.returncode == 3
    assert "Traceback" not in failed.stderr
    assert failed.stderr.splitlines()[-1].startswith("sluice up: cannot start: ")
    async with start().client() as client:
        assert await client.get(LOCAL_QUEUES, "default", "user-queue")


@pytest.mark.parametrize("flag", ["--cpu", "--memory"])
def test_an_invalid_quantity_is_refused_with_the_name_of_its_flag(tmp_path: Path, flag: str) -> None:
    for value in ("8GB", "", "0", "-1"):
        answer = sluice("up", "--data-dir", str(tmp_path / "data"), f"{flag}={value}")
        assert answer.returncode == 2
        assert f"argument {flag}: '{value}' is " in answer.stderr


async def test_an_invalid_configuration_is_refused_with_file_line_and_field(tmp_path: Path) -> None:
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
