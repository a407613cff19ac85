"""Fields of a pod that a node agent of processes does not implement are warnings at creation."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from queue_manager.api.api_resources import JOBS, PODS, Resource
from queue_manager.engine.clock import SystemClock
from queue_manager.engine.transport_protocol import JSON
from queue_manager.local import unsupported_pod_fields as fields
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer, ServerRequest
from queue_manager.local.storage.store import Store

HTTP = {"httpGet": {"port": 80}}
EXEC = {"exec": {"command": ["true"]}}


def container(**fields: Any) -> Any:
    return {"name": "main", "image": "x", "command": ["true"], **fields}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, []),
        ({"securityContext": {}}, []),
        ({"serviceAccountName": "default"}, []),
        ({"serviceAccountName": "train"}, [f"spec.serviceAccountName: {fields.ACCOUNT}"]),
        ({"containers": [container(readinessProbe=EXEC)]}, []),
        ({"containers": [container(startupProbe=EXEC)]}, [f"spec.containers[0].startupProbe: {fields.STARTUP}"]),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, [f"spec.volumes: {fields.MOUNTS}"]),
        ({"securityContext": {"runAsUser": 1}}, [f"spec.securityContext: {fields.RIGHTS}"]),
        ({"containers": [container(livenessProbe=EXEC)]}, [f"spec.containers[0].livenessProbe: {fields.LIVENESS}"]),
        ({"containers": [container(readinessProbe=HTTP)]}, [f"spec.containers[0].readinessProbe: {fields.PROBES}"]),
        ({"containers": [container(lifecycle={"preStop": EXEC})]}, [f"spec.containers[0].lifecycle: {fields.HOOKS}"]),
        (
            {"containers": [container(terminationMessagePath="/tmp/why")]},
            [f"spec.containers[0].terminationMessagePath: {fields.MESSAGES}"],
        ),
        (
            {"containers": [container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})]},
            [f"spec.containers[0].resources.limits.cpu: {fields.CPU}"],
        ),
        (
            {"initContainers": [container(livenessProbe=EXEC)], "containers": [container(livenessProbe=HTTP)] * 2},
            [f"spec.initContainers[0].livenessProbe and 2 more: {fields.LIVENESS}"],
        ),
    ],
    ids=str,
)
def test_each_unsupported_field_is_one_warning_with_its_path(spec: Any, says: list[str]) -> None:
    assert fields.warnings(spec, "spec") == says


def test_a_cpu_limit_is_no_warning_where_it_is_enforced() -> None:
    spec = {"containers": [container(resources={"limits": {"cpu": "1"}})]}
    assert fields.warnings(spec, "spec", limits_cpu=True) == []


@pytest.mark.parametrize(
    ("resource", "extra", "says"),
    [
        (PODS, {}, f'299 - "spec.volumes: {fields.MOUNTS}"'),
        (JOBS, {}, f'299 - "spec.template.spec.volumes: {fields.MOUNTS}"'),
        (PODS, {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"}]}, ""),
    ],
    ids=["pod", "Job", "pod of a controller"],
)
async def test_the_submission_is_answered_with_the_warnings(resource: Resource, extra: Any, says: str) -> None:
    spec = {"restartPolicy": "Never", "containers": [container()], "volumes": [{"name": "v", "emptyDir": {}}]}
    body = {"metadata": {"name": "a", **extra}, "spec": {"template": {"spec": spec}} if resource == JOBS else spec}
    clock, headers = SystemClock(), {"content-type": JSON}
    server = ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock, [fields.UnsupportedPodFields()])
    answer = await server.handle(
        ServerRequest("POST", resource.path("default"), {}, headers, orjson.dumps(body), "user")
    )
    assert answer.status == 201
    assert answer.headers.get("Warning", "") == says
