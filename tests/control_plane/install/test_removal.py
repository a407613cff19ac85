"""`sluice upgrade --check` and `sluice uninstall` on a real API server."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import CLUSTER_QUEUES
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation.user_roles import AGGREGATED
from tests.control_plane.conftest import ROOT, SLUICE, kubectl, until_served
from tests.control_plane.install.conftest import CHART, Row, apply, command, helm, sluice
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

QUEUES = "clusterqueues.kueue.x-k8s.io"
QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "kept"},
    "spec": {"cohortName": "all", "namespaceSelector": {}},
}
CONVERTED = ("admissionchecks", "clusterqueues", "localqueues", "workloads")  # kinds that differ between the versions
AGGREGATION = "clusterrole-aggregation-controller"
LIKE_THE_CONTROLLER = ("apply", "--server-side", "--field-manager", AGGREGATION, "-f", "-")
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
PODS_RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
LEASE = "c1f6bfd2.kueue.x-k8s.io"
OURS = ("-A", "-l", "app.kubernetes.io/name=sluice", "-o", "name")


@pytest.fixture
def installed(cluster: ControlPlane) -> ControlPlane:
    apply(cluster)
    until_served(cluster)
    return cluster


def silence(cluster: ControlPlane) -> None:
    """Delete the webhooks, which nobody answers here."""
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        kubectl(cluster, "delete", kind, *OURS)


def examined(cluster: ControlPlane) -> tuple[set[str], list[str]]:
    """The codes that `sluice doctor` finds, and what it did not check."""
    full = [*SLUICE, "doctor", "-o", "json", "--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(full, check=False, capture_output=True, text=True, cwd=ROOT, timeout=240)
    report = json.loads(done.stdout)
    return {problem["code"] for problem in report["problems"]}, report["notChecked"]


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
    image = 'spec.template.spec.containers[manager].image: "sluice:0.1.0" → "sluice:v9"'
    assert ("restarted", "Deployment", name, image) in found
    assert ("created", "ServiceAccount", "sluice-job-controller", "does not exist yet") in found
    delete = f"kubectl delete poddisruptionbudgets.policy -n kueue-system {name}"
    assert ("left over", "PodDisruptionBudget", name, delete) in found
    assert kubectl(installed, "-n", "kueue-system", "get", "deployment", "-o", "json") == before


def test_webhooks_that_would_refuse_jobs_come_first_with_what_deletes_them(installed: ControlPlane) -> None:
    """`kubectl apply` leaves them, and no manager answers them."""
    off = ("--set", "webhook.enabled=false")
    code, rows, _ = command(installed, "upgrade", "--check", *off)
    assert (code, [row["kind"] for row in rows if row["result"] == "refuses Jobs"]) == (
        1,
        ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    )
    apply(installed, *off)
    with pytest.raises(AssertionError, match="failed calling webhook"):
        submit(installed, "refused", suspend=True)
    for row in rows[:2]:
        _, delete = row["change"].split("kubectl ")
        kubectl(installed, *delete.split())
    submit(installed, "accepted", suspend=True)
    kubectl(installed, "delete", "job", "accepted")
    _, rows, _ = command(installed, "upgrade", "--check", *off)
    assert {row["result"] for row in rows} == {"left over"}


def test_a_field_that_somebody_else_has_set_is_a_conflict(installed: ControlPlane) -> None:
    kubectl(installed, "-n", "kueue-system", "scale", "deployment", "kueue-controller-manager", "--replicas=1")
    code, rows, _ = command(installed, "upgrade", "--check")
    assert code == 2
    assert [(row["result"], row["kind"]) for row in rows] == [("conflict", "Deployment"), ("changed", "Deployment")]
    assert "spec.replicas" in rows[0]["change"]
    assert rows[0]["change"].endswith("; apply with --force-conflicts to take the field over")
    assert rows[1]["change"] == "spec.replicas: 1 → 2"
    kubectl(installed, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=sluice("install").encode())
    assert command(installed, "upgrade", "--check") == (0, [], "")


def test_a_field_of_two_installers_needs_the_flag_once_it_changes(installed: ControlPlane, tmp_path: Path) -> None:
    """As after Kueue's installation with Helm, whose configuration was passed on."""
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIGURATION}manageJobsWithoutQueueName: true\n")
    shared = ("get", "configmap", "kueue-manager-config", "-o", "jsonpath={.data}")
    data = json.loads(kubectl(installed, "-n", "kueue-system", *shared))
    meta = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    theirs = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}).encode()
    kubectl(installed, "apply", "--server-side", "--field-manager=helm", "-f", "-", stdin=theirs)
    assert command(installed, "upgrade", "--check") == (0, [], "")

    code, rows, _ = command(installed, "upgrade", "--check", "--config", str(config))
    assert code == 2
    [conflict] = [row for row in rows if row["result"] == "conflict"]
    assert conflict["name"] == "kueue-manager-config"
    assert 'conflict with "helm"' in conflict["change"]
    for options, changed in ((("--config", str(config)), ["--force-conflicts"]), ((), [])):
        wanted = sluice("install", *options).encode()
        kubectl(installed, "apply", "--server-side", *changed, "-f", "-", stdin=wanted)
    assert command(installed, "upgrade", "--check") == (0, [], "")


