"""Deletion of namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, NAMESPACES, PODS
from queue_manager.local.controllers.namespace_deletion import NamespaceController
from tests.local.controllers.test_garbage_collector import drop_finalizers, settle
from tests.local.server.world import World, config_map, path, pod


@pytest.fixture
async def kept() -> AsyncIterator[World]:
    """A world with a running namespace controller and a namespace `n`."""
    world = World()
    task = asyncio.create_task(NamespaceController(world.server).run())
    await settle()
    await world.create(NAMESPACES, namespace("n"))
    yield world
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def namespace(name: str) -> dict[str, Any]:
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {"finalizers": ["kubernetes"]}}


async def test_an_empty_namespace_is_deleted(kept: World) -> None:
    answer = await kept.ask("DELETE", path(NAMESPACES, "n"))
    assert answer.body["status"]["phase"] == "Terminating"
    await settle()
    assert (await kept.ask("GET", path(NAMESPACES, "n"))).status == 404


async def test_the_contents_of_a_namespace_are_deleted_first(kept: World) -> None:
    await kept.create(CONFIG_MAPS, config_map("c"), "n")
    await kept.create(CONFIG_MAPS, config_map("c"))
    await kept.create(PODS, pod("p"), "n")
    await kept.ask("DELETE", path(NAMESPACES, "n"))
    await settle()
    assert kept.store.count("configmaps", "n") == kept.store.count("pods", "n") == 0
    assert kept.store.count("configmaps", "default") == 1
    assert (await kept.ask("GET", path(NAMESPACES, "n"))).status == 404


async def test_a_namespace_waits_for_an_object_with_a_finalizer(kept: World) -> None:
    await kept.create(CONFIG_MAPS, config_map("c", finalizers=["x/y"]), "n")
    await kept.ask("DELETE", path(NAMESPACES, "n"))
    await settle()
    assert (await kept.get(NAMESPACES, "n"))["status"]["phase"] == "Terminating"
    held = await kept.get(CONFIG_MAPS, "c", "n")
    del held["metadata"]["finalizers"]
    await kept.ask("PUT", path(CONFIG_MAPS, "c", "n"), held)
    await settle()
    assert (await kept.ask("GET", path(NAMESPACES, "n"))).status == 404


async def test_a_create_in_a_terminating_namespace_is_refused(kept: World) -> None:
    await kept.create(CONFIG_MAPS, config_map("c", finalizers=["x/y"]), "n")
    await kept.ask("DELETE", path(NAMESPACES, "n"))
    answer = await kept.ask("POST", PODS.path("n"), pod("late"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        'pods "late" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    (cause,) = answer.body["details"]["causes"]
    assert cause["reason"] == "NamespaceTerminating"


async def test_a_terminating_namespace_is_deleted_after_a_restart() -> None:
    world = World()
    await world.create(NAMESPACES, namespace("n"))
    await world.create(CONFIG_MAPS, config_map("c"), "n")
    await world.ask("DELETE", path(NAMESPACES, "n"))
    task = asyncio.create_task(NamespaceController(world.server).run())
    await settle()
    assert (await world.ask("GET", path(NAMESPACES, "n"))).status == 404
    task.cancel()


async def test_finalizers_of_metadata_keep_a_namespace(kept: World) -> None:
    held = namespace("m")
    held["metadata"]["finalizers"] = ["x/y"]
    await kept.create(NAMESPACES, held)
    await kept.ask("DELETE", path(NAMESPACES, "m"))
    await settle()
    assert (await kept.get(NAMESPACES, "m"))["spec"]["finalizers"] == []
    await drop_finalizers(kept, NAMESPACES, "m")
    assert (await kept.ask("GET", path(NAMESPACES, "m"))).status == 404
