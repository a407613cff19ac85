"""Our CRDs in a real API server: their CEL rules compile, and refuse what was recorded with Kueue's.

No webhook runs here, so what only Kueue's webhooks refused must be accepted.
"""

from __future__ import annotations

import copy

import pytest

from job_controller.json_tree import Json
from queue_manager.api import crd_generation
from queue_manager.api.api_resources import CRDS, Resource
from queue_manager.api.models import KINDS
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import ApiError
from tests.unit.api.golden import BETTER_WORDING, STEPS, STRICTER, ids, kind_of

pytestmark = pytest.mark.control_plane

RESOURCES = {
    kind.__name__: Resource(crd_generation.GROUP, crd_generation.VERSION, kind.plural, kind.__name__, kind.namespaced)
    for kind in KINDS
}


async def store(api: RestClient, resource: Resource, namespace: str, obj: Json) -> Json:
    """Create or replace the object together with its status."""
    stored = await api.create(resource, namespace, obj)
    if "status" not in obj:
        return stored
    return await api.replace(resource, {**stored, "status": obj["status"]}, subresource="status")


@pytest.mark.parametrize(("record", "new", "old"), STEPS, ids=ids(STEPS))
async def test_a_real_api_server_with_our_crds_answers_as_recorded(
    record: Json, new: Json, old: Json | None, api: RestClient, namespace: str
) -> None:
    resource = RESOURCES[kind_of(record)]
    new, old = copy.deepcopy(new), copy.deepcopy(old)
    for obj in (new, old):
        if obj is not None:
            obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
            obj["metadata"] |= {"namespace": namespace} if resource.namespaced else {}
    try:
        if old is None:
            made = await api.create(resource, namespace, new)
            await api.delete(resource, namespace, made["metadata"]["name"])
        else:
            stored = await store(api, resource, namespace, old)
            subresource = "status" if record["op"] == "patch status" else ""
            try:
                await api.replace(resource, {**new, "metadata": stored["metadata"]}, subresource=subresource)
            finally:
                await api.delete(resource, namespace, stored["metadata"]["name"])
    except ApiError as error:
        answer = error.body["details"].get("causes", [])
        fields = [cause["field"] for cause in answer]
    else:
        answer, fields = [], []
    if record["case"] in STRICTER:
        assert fields[:1] == [STRICTER[record["case"]]]
    elif record["case"] in BETTER_WORDING:
        assert [cause["message"] for cause in answer] == [f"Invalid value: {BETTER_WORDING[record['case']]}"]
    elif record["code"] == 400:
        assert fields == ["spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"]
    elif record["code"] == 422:
        assert answer == record["causes"]
    else:
        assert answer == []


async def test_every_crd_is_established_without_schema_violations(api: RestClient, plane: object) -> None:
    for kind in KINDS:
        found = await api.get(CRDS, "", f"{kind.plural}.{crd_generation.GROUP}")
        conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert "NonStructuralSchema" not in conditions