def test_on_an_empty_cluster_everything_would_be_created() -> None:
    with ControlPlane.start() as plane:
        code, rows, _ = command(plane, "upgrade", "--check")
        assert code == 1
        assert {row["result"] for row in rows} == {"created"}
        table = [*SLUICE, "upgrade", "--check", "--without-crds", "--kubeconfig", str(plane.kubeconfig)]
        done = subprocess.run(table, check=False, capture_output=True, text=True, cwd=ROOT)
        install = "sluice install --without-crds | kubectl apply --server-side -f -"
        assert (done.returncode, done.stdout, done.stderr) == (
            1,
            f"Sluice is not installed; to install it: {install}\n",
            "",
        )
        code, rows, _ = command(plane, "upgrade", "--check", "--set", "monitoring.serviceMonitor.enabled=true")
        assert code == 2
        assert {row["kind"] for row in rows if row["result"] == "refused"} == {"ServiceMonitor"}
        assert command(plane, "uninstall") == (0, [], "")


def test_objects_of_kueue_are_refused_with_the_way_to_take_over() -> None:
    """The selector of a Deployment cannot be changed, whoever forces it."""
    labels = {"control-plane": "controller-manager", "app.kubernetes.io/name": "kueue"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "kueue"}]}}
    meta = {"name": "kueue-controller-manager", "namespace": "kueue-system"}
    spec = {"selector": {"matchLabels": labels}, "template": pods}
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    with ControlPlane.start() as plane:
        kubectl(plane, "create", "namespace", "kueue-system")
        kubectl(plane, "apply", "--server-side", "--field-manager=kueue", "-f", "-", stdin=json.dumps(theirs).encode())
        code, rows, said = command(plane, "upgrade", "--check")
    assert (code, said) == (2, "")
    [refused] = [row["change"] for row in rows if row["result"] == "refused"]
    assert "field is immutable" in refused
    assert refused.endswith("; it is not Sluice's; where Kueue runs, sluice adopt takes over from it first")


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
        "1 without running pods, managed by sluice/job-controller",
    ]


