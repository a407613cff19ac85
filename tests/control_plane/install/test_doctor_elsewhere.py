"""What `sluice doctor` says of an installation in another namespace than kueue-system, whose pods never started."""

from __future__ import annotations

import json
import shlex

import pytest

from queue_manager.installation.object_names import WEBHOOK_SECRET
from tests.control_plane.conftest import kubectl, until_served
from tests.control_plane.install.conftest import apply
from tests.control_plane.install.test_doctor import INSTALLED, doctor
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

PLACE = "elsewhere"


@pytest.mark.parametrize("settings", [(), ("--set", "webhook.enabled=false")], ids=["by its webhooks", "by its label"])
def test_an_installation_in_another_namespace_is_found_there(cluster: ControlPlane, settings: tuple[str, ...]) -> None:
    """It has published nothing yet. No command names the default namespace."""
    apply(cluster, "--namespace", PLACE, *settings)
    until_served(cluster)
    if settings:
        kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
        kubectl(cluster, "delete", kinds, "-l", "app.kubernetes.io/name=sluice")
    else:
        kubectl(cluster, "-n", PLACE, "delete", "secret", WEBHOOK_SECRET)
    found = {each["code"]: each for each in json.loads(doctor(cluster.kubeconfig, "-o", "json").stdout)["problems"]}
    of_webhooks = {
        "UnansweredWebhook": f"service/kueue-webhook-service -n {PLACE}",
        "NoCertificateSecret": f"secret/{WEBHOOK_SECRET} -n {PLACE}",
    }
    assert {code: each["place"] for code, each in found.items() if code in INSTALLED} == {
        **({} if settings else of_webhooks),
        "NoManager": f"deployment/kueue-controller-manager -n {PLACE}",
    }
    assert not any("kueue-system" in each["command"] for each in found.values()), found
    if not settings:
        for command in found["NoCertificateSecret"]["command"].split("; "):
            kubectl(cluster, *shlex.split(command)[1:])
