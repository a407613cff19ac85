"""The installed service accounts: the API server's audit log shows no refusal, and a use of every right.

`tour.py` is played with the managers of each kind of installation under their own service accounts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from job_controller.json_tree import Json
from queue_manager.api.api_resources import (
    API_SERVICES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from queue_manager.api.webhook_table import MUTATING, VALIDATING
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from queue_manager.installation.granted_permissions import Grant, granted
from queue_manager.installation.helm_values import settings_from
from queue_manager.installation.objects import objects
from queue_manager.operator.required_permissions import ALL, rules
from queue_manager.operator.webhooks.webhook_permissions import API_SERVICE_NAMES
from tests.control_plane import audit
from tests.control_plane.conftest import install_kinds
from tests.control_plane.install.installed_managers import SYSTEM, installed, start
from tests.control_plane.manager.proxy import proxy_to
from tests.control_plane.manager.scenario import Scenario, kubelet
from tests.control_plane.manager.service_account import account, without
from tests.control_plane.rights.tour import SETTINGS, Tour, script
from tests.control_plane.server import ControlPlane, free_ports
from tests.waiting import until

pytestmark = pytest.mark.control_plane

TEAM = "team"
MANAGER, JOB_CONTROLLER = "kueue-controller-manager", "sluice-job-controller"
# The API server asks for these rights itself, when an object with an owner is created: they are in no request.
NO_REQUEST = {("batch", "jobs/finalizers", "update")}
# Of Kubernetes's own roles: who scrapes metrics, and which certificate the API server presents to the visibility API.
DELEGATED = {"tokenreviews", "subjectaccessreviews"}


@pytest.fixture
async def cluster() -> AsyncIterator[ControlPlane]:
    """A cluster of its own for each kind of installation; the plugin is one that many clusters switch on."""
    with ControlPlane.start("--enable-admission-plugins=OwnerReferencesPermissionEnforcement") as plane:
        yield plane


@pytest.fixture
async def api(cluster: ControlPlane) -> AsyncIterator[RestClient]:
    transport = HttpTransport.from_kubeconfig(cluster.kubeconfig)
    yield RestClient(transport)
    await transport.close()


CLUSTER_OBJECTS = """
{kind: ResourceFlavor, apiVersion: kueue.x-k8s.io/v1beta2, metadata: {name: default}}
---
kind: ClusterQueue
apiVersion: kueue.x-k8s.io/v1beta2
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4}]}]
"""
ONLY_JOBS: Json = {"components": "JobController", "namespaces": [TEAM], "monitoring": {"authorizeReaders": True}}


@pytest.mark.parametrize(
    ("values", "accounts", "tour"),
    [
        pytest.param({}, [MANAGER], Tour.run, id="together"),
        pytest.param({"components": "Apart"}, [MANAGER, JOB_CONTROLLER], Tour.run, id="apart"),
        pytest.param({"namespaces": [TEAM]}, [MANAGER], Tour.run, id="listed"),
        pytest.param(ONLY_JOBS, [JOB_CONTROLLER], Tour.run_without_queue, id="only the Job controller"),
        pytest.param(
            {"namespaces": [TEAM], "clusterObjects": CLUSTER_OBJECTS},
            [MANAGER],
            Tour.run_with_roles_only,
            id="with Roles only",
        ),
    ],
)
async def test_every_right_is_used_and_no_request_is_refused(
    cluster: ControlPlane,
    api: RestClient,
    tmp_path: Path,
    values: Json,
    accounts: list[str],
    tour: Callable[[Tour], Awaitable[None]],
) -> None:
    settings = settings_from([values], [])
    await api.create(NAMESPACES, "", {"metadata": {"name": TEAM}})
    roles_only = bool(settings.cluster_objects)
    if roles_only:  # an admin has made both
        await api.create(NAMESPACES, "", {"metadata": {"name": SYSTEM}})
        await asyncio.to_thread(install_kinds, cluster)
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    deployments = await asyncio.to_thread(installed, cluster, flags=("--values", str(file)))
    assert deployments == accounts
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxy_to(cluster))
        for name in deployments:
            changed = {**SETTINGS, **addresses(*free_ports(4))}
            if roles_only:
                changed["metrics"] = {"bindAddress": "0"}  # on loopback, without authentication
            manager = await start(cluster, name, tmp_path / name, changed, url=proxy.url, ports=())
            stack.push_async_callback(manager.stop)
            if not roles_only:
                await scrape(changed["metrics"]["bindAddress"], cluster.token)
        if settings.components != "JobController" and not roles_only:
            await without_webhooks(api)
        await stack.enter_async_context(kubelet(api.transport, script))
        await tour(Tour(Scenario(api, TEAM, until), proxy))
    acts = list(audit.acts(audit.log_of(cluster.folder)))
    assert [act for act in acts if act.code == 403] == []
    for name in accounts:
        mine = [act for act in acts if act.account == f"{SYSTEM}:{name}"]
        rights = granted(objects(settings, SYSTEM), name)
        assert {right for right in rights if not used(right, mine)} == set(), name
        assert {act.resource for act in mine} >= (set() if roles_only else DELEGATED)
    reads_front_proxy = any(act.name == "extension-apiserver-authentication" for act in acts)
    assert reads_front_proxy is (MANAGER in accounts and not roles_only)


def used(right: Grant, acts: list[audit.Act]) -> bool:
    wanted = (right.group, right.resource, right.verb)
    return wanted in NO_REQUEST or any(
        act.right == wanted and right.namespace in ("", act.namespace) and right.name in ("", act.name) for act in acts
    )


def addresses(health: int, metrics: int, visibility: int, webhook: int) -> dict[str, Any]:
    """Ports of this machine; metrics not on loopback alone, where they are for everyone."""
    return {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": f":{metrics}"},
        "visibilityServer": {"bindPort": visibility},
        "webhook": {"port": webhook},
    }


async def scrape(address: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    url = f"https://localhost{address}/metrics"
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url, ssl=False) as answer:
        assert answer.status == 200, await answer.text()


async def without_webhooks(api: RestClient) -> None:
    """Wait until the manager has written every caBundle, and remove the webhooks: there is no Service network here."""
    hooks = ((MUTATING_WEBHOOKS, MUTATING), (VALIDATING_WEBHOOKS, VALIDATING))
    for resource, name in (*hooks, *((API_SERVICES, name) for name in API_SERVICE_NAMES)):
        await until(lambda resource=resource, name=name: is_trusted(api, resource, name), f"{name} has the CA")
    for resource, name in hooks:
        with contextlib.suppress(ApiError):  # an installation of listed namespaces has none
            await api.delete(resource, "", name)


async def is_trusted(api: RestClient, resource: Resource, name: str) -> bool:
    """Whether an object has our CA; also if it is not part of this installation."""
    try:
        found = await api.get(resource, "", name)
    except ApiError as error:
        if error.is_not_found:
            return True
        raise
    hooks = [hook["clientConfig"] for hook in found.get("webhooks", ())] or [found["spec"]]
    return all(hook.get("caBundle") or hook.get("insecureSkipTLSVerify") for hook in hooks)


async def test_an_object_with_an_owner_needs_the_right_on_finalizers(cluster: ControlPlane, api: RestClient) -> None:
    """Why `update jobs/finalizers` is granted: pods and Workloads have owner references with blockOwnerDeletion."""
    await api.create(NAMESPACES, "", {"metadata": {"name": TEAM}})
    some, all_but_one = (
        await account(api, TEAM, rules(ALL)),
        await account(api, TEAM, without("update", "jobs/finalizers")),
    )
    for who, allowed in ((some, True), (all_but_one, False)):
        transport = HttpTransport(cluster.url, token=(await who.token())[0], ssl=cluster.ssl_context())
        try:
            assert await may_create_owned(RestClient(transport)) is allowed
        finally:
            await transport.close()


async def may_create_owned(client: RestClient) -> bool:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "1", "controller": True}
    meta = {"generateName": "owned-", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    try:
        await client.create(PODS, TEAM, {"metadata": meta, "spec": spec})
    except ApiError as error:
        if error.is_forbidden:
            return False
        raise
    return True
