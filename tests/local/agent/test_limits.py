"""limits.memory of containers: a container above it is OOMKilled, by samples of its memory or by the kernel."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.keys import CPU_SECONDS, PEAK_MEMORY
from queue_manager.local.agent import cgroups, escaped_processes, proc_memory, resource_usage
from queue_manager.local.agent.cgroups import Cgroups
from queue_manager.local.agent.limit_fields import Limits, limits_of
from queue_manager.local.agent.oom_killer import OomKiller
from queue_manager.local.agent.pod_files import Layout
from queue_manager.local.agent.proc_memory import by_container
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.agent.world import World, running, state, terminated
from tests.waiting import until

MI = 1 << 20
PYTHON = shlex.quote(sys.executable)
HOLD = "import time; held = bytearray({mi} << 20); print('held', flush=True); time.sleep(1000)"


def holding(mi: int, limit: str = "", **more: Any) -> dict[str, Any]:
    """A container that allocates so many MiB."""
    limits = {"limits": {"memory": limit}} if limit else {}
    return {"command": [sys.executable, "-S", "-c", HOLD.format(mi=mi)], "resources": limits, **more}


async def test_a_container_above_its_limit_is_oom_killed(world: World) -> None:
    async with world.running():
        await world.create(container=holding(100, "64Mi"))
        pod = await world.over()
        await until(lambda: pod["metadata"]["uid"] not in escaped_processes.marked())
    assert (pod["status"]["phase"], pod["status"].get("reason")) == ("Failed", None)
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"]) == (137, "OOMKilled")


async def test_a_killed_container_has_the_use_of_its_processes_until_then(world: World) -> None:
    """No process has waited for them; and the peak is smaller than that of the agent, which the kernel counts in."""
    ballast = b"x" * (100 * MI)  # makes this process, the agent, larger than the container
    burn = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
    hold = "held = bytearray(100 << 20); print('held', flush=True); time.sleep(1000)"
    limits = {"limits": {"memory": "64Mi"}}
    async with world.running():
        await world.create(container={"command": [sys.executable, "-S", "-c", burn + hold], "resources": limits})
        pod = await world.over()
    used = pod["metadata"]["annotations"]
    assert terminated(pod)["reason"] == "OOMKilled"
    assert 0.5 <= float(used[CPU_SECONDS]) < 5
    assert 64 * MI < int(used[PEAK_MEMORY]) < resource_usage.own_peak() + len(ballast)


async def test_the_peak_of_a_container_that_is_smaller_than_the_agent_is_sampled(world: World) -> None:
    """It has released that memory before it ends."""
    ballast = b"x" * (100 * MI)  # makes this process, the agent, larger than the container
    script = "held = bytearray(100 << 20); del held; import time\nprint('held', flush=True)\n"
    wait = "import os\nwhile not os.path.exists('go'): time.sleep(0.01)"
    async with world.running() as agent:
        await world.create(container={"command": [sys.executable, "-S", "-c", script + wait]})
        pod = await world.when(running)
        await until(lambda: (world.files(pod) / "0.log").read_text() == "held\n")
        [worker] = agent.pods()
        await until(lambda: (worker.processes.sampled("main").peak_bytes or 0) > 100 * MI)
        (world.files(pod) / "work" / "go").touch()
        pod = await world.over()
    assert 100 * MI < int(pod["metadata"]["annotations"][PEAK_MEMORY]) < resource_usage.own_peak() + len(ballast)


async def test_a_container_below_its_limit_and_one_without_run_on(world: World) -> None:
    """A third container is killed, which shows that the first two were sampled."""
    async with world.running():
        await world.create(name="below", container=holding(60, "100Mi"))
        await world.create(name="unlimited", container=holding(100))
        for name in ("below", "unlimited"):
            pod = await world.when(running, name)
            await until(lambda pod=pod: (world.files(pod) / "0.log").read_text() == "held\n")
        await world.create(name="above", container=holding(150, "100Mi"))
        await world.over("above")
        assert running(await world.pod("below"))
        assert running(await world.pod("unlimited"))


async def test_each_container_has_its_own_limit(world: World) -> None:
    """Together the containers are above each limit."""
    small = {"name": "small", "image": "x", **holding(60, "90Mi")}
    greedy = {"name": "greedy", "image": "x", **holding(120, "90Mi")}
    async with world.running():
        await world.create(containers=[small, greedy])
        pod = await world.when(lambda pod: "terminated" in state(pod, "greedy"))
        assert terminated(pod, "greedy")["reason"] == "OOMKilled"
        assert "running" in state(await world.pod(), "small")


async def test_an_oom_killed_container_restarts_by_its_policy(world: World) -> None:
    script = f'[ -e tried ] && exit 0; touch tried; exec {PYTHON} -S -c "{HOLD.format(mi=100)}"'
    async with world.running():
        await world.create(script, restartPolicy="OnFailure", container={"resources": {"limits": {"memory": "64Mi"}}})
        pod = await world.over()
    status = pod["status"]["containerStatuses"][0]
    assert (pod["status"]["phase"], status["restartCount"]) == ("Succeeded", 1)
    assert status["lastState"]["terminated"]["reason"] == "OOMKilled"


async def test_processes_that_left_the_container_are_killed_with_it(world: World) -> None:
    """Otherwise the next start of the container would be killed for their memory."""
    hog = f'setsid {PYTHON} -S -c "{HOLD.format(mi=100)}" & sleep 1000'
    script = f"[ -e tried ] && {{ sleep 2.5; exit 0; }}; touch tried; {hog}"
    async with world.running():
        await world.create(script, restartPolicy="OnFailure", container={"resources": {"limits": {"memory": "64Mi"}}})
        pod = await world.over()
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_the_page_cache_is_not_counted(world: World, tmp_path: Path) -> None:
    """A cgroup reclaims it before it kills. A second container is killed, which shows that both were sampled."""
    (tmp_path / "big").write_bytes(b"x" * (100 * MI))
    reads = (
        "import mmap, time; file = open('../big', 'rb'); m = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); "
        "sum(m[::4096]); print('held', flush=True); time.sleep(1000)"
    )
    reads = reads.replace("../big", str(tmp_path / "big"))
    async with world.running():
        container = {"command": [sys.executable, "-S", "-c", reads], "resources": {"limits": {"memory": "64Mi"}}}
        await world.create(name="maps", container=container)
        pod = await world.when(running, "maps")
        await until(lambda: (world.files(pod) / "0.log").read_text() == "held\n")
        await world.create(name="above", container=holding(100, "64Mi"))
        await world.over("above")
        assert running(await world.pod("maps"))


async def test_the_next_agent_knows_that_a_container_was_oom_killed(world: World) -> None:
    """The first agent died between the kill and its report."""
    async with world.running():
        await world.create("touch ready; exec sleep 1000")
        pod = await world.when(running)
        await until((world.files(pod) / "work" / "ready").exists)
    run = Layout(world.directory / "pods").run(pod["metadata"]["uid"], "main", 0)
    run.oom.touch()
    await until(lambda: not escaped_processes.kill({pod["metadata"]["uid"]}))
    async with world.running():
        assert terminated(await world.over())["reason"] == "OOMKilled"


def test_what_a_process_shares_with_others_is_counted_in_part() -> None:
    assert 0 < proc_memory.unreclaimable(os.getpid()) <= proc_memory.resident(os.getpid())
    assert proc_memory.unreclaimable(2**22 + 1) == 0  # no such process


def test_an_unknown_session_counts_for_a_pods_only_container() -> None:
    assert by_container({1: 5, 9: 7}, {1: "main"}) == {"main": 12}
    assert by_container({1: 5, 2: 6, 9: 7}, {1: "main", 2: "side"}) == {"main": 5, "side": 6}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (None, Limits()),
        ({"memory": "1Gi"}, Limits(memory=1 << 30)),
        ({"cpu": "250m", "memory": "0"}, Limits(cpu=250)),
        ({"cpu": 2, "nvidia.com/gpu": "1"}, Limits(cpu=2000)),
    ],
)
def test_limits_are_read_from_the_spec(limits: Any, expected: Limits) -> None:
    assert limits_of({"resources": {"limits": limits}}) == expected


def test_memory_is_not_sampled_without_limited_containers() -> None:
    """After the last limited container has ended there is one more sample, and then none in a day."""

    async def a_day() -> int:
        asked = 0

        def pods() -> list[Any]:
            nonlocal asked
            asked += 1
            return []

        killer = OomKiller(pods, Path("pods"))
        sampling = asyncio.create_task(killer.run())
        killer.wake()
        await asyncio.sleep(86_400)
        sampling.cancel()
        return asked

    assert run_virtual(a_day()) == 1


# --- cgroups -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "files"),
    [
        (Limits(memory=64 * MI), {"memory.max": "67108864", "memory.oom.group": "1", "memory.swap.max": "0"}),
        (Limits(cpu=250), {"cpu.max": "25000 100000"}),
        (Limits(cpu=1), {"cpu.max": "1000 100000"}),
        (Limits(), {}),
    ],
)
def test_a_cgroup_gets_what_a_kubelet_writes(limits: Limits, files: dict[str, str]) -> None:
    assert cgroups.settings(limits) == files


@pytest.mark.parametrize(
    ("own", "controllers", "procs"),
    [
        ("4:memory:/x\n", "cpu memory", "{pid}"),  # no unified hierarchy
        ("0::/mine\n", "cpu pids", "{pid}"),  # memory is not delegated
        ("0::/mine\n", "cpu memory", "{pid}\n1"),  # not alone
        ("0::/theirs\n", "cpu memory", "{pid}"),  # no such cgroup in this mount
    ],
)
def test_no_cgroup_is_created_where_none_is_delegated(tmp_path: Path, own: str, controllers: str, procs: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "own").write_text(own)
    (mine / "cgroup.controllers").write_text(controllers)
    (mine / "cgroup.procs").write_text(procs.format(pid=os.getpid()))
    assert cgroups.delegated(tmp_path, tmp_path / "own") is None
    assert not (mine / cgroups.AGENT).exists()


@pytest.fixture(scope="session")
def own_cgroups() -> Cgroups:
    """Real cgroups, where the tests run in a delegated one (systemd-run --user --scope -p Delegate=yes)."""
    found = cgroups.delegated()
    assert found is not None
    return found


@pytest.mark.delegated_cgroup
async def test_the_kernel_kills_a_container_above_its_limit_at_once(world: World, own_cgroups: Cgroups) -> None:
    """Without any sample, and with its exit code on disk: no agent is needed."""
    async with world.running(cgroups=own_cgroups):
        await world.create(container=holding(100, "64Mi"))
        pod = await world.over()
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"]) == (137, "OOMKilled")
    assert (world.files(pod) / "0.exit").read_text() == "137\n"
    assert "held" not in await world.output(pod)


@pytest.mark.delegated_cgroup
async def test_the_kernel_gives_a_container_no_more_cpu_than_its_limit(world: World, own_cgroups: Cgroups) -> None:
    script = "cat /proc/self/cgroup; cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/cpu.max"
    async with world.running(cgroups=own_cgroups):
        await world.create(script, container={"resources": {"limits": {"cpu": "250m"}}})
        pod = await world.over()
        cgroup = Path((world.files(pod) / "0.cg").read_text().strip())
        await until(lambda: not cgroup.exists())
    path, quota = (await world.output(pod)).splitlines()
    assert path.endswith(f"/{pod['metadata']['uid']}.main.0")
    assert quota == "25000 100000"