def test_installations_with_roles_only_are_none_of_the_others_business(installed: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(json.dumps(QUEUE))
    for namespace in ("team", "managed"):
        kubectl(installed, "create", "namespace", namespace)
    managed = ("--namespaced", "team", "--namespaced", "managed")
    apply(installed, "--namespace", "team", *managed, "--cluster-objects", str(tmp_path / "queues.yaml"))
    its = "deployments,configmaps,roles,rolebindings,serviceaccounts,networkpolicies"
    expected = {name for namespace in ("team", "managed") for name in names(installed, namespace, its)}
    assert len(expected) > 8

    assert command(installed, "upgrade", "--check") == (0, [], "")
    code, rows, _ = command(installed, "uninstall")
    assert (code, [row for row in rows if row.get("namespace") in ("team", "managed")]) == (0, [])
    assert {name for namespace in ("team", "managed") for name in names(installed, namespace, its)} == expected
    code, rows, _ = command(installed, "uninstall", "--namespace", "team")
    assert (code, {row["namespace"] for row in rows}) == (0, {"team", "managed"})
    assert kubectl(installed, "get", its, *OURS) == ""


def names(cluster: ControlPlane, namespace: str, kinds: str) -> list[str]:
    """The objects of an installation in a namespace."""
    found = kubectl(cluster, "get", kinds, "-n", namespace, *OURS[1:]).split()
    return [f"{namespace}/{name}" for name in found]


def test_kept_queues_are_read_without_a_conversion_and_with_the_next_one(installed: ControlPlane) -> None:
    """The manager has written its CA into the conversion, so that the CRD has two field managers."""
    silence(installed)
    kubectl(installed, "create", "-f", "-", stdin=json.dumps(QUEUE).encode())
    authority = kubectl(installed, "config", "view", "--raw", "-o", "jsonpath={..certificate-authority-data}")
    bundle = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": authority}}}}}
    kubectl(installed, "patch", "crd", QUEUES, "--type=merge", "--field-manager=sluice", "-p", json.dumps(bundle))

    code, rows, _ = command(installed, "uninstall")
    assert code == 0
    changed = {row["name"] for row in rows if row["result"] == "changed"}
    assert changed == {f"{name}.kueue.x-k8s.io" for name in CONVERTED}
    assert_read(installed, v1beta2="kept", v1beta1="404")
    again = command(installed, "uninstall")[1]
    assert not [row for row in again if row["result"] in ("changed", "deleted")]

    apply(installed)  # without --force-conflicts
    assert command(installed, "upgrade", "--check") == (0, [], "")
    assert_read(installed, v1beta2="kept", v1beta1="500")  # there is no manager to convert it
    silence(installed)
    kubectl(installed, "delete", "clusterqueue", "kept")


def test_the_conversion_stays_where_objects_may_be_stored_in_two_versions(installed: ControlPlane) -> None:
    """Without it, the API server would drop fields of v1beta1 from the objects."""
    stored = {"status": {"storedVersions": ["v1beta1", "v1beta2"]}}
    status = ("crd", QUEUES, "--subresource=status", "--type=merge")
    kubectl(installed, "patch", *status, "-p", json.dumps(stored))
    rows = command(installed, "uninstall")[1]
    [left] = [row for row in rows if row["name"] == QUEUES]
    assert left["result"] == "unchanged"
    assert "stored as any of v1beta1, v1beta2" in left["note"]
    assert kubectl(installed, "get", "crd", QUEUES, "-o", "jsonpath={.spec.conversion.strategy}") == "Webhook"
    kubectl(installed, "patch", *status, "-p", json.dumps({"status": {"storedVersions": ["v1beta2"]}}))
    assert QUEUES in {row["name"] for row in command(installed, "uninstall")[1] if row["result"] == "changed"}


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
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": {}}
    kubectl(installed, "-n", "kueue-system", "create", "-f", "-", stdin=json.dumps(lease).encode())  # released
    before = jobs(installed)
    code, rows, said = command(installed, "uninstall", "--crds")
    assert code == 0, said
    assert ("Workload", "w", "released") in {(row["kind"], row["name"], row["result"]) for row in rows}
    assert ("Lease", LEASE, "deleted") in {(r["kind"], r["name"], r["result"]) for r in rows}
    assert kubectl(installed, "-n", "kueue-system", "get", "leases", "-o", "name") == ""
    assert kubectl(installed, "get", "crd", *OURS) == ""
    assert [job["metadata"]["uid"] for job in jobs(installed)] == [job["metadata"]["uid"] for job in before]


def test_after_an_uninstallation_doctor_says_that_nothing_is_installed(installed: ControlPlane) -> None:
    """The Lease of the last manager would pass for that of one that is down."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}, "spec": {}}
    kubectl(installed, "-n", "kueue-system", "create", "-f", "-", stdin=json.dumps(lease).encode())  # released
    assert "NoManager" in examined(installed)[0]
    assert command(installed, "uninstall")[0] == 0
    assert kubectl(installed, "-n", "kueue-system", "get", "leases", "-o", "name") == ""
    found, not_checked = examined(installed)
    assert "NoManager" not in found
    assert any("Sluice is not installed in namespace kueue-system" in what for what in not_checked)


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
    name, now = LEASE, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kueue-system"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 3600, "renewTime": now},
    }
    kubectl(installed, "create", "-f", "-", stdin=json.dumps(lease).encode())
    code, _, said = command(installed, "uninstall", "--crds", "--timeout", "1s")
    assert code == 3
    assert (
        f"manager me, which holds the Lease kueue-system/{name}, still runs; stop it first (a pod whose node is lost: "
        in said
    )
    assert len(kubectl(installed, "get", "crd", *OURS).split()) == 7
    kubectl(installed, "-n", "kueue-system", "delete", "lease", name)


def test_roles_that_the_cluster_collects_stay_deleted(installed: ControlPlane) -> None:
    with installed.controllers(AGGREGATION):
        until_collected(installed, "sluice-queue-admin", "kueue-batch-admin-role")
        assert command(installed, "uninstall")[0] == 0
        assert aggregated_after_a_write(installed) == set()


def test_roles_that_the_cluster_creates_anew_after_helm_uninstall_are_deleted() -> None:
    """The controller has ended before they are deleted: its workers write side by side, so nothing else says that none
    of them still has a write to do.
    """
    release = ("release", str(CHART), "--namespace", "kueue-system", "--create-namespace")
    with ControlPlane.start() as cluster:
        with cluster.controllers(AGGREGATION):
            helm("install", *release, kubeconfig=cluster.kubeconfig)
            until_collected(cluster, "sluice-queue-admin", "kueue-batch-admin-role")
            helm("uninstall", "release", "--namespace", "kueue-system", kubeconfig=cluster.kubeconfig)
        for name, rules in {"sluice-viewer": [PODS_RULE], "sluice-queue-user": []}.items():
            leftover = {**ROLE, "metadata": {"name": name}, **({"rules": rules} if rules else {})}
            kubectl(cluster, *LIKE_THE_CONTROLLER, stdin=json.dumps(leftover).encode())
        assert command(cluster, "uninstall")[0] == 0
        with cluster.controllers(AGGREGATION):
            assert aggregated_after_a_write(cluster) == set()
        helm("install", *release, kubeconfig=cluster.kubeconfig)
        helm("uninstall", "release", "--namespace", "kueue-system", kubeconfig=cluster.kubeconfig)
        assert command(cluster, "uninstall", "--crds")[0] == 0


def until_collected(cluster: ControlPlane, *roles: str) -> None:
    names = [f"clusterrole/{role}" for role in roles]
    kubectl(cluster, "wait", *names, "--for=jsonpath={.rules[0].verbs}", "--timeout=30s")


def aggregated_after_a_write(cluster: ControlPlane) -> set[str]:
    """The aggregated roles of Sluice that exist once the controller has written a role that was created last."""
    part = {"metadata": {"name": "last-part", "labels": {"last": "true"}}, "rules": [PODS_RULE]}
    whole = {
        "metadata": {"name": "last-whole"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"last": "true"}}]},
    }
    for role in (part, whole):
        kubectl(cluster, "create", "-f", "-", stdin=json.dumps({**ROLE, **role}).encode())
    until_collected(cluster, "last-whole")
    kubectl(cluster, "delete", "clusterrole", "last-whole", "last-part")
    found = kubectl(cluster, "get", "clusterroles", "-o", "jsonpath={.items[*].metadata.name}").split()
    return AGGREGATED.keys() & set(found)


def test_an_installation_by_helm_is_left_to_helm(cluster: ControlPlane) -> None:
    code, _, said = command(cluster, "uninstall", "--crds")
    assert code == 0, said
    release = ("release", str(CHART), "--namespace", "kueue-system", "--create-namespace")
    helm("install", *release, kubeconfig=cluster.kubeconfig)
    assert outdated(cluster) == []
    code, _, said = command(cluster, "uninstall")
    assert (code, said) == (
        3,
        "sluice uninstall: installed by Helm: run `helm uninstall release --namespace kueue-system`, which keeps Jobs "
        "and CRDs too, and then this command again, for what Helm leaves\n",
    )
    helm("uninstall", "release", "--namespace", "kueue-system", kubeconfig=cluster.kubeconfig)
    assert command(cluster, "uninstall", "--crds")[0] == 0
    assert kubectl(cluster, "get", "crd", *OURS, "--ignore-not-found") == ""


def test_what_helm_leaves_is_read_and_taken_over_by_the_same_release(cluster: ControlPlane) -> None:
    """`helm uninstall` leaves the CRDs; `sluice uninstall` then resets their conversion."""
    release = ("release", str(CHART), "--namespace", "kueue-system", "--create-namespace")
    helm("install", *release, kubeconfig=cluster.kubeconfig)
    until_served(cluster)
    silence(cluster)
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps(QUEUE).encode())
    helm("uninstall", "release", "--namespace", "kueue-system", kubeconfig=cluster.kubeconfig)
    assert_read(cluster, v1beta2="kept", v1beta1="500")
    assert command(cluster, "uninstall")[0] == 0
    assert_read(cluster, v1beta2="kept", v1beta1="404")
    helm("install", *release, kubeconfig=cluster.kubeconfig)
    assert outdated(cluster) == []
    helm("uninstall", "release", "--namespace", "kueue-system", kubeconfig=cluster.kubeconfig)
    assert command(cluster, "uninstall", "--crds")[0] == 0


def outdated(cluster: ControlPlane) -> list[Row]:
    """What an upgrade would change, without the namespace, which `helm install` creates without labels, unless a test
    before has created it.
    """
    return [row for row in command(cluster, "upgrade", "--check")[1] if row["kind"] != "Namespace"]


def assert_read(cluster: ControlPlane, **expected: str) -> None:
    """Wait until a list of ClusterQueues in each version ends as expected: with their names, or an HTTP status.

    An API server follows a changed CRD with a delay.
    """

    async def compare() -> None:
        transport = HttpTransport.from_kubeconfig(cluster.kubeconfig)
        client = RestClient(transport)

        async def is_as_expected() -> bool:
            return {version: await read_queues(client, version) for version in expected} == expected

        try:
            await until(is_as_expected, f"ClusterQueues are read as {expected}")
        finally:
            await transport.close()

    asyncio.run(compare())


async def read_queues(client: RestClient, version: str) -> str:
    try:
        found = await client.list(dataclasses.replace(CLUSTER_QUEUES, version=version))
    except ApiError as error:
        return str(error.status)
    return " ".join(tree["metadata"]["name"] for tree in found)


def submit(cluster: ControlPlane, name: str, **spec: Any) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}}
    kubectl(cluster, "create", "-f", "-", stdin=json.dumps({**job, "spec": {**spec, "template": template}}).encode())


def jobs(cluster: ControlPlane) -> list[Row]:
    found: list[Row] = json.loads(kubectl(cluster, "get", "jobs", "-o", "json"))["items"]
    return found
