"""`sluice import` on a real API server with webhooks and policies, as a person with the role sluice-queue-admin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from queue_manager.api.api_resources import JOBS, LEASES, NAMESPACES, PODS, WORKLOADS
from queue_manager.api.component_names import LEASE
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation.objects import objects
from queue_manager.installation.policy_settings import PolicyName, PolicySettings, service_account
from queue_manager.installation.settings import Settings
from queue_manager.installation.user_roles import ADMIN
from queue_manager.installation.webhook_configurations import WebhookScope
from queue_manager.simulation.kubelet import PodScript
from tests.control_plane.cleanup import clear, forget_published
from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.guarded import (
    config,
    installed,
    kubeconfig,
    manager_account,
    webhook_url,
)
from tests.control_plane.manager.scenario import Scenario, Tree, kubelet
from tests.control_plane.manager.service_account import BINDINGS, RBAC, ROLES, account, write_kubeconfig
from tests.control_plane.policies.enforced import LABEL, enforced
from tests.control_plane.policies.users import JANE, give_role
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

Json = Any
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
CONTAINERS = [{"name": "c", "image": "x"}]
RUNS_ON = PodScript(ready_after=0.2, ends_after=None)


@pytest.fixture
async def team(api: RestClient) -> AsyncIterator[str]:
    """A namespace of users, where all policies apply."""
    name = f"team-{uuid4().hex[:8]}"
    await api.create(NAMESPACES, "", {"metadata": {"name": name, "labels": {LABEL: "true"}}})
    yield name
    await clear(api)
    await api.delete(NAMESPACES, "", name)


@pytest.fixture
async def ann(api: RestClient, plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Path]:
    """The kubeconfig of a queue admin: what the aggregated role collects, which no controller does here."""
    parts = [tree for tree in objects(Settings()) if ADMIN in (tree["metadata"].get("labels") or {})]
    name = f"queue-admin-{uuid4().hex[:8]}"
    await api.create(
        ROLES, "", {"metadata": {"name": name}, "rules": [rule for part in parts for rule in part["rules"]]}
    )
    reference = {"apiGroup": RBAC[0], "kind": "ClusterRole", "name": name}
    subjects = [{"apiGroup": RBAC[0], "kind": "User", "name": "ann"}]
    await api.create(BINDINGS, "", {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects})
    yield write_kubeconfig(tmp_path / "ann", plane.url, {"token": plane.token, "as": "ann"}, plane)
    await api.delete(BINDINGS, "", name)
    await api.delete(ROLES, "", name)


async def sluice_import(kubeconfig: Path, namespace: str, *more: str) -> tuple[int, str]:
    command = [*SLUICE, "import", "--kubeconfig", str(kubeconfig), "-n", namespace, "--to-queue", "lq", *more]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=-1, stderr=-2)
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def is_past_second(created: Tree) -> bool:
    """Whether the second is over in which this object was created: Jobs of one second have no order for an import."""
    return datetime.now(UTC) - datetime.fromisoformat(created["metadata"]["creationTimestamp"]) >= timedelta(seconds=1)


async def test_a_queue_admin_imports_running_jobs_past_webhooks_and_policies(
    api: RestClient, namespace: str, team: str, ann: Path, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """Quota is for four pods: a Job of three is imported, one of two stays outside; both run on."""
    its = await manager_account(api, namespace)
    path = await kubeconfig(plane, its, tmp_path / "manager")
    manager = await start(path, "--webhook-port", "0", config=config(namespace, "jobController: {manage: All}\n"))
    scenario, user = Scenario(api, team, until), service_account(namespace, its.name)
    settings = PolicySettings(
        queue_accounts=(user,),
        job_controllers=(user,),
        policies=frozenset(PolicyName) - {PolicyName.MANAGED_BY},
        namespace_selector={"matchLabels": {LABEL: "true"}},
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(kubelet(api.transport, lambda pod: RUNS_ON))
        await scenario.queues()
        created = await scenario.submit("first", queue="", suspend=False, parallelism=3, completions=3)
        await until(lambda: is_past_second(created), "a Job that is created now is a later one")
        await scenario.submit("second", queue="", suspend=False, parallelism=2, completions=2)
        await until(lambda: are_ready(api, team, first=3, second=2), "all pods are ready")
        before = await pod_names(scenario)
        await stack.enter_async_context(installed(api, webhook_url(manager), WebhookScope(namespace, account=its.name)))
        await stack.enter_async_context(enforced(api, team, settings))

        code, out = await sluice_import(ann, team)
        assert code == 1, out  # as with --apply
        assert "imported: 1, stays outside: 1" in out
        assert await sluice_import(plane.kubeconfig, "nosuch") == (
            2,
            "sluice import: namespace nosuch does not exist\n",
        )
        assert "you may not list pods" in out
        pod = {"containers": CONTAINERS, "terminationGracePeriodSeconds": 0}
        await api.create(PODS, team, {"metadata": {"name": "plain"}, "spec": {**pod, "nodeName": "n"}})
        _, out = await sluice_import(plane.kubeconfig, team)
        assert "1 pod on nodes but in no quota (1 without a controller)" in out
        await api.delete(PODS, team, "plain")
        assert await api.list(WORKLOADS, team) == []

        code, out = await sluice_import(ann, team, "--apply", "--timeout", "5s")
        assert code == 1, out
        assert "insufficient unused quota for cpu" in out
        assert (await scenario.job("first"))["metadata"]["labels"][QUEUE_LABEL] == "lq"
        assert QUEUE_LABEL not in (await scenario.job("second"))["metadata"].get("labels", {})
        assert (await sluice_import(ann, team, "--apply", "--timeout", "1s"))[0] == 1  # a repetition
        assert await pod_names(scenario) == before
        for name in ("first", "second"):
            job = await scenario.job(name)
            assert not job["spec"].get("suspend")
            assert job["status"]["active"] == job["spec"]["parallelism"]
        await refuses_other_labels(api, team, plane, tmp_path)
        await manager.stop()


async def test_a_dry_run_is_refused_for_the_rights_that_the_import_lacks(
    api: RestClient, namespace: str, plane: ControlPlane, tmp_path: Path
) -> None:
    await Scenario(api, namespace, until).queues()
    await Scenario(api, namespace, until).submit("runs", queue="", suspend=False)
    reader = await account(api, namespace, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}])
    token, _ = await reader.token()
    user = write_kubeconfig(tmp_path / "reader", plane.url, {"token": token}, plane)
    lacks = (
        "sluice import: you lack these rights, so nothing was changed: "
        f"create {WORKLOADS} in namespace {namespace}; delete {WORKLOADS} in namespace {namespace}; "
        f"patch {JOBS} in namespace {namespace}\n"
    )
    assert await sluice_import(user, namespace) == (3, lacks)
    assert await sluice_import(user, namespace, "--apply") == (3, lacks)


async def test_nothing_is_imported_while_no_manager_runs(api: RestClient, namespace: str, plane: ControlPlane) -> None:
    """Its Workloads would wait until the time is up. A dry run says that no manager runs."""
    await Scenario(api, namespace, until).queues()
    await Scenario(api, namespace, until).submit("runs", queue="", suspend=False)
    await api.create(LEASES, namespace, {"metadata": {"name": LEASE}, "spec": {}})  # released
    await forget_published(api)
    absent = f"no manager runs: no manager holds Lease {namespace}/{LEASE}"
    code, out = await sluice_import(plane.kubeconfig, namespace)
    assert (code, "imported: 1" in out, f"\n{absent}\n" in out) == (0, True, True), out
    code, out = await sluice_import(plane.kubeconfig, namespace, "--apply")
    assert (code, out.startswith(f"sluice import: {absent}; so nothing was changed")) == (3, True), out
    assert await api.list(WORKLOADS, namespace) == []


async def refuses_other_labels(api: RestClient, team: str, plane: ControlPlane, folder: Path) -> None:
    """Nobody else labels a running Job: no administrator without an import, no user at all."""
    with pytest.raises(ApiError, match=r"vjob.kb.io.*field is immutable"):
        await api.patch(JOBS, team, "second", {"metadata": {"labels": {QUEUE_LABEL: "lq"}}})
    await give_role(api, team, "system:aggregate-to-edit")
    transport = write_kubeconfig(folder / "jane", plane.url, {"token": plane.token, "as": JANE}, plane)
    jane = HttpTransport.from_kubeconfig(transport)
    with pytest.raises(ApiError, match=r"sluice-queue-name.*field is immutable"):
        await RestClient(jane).patch(JOBS, team, "second", {"metadata": {"labels": {QUEUE_LABEL: "lq"}}})
    await jane.close()


async def are_ready(api: RestClient, team: str, **pods: int) -> bool:
    jobs = {job["metadata"]["name"]: job for job in await api.list(JOBS, team)}
    return all(jobs[name].get("status", {}).get("ready") == count for name, count in pods.items())


async def pod_names(scenario: Scenario) -> list[str]:
    return sorted([pod["metadata"]["name"] for job in ("first", "second") for pod in await scenario.pods(job)])
