"""The visibility API of `sluice manager` on a real API server: aggregated, with its users and roles, and directly."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from queue_manager.api.api_resources import (
    API_SERVICES,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    SECRETS,
    WORKLOADS,
    Resource,
)
from queue_manager.api.component_names import WEBHOOK_SECRET
from queue_manager.api.types import Workload
from queue_manager.engine.http_transport import HttpTransport
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from queue_manager.installation.objects import objects
from queue_manager.installation.settings import Settings
from queue_manager.operator.required_permissions import ALL, LEADER, rule, rules
from queue_manager.operator.webhooks.webhook_permissions import CA_INJECTION, certificate_secret
from tests.control_plane import front_proxy
from tests.control_plane.conftest import ROOT as REPOSITORY
from tests.control_plane.conftest import SLUICE, install_kinds
from tests.control_plane.manager.guarded import config
from tests.control_plane.manager.process import Manager
from tests.control_plane.manager.service_account import (
    ACCOUNTS,
    BINDINGS,
    PUBLISHING,
    RBAC,
    ROLES,
    Account,
    write_kubeconfig,
)
from tests.control_plane.server import ControlPlane, free_ports
from tests.waiting import until

pytestmark = pytest.mark.control_plane

SERVICES = Resource("", "v1", "services", "Service")
ROLE_BINDINGS = Resource(*RBAC, "rolebindings", "RoleBinding")
KINDS = {each.kind: each for each in (API_SERVICES, SERVICES, ROLE_BINDINGS, ROLES, BINDINGS)}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ROOT = "/apis/visibility.kueue.x-k8s.io/v1beta2"
OF_CQ = f"{ROOT}/clusterqueues/cq/pendingworkloads"
OF_LQ = f"{ROOT}/namespaces/team-a/localqueues/q/pendingworkloads"
EXPLANATION = f"{ROOT}/namespaces/team-a/localqueues/q/explanation"
EXPLANATIONS = "sluice-explanation-reader-role"
VIEWERS = tuple(f"kueue-{kind}-viewer-role" for kind in ("job", "localqueue", "workload"))
SYSTEM, ACCOUNT = "kueue-system", "kueue-controller-manager"


@pytest.fixture(scope="module")
def aggregating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that aggregates others: with a front proxy's certificate and its CA."""
    with ControlPlane.start(*front_proxy.flags(tmp_path_factory.mktemp("front-proxy"))) as plane:
        install_kinds(plane)
        yield plane


@pytest.fixture
async def api(aggregating: ControlPlane) -> AsyncIterator[RestClient]:
    transport = HttpTransport.from_kubeconfig(aggregating.kubeconfig)
    yield RestClient(transport)
    await transport.close()


