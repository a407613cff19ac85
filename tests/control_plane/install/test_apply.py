"""`sluice install` and the kustomize base on a real API server: what it accepts, and what Pod Security says."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml

from tests.control_plane import provide
from tests.control_plane.conftest import ROOT, kubectl
from tests.control_plane.install.conftest import CHART, helm, run, sluice
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

Json = dict[str, Any]
BASE = ROOT / "deploy" / "manifests"
APPLY = ("apply", "--server-side", "-f", "-")


def trees(text: str) -> dict[tuple[str, str], Json]:
    return {(tree["kind"], tree["metadata"]["name"]): tree for tree in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    """`sluice install | kubectl apply --server-side -f -`, with both components apart."""
    kubectl(cluster, *APPLY, stdin=sluice("install", "--set", "components=Apart").encode())
    return cluster


def test_the_kustomize_base_is_what_sluice_install_prints() -> None:
    binary = provide.find("kubectl")
    assert trees(run([str(binary), "kustomize", str(BASE)])) == trees(sluice("install"))


def test_applying_it_again_in_either_form_changes_nothing(cluster: ControlPlane) -> None:
    kubectl(cluster, *APPLY, stdin=sluice("install").encode())
    before = versions(cluster)
    kubectl(cluster, *APPLY, stdin=sluice("install").encode())
    kubectl(cluster, "apply", "--server-side", "-k", str(BASE))
    assert versions(cluster) == before


def versions(cluster: ControlPlane) -> dict[str, str]:
    """The revision of each object whose revision only we change."""
    kinds = ("clusterroles", "clusterrolebindings", "deployments", "services", "configmaps", "networkpolicies", "pdb")
    own = ("get", ",".join(kinds), "-A", "-l", "app.kubernetes.io/name=sluice", "-o", "json")
    items = json.loads(kubectl(cluster, *own))["items"]
    assert len(items) > 30
    return {f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"] for item in items}


@pytest.mark.parametrize("deployment", ["kueue-controller-manager", "sluice-job-controller"])
def test_the_pods_pass_pod_security_restricted(installed: ControlPlane, deployment: str) -> None:
    """There is no controller that creates the pods here, so they are created as it would, in a dry run."""
    found = json.loads(kubectl(installed, "-n", "kueue-system", "get", "deployment", deployment, "-o", "json"))
    assert created(installed, found["spec"]["template"], deployment) == ""


def test_the_pod_of_helm_test_passes_pod_security_restricted(installed: ControlPlane) -> None:
    text = helm(
        "template", "r", str(CHART), "--namespace", "kueue-system", "--show-only", "templates/tests/answers.yaml"
    )
    [pod] = [tree for tree in yaml.safe_load_all(text) if tree]
    assert created(installed, {"metadata": pod["metadata"], "spec": pod["spec"]}, "test") == ""


def test_pod_security_is_enforced_in_the_namespace(installed: ControlPlane) -> None:
    """The test above can fail."""
    found = json.loads(kubectl(installed, "-n", "kueue-system", "get", "deployment", "-o", "json"))
    template = found["items"][0]["spec"]["template"]
    del template["spec"]["securityContext"]["seccompProfile"]
    assert 'violates PodSecurity "restricted:latest": seccompProfile' in created(installed, template, "unsafe")


def created(plane: ControlPlane, template: Json, name: str) -> str:
    """What kubectl complains about when it creates a pod of the template in a dry run."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {**template["metadata"], "name": name, "namespace": "kueue-system"}
    binary = provide.find("kubectl")
    done = subprocess.run(
        [str(binary), "--kubeconfig", str(plane.kubeconfig), "create", "--dry-run=server", "-f", "-"],
        input=json.dumps(pod),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1)
    return done.stderr


def test_aggregated_roles_have_the_rules_of_their_parts(installed: ControlPlane) -> None:
    """The API server's controller for that is part of kube-controller-manager."""
    with installed.controllers("clusterrole-aggregation-controller"):
        kubectl(
            installed,
            "wait",
            "clusterrole/kueue-batch-user-role",
            "clusterrole/sluice-queue-operator",
            "--for=jsonpath={.rules[0].verbs}",
            "--timeout=30s",
        )
    rules = json.loads(kubectl(installed, "get", "clusterrole", "kueue-batch-user-role", "-o", "json"))["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert {"jobs", "workloads", "localqueues", "localqueues/pendingworkloads"} <= resources
    kubectl(installed, *APPLY, stdin=sluice("install").encode())  # what was aggregated is not ours: no conflict
