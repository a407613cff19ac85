"""Objects that other operators read, and the admission policies: a real API server accepts all that is printed.

It validates strictly: an unknown field is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_manager.installation.policy_settings import PolicyName
from tests.control_plane import provide
from tests.control_plane.conftest import kubectl
from tests.control_plane.install.conftest import CHART, command, helm, sluice
from tests.control_plane.operators import crds
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
SYSTEM = "kueue-system"
APPLY = ("apply", "--server-side", "--validate=strict", "-f", "-")
MONITORED: Json = {
    "components": "Apart",
    "monitoring": {
        name: {"enabled": True, "labels": {"release": "prometheus"}}
        for name in ("serviceMonitor", "prometheusRule", "dashboard")
    },
}
BY_CERT_MANAGER: Json = {"certificates": {"source": "CertManager"}}
BY_COMPANY: Json = {
    "certificates": {"source": "CertManager", "secretName": "mine", "issuer": {"kind": "ClusterIssuer", "name": "ca"}}
}
ALL_POLICIES: Json = {
    "admissionPolicies": {
        "enabled": True,
        "policies": {"managedBy": True, "priorityClassUse": True},
        "queueAccounts": ["system:serviceaccount:team:batch"],
    }
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """With the CRDs of the Prometheus operator and of cert-manager."""
    with ControlPlane.start() as plane:
        for file in crds.files():
            kubectl(plane, "apply", "--server-side", "-f", str(file))
        kubectl(plane, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        yield plane


def applied(cluster: ControlPlane, values: Json, folder: Path) -> list[Json]:
    """Install with these values; returns what was printed."""
    file = folder / "values.yaml"
    file.write_text(json.dumps(values))
    text = sluice("install", "--values", str(file))
    kubectl(cluster, *APPLY, stdin=text.encode())
    rows = command(cluster, "upgrade", "--check", "--values", str(file))[1]
    assert [row for row in rows if row["result"] != "left over"] == []  # of the test before
    return [tree for tree in yaml.safe_load_all(text) if tree]


def live(cluster: ControlPlane, kind: str, name: str) -> Json:
    found: Json = json.loads(kubectl(cluster, "-n", SYSTEM, "get", kind, name, "-o", "json"))
    return found


def test_the_objects_for_the_prometheus_operator_are_stored_as_they_are_written(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    trees = [tree for tree in applied(cluster, MONITORED, tmp_path) if "monitoring.coreos.com" in tree["apiVersion"]]
    assert sorted(tree["kind"] for tree in trees) == ["PrometheusRule", "ServiceMonitor", "ServiceMonitor"]
    for tree in trees:
        assert live(cluster, tree["kind"], tree["metadata"]["name"])["spec"] == tree["spec"]


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PrometheusRule"])
def test_a_field_that_an_operator_does_not_know_is_refused(cluster: ControlPlane, kind: str, tmp_path: Path) -> None:
    """The test above can fail."""
    trees = applied(cluster, MONITORED, tmp_path)
    tree = next(tree for tree in trees if tree["kind"] == kind)
    wrong = {**tree, "spec": {**tree["spec"], "intervall": "1s"}}
    with pytest.raises(AssertionError, match=r"intervall"):
        kubectl(cluster, *APPLY, stdin=json.dumps(wrong).encode())


@pytest.mark.parametrize("values", [BY_CERT_MANAGER, BY_COMPANY], ids=["self-signed", "of a ClusterIssuer"])
def test_the_objects_for_cert_manager_are_stored_as_they_are_written(
    cluster: ControlPlane, values: Json, tmp_path: Path
) -> None:
    trees = applied(cluster, values, tmp_path)
    own = {tree["kind"]: tree for tree in trees if "cert-manager.io" in tree["apiVersion"]}
    for tree in own.values():
        assert live(cluster, tree["kind"], tree["metadata"]["name"])["spec"] == tree["spec"]
    assert ("Issuer" in own) is ("issuer" not in values["certificates"])
    named = f"{SYSTEM}/{own['Certificate']['metadata']['name']}"
    asked = [tree for tree in trees if annotation(tree) == named]
    assert sorted({tree["kind"] for tree in asked}) == [
        "APIService",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ]
    kubectl(cluster, "-n", SYSTEM, "delete", "issuers,certificates", "--all")


def annotation(tree: Json) -> str:
    return str((tree["metadata"].get("annotations") or {}).get("cert-manager.io/inject-ca-from", ""))


def test_all_admission_policies_are_accepted_as_a_part_of_the_installation(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    trees = applied(cluster, ALL_POLICIES, tmp_path)
    policies = [tree for tree in trees if "AdmissionPolicy" in tree["kind"]]
    assert len(policies) >= 2 * len(PolicyName)  # each with a binding
    for tree in policies:
        assert live(cluster, tree["kind"], tree["metadata"]["name"])["spec"]
    deleted = [row for row in command(cluster, "uninstall")[1] if "AdmissionPolicy" in row["kind"]]
    assert len(deleted) == len(policies)


def test_mutating_policies_have_the_version_that_an_older_cluster_serves(tmp_path: Path) -> None:
    """`upgrade --check` names a version that is not served."""
    values = {"admissionPolicies": {"enabled": True, "mutatingPolicyVersion": "v1beta1"}}
    only = "--runtime-config=admissionregistration.k8s.io/v1beta1=true"
    with ControlPlane.start(only) as plane:
        trees = applied(plane, values, tmp_path)
        versions = {tree["apiVersion"].rpartition("/")[2] for tree in trees if tree["kind"].startswith("MutatingAdm")}
        assert versions == {"v1beta1"}
    without = "--runtime-config=admissionregistration.k8s.io/v1beta1=false"
    with ControlPlane.start(without) as plane:
        options = ("--values", str(tmp_path / "values.yaml"))
        rows = command(plane, "upgrade", "--check", *options)[1]
        [policy, binding] = [row for row in rows if row["result"] == "refused"]
        assert policy["change"] == "the cluster does not serve MutatingAdmissionPolicy as v1beta1"
        assert binding["kind"] == "MutatingAdmissionPolicyBinding"


def test_without_a_version_there_are_validating_policies_only(cluster: ControlPlane, tmp_path: Path) -> None:
    values = {"admissionPolicies": {"enabled": True, "mutatingPolicyVersion": ""}}
    kinds = {tree["kind"] for tree in applied(cluster, values, tmp_path)}
    assert not {kind for kind in kinds if kind.startswith("MutatingAdmission")}
    assert "ValidatingAdmissionPolicy" in kinds


def test_helm_installs_all_of_it_as_well(cluster: ControlPlane, tmp_path: Path) -> None:
    assert command(cluster, "uninstall", "--crds")[0] == 0
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(MONITORED | BY_CERT_MANAGER | ALL_POLICIES))
    assert provide.find("helm") is not None
    release = ("release", str(CHART), "--namespace", "helmed", "--create-namespace", "--values", str(file))
    helm("install", *release, kubeconfig=cluster.kubeconfig)
    found = kubectl(
        cluster, "-n", "helmed", "get", "servicemonitors,prometheusrules,certificates,issuers", "-o", "name"
    )
    assert len(found.split()) == 5
    helm("uninstall", "release", "--namespace", "helmed", kubeconfig=cluster.kubeconfig)
