"""The Helm chart, with the real helm: it renders what `sluice install` prints, and installs on a real API server."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_manager.configuration.loading import loads
from queue_manager.installation.fixed_config_fields import certificate_misfits, misfits
from queue_manager.installation.helm_values import SettingsError, settings_from
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import CONFIG
from tests.control_plane import provide
from tests.control_plane.conftest import ROOT, kubectl, until_served
from tests.control_plane.install.conftest import CHART, helm
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
ALL_MONITORING = {
    name: {"enabled": True, "labels": {"for": "prometheus"}}
    for name in ("serviceMonitor", "prometheusRule", "dashboard")
}
MANAGE_ALL = f"""{CONFIG}manageJobsWithoutQueueName: yes
managedJobsNamespaceSelector:
  matchLabels: {{team: a}}
  matchExpressions: [{{key: env, operator: In, values: [prod, "1"]}}, {{key: x, operator: Exists}}]
"""
VALUES: dict[str, Json] = {
    "defaults": {},
    "apart": {
        "components": "Apart",
        "networkPolicy": {"restrictEgress": True},
        "image": {"digest": f"sha256:{'a' * 64}"},
    },
    "of two namespaces": {
        "namespaces": ["a", "b"],
        "podAnnotations": {"x/y": "z"},
        "priorityClassName": "urgent",
        "admissionPolicies": {"enabled": True, "policies": {"managedBy": True, "unsuspend": False}},
    },
    "Job controller only": {"components": "JobController", "namespaces": ["a"], "crds": {"install": False}},
    "queue only, without extras": {
        "components": "Queue",
        **{name: {"enabled": False} for name in ("networkPolicy", "podDisruptionBudget", "visibility", "webhook")},
    },
    "admission as chosen": {
        "managerConfig": {"controllerManagerConfigYaml": MANAGE_ALL},
        "admissionPolicies": {"enabled": True, "breakGlassGroup": "on-call", "queueAccounts": ["a:b", "c"]},
        "webhook": {"failurePolicy": "Ignore", "timeoutSeconds": 2},
    },
    "mutating policies of 1.34": {"admissionPolicies": {"enabled": True, "mutatingPolicyVersion": "v1beta1"}},
    "no mutating policies": {"admissionPolicies": {"enabled": True, "mutatingPolicyVersion": ""}},
    "certificate of the admin": {
        "components": "Apart",
        "certificates": {"source": "Secret", "secretName": "mine", "caBundle": "-----BEGIN CERTIFICATE-----\n+/=\n"},
    },
    "certificate and section of the admin": {
        "certificates": {"source": "Secret"},
        "managerConfig": {"controllerManagerConfigYaml": f"{CONFIG}internalCertManagement: {{enable: false}}\n"},
    },
    "certificate of cert-manager": {"certificates": {"source": "CertManager"}},
    "certificate of an issuer": {
        "certificates": {"source": "CertManager", "issuer": {"kind": "ClusterIssuer", "name": "company"}},
        "webhook": {"enabled": True},
    },
    "cert-manager without webhooks": {"certificates": {"source": "CertManager"}, "webhook": {"enabled": False}},
    "admission without exemption": {"admissionPolicies": {"enabled": True, "breakGlassGroup": ""}},
    "notified": {"components": "Apart", "notifications": {"secretName": "hook.v1"}},
    "with Roles only": {"components": "Apart", "namespaces": ["a", "b"], "clusterObjects": "kind: ClusterQueue\n"},
    "monitored": {"monitoring": ALL_MONITORING, "userRoles": {"enabled": False}, "tolerations": [{"key": "k"}]},
}


def by_name(trees: list[Json]) -> dict[tuple[str, str, str], Json]:
    found = {(t["kind"], t["metadata"].get("namespace", ""), t["metadata"]["name"]): t for t in trees if t}
    assert len(found) == len([tree for tree in trees if tree])
    return found


def test_the_chart_has_no_mistakes() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.parametrize("name", VALUES)
def test_the_chart_renders_what_sluice_install_prints(name: str, tmp_path: Path) -> None:
    """Except the namespace, which `helm install --create-namespace` makes, and the pod of `helm test`."""
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(VALUES[name]))
    text = helm("template", "release", str(CHART), "--namespace", "elsewhere", "--values", str(file), "--skip-tests")
    installed = by_name(objects(settings_from([VALUES[name]], []), "elsewhere"))
    installed.pop(("Namespace", "", "elsewhere"), None)
    rendered = by_name(list(yaml.safe_load_all(text)))
    assert rendered.keys() == installed.keys()
    for key, tree in installed.items():
        assert rendered[key] == tree


@pytest.mark.parametrize(
    "values",
    [
        *("replicas=none", "image.tga=v1", "components=Both", "namespaces[0]=A", "webhook.timeoutSeconds=6"),
        *("notifications.secretName=A", "clusterObjects=x", "tracing.sampler=foo", "certificates.source=Mine"),
        *("resources.requests.cpu=lots", "admissionPolicies.mutatingPolicyVersion=v2"),
    ],
)
def test_wrong_values_are_refused_by_the_schema(values: str) -> None:
    binary = provide.find("helm")
    command = [str(binary), "template", str(CHART), "--set", values]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "don't meet the specifications of the schema" in done.stderr
    name = {"clusterObjects": "namespaces"}.get(values.replace("[", "=").partition("=")[0], values)  # which it needs
    assert name.replace("[", "/").partition("=")[0].split(".")[-1].split("/")[0] in done.stderr


HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
WRONG_CONFIG = f"""\
{HEAD}manageJobs: 1
waitForPodsReady: {{timeout: 7, blockAdmission: "x", requeuingStrategy: {{timestamp: Foo, backoffLimitCount: -1}}}}
leaderElection: {{leaderElect: 3, leaseDuration: soon}}
jobController: {{manage: Some}}
tls: {{cipherSuites: {{}}}}
managedJobsNamespaceSelector: {{matchExpressions: [{{key: a, operatr: In}}]}}
"""
IN_WRONG_CONFIG = (
    "manageJobs: unknown field",
    "waitForPodsReady.timeout: integer instead of string",
    "waitForPodsReady.blockAdmission: string instead of boolean",
    'waitForPodsReady.requeuingStrategy.timestamp: "Foo" is not one of Creation, Eviction',
    "waitForPodsReady.requeuingStrategy.backoffLimitCount: -1 is less than 0",
    "leaderElection.leaderElect: integer instead of boolean",
    'leaderElection.leaseDuration: "soon" is not allowed; must be a duration such as "30s", "5m" or "1h30m"',
    'jobController.manage: "Some" is not one of All, ManagedBy',
    "tls.cipherSuites: object instead of array",
    "managedJobsNamespaceSelector.matchExpressions[0].operatr: unknown field",
)


def with_config(command: str, text: str, folder: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    file = folder / "config.yaml"
    file.write_text(text)
    values = ("--set-file", f"managerConfig.controllerManagerConfigYaml={file}", *settings)
    return subprocess.run(
        [str(provide.find("helm")), command, str(CHART), *values], check=False, capture_output=True, text=True
    )


def test_helm_names_all_fields_and_types_of_a_configuration_that_are_wrong(tmp_path: Path) -> None:
    done = with_config("template", WRONG_CONFIG, tmp_path)
    assert done.returncode == 1
    for said in IN_WRONG_CONFIG:
        assert said in done.stderr
        with pytest.raises(SettingsError, match=re.escape(said.partition(":")[0])):  # as `sluice install` does
            settings_from([{"managerConfig": {"controllerManagerConfigYaml": WRONG_CONFIG}}], [])
    done = with_config("lint", WRONG_CONFIG, tmp_path)
    assert (done.returncode, IN_WRONG_CONFIG[0] in done.stderr) == (1, True)
    assert "is not YAML: " in with_config("template", "a: [", tmp_path).stderr


@pytest.mark.parametrize(
    "text",
    [
        (ROOT / "config" / "kueue_config.yaml").read_text(),
        MANAGE_ALL,
        f"{HEAD}waitForPodsReady:\nresources:\n  # nothing\n",
        HEAD.replace("v1beta2", "v1beta1") + "waitForPodsReady: {enable: true, timeout: 5m}\n",
    ],
    ids=["explained", "selectors", "empty sections", "v1beta1"],
)
def test_helm_accepts_a_configuration_that_a_manager_accepts(text: str, tmp_path: Path) -> None:
    settings_from([{"managerConfig": {"controllerManagerConfigYaml": text}}], [])
    done = with_config("template", text, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("section", "source"),
    [
        ("webhook: {port: 9555}", "Managed"),
        ('health: {healthProbeBindAddress: ":9090", livenessEndpointName: live}', "Managed"),
        ('health: {healthProbeBindAddress: "0"}', "Managed"),
        ('metrics: {bindAddress: ":9443"}', "Managed"),
        ("visibilityServer: {bindPort: 8083}", "Managed"),
        ("internalCertManagement: {enable: false}", "Managed"),
        ("internalCertManagement: {webhookSecretName: s, webhookServiceName: w}", "Managed"),
        ("webhook: {certDir: /certs}", "Secret"),
    ],
)
def test_helm_refuses_fields_that_are_fixed_as_sluice_install_does(section: str, source: str, tmp_path: Path) -> None:
    text = f"{HEAD}{section}\n"
    config = loads(text)
    problems = [*misfits(config, text, "file"), *certificate_misfits(config, text, "file", source)]
    done = with_config("template", text, tmp_path, "--set", f"certificates.source={source}")
    assert done.returncode == 1
    assert problems
    for problem in problems:
        assert f"  {problem.field}: {problem.message}\n" in done.stderr
    assert "  sluice install --config FILE, with the same settings, names the lines\n" in done.stderr


@pytest.mark.parametrize(
    "sections",
    [
        "webhook: {port: 0}\nhealth:\nmetrics: {bindAddress: 127.0.0.1:8080}\ninternalCertManagement: {enable: true}",
        'health: {healthProbeBindAddress: "0.0.0.0:8081"}\nmetrics: {bindAddress: "[::1]:9000"}\nvisibilityServer: {}',
        'webhook: {port: 9443}\nmetrics: {bindAddress: "0"}\nvisibilityServer: {bindPort: 8082}',
        'metrics: {bindAddress: "localhost:1"}\nwebhook: {certDir: /unused}',
    ],
)
def test_helm_accepts_fields_that_fit_an_installation(sections: str, tmp_path: Path) -> None:
    settings_from([{"managerConfig": {"controllerManagerConfigYaml": f"{HEAD}{sections}\n"}}], [])
    done = with_config("template", f"{HEAD}{sections}\n", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("section", ["{enable: true}", "{webhookSecretName: kueue-webhook-server-cert}", ""])
def test_helm_refuses_a_configuration_that_issues_what_is_mounted(section: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{HEAD}internalCertManagement: {section}\n")
    values = ("--set", "certificates.source=Secret", "--set-file", f"managerConfig.controllerManagerConfigYaml={file}")
    command = [str(provide.find("helm")), "template", str(CHART), *values]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "internalCertManagement.enable: not false, with certificates.source Secret" in done.stderr


@pytest.mark.parametrize("text", ["\n", "# queues\n", "kind: ResourceFlavor\n"])
def test_helm_refuses_cluster_objects_without_a_cluster_queue(text: str, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(text)
    values = ("--set", "namespaces={a}", "--set-file", f"clusterObjects={file}")
    command = [str(provide.find("helm")), "template", str(CHART), *values]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "clusterObjects" in done.stderr


def test_helm_installs_upgrades_and_uninstalls_and_the_crds_stay(cluster: ControlPlane) -> None:
    kubectl(cluster, "create", "namespace", "helmed")
    kubectl(cluster, "label", "namespace", "helmed", "pod-security.kubernetes.io/enforce=restricted")
    release = ("release", str(CHART), "--namespace", "helmed")
    helm("install", *release, kubeconfig=cluster.kubeconfig)
    found = kubectl(cluster, "get", "mutatingwebhookconfigurations", "-o", "jsonpath={..service.namespace}")
    assert set(found.split()) == {"helmed"}
    unanswered = ("--set", "webhook.enabled=false")
    helm("upgrade", *release, *unanswered, "--set", "replicas=3", kubeconfig=cluster.kubeconfig)
    found = kubectl(cluster, "-n", "helmed", "get", "deployment", "-o", "jsonpath={.items[*].spec.replicas}")
    assert found == "3"
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "kept"}}
    until_served(cluster)
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(flavor).encode())
    said = helm("uninstall", "release", "--namespace", "helmed", kubeconfig=cluster.kubeconfig)
    assert "workloads.kueue.x-k8s.io" in said
    assert kubectl(cluster, "-n", "helmed", "get", "deployments,services,roles", "-o", "name") == ""
    assert kubectl(cluster, "get", "resourceflavors", "-o", "name").split() == ["resourceflavor.kueue.x-k8s.io/kept"]
