"""Metrics of `sluice manager` over TLS, with the users and roles of a real API server."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from queue_manager.engine.rest_client import RestClient
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.service_account import BINDINGS, RBAC, account, write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

EVERYWHERE = f'{ALL_JOBS}metrics: {{bindAddress: ":0"}}\nhealth: {{healthProbeBindAddress: "127.0.0.1:0"}}\n'
READER = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


async def delegate_authentication(api: RestClient, namespace: str, name: str) -> None:
    """Bind the role that every server with delegated authentication needs."""
    role = {"apiGroup": RBAC[0], "kind": "ClusterRole", "name": "system:auth-delegator"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    await api.create(BINDINGS, "", {"metadata": {"name": f"{name}-auth"}, "roleRef": role, "subjects": [subject]})


async def test_a_service_account_reads_metrics_if_its_role_allows_it(
    api: RestClient, namespace: str, plane: ControlPlane, tmp_path: Path, start: Start
) -> None:
    manager_account = await account(api, namespace)
    await delegate_authentication(api, namespace, manager_account.name)
    reader, other = await account(api, namespace, READER), await account(api, namespace, [])
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", plane.url, {"token": (await manager_account.token())[0]}, plane
    )
    manager = await start(kubeconfig, "--visibility-port", "0", config=EVERYWHERE, ports=())
    manager.may_be_forbidden = True  # it has no role for the ConfigMap of the front proxy
    [url] = [line.removeprefix("serving ") for line in manager.lines if line.endswith("/metrics")]
    assert url.startswith("https://")
    assert await manager.get("/readyz") == (200, "ok\n")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:

        async def scrape(token: str) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(url, headers=headers) as answer:
                return answer.status, await answer.text()

        allowed = (await reader.token())[0]

        async def is_allowed() -> bool:
            return (await scrape(allowed))[0] == 200

        await until(is_allowed, "the manager and the reader have their roles")
        assert "kueue_build_info{" in (await scrape(allowed))[1]
        denied = f"Authorization denied for user system:serviceaccount:{namespace}:{other.name}\n"
        assert await scrape((await other.token())[0]) == (403, denied)
        assert await scrape("wrong") == (401, "Unauthorized\n")
        assert await scrape("") == (401, "Unauthorized\n")
