"""What commands say of an installation whose pods never started: this cluster has no controller that creates them."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_manager.installation.object_names import SELECTOR, WEBHOOK_SECRET
from tests.control_plane import provide
from tests.control_plane.conftest import ROOT, SLUICE, kubectl, until_served
from tests.control_plane.install.conftest import apply
from tests.control_plane.manager.service_account import write_kubeconfig
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

SYSTEM = "kueue-system"
UNKNOWN_CONFIG = "the configuration of the manager (not published, or forbidden)"
INSTALLED = {"NoManager", "DeadConversion", "UnansweredWebhook", "NoCertificateSecret", "HangingNamespaces"}
LOCAL_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "lq"},
    "spec": {"clusterQueue": "cq"},
}
COHORTS = "cohorts.kueue.x-k8s.io"
COHORT = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "all"}}
CONVERSION = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"service": {"namespace": SYSTEM, "name": "of-kueue", "path": "/convert", "port": 443}},
        "conversionReviewVersions": ["v1"],
    },
}
READY_SLICE = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {
        "name": "webhooks",
        "namespace": SYSTEM,
        "labels": {"kubernetes.io/service-name": "kueue-webhook-service"},
    },
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": False}}],
}


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    """With a LocalQueue and a Cohort stored as v1beta1, which no webhook of the installation would let in now."""
    crds = list(yaml.safe_load_all(subprocess.run([*SLUICE, "crds"], check=True, capture_output=True, cwd=ROOT).stdout))
    [cohorts] = [crd for crd in crds if crd["metadata"]["name"] == COHORTS]
    for version in cohorts["spec"]["versions"]:
        version["storage"] = version["name"] == "v1beta1"
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(crds).encode())
    until_served(cluster)
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(COHORT).encode())
    kubectl(cluster, "-n", "default", "create", "-f", "-", stdin=json.dumps(LOCAL_QUEUE).encode())
    apply(cluster)
    until_served(cluster)
    return cluster


def doctor(kubeconfig: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*SLUICE, "doctor", "--kubeconfig", str(kubeconfig), *options]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)


def examined(kubeconfig: Path) -> tuple[dict[str, str], list[str]]:
    """The places of the findings about the installation by code, and what was not checked."""
    done = doctor(kubeconfig, "-o", "json")
    assert done.returncode in (0, 1, 2), done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    found = {problem["code"]: problem["place"] for problem in report["problems"] if problem["code"] in INSTALLED}
    return found, report["notChecked"]


def test_a_manager_and_webhooks_without_a_ready_pod_are_found(installed: ControlPlane) -> None:
    unanswered = {"UnansweredWebhook": f"service/kueue-webhook-service -n {SYSTEM}"}
    never_led = {"NoManager": f"deployment/kueue-controller-manager -n {SYSTEM}"}
    assert examined(installed.kubeconfig) == ({**unanswered, **never_led}, [])

    kubectl(installed, "create", "-f", "-", stdin=json.dumps(READY_SLICE).encode())
    assert examined(installed.kubeconfig)[0] == {**unanswered, **never_led}  # its endpoint is not ready
    ready = [{"op": "replace", "path": "/endpoints/0/conditions/ready", "value": True}]
    kubectl(installed, "-n", SYSTEM, "patch", "endpointslice", "webhooks", "--type=json", "-p", json.dumps(ready))
    assert examined(installed.kubeconfig)[0] == never_led

    pods = json.dumps({"status": {"replicas": 2, "readyReplicas": 1}})
    status = ("deployment", "kueue-controller-manager", "--subresource=status", "--type=merge")
    kubectl(installed, "-n", SYSTEM, "patch", *status, "-p", pods)
    assert examined(installed.kubeconfig)[0] == {}


def test_the_command_about_a_deleted_secret_of_the_certificate_creates_it(installed: ControlPlane) -> None:
    kubectl(installed, "-n", SYSTEM, "delete", "secret", WEBHOOK_SECRET)
    done = doctor(installed.kubeconfig, "-o", "json")
    [found] = [each for each in json.loads(done.stdout)["problems"] if each["code"] == "NoCertificateSecret"]
    assert found["place"] == f"secret/{WEBHOOK_SECRET} -n {SYSTEM}"
    for each in found["command"].split("; "):
        kubectl(installed, *each.split()[1:])
    assert "NoCertificateSecret" not in examined(installed.kubeconfig)[0]
    labels = kubectl(installed, "-n", SYSTEM, "get", "secret", "-l", SELECTOR, "-o", "name")
    assert labels.split() == [f"secret/{WEBHOOK_SECRET}"]


def test_a_user_without_rights_learns_what_was_not_checked(installed: ControlPlane, tmp_path: Path) -> None:
    kubectl(installed, "-n", "default", "create", "serviceaccount", "limited-tenant")
    token = {"token": kubectl(installed, "-n", "default", "create", "token", "limited-tenant").strip()}
    user = write_kubeconfig(tmp_path / "limited-tenant", installed.url, token, installed)
    for form in ([], ["-o", "json"]):
        done = doctor(user, *form)
        assert done.returncode == 3, done.stderr
    not_checked = json.loads(done.stdout)["notChecked"]
    assert doctor(user).stdout.splitlines()[-1] == "nothing could be checked"
    assert {
        "the Lease of the managers (forbidden)",
        "the Deployment of the managers (forbidden)",
        "validatingwebhookconfigurations (forbidden)",
        "mutatingwebhookconfigurations (forbidden)",
    } <= set(not_checked)
    rights = ("clusterrole", "webhook-reader", "--verb=list", "--resource=validatingwebhookconfigurations")
    kubectl(installed, "create", *rights)
    kubectl(
        installed,
        "create",
        "clusterrolebinding",
        "limited-tenant",
        "--clusterrole=webhook-reader",
        "--serviceaccount=default:limited-tenant",
    )
    found, not_checked = examined(tmp_path / "limited-tenant")
    assert found == {}
    assert doctor(user).stdout.splitlines()[-1] == "nothing found in what could be checked"
    assert "endpoints of the webhooks (forbidden or absent)" in not_checked


def test_a_kind_whose_conversion_fails_is_not_checked_and_all_else_is(installed: ControlPlane) -> None:
    """The command of the finding makes the kind readable."""
    status = ("deployment", "kueue-controller-manager", "--subresource=status", "--type=merge")
    kubectl(installed, "-n", SYSTEM, "patch", *status, "-p", json.dumps({"status": {"readyReplicas": 0}}))
    before, not_checked = examined(installed.kubeconfig)
    assert "NoManager" in before
    assert not_checked == []
    change = json.dumps({"spec": {"conversion": CONVERSION}})
    kubectl(installed, "patch", "crd", COHORTS, "--type=merge", "-p", change)
    until_readable(installed, expected=False)

    done = doctor(installed.kubeconfig, "-o", "json")
    assert done.returncode == 2, done.stderr
    report = json.loads(done.stdout)
    cause = 'the conversion webhook does not answer: service "of-kueue" not found'
    assert report["notChecked"] == [f"cohorts ({cause})"]
    found = {problem["code"]: problem for problem in report["problems"] if problem["code"] in INSTALLED}
    assert {code: problem["place"] for code, problem in found.items()} == {
        **before,
        "DeadConversion": f"crd/{COHORTS}",
    }
    assert f"not checked: cohorts ({cause})\n" in doctor(installed.kubeconfig).stdout

    kubectl(installed, *shlex.split(found["DeadConversion"]["command"])[1:])
    until_readable(installed, expected=True)
    assert examined(installed.kubeconfig) == (before, [])


def until_readable(cluster: ControlPlane, *, expected: bool) -> None:
    """Wait until Cohorts can be read, or cannot; the API server applies a changed CRD within a second or so."""
    deadline = time.monotonic() + 60
    read = [str(provide.find("kubectl")), "--kubeconfig", str(cluster.kubeconfig), "get", "cohorts"]
    while (subprocess.run(read, check=False, capture_output=True, timeout=60).returncode == 0) is not expected:
        assert time.monotonic() < deadline


def test_what_no_webhook_answers_is_refused_in_one_sentence_with_what_to_do(
    installed: ControlPlane, tmp_path: Path
) -> None:
    """The cause in the API server's answer to a submission names no field."""
    file = tmp_path / "job.yaml"
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    meta = {"name": "a", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    file.write_text(
        json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}})
    )
    command = [*SLUICE, "submit", "--kubeconfig", str(installed.kubeconfig), "-f", str(file)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3
    assert f"{file}:1: no manager answers the webhook mjob.kb.io (" in done.stderr
    hold = [*SLUICE, "hold", "lq", "-n", "default", "--kubeconfig", str(installed.kubeconfig)]
    done = subprocess.run(hold, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3
    assert "sluice hold: no manager answers the webhook vlocalqueue.kb.io (" in done.stderr
    assert "`sluice doctor` says what is wrong" in done.stderr
    assert "https://" not in done.stderr


def test_a_namespace_whose_deletion_hangs_while_no_manager_runs_is_found(installed: ControlPlane) -> None:
    """The API server has no connection to the visibility API, and no answer about which kinds that has."""
    service = "v1beta2.visibility.kueue.x-k8s.io"
    kubectl(installed, "wait", "apiservice", service, "--for=condition=Available=False", "--timeout=60s")
    kubectl(installed, "create", "namespace", "hangs")
    with installed.controllers("namespace-controller"):
        kubectl(installed, "delete", "namespace", "hangs", "--wait=false")
        failed = "--for=condition=NamespaceDeletionDiscoveryFailure=True"
        kubectl(installed, "wait", "namespace", "hangs", failed, "--timeout=60s")
        found, _ = examined(installed.kubeconfig)
    assert found["HangingNamespaces"].startswith("apiservice/v1beta")
