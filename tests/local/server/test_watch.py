"""WATCH: where watches start, what they send, how they end."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from queue_manager.api.api_resources import CONFIG_MAPS, PODS
from queue_manager.local.server.watch import BATCH_WEIGHT, BOOKMARK_SECONDS
from queue_manager.simulation.virtual_time import run_virtual
from tests.local.server.world import World, config_map, path, pod


async def test_without_a_revision_a_watch_starts_with_the_current_objects(world: World) -> None:
    await world.create(PODS, pod("a"))
    watch = await world.watch(PODS)
    await world.create(PODS, pod("b"))
    assert await watch.seen(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_with_a_revision_a_watch_replays_later_changes(world: World) -> None:
    first = await world.create(PODS, pod("a"))
    await world.create(PODS, pod("b"))
    await world.ask("DELETE", path(PODS, "a"))
    watch = await world.watch(PODS, resourceVersion=first["metadata"]["resourceVersion"])
    assert await watch.seen(2) == [("ADDED", "b"), ("DELETED", "a")]
    assert await watch.nothing()


async def test_a_deleted_object_is_shown_with_the_revision_of_its_deletion(world: World) -> None:
    created = await world.create(PODS, pod("a"))
    watch = await world.watch(PODS, resourceVersion=created["metadata"]["resourceVersion"])
    await world.ask("DELETE", path(PODS, "a"))
    event = await watch.next()
    assert event["object"]["metadata"]["resourceVersion"] == str(world.store.revision)


async def test_a_watch_sees_only_its_resource_and_namespace(world: World) -> None:
    watch = await world.watch(CONFIG_MAPS, "kube-system", resourceVersion=world.store.revision)
    await world.create(PODS, pod("p"))
    await world.create(CONFIG_MAPS, config_map("elsewhere"))
    await world.create(CONFIG_MAPS, config_map("here"), "kube-system")
    assert await watch.seen(1) == [("ADDED", "here")]


async def test_objects_are_added_and_deleted_as_they_match_a_selector(world: World) -> None:
    watch = await world.watch(CONFIG_MAPS, resourceVersion=world.store.revision, labelSelector="in=yes")
    obj = await world.create(CONFIG_MAPS, config_map("a"))
    for labels in ({"in": "yes"}, {"in": "yes", "x": "y"}, {"in": "no"}, {}):
        obj["metadata"]["labels"] = labels
        obj = (await world.ask("PUT", path(CONFIG_MAPS, "a"), obj)).body
    assert [await watch.seen(1) for _ in range(3)] == [[("ADDED", "a")], [("MODIFIED", "a")], [("DELETED", "a")]]
    assert await watch.nothing()


async def test_an_object_that_stops_to_match_is_shown_as_it_was_with_the_new_revision(world: World) -> None:
    obj = await world.create(CONFIG_MAPS, config_map("a", labels={"in": "yes"}))
    watch = await world.watch(CONFIG_MAPS, resourceVersion=world.store.revision, labelSelector="in=yes")
    obj["metadata"]["labels"] = {"in": "no"}
    changed = (await world.ask("PUT", path(CONFIG_MAPS, "a"), obj)).body
    event = await watch.next()
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["labels"] == {"in": "yes"}
    assert event["object"]["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


async def test_field_selectors_follow_changes(world: World) -> None:
    watch = await world.watch(PODS, resourceVersion=world.store.revision, fieldSelector="spec.nodeName=n1")
    await world.create(PODS, pod("a"))
    binding = {"kind": "Binding", "apiVersion": "v1", "target": {"kind": "Node", "name": "n1"}}
    assert (await world.ask("POST", path(PODS, "a", subresource="binding"), binding)).status == 201
    assert await watch.seen(1) == [("ADDED", "a")]


async def test_a_single_object_can_be_watched(world: World) -> None:
    await world.create(PODS, pod("a"))
    await world.create(PODS, pod("b"))
    watch = await world.watch(PODS, "default", fieldSelector="metadata.name=b")
    assert await watch.seen(1) == [("ADDED", "b")]
    assert await watch.nothing()


async def test_a_revision_older_than_history_ends_with_a_410_event() -> None:
    world = World(history=3)
    for index in range(10):
        await world.create(PODS, pod(f"p{index}"))
    watch = await world.watch(PODS, resourceVersion=5)
    event = await watch.next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 5 (")
    assert await watch.next() is None


async def test_a_reader_that_falls_behind_the_history_gets_410() -> None:
    world = World(history=3)
    watch = await world.watch(PODS, resourceVersion=world.store.revision)
    await world.create(PODS, pod("first"))
    assert await watch.seen(1) == [("ADDED", "first")]
    for index in range(20):
        await world.create(PODS, pod(f"p{index}"))
    event = await watch.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert await watch.next() is None


async def test_initial_events_end_with_a_bookmark_when_asked_for(world: World) -> None:
    await world.create(PODS, pod("a"))
    watch = await world.watch(
        PODS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    assert await watch.seen(1) == [("ADDED", "a")]
    bookmark = await watch.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(world.store.revision)


async def test_a_watch_from_the_future_is_refused(world: World) -> None:
    answer = await world.ask("GET", PODS.path(), watch="1", resourceVersion=10_000)
    assert (answer.status, answer.reason) == (504, "Timeout")


async def test_tables_are_watched_with_columns_once(world: World) -> None:
    watch = await world.watch(PODS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    for name in "ab":
        await world.create(PODS, pod(name))
    first, second = await watch.next(), await watch.next()
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_closing_the_server_ends_every_watch(world: World) -> None:
    watches = [await world.watch(PODS, resourceVersion=1) for _ in range(3)]
    reading = [asyncio.create_task(watch.next()) for watch in watches]
    await asyncio.sleep(0)
    world.server.close()
    assert await asyncio.gather(*reading) == [None, None, None]


def test_a_bookmark_is_sent_every_minute_after_other_writes() -> None:
    async def scenario() -> None:
        world = World()
        loop = asyncio.get_running_loop()
        watch = await world.watch(PODS, resourceVersion=world.store.revision, allowWatchBookmarks="true")
        reading = asyncio.create_task(watch.next(3600))
        await asyncio.sleep(BOOKMARK_SECONDS * 3)
        assert not reading.done()
        await world.create(CONFIG_MAPS, config_map("c"))
        event = await reading
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["resourceVersion"] == str(world.store.revision)
        assert loop.time() >= BOOKMARK_SECONDS * 3
        await watch.close()

    run_virtual(scenario(), until=timedelta(hours=1))


def test_a_watch_ends_at_its_timeout_with_a_bookmark() -> None:
    async def scenario() -> None:
        world = World()
        revision = world.store.revision
        watch = await world.watch(PODS, resourceVersion=revision, timeoutSeconds=7, allowWatchBookmarks="true")
        await world.create(CONFIG_MAPS, config_map("c"))
        event = await watch.next(8)
        assert event["type"] == "BOOKMARK"
        assert await watch.next() is None

    run_virtual(scenario(), until=timedelta(hours=1))


async def test_the_size_of_a_chunk_is_bounded(world: World) -> None:
    """A reader that reads nothing keeps its last chunk in memory."""
    names = [f"large-{n}" for n in range(8)]
    begin = world.store.revision
    for name in names:
        await world.create(CONFIG_MAPS, config_map(name) | {"data": {"a": "x" * (BATCH_WEIGHT // 4)}})
    for watch in (await world.watch(CONFIG_MAPS, "default"), await world.watch(CONFIG_MAPS, resourceVersion=begin)):
        for name in names:
            assert await watch.seen(1) == [("ADDED", name)]
            assert sum(map(len, watch._lines)) < BATCH_WEIGHT
