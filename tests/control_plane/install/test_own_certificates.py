"""An installation with a certificate of the admin: `certificates.source: Secret`, on a real API server.

The Secret is mounted as a kubelet does it, as files behind a symbolic link that is replaced when the Secret changes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from queue_manager.api.api_resources import SECRETS
from queue_manager.configuration.webhook_and_tls_sections import CERTIFICATE_FOLDER
from queue_manager.engine.certificates import Issued, issue
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.certificate_objects import SERVED_NAMES
from tests.control_plane import audit
from tests.control_plane.conftest import kubectl
from tests.control_plane.install.installed_managers import SYSTEM, config_map, installed, start
from tests.control_plane.install.own_endpoints import lead_services_to, own_address
from tests.control_plane.install.test_services import is_converted
from tests.control_plane.manager.guarded import certificate, is_guarded, job, try_job
from tests.control_plane.server import ControlPlane, free_ports
from tests.waiting import until

pytestmark = pytest.mark.control_plane

SECRET = "my-certificate"  # the name, not the certificate
NAMES = [f"{service}.{SYSTEM}.svc" for service in SERVED_NAMES]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    if not own_address():
        pytest.skip("an EndpointSlice needs an address of this machine besides loopback")
    with ControlPlane.start("--enable-aggregator-routing=true") as plane:
        yield plane


async def mount(api: RestClient, folder: Path) -> None:
    """Write the Secret's files; those of an earlier call are replaced in one step."""
    data = (await api.get(SECRETS, SYSTEM, SECRET))["data"]
    version = folder / f"..{uuid4().hex}"
    version.mkdir(parents=True)
    for name, encoded in data.items():
        (version / name).write_bytes(base64.b64decode(encoded))
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    link = folder / "..new"
    link.symlink_to(version.name)
    link.rename(folder / "..data")


def secret(issued: Issued) -> dict[str, object]:
    texts = {"tls.crt": issued.certificate, "tls.key": issued.key}
    return {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "stringData": texts}


async def test_a_mounted_certificate_is_served_and_a_replaced_one_without_a_restart(
    cluster: ControlPlane, api: RestClient, tmp_path: Path
) -> None:
    first, second = (issue(name, NAMES, datetime.now(UTC)) for name in ("first", "second"))
    values = tmp_path / "values.yaml"
    chosen = {"source": "Secret", "secretName": SECRET, "caBundle": first.authority + second.authority}
    values.write_text(json.dumps({"certificates": chosen}))
    [deployment] = await asyncio.to_thread(installed, cluster, flags=("--values", str(values)))
    assert mounted_secrets(cluster, deployment) == {CERTIFICATE_FOLDER: SECRET}
    config = config_map(cluster, SYSTEM, "kueue-manager-config")["controller_manager_config.yaml"]
    assert config.endswith("\ninternalCertManagement:\n  enable: false\n")
    await api.create(SECRETS, SYSTEM, secret(first))
    folder = tmp_path / "serving-certs"
    await mount(api, folder)

    webhook, visibility = free_ports(2)
    await lead_services_to(api, webhook)
    changed = {
        "webhook": {"port": webhook, "certDir": str(folder)},
        "visibilityServer": {"bindPort": visibility},
        "metrics": {"bindAddress": "127.0.0.1:0"},
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
    }
    manager = await start(cluster, deployment, tmp_path / deployment, changed, ports=())
    try:
        await until(lambda: is_guarded(api), "the API server trusts the first certificate")
        await until(lambda: is_converted(api), "and that of the conversion")
        url = f"https://127.0.0.1:{webhook}"
        assert await certificate(url) == ssl.PEM_cert_to_DER_cert(first.certificate)

        await api.patch(SECRETS, SYSTEM, SECRET, {"stringData": secret(second)["stringData"]})
        await mount(api, folder)

        async def is_replaced() -> bool:
            assert (await try_job(api, job("t", queue="q")))["spec"]["suspend"] is True  # at any time
            served = [await certificate(f"https://127.0.0.1:{port}") for port in (webhook, visibility)]
            return served == [ssl.PEM_cert_to_DER_cert(second.certificate)] * 2

        await until(is_replaced, "the replaced certificate is presented")
        assert await is_converted(api)
    finally:
        await manager.stop()
    refused = [act for act in acts_of(cluster, deployment) if act.resource in ("secrets", "customresourcedefinitions")]
    assert refused == []  # it has no right on them, and asked for none


def acts_of(cluster: ControlPlane, account: str) -> list[audit.Act]:
    acts = [act for act in audit.acts(audit.log_of(cluster.folder)) if act.account == f"{SYSTEM}:{account}"]
    assert acts
    assert all(act.is_allowed for act in acts)
    return acts


def mounted_secrets(cluster: ControlPlane, deployment: str) -> dict[str, str]:
    """The Secrets of a Deployment's pods by the folder where they are."""
    tree = json.loads(kubectl(cluster, "-n", SYSTEM, "get", "deployment", deployment, "-o", "json"))
    spec = tree["spec"]["template"]["spec"]
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
    mounts = spec["containers"][0]["volumeMounts"]
    return {mount["mountPath"]: secrets[mount["name"]] for mount in mounts if mount["name"] in secrets}


async def test_a_manager_whose_secret_is_not_mounted_says_what_is_missing(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """It does not issue a certificate that nobody would trust."""
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"certificates": {"source": "Secret", "secretName": SECRET}}))
    [deployment] = await asyncio.to_thread(installed, cluster, flags=("--values", str(values)))
    empty = tmp_path / "empty"
    empty.mkdir()
    changed = {"webhook": {"port": free_ports(1)[0], "certDir": str(empty)}, "metrics": {"bindAddress": "127.0.0.1:0"}}
    with pytest.raises(AssertionError, match=r"webhook.certDir: .*tls.key: No such file"):
        await start(cluster, deployment, tmp_path / deployment, changed, ports=())
