from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from queue_manager.api.api_resources import NAMESPACES
from queue_manager.engine.rest_client import RestClient
from queue_manager.installation.policy_settings import PolicyName, PolicySettings
from tests.control_plane.policies.enforced import LABEL, enforced
from tests.control_plane.policies.users import QUEUE, Users, give_role
from tests.control_plane.server import ControlPlane

ALL = PolicySettings(
    queue_accounts=(QUEUE,),
    job_controllers=(QUEUE,),
    policies=frozenset(PolicyName),
    namespace_selector={"matchLabels": {LABEL: "true"}},
)


@pytest.fixture
async def policed(api: RestClient, namespace: str) -> AsyncIterator[str]:
    """A namespace in which all policies apply, and in which `jane` has the role `edit`."""
    await api.patch(NAMESPACES, "", namespace, {"metadata": {"labels": {LABEL: "true"}}})
    await give_role(api, namespace, "system:aggregate-to-edit")  # no controller aggregates it to `edit` here
    async with enforced(api, namespace, ALL):
        yield namespace


@pytest.fixture
async def users(plane: ControlPlane) -> AsyncIterator[Users]:
    async with Users(plane) as users:
        yield users
