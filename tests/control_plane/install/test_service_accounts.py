"""The managers work under the installed service accounts, with the arguments of the installed Deployments."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from queue_manager.api.api_resources import LEASES, NAMESPACES, WORKLOADS
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.helm_test import PROGRAM
from queue_manager.operator.delegated_auth import MAY_NOT_ASK
from tests.control_plane.conftest import kubectl
from tests.control_plane.install.installed_managers import SYSTEM, installed, start
from tests.control_plane.manager.scenario import QUICK, Scenario, kubelet
from tests.control_plane.manager.service_account import account
from tests.control_plane.server import ControlPlane
from tests.waiting import until

OVER_TLS = {"metrics": {"bindAddress": ":0"}, "health": {"healthProbeBindAddress": "127.0.0.1:0"}}

pytestmark = pytest.mark.control_plane

WITHOUT_WEBHOOKS = "webhook.enabled=false"  # there is no Service network here
LEASE_NAMES = {"kueue-controller-manager": "c1f6bfd2.kueue.x-k8s.io", "sluice-job-controller": "job-controller.sluice"}


@pytest.mark.parametrize("components", ["Together", "Apart"])
async def test_a_job_is_admitted_and_run_with_just_the_installed_rights(
    cluster: ControlPlane, api: RestClient, tmp_path: Path, components: str
) -> None:
    deployments = installed(cluster, WITHOUT_WEBHOOKS, f"components={components}")
    assert len(deployments) == {"Together": 1, "Apart": 2}[components]
    namespace = f"users-{components.lower()}"
    await api.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    scenario = Scenario(api, namespace, until)
    managers = [await start(cluster, name, tmp_path / name) for name in deployments]
    try:
        async with kubelet(api.transport, lambda pod: QUICK):
            await scenario.queues()
            await scenario.submit("a", managedBy="sluice/job-controller", parallelism=2, completions=2)
            await scenario.until_finished("a")
        # What `helm test` runs in a pod, here with the address of the manager on this machine.
        test = [sys.executable, "-c", PROGRAM, f"{managers[0].url}/metrics"]
        answer = await asyncio.to_thread(subprocess.run, test, check=False, capture_output=True, text=True)
        assert answer.stdout == f"{managers[0].url}/metrics 200\n", answer.stderr
        for name in deployments:
            assert (await api.get(LEASES, SYSTEM, LEASE_NAMES[name]))["spec"]["holderIdentity"]
    finally:
        for manager in managers:
            await manager.stop()


async def test_with_listed_namespaces_only_their_jobs_are_managed(
    cluster: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    """Roles in the namespaces; the ClusterRole has only kinds without a namespace."""
    for name in ("listed-1", "listed-2", "unlisted"):
        await api.create(NAMESPACES, "", {"metadata": {"name": name}})
    [deployment] = installed(cluster, WITHOUT_WEBHOOKS, "namespaces=[listed-1, listed-2]")
    role = json.loads(kubectl(cluster, "get", "clusterrole", "kueue-manager-role", "-o", "json"))
    assert not {"jobs", "pods", "workloads", "events"} & {name for rule in role["rules"] for name in rule["resources"]}
    first, second, other = (Scenario(api, name, until) for name in ("listed-1", "listed-2", "unlisted"))
    manager = await start(cluster, deployment, tmp_path / deployment)
    try:
        async with kubelet(api.transport, lambda pod: QUICK):
            for scenario in (first, second, other):
                await scenario.queues()
            await other.submit("a", managedBy="sluice/job-controller")
            await first.submit("a", managedBy="sluice/job-controller", parallelism=3, completions=6)
            await second.submit("a", managedBy="sluice/job-controller")
            await first.until_finished("a")
            await second.until_finished("a")
        assert len(await first.pods("a")) == 6
        assert await other.api.list(WORKLOADS, "unlisted") == []
        assert (await other.job("a"))["spec"]["suspend"]
    finally:
        await manager.stop()


async def test_the_job_controller_of_listed_namespaces_works_with_roles_alone(
    cluster: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    await api.create(NAMESPACES, "", {"metadata": {"name": "only-jobs"}})
    [deployment] = installed(cluster, WITHOUT_WEBHOOKS, "namespaces=[only-jobs]", "components=JobController")
    assert kubectl(cluster, "get", "clusterrolebindings", "-l", "app.kubernetes.io/name=sluice", "-o", "name") == ""
    scenario = Scenario(api, "only-jobs", until)
    manager = await start(cluster, deployment, tmp_path / deployment)
    try:
        async with kubelet(api.transport, lambda pod: QUICK):
            await scenario.submit("a", queue="", managedBy="sluice/job-controller", suspend=False)
            await scenario.until_finished("a")
    finally:
        await manager.stop()


@pytest.mark.parametrize(("authorized", "expected"), [("false", (503, MAY_NOT_ASK)), ("true", (200, "# "))])
async def test_metrics_of_a_job_controller_with_roles_alone_need_one_right_more(
    cluster: ControlPlane, api: RestClient, tmp_path: Path, authorized: str, expected: tuple[int, str]
) -> None:
    namespace = f"metrics-{authorized}"
    await api.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    settings = (
        WITHOUT_WEBHOOKS,
        f"namespaces=[{namespace}]",
        "components=JobController",
        f"monitoring.authorizeReaders={authorized}",
    )
    [deployment] = installed(cluster, *settings)
    reader = await account(api, namespace, [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
    headers = {"Authorization": f"Bearer {(await reader.token())[0]}"}
    manager = await start(cluster, deployment, tmp_path / deployment, OVER_TLS, ports=())
    manager.may_be_forbidden = True
    [url] = [line.removeprefix("serving ") for line in manager.lines if line.endswith("/metrics")]
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), headers=headers) as session:

            async def scrape() -> tuple[int, str]:
                async with session.get(url) as answer:
                    return answer.status, await answer.text()

            async def is_answered() -> bool:
                status, text = await scrape()
                return status == expected[0] and text.startswith(expected[1])

            await until(is_answered, f"metrics are answered with {expected}")
    finally:
        await manager.stop()
