"""An upgrade, and the way back, while Jobs run and wait: nothing is evicted, no pod restarts, no admission is lost.

The managers are processes under the installed service account, replaced one after the other as a Deployment does it:
the new one starts before an old one ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from queue_manager.api.api_resources import NAMESPACES
from queue_manager.engine.rest_client import RestClient
from tests.control_plane.conftest import kubectl, until_served
from tests.control_plane.install.conftest import CHART, apply, command, helm
from tests.control_plane.install.installed_managers import SYSTEM, start
from tests.control_plane.install.live_jobs import PENDING, RUNNING, LiveJobs, endless, leads, state
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.scenario import Scenario, kubelet
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

MANAGER = "kueue-controller-manager"
OLD = ("--set", "webhook.enabled=false", "--set", "image.tag=v1", "--set", "logging.level=warning")
NEW = ("--set", "webhook.enabled=false", "--set", "image.tag=v2", "--set", "replicas=3")
RELEASE = ("release", str(CHART), "--namespace", SYSTEM)
STARTED = ("ready", "waiting: ")  # the new one leads at once if the old leader has just released the Lease


@pytest.fixture
def cluster() -> Iterator[ControlPlane]:
    """An empty cluster for each test, since both install into the same namespace."""
    with ControlPlane.start() as plane:
        yield plane


class Installer(NamedTuple):
    install: Callable[[ControlPlane], object]
    upgrade: Callable[[ControlPlane], object]
    back: Callable[[ControlPlane], object]


BY_KUBECTL = Installer(
    lambda cluster: apply(cluster, *OLD), lambda cluster: apply(cluster, *NEW), lambda cluster: apply(cluster, *OLD)
)
BY_HELM = Installer(
    lambda cluster: helm("install", *RELEASE, "--create-namespace", *OLD, kubeconfig=cluster.kubeconfig),
    lambda cluster: helm("upgrade", *RELEASE, *NEW, kubeconfig=cluster.kubeconfig),
    lambda cluster: helm("rollback", "release", "1", "--namespace", SYSTEM, kubeconfig=cluster.kubeconfig),
)


@pytest.mark.parametrize("by", [BY_KUBECTL, BY_HELM], ids=["kubectl", "helm"])
async def test_an_upgrade_and_the_way_back_leave_jobs_and_queue_as_they_are(
    cluster: ControlPlane, api: RestClient, tmp_path: Path, by: Installer
) -> None:
    await asyncio.to_thread(by.install, cluster)
    await asyncio.to_thread(until_served, cluster)
    await api.create(NAMESPACES, "", {"metadata": {"name": "live"}})
    async with AsyncExitStack() as stack:
        managers = await replicas(stack, cluster, tmp_path / "v1", [])
        await stack.enter_async_context(kubelet(api.transport, endless))
        jobs = LiveJobs(Scenario(api, "live", until), {"managedBy": "sluice/job-controller"})
        await jobs.scenario.queues()
        await jobs.begin()
        before = await state(api, "live")
        assert [bool(before["admissions"][name]) for name in (*RUNNING, *PENDING)] == [True, True, False, False]
        assert [name for name, _ in before["pods"]] == ["running-1", "running-1", "running-2", "running-2"]

        code, rows, _ = await asyncio.to_thread(command, cluster, "upgrade", "--check", *NEW)
        assert code == 1
        assert {row["result"] for row in rows if row["kind"] == "Deployment"} == {"restarted", "changed"}
        for version, change in (("v2", by.upgrade), ("back", by.back)):
            await asyncio.to_thread(change, cluster)
            managers = await replicas(stack, cluster, tmp_path / version, managers)
            assert image(cluster) == {"v2": "sluice:v2", "back": "sluice:v1"}[version]
            assert await state(api, "live") == before, version
        await jobs.end()
        after = await state(api, "live")
        assert [pod for pod in after["pods"] if pod in before["pods"]] == before["pods"][2:]
        assert after["stopped"] == before["stopped"]  # all were created suspended


async def replicas(stack: AsyncExitStack, cluster: ControlPlane, folder: Path, old: list[Manager]) -> list[Manager]:
    """Start two managers of the Deployment; after each, end one of the old ones. One of them leads in the end."""
    folder.mkdir()
    found: list[Manager] = []
    for number in range(2):
        manager = await start(cluster, MANAGER, folder / str(number), until=STARTED)
        stack.push_async_callback(ended, manager)
        found.append(manager)
        if old:
            await old.pop().stop()
    await until(lambda: leads(*found), "one of the managers leads")
    return found


async def ended(manager: Manager) -> None:
    if manager.process.returncode is None:
        await manager.stop()


def image(cluster: ControlPlane) -> str:
    path = "jsonpath={.spec.template.spec.containers[0].image}"
    return kubectl(cluster, "-n", SYSTEM, "get", "deployment", MANAGER, "-o", path)
