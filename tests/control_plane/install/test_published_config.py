"""The configuration that a manager publishes, as users of one namespace see it in `sluice show`."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from queue_manager.engine.rest_client import RestClient
from tests.control_plane.conftest import ROOT, SLUICE, install_kinds, kubectl, until_served
from tests.control_plane.install.conftest import sluice
from tests.control_plane.install.installed_managers import start
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

HOME = "elsewhere"
DEADLINE = re.compile(r"(\d\d:\d\d:\d\d, in \S+) +the Job is evicted if its pods are not all ready")
CONFIG = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {timeout: TIME}
leaderElection: {leaderElect: true}
"""
VIEW = [  # of Kubernetes' role `view`, which no controller fills here
    {"apiGroups": [""], "resources": ["pods", "events", "configmaps"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": ["get", "list", "watch"]},
]


@dataclass(frozen=True)
class User:
    """Has rights in one namespace alone."""

    kubeconfig: Path
    namespace: str

    async def minutes_left(self) -> int:
        """The minutes until the deadline that `sluice show` prints; -1 if it prints none."""
        assert "hangs" in await says(self.kubeconfig, "ps", "-n", self.namespace)
        found = DEADLINE.search(await says(self.kubeconfig, "show", "hangs", "-n", self.namespace))
        if found is None:
            return -1
        hours, minutes = re.search(r"(\d+)h", found[1]), re.search(r"(\d+)m", found[1])
        return 60 * int(hours[1] if hours else 0) + int(minutes[1] if minutes else 0)


@pytest.fixture
def user(cluster: ControlPlane, tmp_path: Path) -> User:
    install_kinds(cluster)
    team = f"team-{uuid4().hex[:8]}"
    kubectl(cluster, "create", "namespace", team)
    kubectl(cluster, "-n", team, "create", "serviceaccount", "limited-user")
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "user"}, "rules": VIEW}
    kubectl(cluster, "-n", team, "create", "-f", "-", stdin=json.dumps(role).encode())
    kubectl(
        cluster, "-n", team, "create", "rolebinding", "user", "--role=user", f"--serviceaccount={team}:limited-user"
    )
    token = {"token": kubectl(cluster, "-n", team, "create", "token", "limited-user").strip()}
    return User(write_kubeconfig(tmp_path / "user", cluster.url, token, cluster), team)


async def says(kubeconfig: Path, *arguments: str) -> str:
    full = [*SLUICE, *arguments, "--kubeconfig", str(kubeconfig)]
    done = await asyncio.to_thread(
        subprocess.run, full, check=False, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def deadlines_are_known(api: RestClient, user: User, manager: Manager, file: Path) -> None:
    """Before and after a reload."""
    scenario = Scenario(api, user.namespace, until)
    await scenario.queues()
    await scenario.submit("hangs", managedBy="sluice/job-controller")
    await scenario.until_admitted("hangs")

    async def is_near(minutes: int) -> bool:
        return minutes - 10 < await user.minutes_left() <= minutes

    await until(lambda: is_near(50), "the deadline is known")
    file.write_text(file.read_text().replace("50m", "200m"))
    manager.process.send_signal(signal.SIGHUP)
    await manager.read_until("config: ", 30)
    assert "applied: waitForPodsReady" in manager.lines[-1]
    await until(lambda: is_near(200), "the deadline is that of the new configuration")


async def test_users_know_the_deadlines_of_a_manager_in_another_namespace(
    cluster: ControlPlane, api: RestClient, user: User, tmp_path: Path
) -> None:
    config = tmp_path / "installed.yaml"
    config.write_text(CONFIG.replace("TIME", "50m"))
    options = ("--namespace", HOME, "--config", str(config), "--set", "webhook.enabled=false")
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=sluice("install", *options).encode())
    until_served(cluster)
    manager = await start(cluster, "kueue-controller-manager", tmp_path / "manager", namespace=HOME)
    file = tmp_path / "manager" / "config.yaml"
    try:
        await deadlines_are_known(api, user, manager, file)
    finally:
        await manager.stop()
    again = sluice("install", *options).encode()
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=again)
    assert "waitForPodsReady" in kubectl(cluster, "-n", "kube-public", "get", "configmap", "-o", "yaml")
    await says(cluster.kubeconfig, "uninstall", "--namespace", HOME)
    left = kubectl(cluster, "-n", "kube-public", "get", "configmaps,roles,rolebindings", "-o", "name")
    assert "sluice" not in left


@asynccontextmanager
async def by_hand(cluster: ControlPlane, api: RestClient, folder: Path, *flags: str) -> AsyncIterator[Manager]:
    token, _ = await (await account(api, "default")).token()
    kubeconfig = write_kubeconfig(folder / "kubeconfig", cluster.url, {"token": token}, cluster)
    manager = await Manager.start(kubeconfig, *flags, config=CONFIG.replace("TIME", "50m"))
    try:
        yield manager
    finally:
        await manager.stop()


async def test_users_know_the_deadlines_of_a_namespaced_manager_started_by_hand(
    cluster: ControlPlane, api: RestClient, user: User, tmp_path: Path
) -> None:
    async with by_hand(cluster, api, tmp_path, f"--namespace={user.namespace}") as manager:
        await deadlines_are_known(api, user, manager, tmp_path / "config.yaml")


async def test_users_know_the_deadlines_of_a_manager_that_was_started_by_hand(
    cluster: ControlPlane, api: RestClient, user: User, tmp_path: Path
) -> None:
    """After the commands of the page of roles, which an installation makes unnecessary."""
    page = (ROOT / "deploy" / "ROLES.md").read_text().replace("\\\n", " ")
    commands = [line.split()[1:] for line in page.splitlines() if line.startswith("    kubectl")]
    assert [command[2:4] for command in commands] == [["create", "role"], ["create", "rolebinding"]]
    for command in commands:
        kubectl(cluster, *command)
    async with by_hand(cluster, api, tmp_path) as manager:
        await deadlines_are_known(api, user, manager, tmp_path / "config.yaml")
