"""Requests to the server without a socket, and the shared storage of both groups of Events."""

from __future__ import annotations

import json
import random

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS
from queue_manager.engine.transport_protocol import ApiError, Request
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from tests.local.server.world import StillClock, World, config_map

MAPS = CONFIG_MAPS.path("default")


async def test_requests_and_streams_need_no_socket(world: World) -> None:
    transport = LocalTransport(world.server, "me")
    answer = await transport.request(Request("POST", MAPS, body=json.dumps(config_map("c")).encode()))
    assert answer.status == 201
    async with transport.stream(MAPS, query={"watch": "1"}) as chunks:
        assert json.loads(await anext(chunks))["object"]["metadata"]["name"] == "c"


async def test_a_refused_stream_raises(world: World) -> None:
    with pytest.raises(ApiError) as refused:
        async with LocalTransport(world.server).stream(MAPS, query={"watch": "1", "labelSelector": "a in ("}):
            pass
    assert refused.value.status == 400


async def test_an_event_can_be_written_in_one_group_and_read_in_the_other() -> None:
    clock = StillClock()
    transport = LocalTransport(ApiServer(Store(clock, random.Random(1)), KindRegistry.builtin(), clock))
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "note": "hello",
        "reason": "Said",
        "type": "Normal",
        "action": "Say",
        "reportingController": "example.com/x",
        "reportingInstance": "x-1",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    created = await transport.request(Request("POST", new, body=json.dumps(event).encode()))
    assert created.status == 201, created.body
    query = {"fieldSelector": "involvedObject.name=p"}
    listed = await transport.request(Request("GET", "/api/v1/namespaces/default/events", query=query))
    (old,) = json.loads(listed.body)["items"]
    assert old["message"] == "hello"
    listed = await transport.request(Request("GET", new, query={"fieldSelector": "regarding.name=p"}))
    (again,) = json.loads(listed.body)["items"]
    assert again["note"] == "hello"
