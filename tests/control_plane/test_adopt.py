"""`sluice adopt` on a real API server with what an installation of Kueue leaves there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from queue_manager.adoption.kueue_installation import DEPLOYMENTS, manifest
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    CRDS,
    JOBS,
    LOCAL_QUEUES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
    SECRETS,
    WORKLOADS,
)
from queue_manager.api.component_names import CONFIG_MAP
from queue_manager.configuration.config_map import KEY
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.installation.object_names import NAME_LABEL, WEBHOOK_SECRET
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import Settings
from tests.control_plane import provide
from tests.control_plane.conftest import sluice_here, until_served
from tests.control_plane.manager.service_account import ROLES, account, write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

LABELS = {"control-plane": "controller-manager"}
CONTAINER = {"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.14.2"}
WEBHOOKS = "kueue-mutating-webhook-configuration"


@pytest.fixture
async def kueue(api: RestClient, namespace: str) -> AsyncIterator[str]:
    """The namespace of a Kueue whose manager does not answer: its webhook refuses Jobs of this namespace."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    meta = {"name": "kueue-controller-manager", "labels": LABELS}
    await api.create(DEPLOYMENTS, namespace, {"metadata": meta, "spec": spec})
    webhook = {
        "name": "mjob.kb.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": {"namespace": namespace, "name": "kueue-webhook-service", "path": "/mutate"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}],
    }
    await api.create(MUTATING_WEBHOOKS, "", {"metadata": {"name": WEBHOOKS}, "webhooks": [webhook]})
    await until(lambda: refused(api, namespace), "the API server knows the webhook")
    yield namespace
    for resource, where, name in ((MUTATING_WEBHOOKS, "", WEBHOOKS), (DEPLOYMENTS, namespace, meta["name"])):
        if any(tree["metadata"]["name"] == name for tree in await api.list(resource, where)):
            await api.delete(resource, where, str(name))


async def refused(api: RestClient, namespace: str) -> bool:
    """Whether Jobs are refused because Kueue does not answer. The API server follows changed webhooks with a delay."""
    body = msgspec.json.encode({"apiVersion": "batch/v1", "kind": "Job", **job("t")})
    answer = await api.transport.request(Request("POST", JOBS.path(namespace), query={"dryRun": "All"}, body=body))
    assert answer.is_success or b"failed calling webhook" in answer.body, answer.body
    return not answer.is_success


async def accepted(api: RestClient, namespace: str) -> bool:
    return not await refused(api, namespace)


