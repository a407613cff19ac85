"""`sluice explain` and `sluice ps` while no manager runs: the Lease of the last one shows that."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from queue_manager.api.api_resources import JOBS, LEASES
from queue_manager.api.component_names import LEASE, service_account
from queue_manager.operator.required_permissions import ALL, LEADER, rule, rules
from tests.control_plane.audit import LIMITED
from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.manager.service_account import (
    ACCOUNTS,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
    Account,
    account,
    until_authorized,
    write_kubeconfig,
)
from tests.control_plane.server import ControlPlane
from tests.local.cli.terminal import Terminal

pytestmark = pytest.mark.control_plane

READ_JOBS = (
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "localqueues"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
)
READ_LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}


async def explain(kubeconfig: Path, namespace: str) -> tuple[int, str]:
    return await sluice("explain", "waiting", "-n", namespace, "--kubeconfig", str(kubeconfig))


async def sluice(*arguments: str) -> tuple[int, str]:
    done = await asyncio.to_thread(
        subprocess.run, [*SLUICE, *arguments], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


async def ps(kubeconfig: Path, namespace: str) -> str:
    """What it prints on a terminal."""
    command = [sys.executable, "-m", "queue_manager.cli.main", "ps", "-n", namespace, "--kubeconfig", str(kubeconfig)]
    terminal = Terminal(*command, env={"PYTHONPATH": str(ROOT)})
    await terminal.until_shows("sluice explain")
    return " ".join(terminal.text.split())


async def test_a_job_that_waits_for_no_manager_is_explained_by_its_absence(
    scenario: Scenario, plane: ControlPlane, tmp_path: Path, start: Start
) -> None:
    namespace = scenario.namespace
    admin = write_kubeconfig(tmp_path / "admin", plane.url, {"token": plane.token}, plane)
    await scenario.queues()
    leader = await account(scenario.api, namespace, [*rules(ALL), rule(LEADER)])
    (tmp_path / "manager").mkdir()
    token, _ = await leader.token()
    kubeconfig = write_kubeconfig(tmp_path / "manager" / "kubeconfig", plane.url, {"token": token}, plane)
    manager = await start(kubeconfig, config=f"{ALL_JOBS}leaderElection: {{resourceNamespace: {namespace}}}\n")
    await scenario.submit("filler", parallelism=4, completions=4)
    await scenario.until_admitted("filler")
    await scenario.submit("waiting")

    async def is_pending() -> bool:
        return "insufficient unused quota" in str((await scenario.workload("waiting")).get("status", {}))

    await scenario.wait(is_pending, "the Job waits for quota")
    code, text = await explain(admin, namespace)
    assert (code, "WAIT/WaitingForQuota" in text) == (0, True), text
    assert "no manager runs" not in await ps(admin, namespace)
    lists = [[command, "-n", namespace, "--kubeconfig", str(admin)] for command in ("ps", "queues")]
    assert not [text for each in lists if "no manager runs" in (text := (await sluice(*each))[1])]

    await manager.stop()
    absent = f"no manager holds Lease {namespace}/{LEASE}"
    code, text = await explain(admin, namespace)
    assert (code, "FAULT/ControllerStale" in text) == (1, True), text
    assert f"No manager runs, so nothing is admitted or started: {absent}." in text
    assert f"next kubectl get lease {LEASE} -n {namespace}" in text
    assert f"no manager runs: {absent}" in await ps(admin, namespace)
    for each in lists:
        assert f"no manager runs: {absent}" in (await sluice(*each))[1]
        assert f"no manager runs: {absent}" in (await sluice(*each, "-o", "json"))[1]

    await scenario.api.patch(JOBS, namespace, "waiting", {"spec": {"suspend": False}})
    code, text = await explain(admin, namespace)
    assert (code, "although it holds no quota" in text, "holds its quota" in text) == (1, True, False), text
    await scenario.api.patch(JOBS, namespace, "waiting", {"spec": {"suspend": True}})

    user = await tenant(scenario, "user", tmp_path, plane, *READ_JOBS)
    code, text = await explain(user, namespace)
    assert (code, "WAIT/WaitingForQuota" in text, "No manager runs" in text) == (0, True, False), text
    assert "the Lease of the managers, so whether one runs (an admin who may read it: sluice doctor)" in text
    assert "manager runs" not in await ps(user, namespace)
    reader = await tenant(scenario, "reader", tmp_path, plane, *READ_JOBS, READ_LEASES)
    assert f"perhaps no manager runs: {absent}" in await ps(reader, namespace)

    old = {"holderIdentity": "manager-0", "renewTime": "2020-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    await scenario.api.patch(LEASES, namespace, LEASE, {"spec": old})
    assert f"manager-0 renewed Lease {namespace}/{LEASE}" in (await explain(admin, namespace))[1]

    code, text = await sluice("cancel", "waiting", "-n", namespace, "--timeout", "6s", "--kubeconfig", str(admin))
    assert (code, "waiting for a manager to release its Workload" in text) == (1, True), text
    assert "it ends when a manager has released its Workload" in text


async def tenant(scenario: Scenario, name: str, folder: Path, plane: ControlPlane, *allowed: dict[str, object]) -> Path:
    """The kubeconfig of an account with these rights in the namespace alone."""
    who, api = Account(scenario.api, scenario.namespace, f"{LIMITED}{name}"), scenario.api
    unique = {"metadata": {"name": f"{who.namespace}-{name}"}}
    await api.create(ACCOUNTS, who.namespace, {"metadata": {"name": who.name}})
    await api.create(ROLES, "", {**unique, "rules": list(allowed)})
    reference = {"apiGroup": RBAC[0], "kind": "ClusterRole", "name": unique["metadata"]["name"]}
    subject = {"kind": "ServiceAccount", "name": who.name, "namespace": who.namespace}
    await api.create(ROLE_BINDINGS, who.namespace, {**unique, "roleRef": reference, "subjects": [subject]})
    await until_authorized(api, service_account(who.namespace, who.name), list(allowed), who.namespace)
    token, _ = await who.token()
    return write_kubeconfig(folder / name, plane.url, {"token": token}, plane)
