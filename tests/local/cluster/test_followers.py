"""Commands that follow a Job while its local cluster is killed and started again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from queue_manager.api.api_resources import JOBS, WORKLOADS
from queue_manager.api.types import Workload
from tests.local.cluster.conftest import SLUICE, Up, sluice
from tests.local.cluster.work import job, running
from tests.waiting import until

FLAGS = ("--cpu", "2", "--memory", "1Gi")


@contextmanager
def follower(folder: Path, name: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A command of a user in the background, and the file of its standard output."""
    env = os.environ | {"KUBECONFIG": str(folder / "data" / "kubeconfig")}
    out = folder / f"{name}.out"
    with out.open("wb") as stdout, (folder / f"{name}.err").open("wb") as stderr:
        process = subprocess.Popen([*SLUICE, *arguments], stdout=stdout, stderr=stderr, env=env)
        try:
            yield process, out
        finally:
            process.kill()
            process.wait()


async def test_a_follower_goes_on_with_a_cluster_that_was_started_again(
    start: Callable[..., Up], tmp_path: Path
) -> None:
    """Its address is another one, and the pods were not interrupted."""
    go = tmp_path / "go"
    up = start(*FLAGS)
    command = f"echo one; while ! [ -e {go} ]; do sleep 0.1; done; echo two"
    async with up.client() as client:
        await client.create(JOBS, "default", job("long", command))
        await running(client, "long")
    with (
        follower(tmp_path, "logs", "logs", "-f", "long") as (logs, logged),
        follower(tmp_path, "run", "run", "--cpu", "100m", "--", "sh", "-c", command) as (run, ran),
    ):
        await until(lambda: logged.read_text() == ran.read_text() == "one\n", "both print the log")
        before = up.kubeconfig.read_text()
        up.kill()
        up = start(*FLAGS)
        assert up.kubeconfig.read_text() != before
        go.touch()
        assert (logs.wait(60), run.wait(60)) == (0, 0), (tmp_path / "logs.err").read_text()
    assert logged.read_text() == ran.read_text() == "one\ntwo\n"


async def test_a_staggered_reactivation_goes_on_with_a_cluster_that_was_started_again(
    start: Callable[..., Up], tmp_path: Path
) -> None:
    """The cluster is killed between two changes, and down while the second one is due."""
    up, names = start(*FLAGS), ["one", "two"]
    async with up.client() as client:
        for name in names:
            await client.create(JOBS, "default", job(name, "sleep 600"))
            await running(client, name)
        assert sluice("deactivate", *names, "--kubeconfig", str(up.kubeconfig)).returncode == 0
    command = ("reactivate", "--all", "-q", "user-queue", "--stagger", "2s")
    with follower(tmp_path, "back", *command) as (back, done):
        await until(lambda: "reactivated" in done.read_text(), "one is reactivated")
        before = up.kubeconfig.read_text()
        up.kill()
        said = tmp_path / "back.err"
        await until(lambda: "no response from the cluster; trying again" in said.read_text(), "no server is there")
        up = start(*FLAGS)
        assert up.kubeconfig.read_text() != before
        assert back.wait(60) == 0, said.read_text()
    assert [line.split()[1] for line in done.read_text().splitlines()] == ["reactivated:"] * 2
    assert "interrupted" not in said.read_text()
    async with up.client() as client:
        assert all(workload.spec.active for workload in await client.list(WORKLOADS, "default", type=Workload))


async def test_a_stopped_and_started_cluster_repeats_no_line_to_a_follower(
    start: Callable[..., Up], tmp_path: Path
) -> None:
    """A stop ends the command, and the next `sluice up` starts it again in the same pod and log."""
    starts, go = tmp_path / "starts", tmp_path / "go"
    up = start(*FLAGS)
    command = (
        f"echo x >>{starts}; n=$(wc -l <{starts}); "
        f'for i in 1 2 3; do echo "start $n line $i"; done; while ! [ -e {go} ]; do sleep 0.1; done'
    )
    once = ["start 1 line 1", "start 1 line 2", "start 1 line 3"]
    async with up.client() as client:
        await client.create(JOBS, "default", job("long", command))
        await running(client, "long")
    with follower(tmp_path, "logs", "logs", "-f", "long") as (logs, logged):
        await until(lambda: logged.read_text().splitlines() == once, "the first start is printed")
        assert up.stop() == 0
        up = start(*FLAGS)
        again = ["start 2 line 1", "start 2 line 2", "start 2 line 3"]
        await until(lambda: again[-1] in logged.read_text().splitlines(), "the second start is printed")
        go.touch()
        assert logs.wait(60) == 0, (tmp_path / "logs.err").read_text()
    assert logged.read_text().splitlines() == once + again
