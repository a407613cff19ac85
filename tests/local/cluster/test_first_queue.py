"""The queue that `sluice up` makes: once, with the quota that the nodes have and other queues leave."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from job_controller import quantities
from queue_manager import assets
from queue_manager.api.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES
from queue_manager.engine.client import Client
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport import JSON_PATCH, Relay, Request, Response
from queue_manager.local.first_queue import DONE, FirstQueue, Quota, create_first_queue, left_over
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.simulation.virtual import run_virtual
from queue_manager.simulation.world import World
from tests.local.cluster.conftest import PATIENCE, Up

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


async def quota(client: Client) -> list[str | int]:
    queue = await client.get(CLUSTER_QUEUES, "", "cluster-queue")
    return [r["nominalQuota"] for r in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]]


async def becomes(client: Client, wanted: list[str | int]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await quota(client) != wanted:
            await asyncio.sleep(0.02)


def apply(up: Up, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(up.kubeconfig), "apply", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin, timeout=PATIENCE)


def queue_with(*quotas: tuple[str, str | int]) -> dict[str, object]:
    resources = [{"name": name, "nominalQuota": text} for name, text in quotas]
    return {"spec": {"resourceGroups": [{"flavors": [{"name": "f", "resources": resources}]}]}}


@pytest.mark.parametrize(
    ("others", "left"),
    [
        ([], Quota("4", "8Gi")),
        ([{"spec": {}}], Quota("4", "8Gi")),
        ([queue_with(("cpu", 1)), queue_with(("cpu", "500m"), ("memory", "1Gi"))], Quota("2500m", "7Gi")),
        ([queue_with(("cpu", "9"), ("nvidia.com/gpu", 8))], Quota("0", "8Gi")),
    ],
)
def test_what_other_queues_leave_of_the_nodes(others: list[dict[str, object]], left: Quota) -> None:
    assert left_over(Quota("4", "8Gi"), others) == left


@pytest.mark.kubectl
async def test_the_sample_queues_and_the_first_queue_have_what_the_nodes_have_together(start: Start) -> None:
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
async def test_the_manifests_of_kueues_introduction_are_applied_over_it_without_a_warning(
    start: Start, tmp_path: Path
) -> None:
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


async def test_the_first_queue_comes_once_in_the_life_of_a_cluster(start: Start) -> None:
    first = start()
    async with first.client() as client:
        await client.delete(LOCAL_QUEUES, "default", "user-queue")
    first.kill()
    async with start().client() as client:
        assert await client.list(LOCAL_QUEUES) == []


async def test_the_quota_of_the_first_queue_follows_the_nodes_until_somebody_changes_it(start: Start) -> None:
    def told(up: Up) -> bool:
        return any("user-queue → cluster-queue (quota 1 cpu, 2Gi memory)" in line for line in up.lines)

    start("--cpu", "4", "--memory", "8Gi").stop()
    smaller = start("--cpu", "500m", "--memory", "1Gi", "--nodes", "2")
    async with smaller.client() as client:
        assert (await quota(client), told(smaller)) == (["1", "2Gi"], True)
        change = [{"op": "replace", "path": QUOTA_OF_CPU, "value": "3"}]
        await client.patch(CLUSTER_QUEUES, "", "cluster-queue", change, content_type=JSON_PATCH)
    smaller.stop()
    larger = start("--cpu", "8", "--memory", "8Gi")
    async with larger.client() as client:
        assert (await quota(client), told(larger)) == (["3", "2Gi"], False)


def test_a_write_that_comes_in_between_is_read_and_the_quota_set_all_the_same() -> None:
    async def story() -> None:
        async with World(script=None) as world:
            await create_first_queue(world.client, "4", "8Gi")
            runtime = Runtime(Meddling(LocalTransport(world.server, "first")), world.clock, world.rng, silence=None)
            first = FirstQueue(runtime, Quota("2", "8Gi"))
            await world.client.patch(NAMESPACES, "", "default", {"metadata": {"annotations": {DONE: "user-queue"}}})
            async with runtime:
                assert await first.ensure() == Quota("2", "8Gi")
            assert await quota(world.client) == ["2", "8Gi"]

    run_virtual(story())


class Meddling(Relay):
    """Before the first patch of the ClusterQueue another one is written."""

    meddled = False

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and request.path.endswith("cluster-queue") and not self.meddled:
            self.meddled = True
            label = {"metadata": {"labels": {"a": "b"}}}
            await super().request(request._replace(body=orjson.dumps(label)))
        return await super().request(request)
