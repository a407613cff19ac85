"""`sluice upgrade --check` and `sluice uninstall` on a real API server."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.control_plane.conftest import ROOT, SLUICE, kubectl
from tests.control_plane.install.conftest import CHART, helm, sluice
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

Row = dict[str, Any]
OURS = ("-A", "-l", "app.kubernetes.io/name=sluice", "-o", "name")


@pytest.fixture
def installed(cluster: ControlPlane) -> ControlPlane:
    apply(cluster)
    kubectl(cluster, "wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/name=sluice")
    return cluster


def apply(cluster: ControlPlane, *settings: str) -> None:
    kubectl(cluster, "apply", "--server-side", "-f", "-", stdin=sluice("install", *settings).encode())


def silence(cluster: ControlPlane) -> None:
    """Delete the webhooks, which nobody answers here."""
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        kubectl(cluster, "delete", kind, *OURS)


def command(cluster: ControlPlane, *arguments: str) -> tuple[int, list[Row], str]:
    """The exit code, the rows and standard error of a command with -o json."""
    full = [*SLUICE, *arguments, "--kubeconfig", str(cluster.kubeconfig), "-o", "json"]
    done = subprocess.run(full, check=False, capture_output=True, text=True, cwd=ROOT, timeout=240)
    return done.returncode, json.loads(done.stdout) if done.stdout else [], done.stderr


# --- upgrade --check --------------------------------------------------------------------------------------------


def test_nothing_would_change_right_after_an_installation(installed: ControlPlane) -> None:
    assert command(installed, "upgrade", "--check") == (0, [], "")


def test_each_change_is_named_and_not_made(installed: ControlPlane) -> None:
    settings = ("--set", "image.tag=v9", "--set", "podDisruptionBudget.enabled=false", "--set", "components=Apart")
    before = kubectl(installed, "-n", "kueue-system", "get", "deployment", "-o", "json")
    code, rows, _ = command(installed, "upgrade", "--check", *settings)
    assert code == 1
    found = {(row["result"], row["kind"], row["name"], row["change"]) for row in rows}
    name = "kueue-controller-manager"
    image = 'spec.template.spec.containers[0].image: "sluice:0.1.0" → "sluice:v9"'
    assert ("restarted", "Deployment", name, image) in found
    assert ("created", "ServiceAccount", "sluice-job-controller", "does not exist yet") in found
    delete = f"kubectl delete poddisruptionbudgets.policy -n kueue-system {name}"
    assert ("left over", "PodDisruptionBudget", name, delete) in found
    assert kubectl(installed, "-n", "kueue-system", "get", "deployment", "-o", "json") == before


def test_a_field_that_somebody_else_has_set_is_a_conflict(installed: ControlPlane) -> None:
    kubectl(installed, "-n", "kueue-system", "scale", "deployment", "kueue-controller-manager", "--replicas=1")
    code, rows, _ = command(installed, "upgrade", "--check")
    assert code == 2
    assert [(row["result"], row["kind"]) for row in rows] == [("conflict", "Deployment"), ("changed", "Deployment")]
    assert "spec.replicas" in rows[0]["change"]
    assert rows[1]["change"] == "spec.replicas: 1 → 2"
    kubectl(installed, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=sluice("install").encode())
    assert command(installed, "upgrade", "--check") == (0, [], "")


def test_on_an_empty_cluster_everything_would_be_created() -> None:
    with ControlPlane.start() as plane:
        code, rows, _ = command(plane, "upgrade", "--check")
        assert code == 1
        assert {row["result"] for row in rows} == {"created"}
        assert command(plane, "uninstall") == (0, [], "")


# --- uninstall --------------------------------------------------------------------------------------------------


def test_uninstall_keeps_jobs_crds_and_namespace(installed: ControlPlane) -> None:
    silence(installed)
    submit(installed, "running", suspend=False, managedBy="sluice/job-controller")
    submit(installed, "pending", suspend=True)
    expected = set(kubectl(installed, "get", "deployments,services,clusterroles", *OURS).split())
    assert len(expected) > 20
    code, planned, _ = command(installed, "uninstall", "--dry-run")
    assert code == 0
    assert set(kubectl(installed, "get", "deployments,services,clusterroles", *OURS).split()) == expected

    code, rows, _ = command(installed, "uninstall")
    assert code == 0
    assert [{**row, "dryRun": True} for row in rows] == planned
    assert kubectl(installed, "get", "deployments,services,clusterroles,configmaps,secrets,apiservices", *OURS) == ""
    assert len(kubectl(installed, "get", "crd", *OURS).split()) == 7
    assert kubectl(installed, "get", "namespace", "kueue-system", "-o", "name")
    assert [job["spec"]["suspend"] for job in jobs(installed)] == [True, False]
    assert [row["name"] for row in rows if row["kind"] == "Job"] == [
        "1 pending",
        "1 running, managed by sluice/job-controller",
    ]


def test_uninstall_with_crds_deletes_workloads_with_finalizers_and_no_job(installed: ControlPlane) -> None:
    silence(installed)
    pod = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "default", "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, **pod}]},
    }
    kubectl(installed, "create", "-f", "-", stdin=json.dumps(workload).encode())
    before = jobs(installed)
    code, rows, said = command(installed, "uninstall", "--crds")
    assert code == 0, said
    assert ("Workload", "w", "released") in {(row["kind"], row["name"], row["result"]) for row in rows}
    assert kubectl(installed, "get", "crd", *OURS) == ""
    assert [job["metadata"]["uid"] for job in jobs(installed)] == [job["metadata"]["uid"] for job in before]


def test_uninstall_names_what_keeps_a_crd_and_ends_in_time(installed: ControlPlane) -> None:
    """Somebody else's finalizer is not ours to remove."""
    silence(installed)
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "f", "finalizers": ["example.com/mine", "kueue.x-k8s.io/resource-in-use"]},
    }
    kubectl(installed, "create", "-f", "-", stdin=json.dumps(flavor).encode())
    began = time.monotonic()
    code, _, said = command(installed, "uninstall", "--crds", "--timeout", "12s")
    assert code == 3
    assert time.monotonic() - began < 60
    kept = "CRD resourceflavors.kueue.x-k8s.io, because of ResourceFlavor f with the finalizer example.com/mine"
    assert said.splitlines() == [f"sluice uninstall: waits for {kept}", f"sluice uninstall: {kept}, is still there"]
    kubectl(installed, "patch", "resourceflavor", "f", "--type=merge", "-p", '{"metadata": {"finalizers": []}}')
    assert command(installed, "uninstall", "--crds")[0] == 0
    assert kubectl(installed, "get", "crd", *OURS) == ""


