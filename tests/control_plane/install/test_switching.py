"""From one installer to another and back: what deploy/CLUSTER.md says works, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control_plane.conftest import ROOT, kubectl
from tests.control_plane.install.conftest import CHART, apply, command, helm
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

NAMESPACE = ("--namespace", "kueue-system")
RELEASE = ("release", str(CHART), *NAMESPACE)


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """An empty cluster for each test: the field managers of CRDs are what is tested."""
    with ControlPlane.start() as plane:
        yield plane


def test_helm_installs_after_an_uninstall_if_it_may_take_the_crds(plane: ControlPlane) -> None:
    apply(plane)
    with pytest.raises(AssertionError, match="exists and cannot be imported into the current release"):
        helm("install", *RELEASE, kubeconfig=plane.kubeconfig)
    assert command(plane, "uninstall")[0] == 0
    with pytest.raises(
        AssertionError, match=r"CustomResourceDefinition .* cannot be imported into the current release"
    ):
        helm("install", *RELEASE, kubeconfig=plane.kubeconfig)
    helm("install", *RELEASE, "--take-ownership", kubeconfig=plane.kubeconfig)
    assert command(plane, "upgrade", "--check") == (0, [], "")
    helm("upgrade", *RELEASE, "--set", "replicas=3", kubeconfig=plane.kubeconfig)


def test_kubectl_applies_after_both_uninstalls_without_a_conflict(plane: ControlPlane) -> None:
    helm("install", *RELEASE, "--create-namespace", kubeconfig=plane.kubeconfig)
    with pytest.raises(AssertionError, match=r'conflicts? with "helm"'):
        apply(plane)
    helm("uninstall", "release", *NAMESPACE, kubeconfig=plane.kubeconfig)
    assert command(plane, "uninstall")[0] == 0
    apply(plane)
    assert command(plane, "upgrade", "--check") == (0, [], "")
    apply(plane, "--set", "webhook.enabled=false")


def test_the_kustomize_base_and_sluice_install_change_each_other_s_installation(plane: ControlPlane) -> None:
    kubectl(plane, "apply", "--server-side", "-k", str(ROOT / "deploy" / "manifests"))
    assert command(plane, "upgrade", "--check") == (0, [], "")
    apply(plane, "--set", "replicas=3")
    kubectl(plane, "apply", "--server-side", "-k", str(ROOT / "deploy" / "manifests"))
    assert command(plane, "upgrade", "--check") == (0, [], "")


def test_the_check_names_fields_that_a_removed_release_still_manages(plane: ControlPlane) -> None:
    """Without `sluice uninstall` in between."""
    helm("install", *RELEASE, "--create-namespace", kubeconfig=plane.kubeconfig)
    helm("uninstall", "release", *NAMESPACE, kubeconfig=plane.kubeconfig)
    apply(plane)
    code, rows, _ = command(plane, "upgrade", "--check", "--set", "webhook.enabled=false")
    assert code == 2
    [conflict] = [row for row in rows if row["name"] == "workloads.kueue.x-k8s.io" and row["result"] == "conflict"]
    assert 'conflict with "helm": .spec.versions' in conflict["change"]
