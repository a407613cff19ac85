"""A team without any right in the whole cluster runs the queue in its namespace: `sluice install --cluster-objects`."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from job_controller.model import Pod
from queue_manager.api.api_resources import CLUSTER_QUEUES, EVENTS, JOBS, LEASES, RESOURCE_FLAVORS
from queue_manager.api.keys import PRIORITY_CLASS
from queue_manager.cli.explanation_reading import EVENTS_NOT_SEEN
from queue_manager.client import Client
from queue_manager.client.job_update import UNSEEN_WORKLOAD
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.simulation.kubelet import PodScript
from tests.control_plane import audit, provide
from tests.control_plane.conftest import ROOT, SLUICE, install_kinds, kubectl
from tests.control_plane.install.conftest import sluice
from tests.control_plane.install.installed_managers import start
from tests.control_plane.manager.process import Manager, refusal
from tests.control_plane.manager.scenario import QUICK, Scenario, kubelet
from tests.control_plane.manager.service_account import write_kubeconfig
from tests.control_plane.server import ControlPlane
from tests.waiting import SECONDS, until

pytestmark = pytest.mark.control_plane

TEAM = "team-a"
OWNER = f"{TEAM}:owner"
OBJECTS = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team}
spec:
  cohort: teams
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources: [{name: cpu, nominalQuota: 4}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
"""
RULES: dict[str, list[dict[str, list[str]]]] = {
    # of accounts in the namespace; the owner, who has `admin` beside that, installs, the member submits
    "owner": [],
    "member": [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
        {
            "apiGroups": ["kueue.x-k8s.io"],
            "resources": ["workloads", "localqueues"],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": [""], "resources": ["pods", "events", "configmaps"], "verbs": ["get", "list", "watch"]},
    ],
    "without-events": [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
        {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "localqueues"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    ],
    "without-workloads": [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
    ],
}
HUGE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, labels: {kueue.x-k8s.io/queue-name: lq}}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: x, resources: {requests: {cpu: 100}}}]}
"""
ADDRESSES = {"metrics": {"bindAddress": ":0"}, "health": {"healthProbeBindAddress": "127.0.0.1:0"}}


def script(pod: Pod) -> PodScript:
    """Pods of the Job `filler` run until they are deleted."""
    endless = pod.metadata.name.startswith("filler")
    return PodScript(ready_after=0.1, ends_after=None, stops_within=0.1) if endless else QUICK


def documented() -> list[list[str]]:
    """The kubectl commands by which an admin lets the team install, without the program's name."""
    page = (ROOT / "deploy" / "CLUSTER.md").read_text().partition("## With Roles only")[2].partition("\n## ")[0]
    found = [shlex.split(line)[1:] for line in page.splitlines() if line.startswith("    kubectl ")]
    assert [each[2:4] for each in found] == [["create", "role"], ["create", "rolebinding"]]
    return found


