"""What users with rights in one namespace see of a manager that has the kinds without a namespace from files."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from job_controller.json_tree import Json
from queue_manager.api.api_resources import CLUSTER_QUEUES, CONFIG_MAPS, LOCAL_QUEUES, NAMESPACES, WORKLOADS
from queue_manager.api.component_names import OBJECTS_MAP, PUBLISHED_CONFIG
from queue_manager.api.types import Workload
from queue_manager.cli.explanation_reading import read_explanation
from queue_manager.cli.named_targets import JobTarget
from queue_manager.cli.published_objects import managers_view
from queue_manager.cli.queue_reading import read_queues
from queue_manager.cli.queues import queue_table
from queue_manager.cli.scheduler_input_reading import read_cluster
from queue_manager.configuration import KueueConfig
from queue_manager.configuration.published_form import published_data
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Relay, Request, Response, Transport
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.operator.config_publication import publish
from queue_manager.visibility.explain_record import Explanation
from tests.local.test_cluster_objects import FLAVOR, QUEUE

TEAM, OTHER = "team", "other"
OBJECTS = f"{FLAVOR}---\n{QUEUE}  namespaceSelector: {{matchLabels: {{who: team}}}}\n"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ACTIVE = {"type": "Active", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": NOW.isoformat()}


class Clock:
    def now(self) -> datetime:
        return NOW


class Owner(Relay):
    """The requests of a user with rights in one namespace: all others are refused, and those for `hidden`."""

    def __init__(self, inner: Transport, hidden: str = "") -> None:
        super().__init__(inner)
        self._hidden = hidden

    async def request(self, request: Request) -> Response:
        path = f"{request.path}/"
        if f"/namespaces/{TEAM}/" not in path or (self._hidden and path.endswith(f"/{self._hidden}/")):
            return Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden"}')
        return await super().request(request)


@dataclass
class Cluster:
    admin: RestClient

    def owner(self, hidden: str = "") -> RestClient:
        return RestClient(Owner(self.admin.transport, hidden))

    async def put_workload(self, name: str, cpus: int, *, admitted: bool = False) -> Workload:
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": str(cpus)}}}
        spec = {"containers": [container], "restartPolicy": "Never"}
        pods = [{"name": "main", "count": 1, "template": {"spec": spec}}]
        tree: Json = {"metadata": {"name": name}, "spec": {"queueName": "lq", "podSets": pods}}
        created = await self.admin.create(WORKLOADS, TEAM, tree)
        if admitted:
            assigned = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(cpus)}}
            created["status"] = {
                "admission": {"clusterQueue": "team", "podSetAssignments": [assigned]},
                "conditions": [{**ACTIVE, "type": each} for each in ("QuotaReserved", "Admitted")],
            }
            await self.admin.replace(WORKLOADS, created, subresource="status")
        return await self.admin.get(WORKLOADS, TEAM, name, type=Workload)


@pytest.fixture
async def cluster() -> Cluster:
    """One whose manager has the objects from files; `team` of them is active, as its LocalQueue says."""
    client = RestClient(LocalTransport(ApiServer(Store(Clock(), random.Random(1)), KindRegistry.builtin(), Clock())))
    await install_crds(client)
    for name in (TEAM, OTHER):
        await client.create(NAMESPACES, "", {"metadata": {"name": name, "labels": {"who": name}}})
    queue = await client.create(LOCAL_QUEUES, TEAM, {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "team"}})
    await client.replace(LOCAL_QUEUES, {**queue, "status": {"conditions": [ACTIVE]}}, subresource="status")
    await publish_files(client, OBJECTS)
    return Cluster(client)


async def publish_files(
    client: RestClient, text: str, *, of_files: bool = True, listed: tuple[str, ...] = (TEAM,)
) -> None:
    data = published_data(KueueConfig(), listed, (TEAM, "lease"), has_objects_from_files=of_files)
    await publish(client, TEAM, data)
    if await client.find(CONFIG_MAPS, TEAM, OBJECTS_MAP) is None:
        await client.create(CONFIG_MAPS, TEAM, {"metadata": {"name": OBJECTS_MAP}, "data": {"objects.yaml": text}})
    else:
        await client.patch(CONFIG_MAPS, TEAM, OBJECTS_MAP, {"data": {"objects.yaml": text}})


async def explained(client: RestClient, workload: Workload) -> Explanation:
    config = KueueConfig()
    seen = await managers_view(client, TEAM, config)
    view = await read_cluster(seen.client, seen.namespaces)
    queues = await read_queues(seen.client, [TEAM], config)
    target = JobTarget(None, workload)
    return await read_explanation(client, target, view, queues, config, TEAM, NOW)


async def test_an_owner_of_a_namespace_has_the_view_of_its_manager(cluster: Cluster) -> None:
    await cluster.put_workload("holds", 3, admitted=True)
    waits = await cluster.put_workload("waits", 2)
    for client in (cluster.owner(), cluster.admin):
        found = await explained(client, waits)
        assert found.code == "WAIT/WaitingForQuota"
        assert [(row.flavor, row.free, row.limit) for row in found.flavors] == [("default", "1", "4")]
        assert [(row.cluster_queue, row.workloads) for row in found.holders] == [("team", 1)]
        assert (found.position.cluster_queue, found.position.of) == (1, 1) if found.position else False
        assert not any("quota" in each for each in found.not_seen)
    never = await cluster.put_workload("never", 5)
    assert (await explained(cluster.owner(), never)).code == "NEVER/ExceedsMaxQuota"
    [row] = (await queue_table(cluster.owner(), TEAM)).rows
    assert (row.name, row.state, [quota.used for quota in row.quotas]) == ("team", "Active", ["3"])
    assert await cluster.admin.list(CLUSTER_QUEUES) == []


@pytest.mark.parametrize(
    ("hidden", "text"),
    [(OBJECTS_MAP, OBJECTS), (PUBLISHED_CONFIG, OBJECTS), (TEAM, OBJECTS), ("", "kind: ClusterQueue\n")],
    ids=["files", "configuration", "labels of the namespace", "a mistake"],
)
async def test_what_cannot_be_read_or_used_leaves_the_view_of_the_api_server(
    cluster: Cluster, hidden: str, text: str
) -> None:
    await publish_files(cluster.admin, text)
    owner = cluster.owner(hidden)
    seen = await managers_view(owner, TEAM)
    assert (seen.client, seen.namespaces) == (owner, ())
    [row] = (await queue_table(owner, TEAM)).rows
    assert row.state == "Unlisted"


@pytest.mark.parametrize("options", [{"of_files": False}, {"listed": ()}], ids=str)
async def test_files_of_a_manager_that_does_not_say_that_it_uses_them_are_not_read(
    cluster: Cluster, options: Mapping[str, bool]
) -> None:
    await publish_files(cluster.admin, OBJECTS, **options)  # type: ignore[arg-type]
    assert (await managers_view(cluster.admin, TEAM)).client is cluster.admin


async def test_a_namespace_that_may_not_be_read_leaves_free_quota_unknown(cluster: Cluster) -> None:
    """Workloads of another one that the manager lists may hold quota."""
    found = await read_cluster(cluster.owner(), [TEAM, OTHER])
    assert found.objects is None
    assert found.not_seen == ("workloads of namespace other: how much quota is free, and who holds it",)
