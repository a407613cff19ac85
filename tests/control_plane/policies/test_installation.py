"""The policies as objects of the real server: their types, the audit log, and the kinds of scope."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from queue_manager.api.api_resources import JOBS, NAMESPACES, Resource
from queue_manager.api.component_names import service_account
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.policy_settings import PolicyName
from tests.control_plane import provide
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.policies.conftest import ALL
from tests.control_plane.policies.enforced import LABEL, enforced, job
from tests.control_plane.policies.users import Users, refusal
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)


async def test_the_server_finds_no_type_error_in_any_expression(
    policed: str, api: RestClient, plane: ControlPlane
) -> None:
    async def checked() -> bool:
        policies = await api.list(POLICIES)
        return all("typeChecking" in policy.get("status", {}) for policy in policies)

    with plane.controllers("validatingadmissionpolicy-status-controller"):
        await until(checked, "the expressions have been checked")
    found = {p["metadata"]["name"]: p["status"]["typeChecking"] for p in await api.list(POLICIES)}
    assert len(found) > len(PolicyName) - 3
    assert {name: checking for name, checking in found.items() if checking} == {}


async def test_unlabelled_jobs_are_held_when_all_jobs_are_managed(
    api: RestClient, namespace: str, users: Users
) -> None:
    """Except for the children of Jobs, which wait for their parent if that is managed."""
    await api.patch(NAMESPACES, "", namespace, {"metadata": {"labels": {LABEL: "true"}}})
    async with enforced(api, namespace, replace(ALL, manage_all=True)):
        parent = await users.admin.create(JOBS, namespace, job("a", queue=""))
        assert parent["spec"]["suspend"] is True
        assert "spec.suspend" in await refusal(users.admin.patch(JOBS, namespace, "a", {"spec": {"suspend": False}}))
        child = job("child", queue="")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": parent["metadata"]["uid"]}
        child["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        created = await users.admin.create(JOBS, namespace, child)
        assert created["spec"]["suspend"] is False


async def test_nobody_is_exempt_without_a_break_glass_group(api: RestClient, namespace: str, users: Users) -> None:
    await api.patch(NAMESPACES, "", namespace, {"metadata": {"labels": {LABEL: "true"}}})
    async with enforced(api, namespace, replace(ALL, break_glass_group="")):
        await api.create(JOBS, namespace, job("a"))
        user = users.client("jane", "", "sluice:break-glass", "system:masters")
        text = await refusal(user.patch(JOBS, namespace, "a", {"spec": {"suspend": False}}))
        assert text.endswith(f"see what it waits for (sluice explain {namespace}/a)")


async def test_who_may_impersonate_the_group_breaks_the_glass_with_kubectl(
    policed: str, api: RestClient, plane: ControlPlane
) -> None:
    """A service account of the namespace stands for the person on call: kubectl --as ... --as-group ..."""
    rules = [
        {"apiGroups": [""], "resources": ["groups"], "resourceNames": ["sluice:break-glass"], "verbs": ["impersonate"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "patch"]},
    ]
    who = await account(api, policed, rules)
    token, _ = await who.token()
    await api.create(JOBS, policed, job("a"))
    patch = ("-n", policed, "patch", "job", "a", "--type=merge", "-p", '{"spec":{"suspend":false}}')
    me = ("--as", service_account(policed, who.name), "--as-group", "sluice:break-glass")
    file = write_kubeconfig(plane.folder / "on-call", plane.url, {"token": token}, plane)
    refused = await asyncio.to_thread(_kubectl, file, *patch)
    assert refused.returncode == 1
    assert "or act as the group sluice:break-glass in an emergency" in refused.stderr.decode()
    done = await asyncio.to_thread(_kubectl, file, *patch, *me)
    assert done.stdout.decode() == "job.batch/a patched\n", done.stderr


def _kubectl(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    binary = provide.find("kubectl")
    assert binary is not None
    command = [binary, "--kubeconfig", str(kubeconfig), *arguments]
    return subprocess.run(command, check=False, capture_output=True)
