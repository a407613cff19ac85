"""The admission policies refuse nothing that the manager's service account writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_manager.api.api_resources import JOBS, LOCAL_QUEUES, NAMESPACES
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.policy_settings import PolicyName, PolicySettings, service_account
from queue_manager.simulation.kubelet import PodScript
from tests.control_plane.manager.conftest import Start
from tests.control_plane.manager.process import ALL_JOBS
from tests.control_plane.manager.scenario import QUICK, Scenario, is_true, kubelet
from tests.control_plane.manager.service_account import account, write_kubeconfig
from tests.control_plane.policies.enforced import LABEL, enforced
from tests.control_plane.policies.users import refusal
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

BESIDE_THE_BUILT_IN = ALL_JOBS.replace("manage: All", "manage: ManagedBy")
ENDLESS = PodScript(ready_after=0.1, ends_after=None)


async def test_a_job_is_run_stopped_and_run_again(
    scenario: Scenario, api: RestClient, plane: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """It is created unsuspended, without spec.managedBy; every write of both controllers passes the policies."""
    namespace = scenario.namespace
    who = await account(api, namespace)
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", plane.url, {"token": (await who.token())[0]}, plane)
    user = service_account(namespace, who.name)
    selector = {"matchLabels": {LABEL: "true"}}
    settings = PolicySettings(
        queue_accounts=(user,), job_controllers=(user,), policies=frozenset(PolicyName), namespace_selector=selector
    )
    await api.patch(NAMESPACES, "", namespace, {"metadata": {"labels": {LABEL: "true"}}})
    scripts = [ENDLESS]  # of pods; the last one is followed
    async with enforced(api, namespace, settings), kubelet(api.transport, lambda pod: scripts[-1]):
        manager = await start(kubeconfig, config=BESIDE_THE_BUILT_IN)
        await scenario.queues()
        await scenario.submit("a", suspend=False, parallelism=2, completions=2, completionMode="Indexed")
        await scenario.until_admitted("a")

        async def runs() -> bool:
            return bool(await scenario.pods("a"))

        await until(runs, "the Job has pods")
        await api.patch(LOCAL_QUEUES, namespace, "lq", {"spec": {"stopPolicy": "HoldAndDrain"}})

        async def drained() -> bool:
            job = await scenario.job("a")
            return is_true(job, "Suspended") and not await scenario.pods("a")

        await until(drained, "the Job is stopped")
        assert "spec.suspend" in await refusal(api.patch(JOBS, namespace, "a", {"spec": {"suspend": False}}))
        scripts.append(QUICK)
        await api.patch(LOCAL_QUEUES, namespace, "lq", {"spec": {"stopPolicy": "None"}})
        await scenario.until_finished("a")
        await manager.stop()
    assert (await scenario.job("a"))["spec"]["managedBy"] == "sluice/job-controller"
    assert "PolicyViolation" not in {reason for reason, _ in await scenario.events("Job", "a")}
