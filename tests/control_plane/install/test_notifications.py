"""Notifications of an installation: the KueueConfig names a file of the Secret that the settings mount."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_manager.api.api_resources import NAMESPACES, WORKLOADS
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.settings import CONFIG
from tests.control_plane.conftest import kubectl
from tests.control_plane.install.installed_managers import SYSTEM, installed, start
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.server import ControlPlane
from tests.signed_requests import Receiver, receiving
from tests.waiting import until

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
KEY = "whsec_b2YtdGhlLXRlc3Q="
FILE = "/etc/sluice-notifications/signing-key"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(KEY) as receiver:
        yield receiver


async def test_requests_are_signed_with_the_key_of_the_mounted_secret(
    cluster: ControlPlane, api: RestClient, receiver: Receiver, tmp_path: Path
) -> None:
    config = {**yaml.safe_load(CONFIG), "notifications": {"webhook": {"url": receiver.url, "secretFile": FILE}}}
    text = yaml.safe_dump(config)
    setting = f"managerConfig.controllerManagerConfigYaml={json.dumps(text)}"
    [deployment] = installed(cluster, "webhook.enabled=false", "notifications.secretName=hook", setting)
    kubectl(cluster, "-n", SYSTEM, "create", "secret", "generic", "hook", f"--from-literal=signing-key={KEY}")
    mounted = mount_secrets(cluster, deployment, tmp_path)
    webhook = {**config["notifications"]["webhook"], "secretFile": str(mounted[FILE])}
    manager = await start(cluster, deployment, tmp_path / "manager", {"notifications": {"webhook": webhook}})
    try:
        await api.create(NAMESPACES, "", {"metadata": {"name": "notified"}})
        scenario = Scenario(api, "notified", until)
        await scenario.queues()
        await scenario.submit("long")
        await scenario.until_admitted("long")
        workload = (await scenario.workload("long"))["metadata"]["name"]
        await api.patch(WORKLOADS, "notified", workload, {"spec": {"active": False}})
        await until(lambda: receiver.received, "a request")
        assert [(each["type"], each["job"]) for each in receiver.received] == [("JobDeactivated", "long")]
    finally:
        await manager.stop()


def mount_secrets(cluster: ControlPlane, deployment: str, folder: Path) -> dict[str, Path]:
    """Write the files that a kubelet would mount into the pod; returns where they are, by their path in the pod."""
    tree = json.loads(kubectl(cluster, "-n", SYSTEM, "get", "deployment", deployment, "-o", "json"))
    pod = tree["spec"]["template"]["spec"]
    names = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    found = {}
    for mount in pod["containers"][0]["volumeMounts"]:
        if mount["name"] in names:
            secret = json.loads(kubectl(cluster, "-n", SYSTEM, "get", "secret", names[mount["name"]], "-o", "json"))
            for key, value in secret["data"].items():
                found[f"{mount['mountPath']}/{key}"] = folder / key
                (folder / key).write_bytes(base64.b64decode(value))
    return found
