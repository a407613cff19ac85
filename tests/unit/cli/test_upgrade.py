"""`sluice upgrade --check` against API servers that serve some kinds only."""

from __future__ import annotations

from typing import Any

import orjson

from queue_manager.cli.upgrade import check
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
    rows = await check(RestClient(Server()), list(objects))
    return [(row.kind, row.result, row.change) for row in rows]


async def test_a_kind_that_the_cluster_does_not_serve_is_refused() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    assert await results(service, MONITOR) == [
        ("Service", "created", "does not exist yet"),
        ("ServiceMonitor", "refused", "the cluster does not serve ServiceMonitor as v1"),
    ]
