"""`sluice up --detach`, `--leave-running` and `sluice down`, with real processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from job_controller.model import Pod
from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.cli.detached import MAX_LOG_BYTES
from queue_manager.cli.exit_codes import EXIT_ERROR
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.local.storage.lock_holder import lock_holder
from tests.local.cluster.conftest import ROOT, processes_of, sluice
from tests.local.cluster.fleet import HEAD
from tests.local.cluster.work import ended, job, running
from tests.waiting import until

REACHED = "which serves https://127.0.0.1:"


class Background:
    """A data directory, and the commands about the cluster that runs from it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def up(self, *flags: str, code: int = 0) -> str:
        return self._says("up", "--detach", *flags, code=code)

    def down(self, *flags: str, code: int = 0) -> str:
        return self._says("down", *flags, code=code)

    def _says(self, command: str, *flags: str, code: int) -> str:
        done = sluice(command, "--data-dir", str(self.data_dir), *flags)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def removed(self) -> Iterator[Background]:
        """Its cluster ends with the block."""
        try:
            yield self
        finally:
            if (ROOT / self.data_dir).exists():
                self.down("--remove-data")

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[RestClient]:
        transport = HttpTransport.from_kubeconfig(self.data_dir / "kubeconfig")
        try:
            yield RestClient(transport)
        finally:
            await transport.close()


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    with Background(tmp_path / "data").removed() as cluster:
        yield cluster


async def test_a_cluster_in_the_background_answers_and_ends_without_a_trace(background: Background) -> None:
    started = background.up("--wait")
    assert REACHED in started
    assert lock_holder(background.data_dir) is not None
    async with background.client() as client:
        assert await client.list(JOBS, "default") == []
    assert "no Job was running" in background.down("--remove-data")
    assert not background.data_dir.exists()
    assert processes_of(str(background.data_dir)) == []


@pytest.mark.parametrize("wait", [("--wait",), ()], ids=["wait", "at once"])
def test_a_cluster_in_the_background_says_once_how_to_use_it(background: Background, wait: tuple[str, ...]) -> None:
    started = background.up(*wait).splitlines()
    folder, pid = background.data_dir, lock_holder(background.data_dir)
    begun = next(line for line in started if f"as process {pid}" in line)
    assert begun.startswith("running as" if wait else "starting as")
    assert started[started.index(begun) + 1 :] == [
        f"  log:  {folder}/up.log",
        f"  stop: sluice down --data-dir {folder}",
        "To use it:" if wait else "Once it is ready:",
        f"  export KUBECONFIG={folder}/kubeconfig",
        "  sluice run -- hostname",
    ]
    assert "\n".join(started).count("KUBECONFIG") == 1


async def test_a_second_up_in_the_background_says_how_to_reach_the_first(background: Background) -> None:
    background.up("--wait")
    first = lock_holder(background.data_dir)
    again = background.up("--wait")
    assert f"already running as process {first}, {REACHED}" in again
    assert f"export KUBECONFIG={background.data_dir}/kubeconfig" in again
    assert lock_holder(background.data_dir) == first