def adopt(plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    return sluice_here("adopt", "--kubeconfig", str(plane.kubeconfig), *arguments)


def job(name: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    return {"metadata": {"name": name}, "spec": {"suspend": True, "template": {"spec": pod}}}


async def admitted_workload(api: RestClient, namespace: str) -> None:
    """A Workload as Kueue admitted it, with a topology that Sluice does not know."""
    await api.create(RESOURCE_FLAVORS, "", {"metadata": {"name": "default"}})
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "1"}]}
    group = {"coveredResources": ["cpu"], "flavors": [quota]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    await api.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": spec})
    await api.create(LOCAL_QUEUES, namespace, {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}})
    pods = [{"name": "main", "count": 1, "template": job("j")["spec"]["template"]}]
    await api.create(WORKLOADS, namespace, {"metadata": {"name": "w"}, "spec": {"queueName": "lq", "podSets": pods}})
    reserved = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "",
        "observedGeneration": 1,
    }
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    assignment = [{"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}]
    status = {
        "conditions": [{**reserved, **times}, {**reserved, **times, "type": "Admitted", "reason": "Admitted"}],
        "admission": {"clusterQueue": "cq", "podSetAssignments": assignment},
    }
    await api.patch(WORKLOADS, namespace, "w", {"status": status}, subresource="status")


async def test_a_dry_run_names_what_would_happen_and_changes_nothing(
    api: RestClient, kueue: str, plane: ControlPlane
) -> None:
    await admitted_workload(api, kueue)
    before = await api.get(DEPLOYMENTS, kueue, "kueue-controller-manager")
    done = adopt(plane, "-n", kueue)
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines() if "keep their quota" in line] == [["1", "kept"]]
    assert f"Deployment {kueue}/kueue-controller-manager" in done.stdout
    assert f"MutatingWebhookConfiguration {WEBHOOKS}" in done.stdout
    assert f"Nothing was changed. To make these changes: sluice adopt -n {kueue} --apply\n" in done.stdout
    after = await api.get(DEPLOYMENTS, kueue, "kueue-controller-manager")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_kueue_is_stopped_and_restored(api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path) -> None:
    before = await api.get(MUTATING_WEBHOOKS, "", WEBHOOKS)
    saved = str(tmp_path / "kueue.yaml")

    done = adopt(plane, "-n", kueue, "--apply", "--save", saved)
    assert done.returncode == 0, done.stderr
    assert await api.list(DEPLOYMENTS, kueue) == []
    await until(lambda: accepted(api, kueue), "Jobs are accepted again")

    back = adopt(plane, "-n", kueue, "--undo", saved)
    assert back.returncode == 0, back.stderr
    assert f"{saved} stays: move it away before the next" in back.stdout
    assert (await api.get(DEPLOYMENTS, kueue, "kueue-controller-manager"))["spec"]["replicas"] == 1
    after = await api.get(MUTATING_WEBHOOKS, "", WEBHOOKS)
    assert manifest(MUTATING_WEBHOOKS, after) == manifest(MUTATING_WEBHOOKS, before)


async def test_a_repeated_plan_without_a_change_names_no_command(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    assert adopt(plane, "-n", kueue, "--apply", "--save", str(tmp_path / "kueue.yaml")).returncode == 0
    done = adopt(plane, "-n", kueue)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Kueue is not installed: there is nothing to stop."


async def test_the_next_commands_install_sluice_with_the_configuration_of_kueue(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmanageJobsWithoutQueueName: true\n"
    await api.create(CONFIG_MAPS, kueue, {"metadata": {"name": CONFIG_MAP}, "data": {KEY: text}})
    assert f"ConfigMap {kueue}/{CONFIG_MAP}" in adopt(plane, "-n", kueue).stdout
    done = adopt(plane, "-n", kueue, "--apply", "--save", str(tmp_path / "kueue.yaml"))
    assert done.returncode == 0, done.stderr

    commands = [line.strip() for line in done.stdout.partition("Next")[2].splitlines()[1:]]
    kubectl = provide.find("kubectl")
    assert kubectl is not None
    path = f"{Path(sys.executable).parent}:{kubectl.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)}
    printed = "; ".join(command.partition(" | ")[0] for command in commands)
    shell = ["/bin/sh", "-c", printed]
    install = subprocess.run(shell, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert install.returncode == 0, install.stderr
    [config] = [tree for tree in yaml.safe_load_all(install.stdout) if tree["metadata"]["name"] == CONFIG_MAP]
    assert yaml.safe_load(config["data"][KEY])["manageJobsWithoutQueueName"] is True


async def test_repeated_commands_keep_the_first_copy(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """The first one was interrupted before it had deleted the webhooks."""
    saved = tmp_path / "kueue.yaml"
    assert adopt(plane, "-n", kueue, "--apply", "--save", str(saved)).returncode == 0
    first = saved.read_text()
    await api.create(MUTATING_WEBHOOKS, "", next(tree for tree in yaml.safe_load_all(first) if is_webhooks(tree)))
    again = adopt(plane, "-n", kueue, "--apply", "--save", str(saved))
    assert "is kept, from an earlier try" in again.stdout
    assert saved.read_text() == first


async def test_a_kueue_changed_after_a_restoration_is_not_stopped_with_an_old_copy(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """A restoration from the copy would bring back the image of then. An unchanged Kueue needs no other copy."""
    saved, name = tmp_path / "kueue.yaml", "kueue-controller-manager"
    command = ("-n", kueue, "--apply", "--save", str(saved))
    for _ in range(2):
        done = adopt(plane, *command)
        assert done.returncode == 0, done.stderr
        assert adopt(plane, "-n", kueue, "--undo", str(saved)).returncode == 0
    assert "is kept, from an earlier try" in done.stdout
    first = saved.read_text()

    image = CONTAINER["image"].replace("v0.14.2", "v0.15.0")
    containers = [{**CONTAINER, "image": image}]
    await api.patch(DEPLOYMENTS, kueue, name, {"spec": {"template": {"spec": {"containers": containers}}}})
    done = adopt(plane, *command)
    assert done.returncode == 3
    place = f"Deployment {kueue}/{name}: spec.template.spec.containers[manager].image"
    assert f'{place}: "{CONTAINER["image"]}" → "{image}"; move the file away' in done.stderr
    assert (await api.get(DEPLOYMENTS, kueue, name))["spec"]["replicas"] == 1
    assert saved.read_text() == first

    await api.patch(DEPLOYMENTS, kueue, name, {"spec": {"replicas": 0}})
    done = adopt(plane, *command)
    assert done.returncode == 3
    assert f"keep the file, which may have the only copy of Deployment {kueue}/{name}" in done.stderr

    await api.patch(DEPLOYMENTS, kueue, name, {"spec": {"replicas": 1}})
    other = str(tmp_path / "other.yaml")
    assert adopt(plane, "-n", kueue, "--apply", "--save", other).returncode == 0
    assert adopt(plane, "-n", kueue, "--undo", other).returncode == 0
    assert (await api.get(DEPLOYMENTS, kueue, name))["spec"]["template"]["spec"]["containers"][0]["image"] == image


def is_webhooks(tree: dict[str, Any]) -> bool:
    return bool(tree["kind"] == MUTATING_WEBHOOKS.kind)


async def test_roles_that_an_installation_replaces_are_restored(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """Kueue's manager would lack rights on the kinds that Sluice does not know."""
    rules = [{"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["get", "list", "watch"]}]
    name = "kueue-job-editor-role"
    await api.create(ROLES, "", {"metadata": {"name": name}, "rules": rules})
    saved = str(tmp_path / "kueue.yaml")
    try:
        done = adopt(plane, "-n", kueue, "--apply", "--save", saved)
        assert f"ClusterRole {name}" in done.stdout
        installed = next(tree for tree in objects(Settings()) if tree["metadata"]["name"] == name)
        await api.patch(ROLES, "", name, installed)
        assert "ClusterRole" not in adopt(plane, "-n", kueue).stdout  # it is Sluice's now
        back = adopt(plane, "-n", kueue, "--undo", saved)
        assert back.returncode == 0, back.stderr
        after = await api.get(ROLES, "", name)
        assert after["rules"] == rules
        assert not after["metadata"].get("labels")
    finally:
        await api.delete(ROLES, "", name)


async def test_the_secret_that_kueue_fills_is_created_again_and_its_key_never_saved(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """Kueue's pods wait for it, and its manager fills only a Secret that exists."""
    labels = {"control-plane": "controller-manager"}
    meta = {"name": WEBHOOK_SECRET, "labels": labels}
    await api.create(SECRETS, kueue, {"metadata": meta, "stringData": {"tls.key": "very-private"}})
    saved = tmp_path / "kueue.yaml"
    done = adopt(plane, "-n", kueue, "--apply", "--save", str(saved))
    assert done.returncode == 0, done.stderr
    assert f"Secret {WEBHOOK_SECRET}" in done.stdout
    [secret] = [tree for tree in yaml.safe_load_all(saved.read_text()) if tree["kind"] == SECRETS.kind]
    assert not {"data", "stringData"} & secret.keys()
    await api.delete(SECRETS, kueue, WEBHOOK_SECRET)  # by `sluice uninstall`

    assert adopt(plane, "-n", kueue, "--undo", str(saved)).returncode == 0
    after = await api.get(SECRETS, kueue, WEBHOOK_SECRET)
    assert after["metadata"]["labels"] == labels
    assert "data" not in after

    await api.patch(SECRETS, kueue, WEBHOOK_SECRET, {"stringData": {"tls.key": "anew"}})
    assert adopt(plane, "-n", kueue, "--undo", str(saved)).returncode == 0
    assert "tls.key" in (await api.get(SECRETS, kueue, WEBHOOK_SECRET))["data"]


async def test_the_way_back_lets_pods_run_that_violate_the_pod_security_of_sluice(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """Labels that others set meanwhile stay. The API server reads those of a namespace with a delay."""
    await api.patch(NAMESPACES, "", kueue, {"metadata": {"labels": {NAME_LABEL: "kueue"}}})
    saved = str(tmp_path / "kueue.yaml")
    done = adopt(plane, "-n", kueue, "--apply", "--save", saved)
    assert f"Namespace {kueue}" in done.stdout
    [installed] = [tree for tree in objects(Settings(), kueue) if tree["kind"] == NAMESPACES.kind]
    await api.patch(NAMESPACES, "", kueue, {"metadata": {"labels": {**installed["metadata"]["labels"], "cost": "7"}}})
    pod = {"metadata": {"name": "manager"}, "spec": {"containers": [CONTAINER]}}

    async def is_a_violation() -> bool:
        query, body = {"dryRun": "All"}, msgspec.json.encode(pod)
        answer = await api.transport.request(Request("POST", PODS.path(kueue), query=query, body=body))
        return not answer.is_success and "violates PodSecurity" in answer.body.decode()

    await until(is_a_violation, "the API server knows the level of the namespace")

    back = adopt(plane, "-n", kueue, "--undo", saved)
    assert back.returncode == 0, back.stderr
    labels = (await api.get(NAMESPACES, "", kueue))["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": kueue, NAME_LABEL: "kueue", "cost": "7"}
    await until(lambda: api.create(PODS, kueue, pod), "the API server knows that the namespace has no level")


async def test_the_way_back_ends_before_a_change_if_a_stored_version_is_unknown_to_kueue(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    saved = tmp_path / "kueue.yaml"
    assert adopt(plane, "-n", kueue, "--apply", "--save", str(saved)).returncode == 0
    trees = list(yaml.safe_load_all(saved.read_text()))
    for tree in trees:
        if tree["kind"] == "CustomResourceDefinition":
            tree["spec"]["versions"] = [v for v in tree["spec"]["versions"] if v["name"] == "v1beta1"]
    saved.write_text(yaml.safe_dump_all(trees))
    back = adopt(plane, "-n", kueue, "--undo", str(saved))
    assert back.returncode == 3
    assert "objects are stored as v1beta2, which the saved Kueue does not know" in back.stderr
    assert await api.list(DEPLOYMENTS, kueue) == []


async def test_a_kueue_in_another_namespace_is_named_and_not_stopped(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """Only the webhooks of the namespace that is named are deleted: the others would refuse each new Job."""
    for more in ((), ("--apply", "--save", str(tmp_path / "kueue.yaml"))):
        done = adopt(plane, "-n", "default", *more)
        assert done.returncode == 2
        assert f"Kueue's manager runs in namespace {kueue}, not in default: name it with -n {kueue}" in done.stderr
    assert (await api.get(DEPLOYMENTS, kueue, "kueue-controller-manager"))["spec"]["replicas"] == 1


async def test_losses_have_to_be_accepted(api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path) -> None:
    await api.create(RESOURCE_FLAVORS, "", {"metadata": {"name": "tas"}, "spec": {"resourceWeights": {"cpu": "2"}}})
    saved = str(tmp_path / "kueue.yaml")
    done = adopt(plane, "-n", kueue, "--apply", "--save", saved)
    assert done.returncode == 3
    assert "ResourceFlavor tas" in done.stdout
    assert "1 thing listed above would be lost; pass --accept-losses" in done.stderr
    assert (await api.get(DEPLOYMENTS, kueue, "kueue-controller-manager"))["spec"]["replicas"] == 1
    assert adopt(plane, "-n", kueue, "--apply", "--accept-losses", "--save", saved).returncode == 0


async def test_jobs_of_our_controller_prevent_the_way_back(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    saved = str(tmp_path / "kueue.yaml")
    assert adopt(plane, "-n", kueue, "--apply", "--save", saved).returncode == 0
    await until(lambda: accepted(api, kueue), "Jobs are accepted again")
    own = job("own")
    own["spec"]["managedBy"] = "sluice/job-controller"
    await api.create(JOBS, kueue, own)
    back = adopt(plane, "-n", kueue, "--undo", saved)
    assert back.returncode == 3
    assert f"{kueue}/own" in back.stderr
    assert await api.list(DEPLOYMENTS, kueue) == []


async def test_nothing_is_changed_by_a_user_who_may_not_make_every_change(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """A takeover that ended before the webhooks are deleted would leave a cluster that refuses each new Job."""
    read = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    scale = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}
    token, _ = await (await account(api, kueue, [read, scale])).token()
    user = write_kubeconfig(tmp_path / "user", plane.url, {"token": token}, plane)
    saved = tmp_path / "kueue.yaml"
    done = sluice_here("adopt", "--kubeconfig", str(user), "-n", kueue, "--apply", "--save", str(saved))
    assert done.returncode == 3
    assert "you lack these rights, so nothing was changed: delete mutatingwebhookconfigurations" in done.stderr
    assert not saved.exists()
    assert (await api.get(DEPLOYMENTS, kueue, "kueue-controller-manager"))["spec"]["replicas"] == 1

    assert adopt(plane, "-n", kueue, "--apply", "--save", str(saved)).returncode == 0
    done = sluice_here("adopt", "--kubeconfig", str(user), "-n", kueue, "--undo", str(saved))
    assert done.returncode == 3
    assert f"create {MUTATING_WEBHOOKS}" in done.stderr
    assert await api.list(DEPLOYMENTS, kueue) == []


async def test_the_way_back_waits_for_the_removal_of_sluice(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """A removal after it would delete objects that Kueue needs, such as the Secret of the webhooks."""
    saved = str(tmp_path / "kueue.yaml")
    assert adopt(plane, "-n", kueue, "--apply", "--save", saved).returncode == 0
    [deployment] = [tree for tree in objects(Settings(), kueue) if tree["kind"] == DEPLOYMENTS.kind]
    await api.create(DEPLOYMENTS, kueue, deployment)
    back = adopt(plane, "-n", kueue, "--undo", saved)
    assert back.returncode == 3
    assert f"Sluice is still installed in namespace {kueue}: run `sluice uninstall` first" in back.stderr
    [live] = await api.list(DEPLOYMENTS, kueue)
    assert live["metadata"]["labels"][NAME_LABEL] == "sluice"


async def test_kueues_conversion_ends_for_kinds_that_need_none_and_is_restored(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """Kueue's own definition of Cohorts calls its webhook; nothing would answer it after the takeover."""
    saved, name = str(tmp_path / "kueue.yaml"), str(COHORTS)
    service = {"namespace": kueue, "name": "kueue-webhook-service", "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    change = {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}
    await api.patch(CRDS, "", name, change)
    done = adopt(plane, "-n", kueue)
    assert name in done.stdout.partition("Changes")[2]
    done = adopt(plane, "-n", kueue, "--apply", "--save", saved)
    assert done.returncode == 0, done.stderr
    assert (await api.get(CRDS, "", name))["spec"]["conversion"] == {"strategy": "None"}
    assert adopt(plane, "-n", kueue, "--undo", saved).returncode == 0
    restored = (await api.get(CRDS, "", name))["spec"]["conversion"]
    assert restored["webhook"]["clientConfig"]["service"]["name"] == "kueue-webhook-service"
    await api.patch(CRDS, "", name, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})


async def test_crds_that_are_gone_are_restored(
    api: RestClient, kueue: str, plane: ControlPlane, tmp_path: Path
) -> None:
    """They are after `sluice uninstall --crds`."""
    saved = str(tmp_path / "kueue.yaml")
    assert adopt(plane, "-n", kueue, "--apply", "--save", saved).returncode == 0
    name = str(COHORTS)
    await api.delete(CRDS, "", name)

    async def is_gone() -> bool:
        return name not in {tree["metadata"]["name"] for tree in await api.list(CRDS)}

    await until(is_gone, "the CRD is gone")
    back = adopt(plane, "-n", kueue, "--undo", saved)
    assert back.returncode == 0, back.stderr
    assert (await api.get(CRDS, "", name))["spec"]["names"]["kind"] == "Cohort"
    until_served(plane)
