"""The runtime on the embedded API server, in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import timedelta
from typing import Any

from job_controller.model import Key, Object
from queue_manager.api.api_resources import CONFIG_MAPS, EVENTS, NAMESPACES
from queue_manager.engine.rest_client import RestClient
from queue_manager.engine.runtime import Runtime
from queue_manager.engine.transport_protocol import Request
from queue_manager.engine.workqueue import WorkQueue
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.server.in_process import LocalTransport
from queue_manager.local.storage.store import Store
from queue_manager.simulation.virtual_time import run_virtual, virtual_clock


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def a_day() -> tuple[list[str], list[str], int]:
    """A controller that fails twice per key, then records an Event; and a user who creates and deletes objects."""
    clock, rng = virtual_clock(), random.Random(1)
    server = ApiServer(Store(clock, rng), KindRegistry.builtin(), clock)
    user = RestClient(LocalTransport(server, "user"))
    if not [tree for tree in await user.list(NAMESPACES) if tree["metadata"]["name"] == "default"]:
        await user.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    runtime = Runtime(LocalTransport(server, "controller"), clock, random.Random(2))
    cache = runtime.cache(CONFIG_MAPS, Object)
    recorder = runtime.recorder("test")
    queue: WorkQueue[Key] = WorkQueue("maps")
    syncs: list[str] = []
    cache.subscribe(lambda old, new: queue.add((new or old).metadata.key))  # type: ignore[union-attr]

    async def sync(key: Key) -> None:
        syncs.append(f"{clock.now():%H:%M:%S} {key}")
        obj = cache.get(*key)
        if obj is not None and sum(line.endswith(str(key)) for line in syncs) < 3:
            raise OSError("not yet")
        if obj is not None:
            recorder.event(obj, "Normal", "Synced", "It is there.")

    runtime.worker(queue, sync, 2)
    async with runtime:
        await user.create(CONFIG_MAPS, "default", config_map("a", x="1"))
        await user.create(CONFIG_MAPS, "default", config_map("b", x="1"))
        await asyncio.sleep(60)
        await user.delete(CONFIG_MAPS, "default", "a")
        await asyncio.sleep(60)
        quiet = (await _revision(user)), len(syncs)
        await asyncio.sleep(86_000)  # watches end and start again many times
        assert (await _revision(user), len(syncs)) == quiet
        left = [obj.metadata.name for obj in cache]
        events = [event["reason"] for event in await user.list(EVENTS, "default")]
    return syncs, left, len(events)


async def _revision(user: RestClient) -> str:
    answer = await user.transport.request(Request("GET", CONFIG_MAPS.path()))
    return str(json.loads(answer.body)["metadata"]["resourceVersion"])


def test_a_day_syncs_the_changed_keys_only() -> None:
    syncs, left, events = run_virtual(a_day(), until=timedelta(days=2))
    assert left == ["b"]
    assert events == 2
    assert [line for line in syncs if line.endswith("default/a")] == [
        "00:00:00 default/a",
        "00:00:01 default/a",
        "00:00:03 default/a",
        "00:01:00 default/a",
    ]


def test_the_same_seed_gives_the_same_day() -> None:
    assert run_virtual(a_day()) == run_virtual(a_day())
