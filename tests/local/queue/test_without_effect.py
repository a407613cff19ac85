"""Accepted fields without effect are named: in a Warning of the embedded server, in Events, in a condition."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from queue_manager.api import without_effect as table
from queue_manager.api.api_resources import CLUSTER_QUEUES, COHORTS, EVENTS, JOBS, PODS, RESOURCE_FLAVORS, Resource
from queue_manager.engine.transport_protocol import MERGE_PATCH, Request
from tests.local.queue.cluster import NS, Cluster, cluster, condition
from tests.local.queue.environments import Environment, rest, run

CONCURRENT = {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}}
CONCURRENT_TEXT = f"spec.concurrentAdmissionPolicy: has no effect: {table.NO_CONCURRENCY}"
RACK = {"kueue.x-k8s.io/podset-required-topology": "rack"}


def queued_pod(name: str, **meta: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": NS, "labels": {"kueue.x-k8s.io/queue-name": "lq"}, **meta}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x", "command": ["true"]}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def queued_job(name: str, of_pods: dict[str, str]) -> dict[str, Any]:
    pod = queued_pod(name)
    template = {"metadata": {"annotations": of_pods}, "spec": pod["spec"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": pod["metadata"], "spec": {"template": template}}


async def events_without_effect(c: Cluster) -> list[tuple[str, str, str]]:
    """Kind, name and message of each such Event about an existing object."""
    kinds = (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, JOBS, PODS)
    existing = {obj["metadata"]["uid"] for kind in kinds for obj in await c.client.list(kind)}
    events = [e for e in await c.client.list(EVENTS) if e["reason"] == "FieldsWithoutEffect"]
    events = [e for e in events if e["involvedObject"]["uid"] in existing]
    assert all(e["type"] == "Warning" and e["count"] == 1 for e in events)
    return sorted((e["involvedObject"]["kind"], e["involvedObject"]["name"], e["message"]) for e in events)


async def unsupported(c: Cluster) -> tuple[str, str, str] | None:
    return condition((await c.client.get(CLUSTER_QUEUES, "", "cq")).get("status", {}), "Unsupported")


def test_a_cluster_queue_reports_fields_without_effect(environment: Environment) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1", **CONCURRENT)
            await c.until(lambda: unsupported(c), ("True", "FieldsWithoutEffect", CONCURRENT_TEXT))
            await c.submit("a")  # what changes is the status
            await c.until(c.running, ["a"])
            await rest(60)
            assert await events_without_effect(c) == [("ClusterQueue", "cq", CONCURRENT_TEXT)]

    run(scenario())


def test_fields_of_other_kinds_without_effect_are_one_event_each(environment: Environment) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.flavor("racked", nodeLabels={"a": "b"}, topologyName="racks")
            await c.client.create(JOBS, NS, queued_job("tas", RACK))
            await c.client.create(JOBS, NS, queued_job("plain", {}))
            await c.client.create(PODS, NS, queued_pod("single"))
            job = f"spec.template.metadata.annotations[{next(iter(RACK))}]: has no effect: {table.NO_TOPOLOGY}"
            expected = [
                ("Job", "tas", job),
                ("Pod", "single", f"metadata.labels[kueue.x-k8s.io/queue-name]: has no effect: {table.NO_PODS}"),
                ("ResourceFlavor", "racked", f"spec.topologyName: has no effect: {table.NO_TOPOLOGY}"),
            ]
            await c.until(lambda: events_without_effect(c), expected)
            await rest(60)
            assert await events_without_effect(c) == expected

    run(scenario())


@pytest.mark.parametrize(
    ("resource", "body", "says"),
    [
        (CLUSTER_QUEUES, {"spec": CONCURRENT}, CONCURRENT_TEXT),
        (CLUSTER_QUEUES, {"spec": {"fairSharing": {"weight": 2}}}, ""),
        (CLUSTER_QUEUES, {"spec": {}}, ""),
        (COHORTS, {"spec": {"parentName": "up", "fairSharing": {"weight": 2}}}, ""),
        (
            RESOURCE_FLAVORS,
            {"spec": {"nodeLabels": {"a": "b"}, "topologyName": "t"}},
            f"spec.topologyName: has no effect: {table.NO_TOPOLOGY}",
        ),
        (PODS, queued_pod("p"), f"metadata.labels[kueue.x-k8s.io/queue-name]: has no effect: {table.NO_PODS}"),
    ],
)
def test_the_embedded_server_warns_at_creation(resource: Resource, body: dict[str, Any], says: str) -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.namespace()
            assert (
                await warning(c, "POST", resource.path(NS if resource.namespaced else ""), named(resource, body))
                == says
            )

    run(scenario())


def test_the_embedded_server_warns_only_of_fields_that_an_update_adds() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.queues("1")
            path = RESOURCE_FLAVORS.path("", "default")
            added = {"spec": {"nodeLabels": {"a": "b"}, "topologyName": "t"}}
            topology = f"spec.topologyName: has no effect: {table.NO_TOPOLOGY}"
            assert await warning(c, "PATCH", path, added) == topology
            assert await warning(c, "PATCH", path, {"spec": {"nodeLabels": {"c": "d"}}}) == ""
            path = CLUSTER_QUEUES.path("", "cq")
            assert await warning(c, "PATCH", f"{path}/status", {"status": {"pendingWorkloads": 1}}) == ""

    run(scenario())


def named(resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}, **body}


async def warning(c: Cluster, method: str, path: str, body: dict[str, Any]) -> str:
    """The text of the Warning header, or ""."""
    kind = {"content_type": MERGE_PATCH} if method == "PATCH" else {}
    answer = await c.client.transport.request(Request(method, path, body=orjson.dumps(body), **kind))
    assert answer.status in (200, 201), answer.body
    return answer.headers.get("Warning", "").removeprefix('299 - "').removesuffix('"')
