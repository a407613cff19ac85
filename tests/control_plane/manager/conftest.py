from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from queue_manager.engine.rest_client import RestClient
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.proxy import Proxy, proxy_to
from tests.control_plane.manager.scenario import QUICK, Scenario, kubelet
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import until

Start = Callable[..., Awaitable[Manager]]


@pytest.fixture
async def scenario(api: RestClient, namespace: str) -> Scenario:
    return Scenario(api, namespace, until)


@pytest.fixture
async def running_pods(api: RestClient) -> AsyncIterator[None]:
    """Pods become ready and succeed by themselves."""
    async with kubelet(api.transport, lambda pod: QUICK):
        yield


@pytest.fixture
async def kubeconfig(api: RestClient, namespace: str, plane: ControlPlane, tmp_path: Path) -> Path:
    """A kubeconfig of the manager's service account, straight to the server."""
    token, _ = await (await account(api, namespace)).token()
    return write_kubeconfig(tmp_path / "kubeconfig", plane.url, {"token": token}, plane)


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[Proxy]:
    async with proxy_to(plane) as proxy:
        yield proxy


@pytest.fixture
async def proxied(api: RestClient, namespace: str, proxy: Proxy, tmp_path: Path) -> Path:
    """A kubeconfig of the manager's service account, through the proxy."""
    token, _ = await (await account(api, namespace)).token()
    return write_kubeconfig(tmp_path / "kubeconfig", proxy.url, {"token": token})


@pytest.fixture
async def start(namespace: str) -> AsyncIterator[Start]:
    """Start a manager. One that still runs at the end of the test is stopped, and must not have logged an unexpected
    error.
    """
    running: list[Manager] = []

    async def begin(kubeconfig: Path, *flags: str, **options: object) -> Manager:
        running.append(await Manager.start(kubeconfig, *flags, **options))  # type: ignore[arg-type]
        return running[-1]

    yield begin
    try:
        for manager in running:
            if manager.process.returncode is None:
                await manager.stop()
    finally:
        for manager in running:
            await manager.kill()
