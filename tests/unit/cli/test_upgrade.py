"""`sluice upgrade --check` against API servers that serve some kinds only, and what it says of left objects."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, CRDS, MUTATING_WEBHOOKS, NAMESPACES, Resource
from queue_manager.cli.upgrade import check, is_absent, left_over
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Relay, Request, Response
from queue_manager.installation import object_names

MONITOR = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "m"}}


class Server(Relay):
    """An API server without objects, which serves all kinds of an installation but those of the Prometheus operator."""

    def __init__(self) -> None:
        pass

    async def request(self, request: Request) -> Response:
        if f"/apis/{object_names.MONITORING}/" in request.path:
            return Response(404, {}, b"404 page not found\n")
        if "labelSelector" in (request.query or {}):
            return Response(200, {}, orjson.dumps({"metadata": {"resourceVersion": "1"}, "items": []}))
        return Response(404, {}, orjson.dumps({"kind": "Status", "reason": "NotFound", "message": "no", "code": 404}))


async def results(*objects: dict[str, Any]) -> list[tuple[str, str, str]]:
    for obj in objects:
        obj["metadata"]["namespace"] = "kueue-system"
    rows = await check(RestClient(Server()), list(objects), [])
    return [(row.kind, row.result, row.change) for row in rows]


async def test_a_kind_that_the_cluster_does_not_serve_is_refused() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    assert await results(service, MONITOR) == [
        ("Service", "created", "does not exist yet"),
        ("ServiceMonitor", "refused", "the cluster does not serve ServiceMonitor as v1"),
    ]


def hooks(policy: str, **annotations: str) -> dict[str, Any]:
    service = {"namespace": "kueue-system", "name": "kueue-webhook-service"}
    hook = {"name": "h", "failurePolicy": policy, "clientConfig": {"service": service}}
    return {"metadata": {"name": "hooks", "annotations": annotations}, "webhooks": [hook]}


SERVICE = {"kind": "Service", "metadata": {"namespace": "kueue-system", "name": "kueue-webhook-service"}}


@pytest.mark.parametrize(
    ("live", "wanted", "result"),
    [
        (hooks("Fail"), [], "refuses Jobs"),
        (hooks("Fail"), [SERVICE], "left over"),
        (hooks("Ignore"), [], "left over"),
        (hooks("Fail", **{"meta.helm.sh/release-name": "r"}), [], "left over"),
    ],
    ids=["no Service", "Service stays", "asked about nothing that matters", "Helm deletes it"],
)
def test_webhooks_refuse_jobs_if_they_stay_without_their_service(
    live: dict[str, Any], wanted: list[dict[str, Any]], result: str
) -> None:
    [row] = left_over([(MUTATING_WEBHOOKS, live)], wanted)
    assert row.result == result
    assert row.change.endswith("kubectl delete mutatingwebhookconfigurations.admissionregistration.k8s.io hooks")


@pytest.mark.parametrize(
    ("kinds", "absent"),
    [((), True), ((CRDS, NAMESPACES), True), ((CRDS, CONFIG_MAPS), False)],
    ids=["empty cluster", "after an uninstallation", "installed"],
)
def test_what_an_uninstallation_leaves_is_no_installation(kinds: tuple[Resource, ...], absent: bool) -> None:
    assert is_absent([(kind, {"metadata": {"name": "n"}}) for kind in kinds]) == absent
