"""What is accepted and has no effect is named: in a Warning of the embedded server, in Events, in a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from queue_manager.api import without_effect as table
from queue_manager.api.resources import CLUSTER_QUEUES, COHORTS, EVENTS, JOBS, PODS, RESOURCE_FLAVORS, Resource
from queue_manager.engine.transport import MERGE_PATCH, Request
from tests.local.queue.cluster import API, NS, Cluster, cluster, condition
from tests.local.queue.places import Place, rest, run

PREEMPTION = {"withinClusterQueue": "LowerPriority"}
NEVER = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "Never"}}
PREEMPTION_TEXT = f"spec.preemption: has no effect: {table.NO_PREEMPTION}"
WEIGHT_TEXT = f"spec.fairSharing: has no effect: {table.NO_FAIR_SHARING}"
RACK = {"kueue.x-k8s.io/podset-required-topology": "rack"}
GROUP = {
    "coveredResources": ["cpu"],
    "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
}


def queued_pod(name: str, **meta: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": NS, "labels": {"kueue.x-k8s.io/queue-name": "lq"}, **meta}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x", "command": ["true"]}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def queued_job(name: str, of_pods: dict[str, str]) -> dict[str, Any]:
    pod = queued_pod(name)
    template = {"metadata": {"annotations": of_pods}, "spec": pod["spec"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": pod["metadata"], "spec": {"template": template}}


async def told(c: Cluster) -> list[tuple[str, str, str]]:
    """Kind, name and message of each such Event about an object that exists."""
    kinds = (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, JOBS, PODS)
    existing = {obj["metadata"]["uid"] for kind in kinds for obj in await c.client.list(kind)}
    events = [e for e in await c.client.list(EVENTS) if e["reason"] == "FieldsWithoutEffect"]
    events = [e for e in events if e["involvedObject"]["uid"] in existing]
    assert all(e["type"] == "Warning" and e["count"] == 1 for e in events)
    return sorted((e["involvedObject"]["kind"], e["involvedObject"]["name"], e["message"]) for e in events)


async def unsupported(c: Cluster) -> tuple[str, str, str] | None:
    return condition((await c.client.get(CLUSTER_QUEUES, "", "cq")).get("status", {}), "Unsupported")


async def patch(c: Cluster, spec: Mapping[str, Any]) -> None:
    await c.client.patch(CLUSTER_QUEUES, "", "cq", {"spec": spec})


def test_a_cluster_queue_names_them_in_an_event_for_each_generation_and_a_condition(place: Place) -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1", preemption=PREEMPTION)
            await c.until(lambda: unsupported(c), ("True", "FieldsWithoutEffect", PREEMPTION_TEXT))
            await c.submit("a")  # what changes is the status
            await c.until(c.running, ["a"])
            await rest(60)
            assert await told(c) == [("ClusterQueue", "cq", PREEMPTION_TEXT)]
            await patch(c, {"fairSharing": {"weight": 2}})
            both = f"{PREEMPTION_TEXT}; {WEIGHT_TEXT}"
            await c.until(lambda: unsupported(c), ("True", "FieldsWithoutEffect", both))
            await c.until(lambda: told(c), [("ClusterQueue", "cq", PREEMPTION_TEXT), ("ClusterQueue", "cq", both)])
            await patch(c, {"fairSharing": None, "preemption": NEVER})
            await c.until(lambda: unsupported(c), None)
            assert len(await told(c)) == 2

    run(story())


def test_cohorts_flavors_jobs_and_pods_name_them_in_one_event_each(place: Place) -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1")
            await c.flavor("racked", nodeLabels={"a": "b"}, topologyName="racks")
            spec = {"resourceGroups": [GROUP], "fairSharing": {"weight": 2}}
            await c.create(COHORTS, {**API, "kind": "Cohort", "metadata": {"name": "all"}, "spec": spec})
            await c.client.create(JOBS, NS, queued_job("tas", RACK))
            await c.client.create(JOBS, NS, queued_job("plain", {}))
            await c.client.create(PODS, NS, queued_pod("single"))
            job = f"spec.template.metadata.annotations[{next(iter(RACK))}]: has no effect: {table.NO_TOPOLOGY}"
            expected = [
                ("Cohort", "all", WEIGHT_TEXT),
                ("Job", "tas", job),
                ("Pod", "single", f"metadata.labels[kueue.x-k8s.io/queue-name]: has no effect: {table.NO_PODS}"),
                ("ResourceFlavor", "racked", f"spec.topologyName: has no effect: {table.NO_TOPOLOGY}"),
            ]
            await c.until(lambda: told(c), expected)
            await rest(60)
            assert await told(c) == expected

    run(story())


@pytest.mark.parametrize(
    ("resource", "body", "says"),
    [
        (CLUSTER_QUEUES, {"spec": {"preemption": PREEMPTION}}, PREEMPTION_TEXT),
        (CLUSTER_QUEUES, {"spec": {"preemption": NEVER, "fairSharing": {"weight": 1}}}, ""),
        (CLUSTER_QUEUES, {"spec": {}}, ""),
        (COHORTS, {"spec": {"parentName": "up", "fairSharing": {"weight": 2}}}, WEIGHT_TEXT),
        (
            RESOURCE_FLAVORS,
            {"spec": {"nodeLabels": {"a": "b"}, "topologyName": "t"}},
            f"spec.topologyName: has no effect: {table.NO_TOPOLOGY}",
        ),
        (PODS, queued_pod("p"), f"metadata.labels[kueue.x-k8s.io/queue-name]: has no effect: {table.NO_PODS}"),
    ],
)
def test_the_embedded_server_warns_at_creation(resource: Resource, body: dict[str, Any], says: str) -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.namespace()
            assert (
                await warning(c, "POST", resource.path(NS if resource.namespaced else ""), named(resource, body))
                == says
            )

    run(story())


def test_the_embedded_server_warns_of_what_an_update_adds_and_not_of_what_was_there() -> None:
    async def story() -> None:
        async with cluster() as c:
            await c.queues("1", preemption=PREEMPTION)
            path = CLUSTER_QUEUES.path("", "cq")
            assert await warning(c, "PATCH", path, {"spec": {"fairSharing": {"weight": 3}}}) == WEIGHT_TEXT
            assert await warning(c, "PATCH", path, {"spec": {"stopPolicy": "Hold"}}) == ""
            assert await warning(c, "PATCH", f"{path}/status", {"status": {"pendingWorkloads": 1}}) == ""

    run(story())


def named(resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "x"}, **body}


async def warning(c: Cluster, method: str, path: str, body: dict[str, Any]) -> str:
    """The text of the Warning header, if there is one."""
    kind = {"content_type": MERGE_PATCH} if method == "PATCH" else {}
    answer = await c.client.transport.request(Request(method, path, body=orjson.dumps(body), **kind))
    assert answer.status in (200, 201), answer.body
    return answer.headers.get("Warning", "").removeprefix('299 - "').removesuffix('"')
