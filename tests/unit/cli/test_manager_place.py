"""In which namespace `sluice doctor` expects the managers."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from job_controller.json_tree import Json
from queue_manager.api.component_names import MANAGER, NAME, NAME_LABEL
from queue_manager.cli.manager_place import read_place
from queue_manager.cli.manager_reading import DEPLOYMENTS
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.installation.webhook_configurations import WebhookScope, webhook_configurations
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def client() -> RestClient:
    """Of an API server that has no Deployments."""
    clock = Clock()
    return RestClient(LocalTransport(ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock)))


def installed(monkeypatch: pytest.MonkeyPatch, client: RestClient, *places: str) -> None:
    """Deployments with the label of an installation, of the manager in each place and of the Job controller."""
    names = [*((place, MANAGER) for place in places), ("jobs", "sluice-job-controller")]
    deployments: list[Json] = [{"metadata": {"namespace": place, "name": name}} for place, name in names]

    async def listed(resource: object, *_: object, label_selector: str = "", **__: object) -> list[Json]:
        assert (resource, label_selector) == (DEPLOYMENTS, f"{NAME_LABEL}={NAME}")
        return deployments

    monkeypatch.setattr(client, "list", listed)


async def test_the_published_lease_says_where_the_managers_are(client: RestClient) -> None:
    assert await read_place(client, "of-lease", webhook_configurations(WebhookScope("of-webhooks"))) == "of-lease"


async def test_without_a_published_lease_the_service_of_the_webhooks_does(client: RestClient) -> None:
    of_others: Json = {"metadata": {}, "webhooks": [{"clientConfig": {"service": {"namespace": "x", "name": "y"}}}]}
    hooks = [of_others, *webhook_configurations(WebhookScope("of-webhooks"))]
    assert await read_place(client, "", hooks) == "of-webhooks"


@pytest.mark.parametrize(
    ("places", "expected"),
    [(["queue"], "queue"), (["team-a", "team-b"], "kueue-system"), ([], "kueue-system")],
    ids=str,
)
async def test_without_webhooks_the_only_deployment_does(
    client: RestClient, monkeypatch: pytest.MonkeyPatch, places: list[str], expected: str
) -> None:
    installed(monkeypatch, client, *places)
    assert await read_place(client, "", []) == expected


async def test_the_default_is_assumed_where_nothing_can_be_read(
    client: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await read_place(client, "", []) == "kueue-system"

    async def forbidden(_: Request) -> Response:
        return Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden"}')

    monkeypatch.setattr(client.transport, "request", forbidden)
    assert await read_place(client, "", []) == "kueue-system"
