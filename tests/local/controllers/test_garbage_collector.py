"""Garbage collection: background, foreground, orphan, and several owners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, PODS
from queue_manager.local.controllers.garbage_collector import GarbageCollector
from tests.local.server.world import World, config_map, job, owner, path, pod


@pytest.fixture
async def collected() -> AsyncIterator[World]:
    """A world with a running garbage collector."""
    world = World()
    task = asyncio.create_task(GarbageCollector(world.server).run())
    await settle()
    yield world
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def settle() -> None:
    """Let the collector work until it waits: it waits only for the event loop."""
    for _ in range(50):
        await asyncio.sleep(0)


async def exists(world: World, resource: Any, name: str) -> bool:
    return (await world.ask("GET", path(resource, name))).status == 200


async def family(world: World, *, block: bool = True, finalizers: tuple[str, ...] = ()) -> Any:
    """A Job with two pods."""
    parent = await world.create(JOBS, job("j"))
    for name in ("p0", "p1"):
        reference = owner(parent, controller=True, blockOwnerDeletion=block)
        await world.create(PODS, pod(name, ownerReferences=[reference], finalizers=list(finalizers)))
    return parent


async def drop_finalizers(world: World, resource: Any, name: str) -> None:
    found = await world.get(resource, name)
    found["metadata"].pop("finalizers")
    assert (await world.ask("PUT", path(resource, name), found)).status == 200


async def test_dependents_of_a_deleted_owner_are_deleted(collected: World) -> None:
    await family(collected)
    await collected.ask("DELETE", path(JOBS, "j"), propagationPolicy="Background")
    await settle()
    assert collected.store.count("pods") == 0


async def test_dependents_of_dependents_are_deleted(collected: World) -> None:
    parent = await collected.create(JOBS, job("j"))
    child = await collected.create(PODS, pod("p", ownerReferences=[owner(parent)]))
    await collected.create(CONFIG_MAPS, config_map("c", ownerReferences=[owner(child)]))
    await collected.ask("DELETE", path(JOBS, "j"), propagationPolicy="Background")
    await settle()
    assert not await exists(collected, CONFIG_MAPS, "c")


async def test_an_object_created_after_its_owner_was_deleted_is_deleted(collected: World) -> None:
    parent = await collected.create(JOBS, job("j"))
    await collected.ask("DELETE", path(JOBS, "j"), propagationPolicy="Background")
    await collected.create(PODS, pod("late", ownerReferences=[owner(parent)]))
    await settle()
    assert not await exists(collected, PODS, "late")


async def test_an_owner_of_an_unknown_kind_does_not_count_as_deleted(collected: World) -> None:
    foreign = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "s", "controller": True}
    await collected.create(JOBS, job("j", ownerReferences=[foreign]))
    await settle()
    assert await exists(collected, JOBS, "j")


async def test_an_owner_of_the_same_name_but_another_uid_is_no_owner(collected: World) -> None:
    parent = await collected.create(JOBS, job("j"))
    reference = owner(parent)
    await collected.create(PODS, pod("p", ownerReferences=[reference | {"uid": "another"}]))
    await settle()
    assert not await exists(collected, PODS, "p")
    assert await exists(collected, JOBS, "j")


async def test_an_object_with_one_existing_owner_stays_and_loses_the_other_reference(collected: World) -> None:
    first, second = await collected.create(JOBS, job("a")), await collected.create(JOBS, job("b"))
    await collected.create(PODS, pod("p", ownerReferences=[owner(first), owner(second)]))
    await collected.ask("DELETE", path(JOBS, "a"), propagationPolicy="Background")
    await settle()
    found = await collected.get(PODS, "p")
    assert [reference["name"] for reference in found["metadata"]["ownerReferences"]] == ["b"]


async def test_in_the_foreground_the_owner_waits_for_its_dependents(collected: World) -> None:
    await family(collected, finalizers=("x/y",))
    await collected.ask("DELETE", path(JOBS, "j"), propagationPolicy="Foreground")
    await settle()
    assert await exists(collected, JOBS, "j")
    assert "deletionTimestamp" in (await collected.get(PODS, "p0"))["metadata"]
    await drop_finalizers(collected, PODS, "p0")
    await settle()
    assert await exists(collected, JOBS, "j")
    await drop_finalizers(collected, PODS, "p1")
    await settle()
    assert not await exists(collected, JOBS, "j")


async def test_the_owner_does_not_wait_for_dependents_that_do_not_block(collected: World) -> None:
    await family(collected, block=False, finalizers=("x/y",))
    await collected.ask("DELETE", path(JOBS, "j"), propagationPolicy="Foreground")
    await settle()
    assert not await exists(collected, JOBS, "j")
    assert "deletionTimestamp" in (await collected.get(PODS, "p0"))["metadata"]


async def test_foreground_reaches_down_to_grandchildren(collected: World) -> None:
    parent = await collected.create(JOBS, job("j"))
    child = await collected.create(PODS, pod("p", ownerReferences=[owner(parent, blockOwnerDeletion=True)]))
    reference = owner(child, blockOwnerDeletion=True)
    await collected.create(CONFIG_MAPS, config_map("c", ownerReferences=[reference], finalizers=["x/y"]))
    await settle()
    await collected.ask("DELETE", path(JOBS, "j"), propagationPolicy="Foreground")
    await settle()
    assert await exists(collected, JOBS, "j")
    assert await exists(collected, PODS, "p")
    await drop_finalizers(collected, CONFIG_MAPS, "c")
    await settle()
    assert not await exists(collected, PODS, "p")
    assert not await exists(collected, JOBS, "j")


async def test_orphaned_dependents_live_on_without_the_reference(collected: World) -> None:
    await family(collected)
    await collected.ask("DELETE", path(JOBS, "j"), propagationPolicy="Orphan")
    await settle()
    assert not await exists(collected, JOBS, "j")
    for name in ("p0", "p1"):
        assert "ownerReferences" not in (await collected.get(PODS, name))["metadata"]


async def test_an_owner_without_dependents_is_deleted_with_each_policy(collected: World) -> None:
    for policy in ("Foreground", "Orphan"):
        await collected.create(JOBS, job("j"))
        await collected.ask("DELETE", path(JOBS, "j"), propagationPolicy=policy)
        await settle()
        assert not await exists(collected, JOBS, "j")


async def test_leftovers_of_the_last_run_are_collected_at_the_start() -> None:
    world = World()
    parent = await world.create(JOBS, job("j"))
    await world.create(PODS, pod("p", ownerReferences=[owner(parent)]))
    await world.ask("DELETE", path(JOBS, "j"), propagationPolicy="Background")
    task = asyncio.create_task(GarbageCollector(world.server).run())
    await settle()
    assert not await exists(world, PODS, "p")
    task.cancel()


async def test_at_rest_nothing_is_written(collected: World) -> None:
    await family(collected)
    await settle()
    revision = collected.store.revision
    await settle()
    assert collected.store.revision == revision


async def test_collection_writes_in_the_same_order_each_time() -> None:
    async def history(act: Callable[[World], Awaitable[Any]]) -> list[tuple[str, str, int]]:
        world = World()
        seen: list[tuple[str, str, int]] = []
        world.store.subscribe(lambda change: seen.append((change.type, change.new.key, change.revision)))
        task = asyncio.create_task(GarbageCollector(world.server).run())
        await act(world)
        await settle()
        task.cancel()
        return seen

    async def act(world: World) -> None:
        await family(world)
        await world.ask("DELETE", path(JOBS, "j"), propagationPolicy="Foreground")

    assert await history(act) == await history(act)