async def create_all(api: RestClient, port: int) -> None:
    """What is installed for the visibility API; only the Service leads to the manager on this machine."""
    for tree in objects(Settings()):
        if not concerns_visibility(tree["metadata"]["name"]):
            continue
        if tree["kind"] == "Service":
            tree["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        elif tree["kind"] == "APIService":
            tree["spec"]["service"]["port"] = port
        await api.create(KINDS[tree["kind"]], tree["metadata"].get("namespace", ""), tree)


def concerns_visibility(name: str) -> bool:
    parts = ("visibility", "auth-delegator", "pending-workloads", "kueue-batch", EXPLANATIONS, *VIEWERS)
    return any(part in name for part in parts)


async def create_queues(api: RestClient) -> None:
    """Three Workloads pending in one ClusterQueue without quota, of two namespaces."""
    for name in ("team-a", "team-b"):
        await api.create(NAMESPACES, "", {"metadata": {"name": name}})
    await api.create(RESOURCE_FLAVORS, "", {"metadata": {"name": "f"}})
    flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "0"}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]}
    await api.create(CLUSTER_QUEUES, "", {"metadata": {"name": "cq"}, "spec": spec})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    sets = [{"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}]
    for namespace in ("team-a", "team-b"):
        await api.create(LOCAL_QUEUES, namespace, {"metadata": {"name": "q"}, "spec": {"clusterQueue": "cq"}})
    for namespace, name, priority in (("team-a", "low", 1), ("team-b", "middle", 2), ("team-a", "high", 3)):
        spec = {"queueName": "q", "podSets": sets, "priority": priority}
        await api.create(WORKLOADS, namespace, {"metadata": {"name": name}, "spec": spec})


async def manager_account(api: RestClient) -> Account:
    await api.create(NAMESPACES, "", {"metadata": {"name": SYSTEM}})
    await api.create(ACCOUNTS, SYSTEM, {"metadata": {"name": ACCOUNT}})
    await api.create(SECRETS, SYSTEM, {"metadata": {"name": WEBHOOK_SECRET}})
    own = [*rules(ALL), PUBLISHING, rule(LEADER), rule(certificate_secret(WEBHOOK_SECRET)), *map(rule, CA_INJECTION)]
    await api.create(ROLES, "", {"metadata": {"name": ACCOUNT}, "rules": own})
    await bind(api, BINDINGS, "", ACCOUNT, {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM})
    return Account(api, SYSTEM, ACCOUNT)


async def bind(api: RestClient, kind: Resource, namespace: str, role: str, subject: dict[str, str]) -> None:
    reference = {"apiGroup": RBAC[0], "kind": "ClusterRole", "name": role}
    tree = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
    await api.create(kind, namespace, tree)


def names(body: str) -> list[tuple[str, int]]:
    return [(item["metadata"]["name"], item["positionInClusterQueue"]) for item in json.loads(body)["items"]]


async def test_users_read_positions_through_the_api_server_as_roles_allow(
    api: RestClient, aggregating: ControlPlane, tmp_path: Path
) -> None:
    """The API server verifies the manager's certificate, by the caBundle that the manager wrote."""
    manager_token, _ = await (await manager_account(api)).token()
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", aggregating.url, {"token": manager_token}, aggregating)
    manager: Manager | None = None
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=aggregating.ssl_context())) as session:

        async def read(path: str, user: str = "") -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {aggregating.token}"} | ({"Impersonate-User": user} if user else {})
            async with session.get(aggregating.url + path, headers=headers) as answer:
                return answer.status, await answer.text()

        try:
            # The roles for delegated authentication come with the manifest, which needs the manager's port.
            [port] = free_ports(1)
            await create_all(api, port)
            await create_queues(api)
            flags = ("--visibility-port", str(port), "--webhook-port", "0")
            manager = await Manager.start(kubeconfig, *flags, config=config(SYSTEM))

            async def is_served() -> bool:
                """Each version has an APIService, whose availability the API server finds out by itself."""
                answers = [await read(OF_CQ), await read(OF_CQ.replace("v1beta2", "v1beta1"))]
                return [status for status, _ in answers] == [200, 200]

            async def are_pending() -> bool:
                return names((await read(OF_CQ))[1]) == [("high", 0), ("middle", 1), ("low", 2)]

            await until(is_served, "the visibility API is aggregated in both versions")
            await until(are_pending, "the three Workloads are pending")
            assert names((await read(f"{OF_CQ}?limit=1&offset=1"))[1]) == [("middle", 1)]
            assert (await read(OF_CQ.replace("/cq/", "/nope/")))[0] == 404

            user = {"apiGroup": RBAC[0], "kind": "User", "name": "alice"}
            await bind(api, ROLE_BINDINGS, "team-a", "kueue-pending-workloads-lq-viewer-role", user)

            async def alice_reads() -> bool:
                return (await read(OF_LQ, "alice"))[0] == 200

            await until(alice_reads, "the role is bound")
            assert names((await read(OF_LQ, "alice"))[1]) == [("high", 0), ("low", 2)]
            assert (await read(OF_LQ.replace("team-a", "team-b"), "alice"))[0] == 403
            assert (await read(OF_CQ, "alice"))[0] == 403
            await check_direct_access(manager, aggregating.token)
            await check_explanations(api, aggregating, tmp_path, read)
            await check_deletion_of_a_namespace(api, aggregating)
        finally:
            if manager is not None:
                await manager.stop()


