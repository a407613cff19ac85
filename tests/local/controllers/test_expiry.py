"""Events expire."""

from __future__ import annotations

from typing import Any

from queue_manager.local.controllers.event_expiry import EventExpiry
from tests.local.server.world import World


def put(world: World, name: str, **fields: Any) -> None:
    meta = {"name": name, "namespace": "default", "uid": f"u-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    world.store.put("events", {"kind": "Event", "apiVersion": "v1", "metadata": meta, **fields})


async def test_an_event_is_deleted_an_hour_after_its_last_occurrence(world: World) -> None:
    put(world, "old", lastTimestamp="2026-01-01T00:00:00Z")
    put(world, "again", lastTimestamp="2026-01-01T00:30:00Z")
    put(world, "series", series={"lastObservedTime": "2026-01-01T00:40:00.123456Z"}, lastTimestamp=None)
    expiry = EventExpiry(world.store, world.clock)
    world.clock.pass_seconds(3599)
    await expiry.sweep()
    assert world.store.count("events") == 3
    world.clock.pass_seconds(60)
    await expiry.sweep()
    assert [item.name for item in world.store.scan("events")] == ["again", "series"]


async def test_an_event_of_the_future_goes_within_an_hour_of_the_clock_being_set_back(world: World) -> None:
    put(world, "ahead", lastTimestamp="2026-02-01T00:00:00Z")
    expiry = EventExpiry(world.store, world.clock)
    for _ in range(13):
        assert world.store.count("events") == 1
        await expiry.sweep()
        world.clock.pass_seconds(300)
    await expiry.sweep()
    assert world.store.count("events") == 0


async def test_nothing_else_expires(world: World) -> None:
    before = world.store.revision
    world.clock.pass_seconds(10**6)
    await EventExpiry(world.store, world.clock).sweep()
    assert world.store.revision == before
