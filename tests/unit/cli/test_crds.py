"""`sluice crds --finish-delete` on the embedded API server, where no manager runs."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from queue_manager.api import keys
from queue_manager.api.api_resources import CLUSTER_QUEUES, JOBS, RESOURCE_FLAVORS, WORKLOADS, Resource
from queue_manager.cli.change_report import ChangeReport
from queue_manager.cli.crds import finish_delete
from queue_manager.cli.main import main
from queue_manager.engine.rest_client import RestClient
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def client() -> RestClient:
    clock, rng = Clock(), random.Random(1)
    client = RestClient(LocalTransport(ApiServer(Store(clock, rng), KindRegistry.builtin(), clock)))
    await install_crds(client)
    return client


OURS, OTHER = [keys.FINALIZER], [keys.FINALIZER, "example.com/mine"]
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
WORKLOAD = {"podSets": [{"name": "main", "count": 1, "template": TEMPLATE}]}
OBJECTS = (
    (WORKLOADS, "default", "goes", OURS, WORKLOAD),
    (WORKLOADS, "default", "stays", OURS, WORKLOAD),
    (CLUSTER_QUEUES, "", "goes", OURS, {}),
    (RESOURCE_FLAVORS, "", "waits", OTHER, {}),
)


async def create(client: RestClient) -> None:
    """Create objects that wait for their finalizer to be removed; `stays` is not being deleted."""
    for resource, namespace, name, finalizers, spec in OBJECTS:
        await client.create(resource, namespace, {"metadata": {"name": name, "finalizers": finalizers}, "spec": spec})
        if name != "stays":
            await client.delete(resource, namespace, name)


async def left(client: RestClient, resource: Resource) -> dict[str, list[str]]:
    return {tree["metadata"]["name"]: tree["metadata"].get("finalizers", []) for tree in await client.list(resource)}


async def test_only_the_queues_finalizer_is_removed_from_deleted_objects(
    client: RestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    await create(client)
    report = ChangeReport("table", dry_run=False)
    await finish_delete(client, report, dry_run=False)
    assert await left(client, WORKLOADS) == {"stays": OURS}
    assert await left(client, CLUSTER_QUEUES) == {}
    assert await left(client, RESOURCE_FLAVORS) == {"waits": ["example.com/mine"]}
    assert capsys.readouterr().out.splitlines() == [
        f"Workload default/goes released: finalizer {keys.FINALIZER} removed",
        f"ClusterQueue goes released: finalizer {keys.FINALIZER} removed",
        f"ResourceFlavor waits released: finalizer {keys.FINALIZER} removed",
    ]


async def test_a_dry_run_releases_nothing(client: RestClient) -> None:
    await create(client)
    report = ChangeReport("table", dry_run=True)
    await finish_delete(client, report, dry_run=True)
    assert [row.result for row in report.rows] == ["released"] * 3
    assert sorted(await left(client, WORKLOADS)) == ["goes", "stays"]


async def test_without_crds_there_is_nothing_to_do() -> None:
    clock, rng = Clock(), random.Random(1)
    bare = RestClient(LocalTransport(ApiServer(Store(clock, rng), KindRegistry.builtin(), clock)))
    report = ChangeReport("table", dry_run=False)
    await finish_delete(bare, report, dry_run=False)
    assert report.rows == []


def test_the_help_names_the_command_that_deletes_the_crds_for_good(capsys: pytest.CaptureFixture[str]) -> None:
    """`kubectl delete` of them can hang."""
    with pytest.raises(SystemExit):
        main(["crds", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "`sluice uninstall --crds`" in said
    assert "crds | kubectl delete" not in said


async def test_a_running_job_goes_on_when_the_finalizers_are_removed(client: RestClient) -> None:
    """Without a manager, neither the Job nor its status changes."""
    spec = {"suspend": False, "template": TEMPLATE}
    job = await client.create(JOBS, "default", {"metadata": {"name": "runs"}, "spec": spec})
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "runs", "uid": job["metadata"]["uid"]}
    owned = {"name": "goes", "finalizers": OURS, "ownerReferences": [{**reference, "controller": True}]}
    await client.create(WORKLOADS, "default", {"metadata": owned, "spec": WORKLOAD})
    await client.delete(WORKLOADS, "default", "goes")
    await finish_delete(client, ChangeReport("table", dry_run=False), dry_run=False)
    assert await left(client, WORKLOADS) == {}
    assert await client.get(JOBS, "default", "runs") == job
