"""Writes of large objects, which a thread prepares: others are answered meanwhile, and no write is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS
from queue_manager.engine.transport_protocol import APPLY_PATCH, MERGE_PATCH
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.server import large_writes
from queue_manager.local.server.admission_plugin_protocol import AdmissionReview
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.storage.store import decode
from queue_manager.local.worker_process import WorkerProcess
from tests.local.server.world import Answer, World
from tests.waiting import until

BIG = CONFIG_MAPS.path("default") + "/big"
HEAD = {"apiVersion": "v1", "kind": "ConfigMap"}


class Gate:
    """An admission rule that holds up the thread until it is opened."""

    def __init__(self) -> None:
        self.passed: list[threading.Thread] = []
        self.open = threading.Event()

    def mutate(self, review: AdmissionReview) -> None:
        thread = threading.current_thread()
        self.passed.append(thread)
        if thread is not threading.main_thread():
            assert self.open.wait(20)

    def validate(self, review: AdmissionReview) -> list[Any]:
        return []


def world_with(*admission: Any, worker_process: WorkerProcess | None = None) -> World:
    world = World()
    registry = KindRegistry.builtin()
    world.server = ApiServer(world.store, registry, world.clock, admission, worker_process=worker_process)
    return world


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
async def world(gate: Gate) -> AsyncIterator[World]:
    worker_process = WorkerProcess()
    world = world_with(gate, worker_process=worker_process)
    yield world
    gate.open.set()
    world.server.close()
    await worker_process.close()


def config_map(values: int = large_writes.LARGE + 1, name: str = "big", **meta: Any) -> dict[str, Any]:
    return {**HEAD, "metadata": {"name": name, **meta}, "data": {f"k{i}": f"value {i}" for i in range(values)}}


async def created(world: World, gate: Gate) -> None:
    """A large object; the gate is closed again."""
    gate.open.set()
    await world.create(CONFIG_MAPS, config_map())
    gate.open.clear()
    gate.passed.clear()


async def begun(world: World, gate: Gate, method: str, body: Any, **more: Any) -> asyncio.Task[Answer]:
    """A write that the gate holds up."""
    task = asyncio.create_task(world.ask(method, BIG, body, **more))

    async def waits() -> bool:
        return bool(gate.passed)

    await until(waits)
    return task


def change(world: World, **data: str) -> None:
    """Another client changes the object."""
    stored = world.store.get("configmaps", "default", "big")
    assert stored is not None
    tree = decode(stored)
    world.store.put("configmaps", {**tree, "data": {**tree["data"], **data}})


async def test_others_are_answered_while_a_large_write_is_prepared(world: World, gate: Gate) -> None:
    task = asyncio.create_task(world.ask("POST", CONFIG_MAPS.path("default"), config_map()))
    await world.create(CONFIG_MAPS, config_map(1, "small"))
    assert not task.done()
    gate.open.set()
    assert (await task).status == 201
    assert len((await world.get(CONFIG_MAPS, "big"))["data"]) == large_writes.LARGE + 1


@pytest.mark.parametrize("content_type", [MERGE_PATCH, APPLY_PATCH])
async def test_a_large_patch_is_prepared_again_when_its_object_has_changed(
    world: World, gate: Gate, content_type: str
) -> None:
    await created(world, gate)
    body = {**HEAD, "metadata": {"name": "big"}, "data": {"mine": "1"}}
    task = await begun(world, gate, "PATCH", body, content_type=content_type, fieldManager="me")
    change(world, theirs="2")
    gate.open.set()
    answer = await task
    assert (answer.status, len(gate.passed)) == (200, 2)
    assert {key: answer.body["data"].get(key) for key in ("mine", "theirs")} == {"mine": "1", "theirs": "2"}
    assert answer.body == await world.get(CONFIG_MAPS, "big")


async def test_a_large_update_of_an_old_version_is_a_conflict(world: World, gate: Gate) -> None:
    await created(world, gate)
    old = await world.get(CONFIG_MAPS, "big")
    task = await begun(world, gate, "PUT", {**old, "data": {"mine": "1"}})
    change(world, theirs="2")
    gate.open.set()
    assert (await task).status == 409
    assert (await world.get(CONFIG_MAPS, "big"))["data"]["theirs"] == "2"


async def test_a_large_write_is_made_at_last_however_often_its_object_changes(world: World, gate: Gate) -> None:
    await created(world, gate)
    gate.open.set()
    seen = gate.mutate

    def disturbed(review: AdmissionReview) -> None:
        seen(review)
        if threading.current_thread() is not threading.main_thread():
            world.clock.pass_seconds(1)
            change(world, theirs=str(len(gate.passed)))

    gate.mutate = disturbed  # type: ignore[method-assign]
    answer = await world.ask("PATCH", BIG, {"data": {"mine": "1"}}, content_type=MERGE_PATCH)
    assert (answer.status, answer.body["data"]["mine"], answer.body["data"]["theirs"]) == (200, "1", "3")
    assert [thread is threading.main_thread() for thread in gate.passed] == [False, False, False, True]


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}},
}
STORY: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("POST", CONFIG_MAPS.path("default"), config_map(3, finalizers=["a/b"]), {}),
    ("POST", CONFIG_MAPS.path("default"), config_map(3), {}),
    ("POST", CONFIG_MAPS.path("nowhere"), config_map(3), {}),
    ("POST", CONFIG_MAPS.path("default"), {**HEAD, "metadata": {"generateName": "g-"}}, {}),
    ("PUT", BIG, config_map(2), {"dryRun": "All"}),
    ("PUT", BIG, config_map(2, finalizers=["a/b"]), {"fieldManager": "b"}),
    ("PATCH", BIG, {"data": {"k0": None, "k9": "x"}}, {"content_type": MERGE_PATCH}),
    ("PATCH", BIG, {**HEAD, "data": {"k1": "y"}}, {"content_type": APPLY_PATCH, "fieldManager": "c"}),
    ("PATCH", BIG, {**HEAD, "data": {"k1": "y"}}, {"content_type": APPLY_PATCH, "fieldManager": "c", "force": "true"}),
    ("PATCH", BIG, {"datas": {}}, {"content_type": MERGE_PATCH, "fieldValidation": "Strict"}),
    ("PATCH", BIG.replace("big", "new"), {**HEAD, "data": {}}, {"content_type": APPLY_PATCH, "fieldManager": "c"}),
    ("PATCH", BIG.replace("big", "none"), {"data": {}}, {"content_type": MERGE_PATCH}),
    ("POST", JOBS.path("default"), JOB, {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
    ("PATCH", JOBS.path("default") + "/j/status", {"status": {"active": -1}}, {"content_type": MERGE_PATCH}),
    ("PATCH", JOBS.path("default") + "/j/status", {"status": {"active": 1}}, {"content_type": MERGE_PATCH}),
    ("DELETE", BIG, None, {}),
    ("PATCH", BIG, {"metadata": {"finalizers": None}}, {"content_type": MERGE_PATCH}),
    ("GET", CONFIG_MAPS.path("default"), None, {}),
    ("GET", JOBS.path("default") + "/j", None, {}),
]


async def test_a_write_has_the_same_answer_from_the_thread_as_from_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_writes, "LARGE", -1)  # every write is large
    worker_process, gate = WorkerProcess(), Gate()
    gate.open.set()
    threaded, plain = world_with(gate, worker_process=worker_process), world_with()
    for method, path, body, more in STORY:
        answers = [await world.ask(method, path, body, **more) for world in (threaded, plain)]
        assert answers[0] == answers[1], (method, path, more)
    assert threading.main_thread() not in gate.passed
    threaded.server.close()
    await worker_process.close()
