"""The policies as an installation has them: what the admin and the KueueConfig decide holds on the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from queue_manager.api.api_resources import JOBS, NAMESPACES
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.helm_values import settings_from
from queue_manager.installation.objects import objects
from queue_manager.installation.policy_settings import BREAK_GLASS_GROUP
from queue_manager.installation.settings import CONFIG
from tests.control_plane.policies.conftest import ALL
from tests.control_plane.policies.enforced import LABEL, in_force, job
from tests.control_plane.policies.users import Users, give_role, refusal

pytestmark = pytest.mark.control_plane

OPERATOR, GROUP = "system:serviceaccount:team:operator", "on-call"
MANAGE_ALL = f"""{CONFIG}manageJobsWithoutQueueName: true
managedJobsNamespaceSelector:
  matchLabels: {{{LABEL}: "true"}}
"""
RESUME = {"spec": {"suspend": False}}


def policies(config: str, **chosen: Any) -> list[dict[str, Any]]:
    values = {
        "managerConfig": {"controllerManagerConfigYaml": config},
        "admissionPolicies": {"enabled": True, **chosen},
    }
    trees = objects(settings_from([values], []))
    return [tree for tree in trees if "AdmissionPolicy" in tree["kind"]]


@pytest.fixture
async def installed(api: RestClient, namespace: str) -> AsyncIterator[str]:
    """A managed namespace with the policies of an installation, in which `jane` and the operator may edit."""
    await api.patch(NAMESPACES, "", namespace, {"metadata": {"labels": {LABEL: "true"}}})
    for user in ("jane", OPERATOR):
        await give_role(api, namespace, "system:aggregate-to-edit", user=user)
    trees = policies(MANAGE_ALL, breakGlassGroup=GROUP, queueAccounts=[OPERATOR])
    async with in_force(api, namespace, trees, ALL):
        yield namespace


async def test_the_configuration_decides_that_all_jobs_are_held(installed: str, api: RestClient, users: Users) -> None:
    """And in which namespaces: there is one more, without the label."""
    created = await users.jane.create(JOBS, installed, job("a", queue=""))
    assert created["spec"]["suspend"] is True
    elsewhere = f"{installed}-other"
    await api.create(NAMESPACES, "", {"metadata": {"name": elsewhere}})
    try:
        created = await api.create(JOBS, elsewhere, job("a", queue=""))
        assert created["spec"]["suspend"] is False
        await api.delete(JOBS, elsewhere, "a")
    finally:
        await api.delete(NAMESPACES, "", elsewhere)


async def test_only_the_chosen_group_breaks_the_glass(installed: str, users: Users) -> None:
    await users.jane.create(JOBS, installed, job("a"))
    for groups in ((), (BREAK_GLASS_GROUP,)):
        text = await refusal(users.client("jane", *groups).patch(JOBS, installed, "a", RESUME))
        assert text.endswith(f"(sluice explain {installed}/a), or act as the group {GROUP} in an emergency")
    freed = await users.client("jane", GROUP).patch(JOBS, installed, "a", RESUME)
    assert freed["spec"]["suspend"] is False


async def test_a_further_account_counts_as_the_queue(installed: str, users: Users) -> None:
    await users.jane.create(JOBS, installed, job("a"))
    assert OPERATOR in await refusal(users.jane.patch(JOBS, installed, "a", RESUME))
    resumed = await users.client(OPERATOR).patch(JOBS, installed, "a", RESUME)
    assert resumed["spec"]["suspend"] is False
