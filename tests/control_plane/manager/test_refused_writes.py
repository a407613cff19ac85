"""A policy of others refuses what the queue manager writes about a Job: `explain`, `show` and `doctor` name it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.conftest import ROOT, SLUICE
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.scenario import Scenario
from tests.control_plane.manager.service_account import write_kubeconfig
from tests.control_plane.policies.enforced import resource_of
from tests.control_plane.server import ControlPlane

pytestmark = pytest.mark.control_plane

API = "admissionregistration.k8s.io/v1"
ADMISSION = 'object.?status.?conditions.orValue([]).exists(c, c.type == "QuotaReserved" && c.status == "True")'


async def sluice(*arguments: str) -> tuple[int, dict[str, Any]]:
    command = [*SLUICE, *arguments, "-o", "json"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
    )
    return done.returncode, json.loads(done.stdout)


def policy(name: str, namespace: str) -> list[dict[str, Any]]:
    """Return a policy that forbids admissions in a namespace, and its binding."""
    rule = {
        "apiGroups": ["kueue.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["workloads/status"],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    constraints = {"resourceRules": [rule], "namespaceSelector": selector}
    validations = [{"expression": f"!({ADMISSION})", "message": "no admission today"}]
    spec = {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": validations}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    kinds = {"ValidatingAdmissionPolicy": spec, "ValidatingAdmissionPolicyBinding": binding}
    return [{"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": each} for kind, each in kinds.items()]


async def test_a_job_whose_admission_a_policy_refuses_is_explained_by_it(
    scenario: Scenario, plane: ControlPlane, tmp_path: Path, start: Start
) -> None:
    """Until the policy is gone and the next try has succeeded."""
    namespace, api = scenario.namespace, scenario.api
    name = f"freeze-{namespace}"
    kubeconfig = write_kubeconfig(tmp_path / "admin", plane.url, {"token": plane.token}, plane)
    of_job = ("-n", namespace, "--kubeconfig", str(kubeconfig))
    await scenario.queues()
    async with AsyncExitStack() as stack:
        for tree in policy(name, namespace):
            await api.create(resource_of(tree), "", tree)
            stack.push_async_callback(api.delete, resource_of(tree), "", name)
        await asyncio.sleep(3)  # the server follows new policies with a delay
        manager = await start(kubeconfig, config=f"{ALL_JOBS}leaderElection: {{leaderElect: false}}\n")
        manager.may_be_forbidden = True
        await scenario.submit("a")

        async def is_explained() -> bool:
            return (await sluice("explain", "a", *of_job))[1]["code"] == "FAULT/QueueingRefused"

        await scenario.wait(is_explained, "the refusal is explained")
        code, found = await sluice("explain", "a", *of_job)
        assert (code, f"ValidatingAdmissionPolicy '{name}'" in found["sentence"]) == (1, True), found
        assert "no admission today" in found["sentence"]
        assert found["nextCommand"] == f"kubectl get validatingadmissionpolicy {name} -o yaml"
        _, shown = await sluice("show", "a", *of_job)
        assert (shown["reason"], "no admission today" in shown["message"]) == ("QueueingRefused", True), shown
        _, report = await sluice("doctor", *of_job)
        [problem] = [each for each in report["problems"] if each["code"] == "RefusedWrites"]
        assert (problem["severity"], problem["place"]) == ("error", f"job/a -n {namespace}")
    await scenario.until_admitted("a")
    assert (await sluice("explain", "a", *of_job))[1]["code"] in ("", "WAIT/Starting")
    await manager.stop()
