"""`sluice uninstall` and `sluice upgrade --check` where a second installation stands on the same API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.control_plane.conftest import kubectl, until_served
from tests.control_plane.install.conftest import Row, apply, command
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

OURS = ("-l", "app.kubernetes.io/name=sluice", "-o", "name")
LOCAL = (
    "deployments,services,serviceaccounts,secrets,configmaps,roles,rolebindings,networkpolicies,poddisruptionbudgets"
)
HOOKS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
SHARED = f"clusterroles,clusterrolebindings,apiservices,{HOOKS},crd"
REFUSED = 2
QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec: {namespaceSelector: {}}
"""


@pytest.fixture
def both(cluster: ControlPlane) -> ControlPlane:
    """The objects without a namespace are those of `two`, which is applied last."""
    for namespace in ("one", "two"):
        apply(cluster, "--namespace", namespace)
    until_served(cluster)
    return cluster


def local(cluster: ControlPlane, namespace: str) -> set[str]:
    return set(kubectl(cluster, "get", LOCAL, "-n", namespace, *OURS).split())


def shared(cluster: ControlPlane, kinds: str = SHARED) -> set[str]:
    return set(kubectl(cluster, "get", kinds, *OURS).split())


def everything(cluster: ControlPlane) -> set[str]:
    return set(kubectl(cluster, "get", f"{LOCAL},{SHARED}", "-A", *OURS).split())


def kinds_deleted(rows: list[Row]) -> set[str]:
    return {row["kind"] for row in rows if row["result"] == "deleted" and not row["namespace"]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--namespace", "nosuch"), "nothing is installed in namespace nosuch; Sluice is installed in one and two"),
        ((), "Sluice is installed in one and two: name the installation to remove with --namespace"),
        (
            ("--namespace", "two", "--crds"),
            "the installation in namespace one uses the CRDs: remove this one without --crds",
        ),
    ],
    ids=["no such installation", "none is named", "with CRDs"],
)
def test_nothing_is_deleted_of_an_installation_that_is_not_named(
    both: ControlPlane, options: tuple[str, ...], said: str
) -> None:
    before = everything(both)
    assert command(both, "uninstall", *options) == (REFUSED, [], f"sluice uninstall: {said}\n")
    assert everything(both) == before


def test_a_removed_installation_leaves_all_that_the_other_uses(both: ControlPlane) -> None:
    its, common = local(both, "two"), shared(both)
    assert len(its) > 8
    code, rows, said = command(both, "uninstall", "--namespace", "one")
    assert (code, kinds_deleted(rows)) == (0, set()), said
    assert (local(both, "one"), local(both, "two"), shared(both)) == (set(), its, common)
    note = "the installation in namespace two uses them"
    kept = {row["kind"]: row["note"] for row in rows if row["result"] == "unchanged"}
    assert kept == dict.fromkeys(
        (
            *("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "APIService"),
            *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        ),
        note,
    )


def test_what_calls_the_removed_installation_does_not_stay(both: ControlPlane) -> None:
    """A webhook without its Service would refuse all Jobs and queues."""
    its, roles = local(both, "one"), shared(both, "clusterroles,crd")
    code, rows, said = command(both, "uninstall", "--namespace", "two")
    assert code == 0, said
    assert (local(both, "two"), local(both, "one"), shared(both, "clusterroles,crd")) == (set(), its, roles)
    assert shared(both, f"apiservices,clusterrolebindings,{HOOKS}") == set()
    assert len([row for row in rows if row["result"] == "changed"]) == 4  # the conversion of CRDs has ended

    code, rows, said = command(both, "uninstall")  # the one that is left is found in its namespace
    assert code == 0, said
    assert ("Deployment", "one") in {(row["kind"], row["namespace"]) for row in rows if row["result"] == "deleted"}
    assert {name.partition(".")[0] for name in everything(both)} == {"customresourcedefinition"}


def test_an_upgrade_lists_nothing_of_the_other_installation(both: ControlPlane) -> None:
    """Its Deployment and Namespace would be left over, with commands that delete them."""
    assert command(both, "upgrade", "--check", "--namespace", "two") == (0, [], "")
    rows = command(both, "upgrade", "--check", "--namespace", "one")[1]
    assert [row for row in rows if row["result"] == "left over" or row["namespace"] == "two"] == []


def test_of_a_namespace_that_is_left_over_the_label_goes(both: ControlPlane) -> None:
    """It may have existed before the installation, and have objects of others."""
    assert command(both, "uninstall", "--namespace", "one")[0] == 0
    code, rows, _ = command(both, "upgrade", "--check", "--namespace", "two")
    [row] = rows
    advice = "kubectl label namespace one app.kubernetes.io/name-"
    assert (code, row["kind"], row["result"], row["change"]) == (1, "Namespace", "left over", advice)
    kubectl(both, *advice.split()[1:])
    assert command(both, "upgrade", "--check", "--namespace", "two") == (0, [], "")
    assert json.loads(kubectl(both, "get", "namespace", "one", "-o", "json"))["status"]["phase"] == "Active"


def test_crds_stay_as_long_as_an_installation_with_roles_only_uses_them(both: ControlPlane, tmp_path: Path) -> None:
    assert command(both, "uninstall", "--namespace", "one")[0] == 0
    (tmp_path / "queues.yaml").write_text(QUEUE)
    kubectl(both, "create", "namespace", "team")
    apply(both, "--namespace", "team", "--namespaced", "team", "--cluster-objects", str(tmp_path / "queues.yaml"))
    before = everything(both)
    said = "sluice uninstall: the installation in namespace team uses the CRDs: remove this one without --crds\n"
    assert command(both, "uninstall", "--namespace", "two", "--crds") == (REFUSED, [], said)
    assert everything(both) == before
