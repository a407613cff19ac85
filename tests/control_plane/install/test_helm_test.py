"""`helm test`, to its end: the test runs the command of the pod, and reports the pod's status as a kubelet does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import PODS
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from tests.control_plane import provide
from tests.control_plane.conftest import kubectl, until_served
from tests.control_plane.install.conftest import CHART, helm
from tests.control_plane.install.installed_managers import start
from tests.control_plane.install.service_proxy import service_proxy
from tests.control_plane.server import ControlPlane, free_ports
from tests.waiting import until

pytestmark = pytest.mark.control_plane

NAMESPACE, RELEASE, POD = "helmed", "release", "sluice-test-answers"
METRICS = f"https://kueue-controller-manager-metrics-service.{NAMESPACE}.svc:8443/metrics"
POSITIONS = f"https://kueue-visibility-server.{NAMESPACE}.svc:443/apis/visibility.kueue.x-k8s.io/v1beta2"


@pytest.fixture(scope="module")
def released(cluster: ControlPlane) -> ControlPlane:
    """A cluster with a release of the chart, whose Deployment has no pods: nothing creates any here."""
    kubectl(cluster, "create", "namespace", NAMESPACE)
    kubectl(cluster, "label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    settings = ("--namespace", NAMESPACE, "--set", "webhook.enabled=false")
    helm("install", RELEASE, str(CHART), *settings, kubeconfig=cluster.kubeconfig)
    until_served(cluster)
    return cluster


async def test_helm_test_succeeds_if_a_manager_answers_through_both_services(
    released: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    metrics, visibility = free_ports(2)
    addresses = {
        "metrics": {"bindAddress": f":{metrics}"},
        "visibilityServer": {"bindPort": visibility},
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
    }
    manager = await start(
        released, "kueue-controller-manager", tmp_path / "manager", addresses, ports=(), namespace=NAMESPACE
    )
    try:
        async with pod_played(api, {"metrics": metrics, "visibility": visibility}) as output:
            done = await helm_test(released)
    finally:
        await manager.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"TEST SUITE:     {POD}" in done.stdout
    assert "Phase:          Succeeded" in done.stdout
    assert output == [f"{METRICS} 401\n{POSITIONS} 401\n"]
    with pytest.raises(ApiError):  # by its hook-delete-policy
        await api.get(PODS, NAMESPACE, POD)


async def test_helm_test_fails_if_no_manager_answers(released: ControlPlane, api: RestClient) -> None:
    metrics, visibility = free_ports(2)
    async with pod_played(api, {"metrics": metrics, "visibility": visibility}) as output:
        done = await helm_test(released)
    assert done.returncode == 1
    assert "Phase:          Failed" in done.stdout
    assert f"pod {POD} failed" in done.stderr
    assert "urllib.error.URLError" in output[0]
    assert (await api.get(PODS, NAMESPACE, POD))["status"]["phase"] == "Failed"  # stays, for kubectl logs


async def helm_test(cluster: ControlPlane) -> subprocess.CompletedProcess[str]:
    command = [str(provide.find("helm")), "test", RELEASE, "--namespace", NAMESPACE, "--timeout", "60s"]
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    return await asyncio.to_thread(
        subprocess.run, command, check=False, capture_output=True, text=True, env=env, timeout=120
    )


@asynccontextmanager
async def pod_played(api: RestClient, ports: dict[str, int]) -> AsyncIterator[list[str]]:
    """Run the next pod of `helm test`; yields a list that gets its output."""
    output: list[str] = []
    async with service_proxy(api, ports) as proxy, asyncio.TaskGroup() as tasks:
        played = tasks.create_task(play(api, proxy, output))
        yield output
        await played


async def play(api: RestClient, proxy: str, output: list[str]) -> None:
    """What a kubelet does for the pod: it runs the command of the container and reports each state."""
    found: list[dict[str, Any]] = []

    async def is_created() -> bool:
        found[:] = [pod for pod in await api.list(PODS, NAMESPACE) if not pod["status"].get("containerStatuses")]
        return bool(found)

    await until(is_created, "helm has created the pod")
    [container] = found[0]["spec"]["containers"]
    await report(api, container, "Running", {"running": {"startedAt": now()}})
    own = {each["name"]: each["value"] for each in container.get("env", ())}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *container["command"],
        *container.get("args", ()),
        env={**own, "PATH": path, "https_proxy": proxy},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    text, _ = await process.communicate()
    output.append(text.decode())
    ended = {
        "exitCode": process.returncode,
        "reason": "Error" if process.returncode else "Completed",
        "finishedAt": now(),
    }
    await report(api, container, "Failed" if process.returncode else "Succeeded", {"terminated": ended})


async def report(api: RestClient, container: dict[str, Any], phase: str, state: dict[str, Any]) -> None:
    names = {"name": container["name"], "image": container["image"], "imageID": ""}
    status = {**names, "ready": phase == "Running", "started": phase == "Running", "restartCount": 0, "state": state}
    times = {"startTime": now()} if phase == "Running" else {}
    patch = {"status": {"phase": phase, **times, "containerStatuses": [status]}}
    await api.patch(PODS, NAMESPACE, POD, patch, subresource="status")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