async def check_explanations(
    api: RestClient, plane: ControlPlane, folder: Path, read: Callable[[str, str], Awaitable[tuple[int, str]]]
) -> None:
    """`sluice explain` of a user with rights in team-a only: with numbers once the role allows it."""
    (folder / "alice").mkdir()
    who = write_kubeconfig(folder / "alice" / "kubeconfig", plane.url, {"token": plane.token, "as": "alice"}, plane)
    alice = {"apiGroup": RBAC[0], "kind": "User", "name": "alice"}
    quota = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": quota}]
    await api.patch(WORKLOADS, "team-a", "high", {"spec": {"active": False}})
    await api.patch(CLUSTER_QUEUES, "", "cq", {"spec": {"resourceGroups": groups}})
    for role in VIEWERS:
        await bind(api, ROLE_BINDINGS, "team-a", role, alice)

    async def middle_holds_the_quota() -> bool:
        found = await api.get(WORKLOADS, "team-b", "middle", type=Workload)
        return found.is_true("QuotaReserved") and names((await read(OF_LQ, "alice"))[1]) == [("low", 0)]

    await until(middle_holds_the_quota, "the Workload of team-b holds the quota, and that of team-a waits")

    async def says(*words: str) -> str:
        command = [*SLUICE, *words, "--kubeconfig", str(who)]
        done = await asyncio.to_thread(subprocess.run, command, cwd=REPOSITORY, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert not re.search("team-b|middle", done.stdout + done.stderr)
        return done.stdout

    async def explained() -> dict[str, Any]:
        return dict(json.loads(await says("explain", "low", "-n", "team-a", "-o", "json")))

    assert (await read(f"{EXPLANATION}?workload=low", "alice"))[0] == 403
    found = await explained()
    assert (found["code"], found["holders"], found["position"]["of"]) == ("WAIT/WaitingForQuota", [], None)
    assert "workloads of all namespaces" in found["notSeen"][0]

    await bind(api, ROLE_BINDINGS, "team-a", EXPLANATIONS, alice)

    async def alice_may() -> bool:
        return (await read(f"{EXPLANATION}?workload=low", "alice"))[0] == 200

    await until(alice_may, "the role is bound")
    found = await explained()
    assert found["code"] == "WAIT/WaitingForQuota"
    [row] = found["flavors"]
    assert (row["requested"], row["free"], row["borrowable"], row["limit"]) == ("1", "0", "0", "1")
    holder = {"clusterQueue": "cq", "namespace": "", "queue": "", "workloads": 1, "holds": {"f/cpu": "1"}, "jobs": []}
    assert found["holders"] == [{**holder, "stopping": 0}]
    assert [check["verdict"] for check in found["preemptions"]] == ["PolicyNever"]
    assert "running Workloads release 1 cpu of flavor f" in found["changes"]
    assert (found["position"]["clusterQueue"], found["position"]["of"]) == (1, 1)
    assert found["nextCommand"] == "sluice ps -q cq/cq"
    await says(*found["nextCommand"].split()[1:], "-n", "team-a")
    assert (await read(f"{EXPLANATION}?workload=middle", "alice"))[0] == 404
    assert (await read(f"{EXPLANATION.replace('team-a', 'team-b')}?workload=middle", "alice"))[0] == 403
    assert (await read(f"{EXPLANATION}?workload=low", "bob"))[0] == 403


async def check_deletion_of_a_namespace(api: RestClient, plane: ControlPlane) -> None:
    """It ends, since the API server can tell which kinds the visibility API has: it asks as a user without groups."""
    await api.create(NAMESPACES, "", {"metadata": {"name": "goes"}})

    async def are_known() -> bool:
        answer = await api.transport.request(Request("GET", "/apis", accept=AGGREGATED))
        groups = {group["metadata"]["name"]: group for group in json.loads(answer.body)["items"]}
        versions = groups["visibility.kueue.x-k8s.io"]["versions"]
        return [(v["freshness"], len(v.get("resources", ()))) for v in versions] == [("Current", 2)] * 2

    async def is_gone() -> bool:
        return "goes" not in {tree["metadata"]["name"] for tree in await api.list(NAMESPACES, "")}

    await until(are_known, "the API server knows the kinds of the visibility API")
    with plane.controllers("namespace-controller"):
        await api.delete(NAMESPACES, "", "goes")
        await until(is_gone, "the namespace is deleted")


async def check_direct_access(manager: Manager, token: str) -> None:
    """Without the API server in between, a token proves the user, and headers prove nothing."""
    line = next(line for line in manager.lines if "/apis/visibility" in line)
    url = re.sub(r"/apis/.*", "", line.removeprefix("serving "))
    cases: list[tuple[dict[str, str], int]] = [
        ({"Authorization": f"Bearer {token}"}, 200),
        ({"Authorization": "Bearer wrong"}, 401),
        ({}, 401),
        ({"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}, 401),
    ]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        for headers, status in cases:
            async with session.get(url + OF_CQ, headers=headers) as answer:
                assert answer.status == status, (headers, await answer.text())
