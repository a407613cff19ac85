"""The configuration that `sluice up` publishes in its cluster for `sluice show`."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS
from queue_manager.api.component_names import CONFIG_MAP, NAMESPACE
from queue_manager.cli.published_config import Publisher, published
from queue_manager.configuration import KueueConfig, loads
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.transport_protocol import Request, Response
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
FIRST, SECOND = (loads(f"{HEAD}waitForPodsReady: {{timeout: {time}}}\n") for time in ("3s", "5m"))


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def client() -> RestClient:
    clock, rng = Clock(), random.Random(1)
    return RestClient(LocalTransport(ApiServer(Store(clock, rng), KindRegistry.builtin(), clock)))


async def test_the_last_published_configuration_is_read(client: RestClient) -> None:
    assert await published(client) is None
    for config in (FIRST, SECOND, KueueConfig()):
        await Publisher(client).publish(config)
        assert await published(client) == config


async def test_an_invalid_config_map_counts_as_absent(client: RestClient) -> None:
    await Publisher(client).publish(FIRST)
    await client.patch(CONFIG_MAPS, NAMESPACE, CONFIG_MAP, {"data": {"controller_manager_config.yaml": "newField: 1"}})
    assert await published(client) is None


async def test_a_user_without_rights_gets_no_configuration(client: RestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forbidden(_: Request) -> Response:
        return Response(403, {}, b'{"kind":"Status","message":"no","reason":"Forbidden"}')

    await Publisher(client).publish(FIRST)
    monkeypatch.setattr(client.transport, "request", forbidden)
    assert await published(client) is None
    await Publisher(client).publish(SECOND)  # is logged, and kills nothing
