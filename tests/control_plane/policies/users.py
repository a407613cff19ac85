"""Users of the real server, by impersonation: their names and groups are what policies and RBAC see."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable
from pathlib import Path
from types import TracebackType

import pytest

from queue_manager.api.api_resources import Resource
from queue_manager.api.component_names import service_account
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation.policy_settings import BREAK_GLASS_GROUP
from tests.control_plane.manager.service_account import RBAC, until_authorized, write_kubeconfig
from tests.control_plane.manager.service_account import ROLES as CLUSTER_ROLES
from tests.control_plane.server import ControlPlane

JANE = "jane"
QUEUE = service_account("kueue-system", "kueue-controller-manager")
ADMINS = "system:masters"
ROLES = Resource(*RBAC, "roles", "Role")
BINDINGS = Resource(*RBAC, "rolebindings", "RoleBinding")


class Users:
    """Clients of several users."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._folder = tempfile.TemporaryDirectory()
        self._open: list[HttpTransport] = []

    def client(self, name: str, *groups: str) -> RestClient:
        user = {"token": self._plane.token, "as": name, "as-groups": [*groups, "system:authenticated"]}
        path = write_kubeconfig(Path(self._folder.name) / "kubeconfig", self._plane.url, user, self._plane)
        self._open.append(HttpTransport.from_kubeconfig(path))
        return RestClient(self._open[-1])

    @property
    def jane(self) -> RestClient:
        """A user with the role `edit` in the namespace of the test."""
        return self.client(JANE)

    @property
    def firefighter(self) -> RestClient:
        """The same user with the group that is exempt, as with `kubectl --as jane --as-group sluice:break-glass`."""
        return self.client(JANE, BREAK_GLASS_GROUP)

    @property
    def admin(self) -> RestClient:
        return self.client("root", ADMINS)

    @property
    def queue(self) -> RestClient:
        """The queue's controllers; the group grants the rights that a role of the installation grants otherwise."""
        return self.client(QUEUE, ADMINS)

    async def __aenter__(self) -> Users:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for transport in self._open:
            await transport.close()
        self._folder.cleanup()


async def give_role(api: RestClient, namespace: str, name: str, *, kind: str = "ClusterRole", user: str = JANE) -> None:
    """Bind a role in the namespace, and wait until the API server authorizes by it."""
    reference = {"apiGroup": RBAC[0], "kind": kind, "name": name}
    subjects = [{"apiGroup": RBAC[0], "kind": "User", "name": user}]
    body = {"metadata": {"name": f"{user}-{name}"}, "roleRef": reference, "subjects": subjects}
    await api.create(BINDINGS, namespace, body)
    role = await (api.get(CLUSTER_ROLES, "", name) if kind == "ClusterRole" else api.get(ROLES, namespace, name))
    await until_authorized(api, user, role["rules"], namespace)


async def refusal(write: Awaitable[object]) -> str:
    """The reason that a policy gives for refusing a write; the test fails if the write is accepted."""
    with pytest.raises(ApiError) as caught:
        await write
    before, denied, text = caught.value.message.partition("denied request: ")
    assert denied, caught.value.message
    assert "ValidatingAdmissionPolicy 'sluice-" in before
    assert caught.value.status == 403
    return text