def answer(cluster: ControlPlane, *arguments: str) -> str:
    """What kubectl prints, whatever its exit code."""
    command = [str(provide.find("kubectl")), f"--kubeconfig={cluster.kubeconfig}", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def accounts(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The kubeconfigs of an owner and a member of the namespace, after an admin has put the CRDs there."""
    folder = tmp_path_factory.mktemp("accounts")
    (folder / "admin").write_text(cluster.kubeconfig.read_text())
    install_kinds(cluster)
    kubectl(cluster, "create", "namespace", TEAM)
    kubectl(cluster, "-n", TEAM, "create", "rolebinding", "admins", "--clusterrole=admin", f"--serviceaccount={OWNER}")
    for each in documented():
        kubectl(cluster, *(f"--serviceaccount={OWNER}" if word == "--group=team-a" else word for word in each))
    with cluster.controllers("clusterrole-aggregation-controller"):
        may_install = ("auth", "can-i", "create", "deployments", "-n", TEAM, f"--as=system:serviceaccount:{OWNER}")
        deadline = time.monotonic() + SECONDS
        while answer(cluster, *may_install) != "yes":
            assert time.monotonic() < deadline, "the ClusterRole admin is not filled"
    found = {}
    for name, rules in RULES.items():
        kubectl(cluster, "-n", TEAM, "create", "serviceaccount", name)
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}}
        kubectl(cluster, "-n", TEAM, "create", "-f", "-", stdin=json.dumps({**role, "rules": rules}).encode())
        kubectl(cluster, "-n", TEAM, "create", "rolebinding", name, f"--role={name}", f"--serviceaccount={TEAM}:{name}")
        token = kubectl(cluster, "-n", TEAM, "create", "token", name).strip()
        found[name] = path = write_kubeconfig(folder / name, cluster.url, {"token": token}, cluster)
        kubectl(cluster, "config", f"--kubeconfig={path}", "set-context", "--current", f"--namespace={TEAM}")
    return found


@pytest.fixture
async def member(accounts: dict[str, Path]) -> AsyncIterator[RestClient]:
    transport = HttpTransport.from_kubeconfig(accounts["member"])
    yield RestClient(transport)
    await transport.close()


async def test_a_team_without_cluster_wide_rights_runs_the_queue_in_its_namespace(
    cluster: ControlPlane, api: RestClient, member: RestClient, accounts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "queues.yaml").write_text(OBJECTS)
    options = ("--namespace", TEAM, "--namespaced", TEAM, "--cluster-objects", str(tmp_path / "queues.yaml"))
    applied = as_owner(accounts, "apply", "--server-side", "-f", "-", stdin=sluice("install", *options))
    assert "deployment.apps/kueue-controller-manager serverside-applied" in applied
    local = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "lq"}}
    as_owner(accounts, "create", "-f", "-", stdin=json.dumps({**local, "spec": {"clusterQueue": "team"}}))
    manager = await start(
        cluster, "kueue-controller-manager", tmp_path / "manager", ADDRESSES, ports=(), namespace=TEAM
    )
    try:
        async with kubelet(api.transport, script):
            await jobs_run(Scenario(member, TEAM, until), accounts["member"])
        await its_queue_is_in_metrics(manager)
        assert (await api.get(LEASES, TEAM, "c1f6bfd2.kueue.x-k8s.io"))["spec"]["holderIdentity"]
    finally:
        await manager.stop()
    assert await api.list(CLUSTER_QUEUES) == await api.list(RESOURCE_FLAVORS) == []
    bound = [each for each in bindings(cluster) if TEAM in json.dumps(each.get("subjects"))]
    assert bound == []
    acts = list(audit.acts(audit.log_of(cluster.folder)))
    of_manager = [act for act in acts if act.account == f"{TEAM}:kueue-controller-manager"]
    refused = {act.right for act in of_manager if act.code == 403}
    assert [act for act in of_manager if not act.is_allowed] == []
    assert refused == {("", "pods", "create")}, "the pods of a class that does not exist, by admission"
    assert {act.resource for act in of_manager if not act.namespace} <= {"", "selfsubjectaccessreviews"}


async def test_its_owner_checks_an_upgrade_and_removes_it_with_rights_in_the_namespace(
    cluster: ControlPlane, accounts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "queues.yaml").write_text(OBJECTS)
    options = ("--namespace", TEAM, "--namespaced", TEAM, "--cluster-objects", str(tmp_path / "queues.yaml"))
    as_owner(accounts, "apply", "--server-side", "-f", "-", stdin=sluice("install", *options))
    code, text = await command(accounts["owner"], "upgrade", "--check", *options)
    assert (code, text) == (0, "nothing would change\n")
    code, text = await command(accounts["owner"], "upgrade", "--check", *options, "--set", "image.tag=next")
    assert (code, bool(re.search(r"Deployment/kueue-controller-manager +team-a +restarted .*next", text))) == (1, True)
    code, text = await command(accounts["owner"], "upgrade", "--check", "--namespace", TEAM)
    assert (code, "give --namespaced and --cluster-objects" in text) == (3, True), text

    code, text = await command(accounts["owner"], "uninstall", "--namespace", TEAM, "--crds")
    assert (code, "Roles only, and CRDs are not part of it" in text) == (2, True), text
    code, text = await command(accounts["owner"], "uninstall", "--namespace", TEAM)
    assert (code, bool(re.search(r"Deployment team-a/kueue-controller-manager deleted", text))) == (0, True), text
    kinds = "deployments,roles,rolebindings,configmaps,serviceaccounts,networkpolicies,poddisruptionbudgets"
    selector = "app.kubernetes.io/name=sluice"
    assert kubectl(cluster, "get", kinds, "-A", "-l", selector, "-o", "name") == ""
    code, text = await command(accounts["owner"], "uninstall", "--namespace", TEAM, "--namespaced", TEAM)
    assert (code, "deleted" in text) == (0, False), text


async def test_lists_fall_back_to_the_namespace_of_the_context(accounts: dict[str, Path]) -> None:
    """Lists of all namespaces are forbidden to this user."""
    for verb in ("ps", "deactivated"):
        code, text = await command(accounts["member"], verb)
        assert (code, f"only namespace {TEAM} is listed" in text) == (0, True), text
        code, text = await command(accounts["member"], verb, "-A")
        assert (code, "-n NAMESPACE reads that namespace only" in text) == (3, True), text


async def test_missing_rights_are_those_that_a_role_in_the_namespace_lacks(
    accounts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "queues.yaml").write_text(OBJECTS)
    flags = (f"--namespace={TEAM}", f"--cluster-objects={tmp_path / 'queues.yaml'}")
    said = await refusal(*flags, kubeconfig=accounts["member"])
    assert said.startswith(f"missing permissions in namespace {TEAM}: ")
    assert "get namespaces;" in said
    assert said.endswith("; bind a Role that grants them")
    assert "clusterqueues" not in said


async def test_a_namespace_that_does_not_exist_is_named_at_the_start(cluster: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(OBJECTS)
    flags = ("--namespace=absent", f"--cluster-objects={tmp_path / 'queues.yaml'}")
    assert '"absent" not found' in await refusal(*flags, kubeconfig=cluster.kubeconfig)


async def jobs_run(scenario: Scenario, kubeconfig: Path) -> None:
    """One ends, one waits for quota, and one takes it from another by the priority of a class in the file."""
    await scenario.submit("first", managedBy="sluice/job-controller")
    await scenario.until_finished("first")
    await refused_pods_are_named(scenario, kubeconfig)
    await scenario.submit("filler", managedBy="sluice/job-controller", parallelism=4, completions=4)
    await scenario.until_admitted("filler")
    await scenario.submit("waiting", managedBy="sluice/job-controller")

    async def waits() -> bool:
        return "insufficient unused quota" in json.dumps((await scenario.workload("waiting")).get("status", {}))

    await until(waits, "the second Job waits for quota")
    await answers_are_true(kubeconfig)
    await asyncio.to_thread(what_a_client_may_not_see_is_named, kubeconfig.with_name("without-workloads"))
    await a_missing_class_is_named(scenario, kubeconfig)
    await urgent(scenario)
    await scenario.until_finished("urgent")

    preempted = [event["reason"] for event in await scenario.api.list(EVENTS, TEAM)]
    assert "Preempted" in preempted


async def answers_are_true(member: Path) -> None:
    """Of a user who may read little of a namespace, and of an admin: the API server has no ClusterQueue for either."""
    for kubeconfig in (member, member.with_name("admin")):
        code, text = await command(kubeconfig, "explain", "waiting", "-n", TEAM)
        assert code == 0, text
        assert "WAIT/WaitingForQuota" in text
        published = "insufficient unused quota for cpu in flavor default, 1 more needed"
        assert (published if kubeconfig == member else "ClusterQueue team has 0 cpu of flavor default free") in text
        assert "its defaults are assumed" not in text  # the manager has published its configuration in the namespace
        _, text = await command(kubeconfig, "ps", "-n", TEAM)
        assert re.search(r"waiting .* Pending .* needs 1 more cpu", text), text
        name = f"huge-{kubeconfig.name}"
        code, text = await command(kubeconfig, "submit", "-n", TEAM, "-f", "-", stdin=HUGE.replace("NAME", name))
        assert code == 2, text
        assert "cannot start: " in text
        assert "maximum capacity (4)" in text
        code, text = await command(kubeconfig, "show", name, "-n", TEAM)
        assert "does not exist" not in text
    await owner_and_admin_know_the_quota(member)
    _, text = await command(member, "queues")
    assert re.search(r"^team .* Unlisted +3 +1 .* team-a/lq$", text, re.MULTILINE), text
    _, text = await command(member.with_name("admin"), "queues")
    assert re.search(r"^team .* Unlisted .* team-a/lq$", text, re.MULTILINE), text
    code, text = await command(member.with_name("admin"), "doctor")
    assert "MissingClusterQueue" not in text
    found = " ".join(text.split())
    assert "of ClusterQueue team can never start" in found  # the huge ones, as the scheduler has refused them
    assert "/waiting" not in found
    await its_namespace_is_examined(member.with_name("owner"))


async def owner_and_admin_know_the_quota(member: Path) -> None:
    """By the published ConfigMap of the objects; the member, who may not get the namespace, does not."""
    answers = []
    for name in ("owner", "admin"):
        code, text = await command(member.with_name(name), "explain", "waiting", "-n", TEAM, "-o", "json")
        assert code == 0, text
        found = json.loads(text)
        assert [(row["free"], row["limit"]) for row in found["flavors"]] == [("0", "4")], text
        assert [(row["clusterQueue"], row["workloads"]) for row in found["holders"]] == [("team", 1)], text
        answers.append({key: found[key] for key in ("code", "sentence", "flavors", "holders", "position", "notSeen")})
    assert answers[0] == answers[1]
    _, text = await command(member.with_name("owner"), "queues")
    assert re.search(r"^team .* Active .*cpu █+ 4/4", text, re.MULTILINE), text


async def its_namespace_is_examined(owner: Path) -> None:
    """By who has rights in this namespace alone, also without -n: it is that of the context."""
    _, text = await command(owner, "doctor", "-n", TEAM, "-o", "json")
    not_checked = " ".join(json.loads(text)["notChecked"])
    assert "clusterqueues (forbidden)" in not_checked
    assert not re.search(r"workloads|pods|jobs|localqueues|Lease|Deployment|configuration of", not_checked), text
    _, text = await command(owner, "doctor", "-o", "json")
    report, _ = json.JSONDecoder().raw_decode(text)
    assert f"namespaces other than {TEAM} (forbidden)" in report["notChecked"]
    assert "workloads (forbidden)" not in report["notChecked"]
    assert f"only namespace {TEAM} is examined" in text


async def a_missing_class_is_named(scenario: Scenario, member: Path) -> None:
    """The class is in no file of the manager, whose Event is all that a command can read about it."""
    says = "WorkloadPriorityClass urgnt does not exist"
    manifest = HUGE.replace("NAME", "misspelt").replace("lq}", f"lq, {PRIORITY_CLASS}: urgnt}}")
    code, text = await command(member, "submit", "-n", TEAM, "-f", "-", stdin=manifest)
    assert (code, says in text) == (2, True), text
    for kubeconfig in (member, member.with_name("admin")):
        code, text = await command(kubeconfig, "explain", "misspelt", "-n", TEAM)
        assert (code, "NEVER/Misconfigured" in text, says in text) == (2, True, True), text
        _, text = await command(kubeconfig, "ps", "-n", TEAM)
        assert says in text
    await scenario.api.delete(JOBS, TEAM, "misspelt")


async def refused_pods_are_named(scenario: Scenario, member: Path) -> None:
    """By the Events of the Job controller; who may not list these learns that they would say more."""
    await scenario.submit("refused", pod={"priorityClassName": "golden"}, managedBy="sluice/job-controller")

    async def are_refused() -> bool:
        return any(event["reason"] == "FailedCreate" for event in await scenario.api.list(EVENTS, TEAM))

    await until(are_refused, "the API server refuses the pod")
    answers = {}
    for name in ("member", "without-events"):
        code, text = await command(member.with_name(name), "explain", "refused", "-n", TEAM, "-o", "json")
        assert code in (0, 1), text
        answers[name] = json.loads(text)
    assert answers["member"]["code"] == "FAULT/PodsRefused"
    assert answers["without-events"]["code"] == ""
    assert EVENTS_NOT_SEEN in answers["without-events"]["notSeen"]
    assert EVENTS_NOT_SEEN not in answers["member"]["notSeen"]
    code, text = await command(member.with_name("admin"), "wait", "refused", "-n", TEAM)
    assert (code, "can never start: PriorityClass golden does not exist" in text) == (2, True), text
    await scenario.api.delete(JOBS, TEAM, "refused")


def what_a_client_may_not_see_is_named(kubeconfig: Path) -> None:
    update = Client.from_kubeconfig(kubeconfig).get("waiting")
    assert (update.state, update.why) == ("Pending", UNSEEN_WORKLOAD)


async def urgent(scenario: Scenario) -> None:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec: dict[str, Any] = {
        "suspend": True,
        "managedBy": "sluice/job-controller",
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    labels = {"kueue.x-k8s.io/queue-name": "lq", PRIORITY_CLASS: "urgent"}
    await scenario.api.create(JOBS, TEAM, {"metadata": {"name": "urgent", "labels": labels}, "spec": spec})


async def its_queue_is_in_metrics(manager: Manager) -> None:
    """Plain and on loopback alone, whatever the configuration says: nobody can be asked who reads them."""
    [url] = [line.removeprefix("serving ") for line in manager.lines if line.endswith("/metrics")]
    assert url.startswith("http://127.0.0.1:")
    manager.url = url.removesuffix("/metrics")
    _, text = await manager.get("/metrics")
    assert 'kueue_cluster_queue_status{cluster_queue="team"' in text
    assert 'kueue_preempted_workloads_total{preempting_cluster_queue="team"' in text


def bindings(cluster: ControlPlane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl(cluster, "get", "clusterrolebindings", "-o", "json"))["items"]
    return found


def as_owner(accounts: dict[str, Path], *arguments: str, stdin: str) -> str:
    binary = provide.find("kubectl")
    assert binary is not None
    full = [str(binary), "--kubeconfig", str(accounts["owner"]), "-n", TEAM, *arguments]
    done = subprocess.run(full, input=stdin, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def command(kubeconfig: Path, *arguments: str, stdin: str = "") -> tuple[int, str]:
    full = [*SLUICE, *arguments, "--kubeconfig", str(kubeconfig)]
    done = await asyncio.to_thread(
        subprocess.run, full, input=stdin, check=False, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    return done.returncode, done.stdout + done.stderr