def test_a_second_up_names_the_options_that_have_no_effect(background: Background, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
    background.up("--wait", "--nodes", "2", "--cpu", "2000m")
    assert "it keeps the options of its start" in background.up("--wait", "--nodes", "2", "--cpu", "2")
    others = ("--nodes", "1", "--cpu", "3", "--memory", "4Gi", "--port", "6443", "--leave-running", "--config")
    said = " ".join(background.up(*others, os.path.relpath(config, ROOT), code=EXIT_ERROR).split())
    assert (
        "these options have no effect: --nodes 1 (it has 2), --cpu 3 (it has 2), "
        "--memory 4Gi (it has that of this machine), --port 6443 (it has a free one), "
        f"--config {config} (it has none), --leave-running on (it has off); "
        f"stop it first (sluice down --data-dir {background.data_dir}), or choose another --data-dir"
    ) in said
    assert "this option has no effect: --nodes 1 (it has 2)" in background.up("--nodes", "1", code=EXIT_ERROR)
    foreground = sluice("up", "--data-dir", str(background.data_dir), "--cpu", "8")
    assert foreground.returncode == EXIT_ERROR
    assert (
        "; this option has no effect: --cpu 8 (it has 2); "
        f"stop it first (sluice down --data-dir {background.data_dir}), or choose another --data-dir"
    ) in foreground.stderr


async def test_down_says_what_happened_to_a_running_job_and_ends_its_processes(background: Background) -> None:
    background.up("--wait")
    marker = f"41{os.getpid()}"
    async with background.client() as client:
        await client.create(JOBS, "default", job("sleeps", f"sleep {marker}", backoffLimit=0))
        await running(client, "sleeps")
    assert (
        f"1 Job (default/sleeps) interrupted: `sluice up --data-dir {background.data_dir}` starts 1 pod again"
        in background.down()
    )
    assert processes_of(marker) == []
    assert "no cluster runs from" in background.down()


async def test_down_ends_an_evicted_job_and_does_not_call_it_interrupted(
    background: Background, tmp_path: Path
) -> None:
    """Its process ignores SIGTERM."""
    background.up("--wait")
    ready = tmp_path / "ready"
    async with background.client() as client:
        stubborn: Any = job("stubborn", f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done")
        stubborn["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 600
        await client.create(JOBS, "default", stubborn)
        await until(ready.exists)
        await client.create(JOBS, "default", job("sleeps", "sleep 1000"))
        await running(client, "sleeps")
        assert processes_of(str(ready))
        assert sluice("deactivate", "stubborn", "--kubeconfig", str(background.data_dir / "kubeconfig")).returncode == 0

        async def going() -> bool:
            return any(pod.metadata.deletion_timestamp for pod in await client.list(PODS, "default", type=Pod))

        await until(going)
    said = background.down()
    assert "1 Job (default/sleeps) interrupted: " in said
    assert "starts 1 pod again" in said
    assert "keep running" not in said
    assert processes_of(str(ready)) == []


async def test_jobs_left_running_end_without_a_retry_under_the_next_up(background: Background, tmp_path: Path) -> None:
    """The command ends while no cluster runs: its exit code counts, and it was started once."""
    gate, runs = tmp_path / "gate", tmp_path / "runs"
    background.up("--wait", "--leave-running")
    async with background.client() as client:
        waits = f"echo run >> {runs}; until [ -e {gate} ]; do sleep 0.05; done"
        for name in ("ends-meanwhile", "goes-on"):
            await client.create(
                JOBS, "default", job(name, f"{waits}; [ {name} != goes-on ] || sleep 1", backoffLimit=0)
            )
            await running(client, name)
        before = {pod.metadata.uid for pod in await client.list(PODS, "default", type=Pod)}
    said = background.down()
    option = f"--data-dir {background.data_dir}"
    left = "2 Jobs (default/ends-meanwhile, default/goes-on) left running, with the processes of 2 pods"
    assert f"{left}: `sluice up {option}` finds them again; " in said
    assert said.count("finds them again") == 1
    assert f"to end them: sluice down {option} --remove-data" in said
    later = f"`sluice up {option}` finds them again, `sluice down {option} --remove-data` ends them"
    assert f"processes of 2 pods keep running: {later}" in background.down()
    assert len(runs.read_text().split()) == 2
    gate.touch()
    background.up("--wait")
    async with background.client() as client:
        for name in ("ends-meanwhile", "goes-on"):
            done = await ended(client, name)
            assert (done.status.succeeded, done.status.failed) == (1, 0)
        assert {pod.metadata.uid for pod in await client.list(PODS, "default", type=Pod)} == before
    assert runs.read_text().split() == ["run", "run"]


async def test_removing_the_data_ends_processes_that_were_left_running(background: Background) -> None:
    marker = f"43{os.getpid()}"
    background.up("--wait", "--leave-running")
    async with background.client() as client:
        await client.create(JOBS, "default", job("sleeps", f"sleep {marker}"))
        await running(client, "sleeps")
    background.down("--remove-data")
    assert not background.data_dir.exists()
    await until(lambda: not processes_of(marker), "no process is left")


async def test_after_a_crash_and_a_reused_pid_down_signals_nobody(background: Background) -> None:
    """As after a restart of the machine: the pid in the lock file belongs to another process, here to this one."""
    background.up("--wait")
    pid = lock_holder(background.data_dir)
    assert pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: lock_holder(background.data_dir) is None, "the cluster has ended")
    (background.data_dir / "lock").write_text(f"{os.getpid()}\n")
    assert "no cluster runs from" in background.down()
    assert "running as process" in background.up("--wait")


async def test_a_start_in_the_background_that_fails_says_why(background: Background) -> None:
    port = background.up("--wait").partition(REACHED)[2].split()[0]
    other = Background(background.data_dir.with_name("other"))
    said = other.up("--wait", "--port", port, code=3)
    assert f"port {port} of this machine is taken" in said
    assert f"log: {other.data_dir}/up.log" in said


async def test_two_clusters_with_directories_of_their_own_share_nothing(background: Background) -> None:
    """The second one is named relative to the working directory."""
    relative = Path(os.path.relpath(background.data_dir.with_name("second"), ROOT))
    folder = ROOT / relative
    background.up("--wait")
    with Background(relative).removed() as other:
        assert f"export KUBECONFIG={folder}/kubeconfig" in other.up("--wait")
        first, second = lock_holder(background.data_dir), lock_holder(folder)
        assert first is not None
        assert second not in (None, first)
        async with background.client() as client:
            await client.create(JOBS, "default", job("alone", "true"))
        async with Background(folder).client() as client:
            assert await client.list(JOBS, "default") == []
        assert f"stopped process {second}" in other.down("--remove-data")
    assert not folder.exists()
    assert lock_holder(background.data_dir) == first


def test_down_where_no_cluster_ever_ran_says_so_and_makes_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "never"
    for flags in ((), ("--remove-data",)):
        assert f"no cluster runs from {missing}" in Background(missing).down(*flags)
        assert not missing.exists()


def test_a_long_log_is_put_aside_at_the_next_start(background: Background) -> None:
    background.data_dir.mkdir(mode=0o700)
    (background.data_dir / "up.log").write_bytes(b"x" * (MAX_LOG_BYTES + 1))
    background.up("--wait")
    assert (background.data_dir / "up.log.1").stat().st_size == MAX_LOG_BYTES + 1
    assert b"x" * 80 not in (background.data_dir / "up.log").read_bytes()


async def test_a_cluster_in_the_background_reloads_its_configuration(background: Background, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD)
    started = background.up("--wait", "--config", str(file))
    [command] = re.findall(f"to apply a changed {file}: (kill -HUP \\d+)", started)
    file.write_text(f"{HEAD}waitForPodsReady: {{timeout: 1s}}\nfoo: 1\n")
    subprocess.run(command.split(), check=True)
    log = background.data_dir / "up.log"
    await until(lambda: f"not applied, the old configuration stays in use: {file}:4: foo:" in log.read_text(), "so")


def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    said = Background(shared).up(code=3)
    assert "choose another --data-dir" in said
    assert list(shared.iterdir()) == []


def test_down_does_not_remove_a_directory_that_is_not_a_cluster_s(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    done = sluice("down", "--data-dir", str(tmp_path), "--remove-data")
    assert done.returncode == 2
    assert "is not the data directory of a cluster" in done.stderr
    assert (tmp_path / "precious").read_text() == "kept"
