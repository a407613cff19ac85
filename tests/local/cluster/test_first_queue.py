"""The queue that `sluice up` creates once, with the quota that the nodes have and other queues leave."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from job_controller import quantities
from queue_manager import assets
from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS, EVENTS, LOCAL_QUEUES, NAMESPACES
from queue_manager.api.types import ClusterQueue
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import JSON_PATCH, Relay, Request, Response
from queue_manager.local.first_queue import DONE, FirstQueue, NodeQuota, create_first_queue
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.simulation.virtual_time import run_virtual
from queue_manager.simulation.world import World
from tests.local.cluster.conftest import Up
from tests.waiting import SECONDS

Start = Callable[..., Up]
QUOTA_OF_CPU = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
QUICK_START = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default-flavor}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cluster-queue}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, memory]
      flavors:
        - name: default-flavor
          resources:
            - {name: cpu, nominalQuota: 9}
            - {name: memory, nominalQuota: 36Gi}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: default, name: user-queue}
spec: {clusterQueue: cluster-queue}
"""


async def quota(client: RestClient) -> list[str | int]:
    queue = await client.get(CLUSTER_QUEUES, "", "cluster-queue")
    return [r["nominalQuota"] for r in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]]


async def becomes(client: RestClient, wanted: list[str | int]) -> None:
    async with asyncio.timeout(SECONDS):
        while await quota(client) != wanted:
            await asyncio.sleep(0.02)


def apply(up: Up, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(up.kubeconfig), "apply", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin, timeout=SECONDS)


@pytest.mark.kubectl
async def test_sample_and_first_queue_share_the_capacity_of_the_nodes(start: Start) -> None:
    up = start("--cpu", "4", "--memory", "8Gi")
    apply(up, "-f", str(assets.samples() / "queues.yaml"))
    async with up.client() as client:
        await becomes(client, ["2", "7Gi"])
        total = 0
        for queue in await client.list(CLUSTER_QUEUES):
            resources = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
            total += sum(quantities.parse(r["nominalQuota"], "cpu") for r in resources if r["name"] == "cpu")
        assert total == quantities.parse("4", "cpu")
        await client.delete(CLUSTER_QUEUES, "", "reports")
        await becomes(client, ["3", "7680Mi"])
    up.stop()
    again = start("--cpu", "8", "--memory", "8Gi")
    async with again.client() as client:
        assert await quota(client) == ["7", "7680Mi"]


@pytest.mark.kubectl
async def test_kueues_quick_start_manifests_apply_without_a_warning(start: Start, tmp_path: Path) -> None:
    """From then on the quota is the user's."""
    up = start("--cpu", "4", "--memory", "8Gi")
    done = apply(up, "-f", "-", stdin=QUICK_START)
    assert done.stderr == ""
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["unchanged", "configured", "unchanged"]
    apply(up, "-f", str(assets.samples() / "queues.yaml"))
    up.stop()
    again = start("--cpu", "2", "--memory", "8Gi")
    async with again.client() as client:
        assert await quota(client) == [9, "36Gi"]
        queue = await client.get(CLUSTER_QUEUES, "", "cluster-queue")
        assert "sluice/quota-of-nodes" not in queue["metadata"]["annotations"]


async def test_the_first_queue_is_created_once_in_the_life_of_a_cluster(start: Start) -> None:
    first = start()
    async with first.client() as client:
        await client.delete(LOCAL_QUEUES, "default", "user-queue")
    first.kill()
    async with start().client() as client:
        assert await client.list(LOCAL_QUEUES) == []


async def test_the_quota_of_the_first_queue_follows_the_nodes_until_a_user_edit(start: Start) -> None:
    def reports_smaller_quota(up: Up) -> bool:
        return any("user-queue → cluster-queue (quota 1 cpu, 2Gi memory)" in line for line in up.lines)

    start("--cpu", "4", "--memory", "8Gi").stop()
    smaller = start("--cpu", "500m", "--memory", "1Gi", "--nodes", "2")
    async with smaller.client() as client:
        assert (await quota(client), reports_smaller_quota(smaller)) == (["1", "2Gi"], True)
        change = [{"op": "replace", "path": QUOTA_OF_CPU, "value": "3"}]
        await client.patch(CLUSTER_QUEUES, "", "cluster-queue", change, content_type=JSON_PATCH)
    smaller.stop()
    larger = start("--cpu", "8", "--memory", "8Gi")
    async with larger.client() as client:
        assert (await quota(client), reports_smaller_quota(larger)) == (["3", "2Gi"], False)


