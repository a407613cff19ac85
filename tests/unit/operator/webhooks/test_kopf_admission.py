"""Reviews through kopf's own function and our handlers, with caches from the embedded API server."""

from __future__ import annotations

import base64
import copy
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from job_controller.json_tree import Json
from queue_manager.api.api_resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import JSON_PATCH
from queue_manager.lifecycle.workload_settings import WorkloadSettings
from queue_manager.local.kinds.job_kind import JOB
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.local_cluster import install_crds
from queue_manager.local.patching.patch_types import apply_patch
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.operator.webhooks.admission import ClusterAdmission
from queue_manager.operator.webhooks.cluster_contexts import ClusterContexts
from queue_manager.operator.webhooks.https_server import NotAReview, NotServing
from queue_manager.operator.webhooks.kopf_admission import KopfAdmission
from tests.kopf_reviews import request, review_function
from tests.waiting import until

CREATED = [
    record
    for line in (Path(__file__).parents[3] / "golden/kueue/validation.jsonl").read_text().splitlines()
    if (record := json.loads(line))["obj"].startswith("Job/") and record["op"] == "create"
]
QUEUE = "kueue.x-k8s.io/queue-name"
Ask = Callable[..., Awaitable[Json]]


class Cluster:
    """An embedded API server, and webhooks that read from it."""

    def __init__(self) -> None:
        clock = SystemClock()
        transport = LocalTransport(ApiServer(Store(clock, Random(1)), KindRegistry.builtin(), clock), "manager")
        self.client = RestClient(transport)
        self.runtime = Runtime(transport, clock, Random(1), silence=None)
        self.kopf = KopfAdmission(ClusterAdmission(ClusterContexts(self.runtime, WorkloadSettings())))

    async def start(self) -> None:
        await install_crds(self.client)
        await self.client.create(NAMESPACES, "", {"metadata": {"name": "team"}})
        review, settings = review_function(self.kopf.attach)
        await anext(settings.admission.server(review))

    async def ask(self, path: str, *asked: object, **more: str) -> Json:
        """The response of a review."""
        return (await self.kopf.routes[path](request(*asked, **more)))["response"]  # type: ignore[arg-type]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.start()
    async with cluster.runtime:
        yield cluster


def job(name: str = "j", **labels: str) -> Json:
    meta = {"name": name, "namespace": "team", "labels": labels}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}


def patched(obj: Json, response: Json) -> Json:
    assert response["allowed"]
    if "patch" not in response:
        return obj
    assert response["patchType"] == "JSONPatch"
    return apply_patch(JOB, JSON_PATCH, copy.deepcopy(obj), base64.b64decode(response["patch"]))


@pytest.mark.parametrize("record", CREATED, ids=[record["case"] for record in CREATED])
async def test_a_job_is_answered_as_by_kueue(record: Json, cluster: Cluster) -> None:
    response = await cluster.ask("/validate-batch-v1-job", "CREATE", JOBS, record["body"])
    assert response["allowed"] == bool(record.get("accepted"))
    if not response["allowed"]:
        expected = re.sub(r'^admission webhook "[^"]*" denied the request: ', "", record["message"])
        refusal = {"status": "Failure", "reason": "Forbidden", "message": expected, "code": 403}
        assert response["status"] == refusal


async def test_a_queued_job_is_suspended_and_gets_its_user_by_a_patch(cluster: Cluster) -> None:
    submitted = job(**{QUEUE: "q"})
    response = await cluster.ask("/mutate-batch-v1-job", "CREATE", JOBS, copy.deepcopy(submitted))
    after = patched(submitted, response)
    meta = {**submitted["metadata"], "annotations": {"sluice/user": "alice"}}
    assert after == {**submitted, "metadata": meta, "spec": {**submitted["spec"], "suspend": True}}


async def test_an_unrelated_job_gets_no_patch(cluster: Cluster) -> None:
    response = await cluster.ask("/mutate-batch-v1-job", "CREATE", JOBS, job())
    assert response == {"uid": response["uid"], "allowed": True}


async def test_defaults_of_the_cluster_are_applied_once_they_exist(cluster: Cluster) -> None:
    await cluster.client.create(LOCAL_QUEUES, "team", {"metadata": {"name": "default"}, "spec": {"clusterQueue": "cq"}})
    await cluster.client.create(WORKLOAD_PRIORITY_CLASSES, "", {"metadata": {"name": "default"}, "value": 1})

    async def labels() -> bool:
        after = patched(job(), await cluster.ask("/mutate-batch-v1-job", "CREATE", JOBS, job()))
        expected = {QUEUE: "default", "kueue.x-k8s.io/priority-class": "default"}
        return bool(after["metadata"]["labels"] == expected and after["spec"]["suspend"])

    await until(labels, "the caches have both")