def test_uninstall_waits_for_a_manager_that_still_leads(installed: ControlPlane) -> None:
    """A manager that is not part of the Deployment would stop the Jobs of Workloads that are deleted."""
    name, now = "c1f6bfd2.kueue.x-k8s.io", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kueue-system"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 3600, "renewTime": now},
    }
    kubectl(installed, "create", "-f", "-", stdin=json.dumps(lease).encode())
    code, _, said = command(installed, "uninstall", "--crds", "--timeout", "1s")
    assert code == 3
    assert f"manager me, which holds the Lease kueue-system/{name}, still runs; stop it first" in said
    assert len(kubectl(installed, "get", "crd", *OURS).split()) == 7
    kubectl(installed, "-n", "kueue-system", "delete", "lease", name)


def test_an_installation_by_helm_is_left_to_helm(cluster: ControlPlane) -> None:
    command(cluster, "uninstall", "--crds")
    release = ("release", str(CHART), "--namespace", "kueue-system")
    helm("install", *release, kubeconfig=cluster.kubeconfig)
    assert command(cluster, "upgrade", "--check") == (0, [], "")
    code, _, said = command(cluster, "uninstall")
    assert (code, said) == (
        3,
        "sluice uninstall: installed by Helm: run `helm uninstall release`, which keeps Jobs and CRDs too\n",
    )
    helm("uninstall", "release", "--namespace", "kueue-system", kubeconfig=cluster.kubeconfig)
    assert command(cluster, "uninstall", "--crds")[0] == 0
    assert kubectl(cluster, "get", "crd", *OURS, "--ignore-not-found") == ""


def submit(cluster: ControlPlane, name: str, **spec: Any) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}}
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps({**job, "spec": {**spec, "template": template}}).encode())


def jobs(cluster: ControlPlane) -> list[Row]:
    found: list[Row] = json.loads(kubectl(cluster, "get", "jobs", "-o", "json"))["items"]
    return found
