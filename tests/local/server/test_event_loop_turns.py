"""Long requests yield: other requests are answered in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS
from queue_manager.local.server import event_loop_turns
from tests.local.server.world import World, config_map

COUNT = 20
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
SHORT_REQUEST_TURNS = 3  # turns of the loop that a request for one object may take


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Yield after each object."""
    monkeypatch.setattr(event_loop_turns, "TURN_SECONDS", -1.0)


async def fill(world: World) -> None:
    for index in range(COUNT):
        await world.create(CONFIG_MAPS, config_map(f"c{index}", labels={"a": "b"}))


async def turns_of(work: Callable[[], Awaitable[Any]]) -> int:
    """How often other tasks run before the work is done."""
    task = asyncio.ensure_future(work())
    count = 0
    while not task.done():
        count += 1
        await asyncio.sleep(0)
    task.result()
    return count


@pytest.mark.parametrize(
    ("method", "query"),
    [
        ("GET", {}),
        ("GET", {"labelSelector": "a=c"}),
        ("GET", {"fieldSelector": "metadata.name!=x,metadata.namespace!=y"}),
        ("GET", {"limit": 5, "labelSelector": "a=c"}),
        ("GET", {"accept": TABLE}),
        ("GET", {"accept": PARTIAL}),
        ("DELETE", {"dryRun": "All", "labelSelector": "a=c"}),
        ("DELETE", {"dryRun": "All"}),
    ],
    ids=str,
)
async def test_a_long_list_yields_to_other_requests(
    world: World, impatient: None, method: str, query: dict[str, Any]
) -> None:
    """Including a list with a selector of thousands of terms."""
    await fill(world)
    path = CONFIG_MAPS.path("default")
    assert await turns_of(lambda: world.ask(method, path, **query)) >= COUNT
    assert await turns_of(lambda: world.get(CONFIG_MAPS, "c1")) <= SHORT_REQUEST_TURNS


async def test_a_watch_yields_to_other_requests(world: World, impatient: None) -> None:
    """With the initial objects and with the changes since then."""
    await fill(world)
    await world.create(CONFIG_MAPS, config_map("last", labels={"a": "c"}))
    there = await world.watch(CONFIG_MAPS, labelSelector="a=c")
    assert await turns_of(there.next) >= COUNT
    changed = await world.watch(CONFIG_MAPS, resourceVersion=1, labelSelector="a=c")
    assert await turns_of(changed.next) >= COUNT


async def test_a_list_is_consistent_though_it_yields_to_writes(world: World, impatient: None) -> None:
    await fill(world)
    listed = asyncio.ensure_future(world.ask("GET", CONFIG_MAPS.path("default"), labelSelector="a=b"))
    await asyncio.sleep(0)
    await world.create(CONFIG_MAPS, config_map("zz", labels={"a": "b"}))
    await world.ask("DELETE", CONFIG_MAPS.path("default", "c9"))
    assert not listed.done()
    body = (await listed).body
    assert len(body["items"]) == COUNT
    assert int(body["metadata"]["resourceVersion"]) == world.store.revision - 2
