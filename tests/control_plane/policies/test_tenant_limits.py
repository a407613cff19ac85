"""The sample bounds of a namespace and a user, enforced by the real API server itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
import yaml

from queue_manager.api.api_resources import JOBS, Resource
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request
from tests.control_plane.conftest import ROOT
from tests.control_plane.policies.enforced import job
from tests.control_plane.policies.users import Users
from tests.control_plane.server import ControlPlane
from tests.waiting import until

pytestmark = pytest.mark.control_plane

FLOW = ("flowcontrol.apiserver.k8s.io", "v1")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LEVELS = Resource(*FLOW, "prioritylevelconfigurations", "PriorityLevelConfiguration", False)
SCHEMAS = Resource(*FLOW, "flowschemas", "FlowSchema", False)
Json = dict[str, Any]


@pytest.fixture
def sample() -> dict[str, Json]:
    """The objects of the file by kind."""
    text = (ROOT / "config" / "samples" / "tenant_limits.yaml").read_text()
    return {tree["kind"]: tree for tree in yaml.safe_load_all(text) if tree is not None}


@pytest.fixture
def quota_controller(plane: ControlPlane) -> Iterator[None]:
    """It counts; without it the API server admits nothing that a quota names."""
    with plane.controllers("resourcequota-controller"):
        yield


@pytest.fixture
async def flows(api: RestClient, sample: dict[str, Json]) -> AsyncIterator[None]:
    parts = [(resource, sample[resource.kind]) for resource in (LEVELS, SCHEMAS)]
    for resource, tree in parts:
        await api.create(resource, "", tree)
    yield
    for resource, tree in reversed(parts):
        await api.delete(resource, "", tree["metadata"]["name"])


async def test_a_namespace_has_no_more_jobs_than_its_quota(
    quota_controller: None, api: RestClient, namespace: str, sample: dict[str, Json]
) -> None:
    """The API server admits by a watched copy of the quota, which may be old: so creations are tried."""
    for name in ("a", "b"):
        await api.create(JOBS, namespace, job(name))
    quota = sample["ResourceQuota"]
    quota["metadata"]["namespace"] = namespace
    quota["spec"]["hard"] = dict.fromkeys(quota["spec"]["hard"], "2")
    await api.create(QUOTAS, namespace, quota)
    body = msgspec.json.encode(job("c"))
    refusal = {"message": ""}

    async def is_refused() -> bool:
        answer = await api.transport.request(Request("POST", JOBS.path(namespace), query={"dryRun": "All"}, body=body))
        refusal.update(msgspec.json.decode(answer.body))
        return answer.status == 403 and "exceeded quota" in refusal["message"]

    await until(is_refused, "creations are refused")
    assert (
        "exceeded quota: submitted-jobs, requested: count/jobs.batch=1, used: count/jobs.batch=2" in refusal["message"]
    )
    await api.delete(JOBS, namespace, "a", propagation="Background")

    async def is_created() -> bool:
        return (await api.create(JOBS, namespace, job("c")))["metadata"]["name"] == "c"

    await until(is_created, "what is deleted makes room")


async def test_creations_of_jobs_are_a_flow_of_their_own(
    flows: None, api: RestClient, namespace: str, users: Users
) -> None:
    """The API server names the FlowSchema by which it has classified a request, before it authorizes that."""
    jane = users.jane
    uid = (await api.get(SCHEMAS, "", "submitted-jobs"))["metadata"]["uid"]

    async def flow(method: str) -> str:
        answer = await jane.transport.request(Request(method, JOBS.path(namespace), body=b"{}"))
        return answer.headers["X-Kubernetes-Pf-Flowschema-Uid"]

    async def is_in_use() -> bool:
        return await flow("POST") == uid

    await until(is_in_use, "creations have this flow")
    assert await flow("GET") != uid