def test_a_conflicting_write_is_retried_and_the_quota_is_set() -> None:
    async def scenario() -> None:
        async with World(script=None) as world:
            await create_first_queue(world.client, "4", "8Gi")
            runtime = Runtime(
                ConflictingWrites(LocalTransport(world.server, "first")), world.clock, world.rng, silence=None
            )
            first = FirstQueue(runtime, NodeQuota("2", "8Gi"))
            await world.client.patch(NAMESPACES, "", "default", {"metadata": {"annotations": {DONE: "user-queue"}}})
            async with runtime:
                assert await first.ensure() == NodeQuota("2", "8Gi")
            assert await quota(world.client) == ["2", "8Gi"]

    run_virtual(scenario())


def test_each_change_of_the_quota_is_an_event(caplog: pytest.LogCaptureFixture) -> None:
    """Four ClusterQueues of 1 cpu leave nothing of 4 cpu. One of them is inactive: its flavor does not exist."""

    async def scenario() -> None:
        async with World(script=None) as world:
            runtime = Runtime(LocalTransport(world.server, "first"), world.clock, world.rng, silence=None)
            first = FirstQueue(runtime, NodeQuota("4", "8Gi"))
            async with runtime:
                await first.ensure()
                for number in range(4):
                    flavor = "default-flavor" if number else "nowhere"
                    await create_queue(world.client, f"team-{number}", flavor)
                    await asyncio.sleep(1)
                assert await quota(world.client) == ["0", "8Gi"]
                inactive = await world.client.get(CLUSTER_QUEUES, "", "team-0", type=ClusterQueue)
                assert [c.reason for c in inactive.status.conditions] == ["FlavorNotFound"]
                found = await world.client.list(EVENTS, "default")
        changes = [(e["type"], e["message"].split(":")[0]) for e in found if e["reason"] == "QuotaChanged"]
        assert sorted(changes) == [
            ("Normal", "quota is 1 cpu, 8Gi memory"),
            ("Normal", "quota is 2 cpu, 8Gi memory"),
            ("Normal", "quota is 3 cpu, 8Gi memory"),
            ("Warning", "quota is 0 cpu, 8Gi memory"),
        ]
        assert {e["involvedObject"]["name"] for e in found if e["reason"] == "QuotaChanged"} == {"cluster-queue"}

    run_virtual(scenario())
    assert [record.getMessage() for record in caplog.records] == ["nothing is left for the first queue"]


def test_the_first_queue_leaves_the_quota_of_a_cohort_to_it() -> None:
    async def scenario() -> None:
        async with World(script=None) as world:
            runtime = Runtime(LocalTransport(world.server, "first"), world.clock, world.rng, silence=None)
            first = FirstQueue(runtime, NodeQuota("4", "8Gi"))
            async with runtime:
                await first.ensure()
                resources = [{"name": "cpu", "nominalQuota": "3"}]
                flavors = [{"name": "default-flavor", "resources": resources}]
                groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
                cohort = {"metadata": {"name": "team"}, "spec": {"resourceGroups": groups}}
                await world.client.create(COHORTS, "", cohort)
                await world.client.create(COHORTS, "", {"metadata": {"name": "empty"}})
                await asyncio.sleep(1)
                assert await quota(world.client) == ["1", "8Gi"]
                await world.client.delete(COHORTS, "", "team")
                await asyncio.sleep(1)
                assert await quota(world.client) == ["4", "8Gi"]

    run_virtual(scenario())


async def create_queue(client: RestClient, name: str, flavor: str) -> None:
    resources = [{"name": "cpu", "nominalQuota": "1"}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    await client.create(CLUSTER_QUEUES, "", {"metadata": {"name": name}, "spec": spec})


class ConflictingWrites(Relay):
    """Writes another ClusterQueue before the first patch of one."""

    meddled = False

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and request.path.endswith("cluster-queue") and not self.meddled:
            self.meddled = True
            label = {"metadata": {"labels": {"a": "b"}}}
            await super().request(request._replace(body=orjson.dumps(label)))
        return await super().request(request)