@pytest.mark.parametrize("levels", [1, 3, 12])
async def test_a_child_of_a_queued_job_is_left_alone(levels: int, cluster: Cluster) -> None:
    """Also where too many owners lie between to say, as the Job controller decides it."""
    await cluster.client.create(LOCAL_QUEUES, "team", {"metadata": {"name": "default"}, "spec": {"clusterQueue": "cq"}})

    async def has_default_queue() -> bool:
        return "patch" in await cluster.ask("/mutate-batch-v1-job", "CREATE", JOBS, job())

    await until(has_default_queue, "the cache has the queue")
    above = await cluster.client.create(JOBS, "team", job("top", **{QUEUE: "q"}))
    for level in range(levels):
        child = job(f"level-{level}")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
        owner |= {key: above["metadata"][key] for key in ("name", "uid")}
        child["metadata"]["ownerReferences"] = [owner]
        assert "patch" not in await cluster.ask("/mutate-batch-v1-job", "CREATE", JOBS, child)
        above = await cluster.client.create(JOBS, "team", child)
    owner["uid"] = "of an earlier Job of this name"
    assert "patch" in await cluster.ask("/mutate-batch-v1-job", "CREATE", JOBS, child)


async def test_warnings_of_a_cluster_queue_are_in_the_response(cluster: Cluster) -> None:
    flavors = [{"name": "f", "resources": [{"name": "cpu"}]}]
    queue = {
        "metadata": {"name": "cq"},
        "spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]},
    }
    path = "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue"
    response = await cluster.ask(path, "CREATE", CLUSTER_QUEUES, queue)
    assert [warning.split(":")[1] for warning in response["warnings"]] == [" not set, taken as 0"]
    after = patched(queue, response)
    assert after["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]


async def test_an_object_that_cannot_be_read_is_left_to_the_schema(cluster: Cluster) -> None:
    queue = {"metadata": {"name": "cq"}, "spec": {"resourceGroups": 5}}
    response = await cluster.ask("/mutate-kueue-x-k8s-io-v1beta2-clusterqueue", "CREATE", CLUSTER_QUEUES, queue)
    assert response == {"uid": response["uid"], "allowed": True}


def workload(**status: Json) -> Json:
    pod_set = {"name": "main", "count": 1, "template": job()["spec"]["template"]}
    meta = {"name": "w", "namespace": "team"}
    return {"metadata": meta, "spec": {"queueName": "q", "podSets": [pod_set]}, "status": status}


async def test_a_status_write_of_a_workload_is_validated(cluster: Cluster) -> None:
    new = workload(reclaimablePods=[{"name": "main", "count": 2}])
    path = "/validate-kueue-x-k8s-io-v1beta2-workload"
    response = await cluster.ask(path, "UPDATE", WORKLOADS, new, workload(), subresource="status")
    assert response["status"]["message"] == (
        "status.reclaimablePods[main].count: Invalid value: 2: should be less or equal to 1"
    )


@pytest.mark.parametrize("resource", [JOBS, WORKLOADS], ids=str)
async def test_a_failing_rule_is_an_error_of_the_webhook(resource: Resource, cluster: Cluster) -> None:
    """With 500 the API server applies the failure policy; it does not tell the user that the object is wrong."""

    async def fail(review: object) -> str:
        raise OSError("no response")

    cluster.kopf._admission.refusal = fail  # type: ignore[method-assign]
    path = next(path for path in cluster.kopf.routes if path.endswith(resource.kind.lower()) and "validate" in path)
    response = await cluster.ask(path, "CREATE", resource, job())
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "no response" in response["status"]["message"]


async def test_a_review_before_kopf_has_started_is_not_answered() -> None:
    with pytest.raises(NotServing):
        await Cluster().ask("/validate-batch-v1-job", "CREATE", JOBS, job())


@pytest.mark.parametrize(
    ("path", "review"),
    [
        ("/validate-batch-v1-job", {}),
        ("/validate-batch-v1-job", {"request": []}),
        ("/validate-batch-v1-job", {"request": {**request("CREATE", JOBS, job())["request"], "object": None}}),
        ("/validate-batch-v1-job", request("CREATE", JOBS, {"metadata": "a"})),
        ("/validate-batch-v1-job", request("CREATE", JOBS, {"metadata": {"labels": {"a": 1}}})),
        ("/validate-batch-v1-job", {"request": {**request("CREATE", JOBS, job())["request"], "operation": "CONNECT"}}),
        (
            "/validate-batch-v1-job",
            {"request": {**request("CREATE", JOBS, job())["request"], "userInfo": {"username": 1}}},
        ),
        ("/validate-batch-v1-job", request("CREATE", LOCAL_QUEUES, {"metadata": {"name": "a"}})),
    ],
    ids=["empty", "no request", "no object", "metadata", "labels", "operation", "user", "another kind"],
)
async def test_what_is_no_review_is_refused_before_kopf_reads_it(
    path: str, review: Json, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NotAReview):
        await cluster.kopf.routes[path](review)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
