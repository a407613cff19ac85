"""The manager as a pod of the cluster, with the token that the kubelet mounts and renews."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.api.api_resources import JOBS, PODS
from queue_manager.engine import kubeconfig as kubeconfigs
from queue_manager.engine.renewing_transport import ClusterTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.operator import preflight
from queue_manager.operator.required_permissions import ALL, Need
from tests.control_plane.manager.service_account import account
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane


async def test_a_manager_in_a_pod_uses_the_mounted_service_account(
    plane: ControlPlane, api: RestClient, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may do what the permissions table lists and nothing else, and goes on when its token expires."""
    host, port = plane.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    who = await account(api, namespace)
    token, secret = await who.token()
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(plane.ca.read_bytes())
    transport = ClusterTransport(lambda: kubeconfigs.service_account(tmp_path))
    client = RestClient(transport)
    assert (await preflight.check(transport, plane.url, ALL)).startswith("v1.")
    single = {namespace: [Need(PODS, ("get",))]}  # pods are listed and watched, not read one by one
    with pytest.raises(preflight.CannotStart, match=f"missing permissions in namespace {namespace}: get pods"):
        await preflight.check(transport, plane.url, ALL, further=single)
    await who.invalidate(secret)

    async def refused() -> bool:
        try:
            await client.list(JOBS)
        except ApiError as error:
            return error.status == 401
        return False

    await until(refused, "the old token is refused")
    (tmp_path / "token").write_text((await who.token())[0])
    await until(lambda: accepted(client), "the new token is taken")
    await transport.close()


async def accepted(client: RestClient) -> bool:
    return await client.list(JOBS) is not None


async def test_a_manager_outside_of_a_pod_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(kubeconfigs.KubeconfigError, match="not in a pod"):
        kubeconfigs.service_account(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(kubeconfigs.KubeconfigError, match=r"ca\.crt: No such file"):
        kubeconfigs.service_account(tmp_path)
