"""Requests that take long are computed in another process; meanwhile the server answers others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, CRDS, NAMESPACES, Resource
from queue_manager.engine.transport_protocol import MERGE_PATCH
from queue_manager.local.kinds.kind_registry import KindRegistry
from queue_manager.local.request_limits import MAX_VALUES
from queue_manager.local.server.api_server import ApiServer
from queue_manager.local.worker_process import WorkerProcess
from tests.contract.bodies import definition
from tests.local.server.world import Answer, World
from tests.waiting import until

GROUP = "demo.example.com"
THINGS = Resource(GROUP, "v1", "things", "Thing")
BOMB = {"type": "string", "pattern": "^(a+)+$"}
SLOW, SOUND = "self.items.all(x, x in self.items)", list(range(1_100))  # takes an eighth of a second and is true
ITEMS = {"type": "array", "items": {"type": "integer"}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    worker_process, world = WorkerProcess(), World()
    world.server = ApiServer(world.store, KindRegistry.builtin(), world.clock, worker_process=worker_process)
    yield world
    await worker_process.close()


async def define(world: World, schema: dict[str, Any]) -> None:
    crd = definition(GROUP, {"type": "object", **schema})
    assert (await world.ask("POST", CRDS.path(), crd)).status == 201


def slow(rule: str = SLOW) -> dict[str, Any]:
    more = {"note": {"type": "string"}, "text": {"type": "string"}}
    return {"properties": {"items": ITEMS, **more}, "x-kubernetes-validations": [{"rule": rule}]}


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


async def begin(world: World, method: str, path: str, body: Any, **more: Any) -> asyncio.Task[Answer]:
    """Start a request; returns its task once it waits for the other process."""
    task = asyncio.create_task(world.ask(method, path, body, **more))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def others_are_answered_before(world: World, task: asyncio.Task[Answer]) -> Answer:
    for _ in range(100):
        assert (await world.ask("GET", NAMESPACES.path(name="default"))).status == 200
    assert not task.done()
    return await task


async def test_an_exponential_pattern_takes_no_longer_than_another(world: World) -> None:
    await define(world, {"properties": {"text": BOMB}})
    answer = await world.ask("POST", THINGS.path("default"), thing(text="a" * 50 + "!"))
    assert answer.status == 422
    assert "should match '^(a+)+$'" in answer.message
    assert (await world.ask("POST", THINGS.path("default"), thing(text="aaa"))).status == 201


@pytest.mark.parametrize(("count", "status"), [(1_500, 201), (20_000, 422)])
async def test_a_rule_that_compares_each_item_with_each(world: World, count: int, status: int) -> None:
    await define(world, slow())
    task = await begin(world, "POST", THINGS.path("default"), thing(items=list(range(count))))
    assert (await others_are_answered_before(world, task)).status == status


async def test_a_failing_rule_has_the_same_message(world: World) -> None:
    rule = f"{SLOW} ? self.note == 'right' : true"
    await define(world, slow(rule))
    task = await begin(world, "POST", THINGS.path("default"), thing(items=SOUND, note="wrong"))
    assert f"failed rule: {rule}" in (await task).message


async def test_a_default_with_an_exponential_pattern(world: World) -> None:
    crd = definition(GROUP, {"type": "object", "properties": {"text": {**BOMB, "default": "a" * 50 + "!"}}})
    answer = await world.ask("POST", CRDS.path(), crd)
    assert answer.status == 422
    assert "should match '^(a+)+$'" in answer.message


@pytest.mark.parametrize("verb", ["create", "apply"])
async def test_yaml_of_very_many_values(world: World, verb: str) -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"
    text = (head + "".join(f"  k{i}: ''\n" for i in range(MAX_VALUES - 100))).encode()
    path, media = CONFIG_MAPS.path("default"), "application/yaml"
    if verb == "create":
        task = await begin(world, "POST", path, text, content_type=media)
    else:
        apply = "application/apply-patch+yaml"
        task = await begin(world, "PATCH", f"{path}/c", text, content_type=apply, fieldManager="m")
    answer = await others_are_answered_before(world, task)
    assert (answer.status, len(answer.body["data"])) == (201, MAX_VALUES - 100)


async def test_invalid_yaml_has_the_same_message(world: World) -> None:
    text = "a: [x, }".replace("x", "{a: x, b: x}, " * 16_000).encode()
    short = await world.ask("POST", CONFIG_MAPS.path("default"), b"a: [x, }", content_type="application/yaml")
    task = await begin(world, "POST", CONFIG_MAPS.path("default"), text, content_type="application/yaml")
    assert (await task).message.partition(" (613a")[0] == short.message.partition(" (613a")[0]


async def test_a_write_in_between_is_a_conflict_for_a_request_with_a_version(world: World) -> None:
    await define(world, slow())
    stored = await world.create(THINGS, thing(items=[1]))
    new = {**stored, "spec": {"items": SOUND}}
    task = await begin(world, "PUT", THINGS.path("default", "t"), new)
    await patch(world, {"note": "between"})
    assert ((await task).status, (await task).reason) == (409, "Conflict")
    assert (await world.get(THINGS, "t"))["spec"] == {"items": [1], "note": "between"}


async def test_a_patch_is_applied_to_what_was_written_meanwhile(world: World) -> None:
    await define(world, slow())
    await world.create(THINGS, thing(items=[1]))
    body = json.dumps({"spec": {"items": SOUND}}).encode()
    task = await begin(world, "PATCH", THINGS.path("default", "t"), body, content_type=MERGE_PATCH)
    await patch(world, {"note": "between"})
    assert (await task).status == 200
    assert (await world.get(THINGS, "t"))["spec"] == {"items": SOUND, "note": "between"}


async def test_an_object_deleted_meanwhile_is_404(world: World) -> None:
    await define(world, slow())
    await world.create(THINGS, thing(items=[1]))
    body = json.dumps({"spec": {"items": SOUND}}).encode()
    task = await begin(world, "PATCH", THINGS.path("default", "t"), body, content_type=MERGE_PATCH)
    assert (await world.ask("DELETE", THINGS.path("default", "t"))).status == 200
    assert (await task).status == 404


async def test_a_generated_name_is_generated_once(world: World) -> None:
    """Rules see the name: with another name each time, the request would be computed without end."""
    await define(world, {"properties": {"items": ITEMS}})
    crd = await world.get(CRDS, f"things.{GROUP}", "")
    rules = [{"rule": f"self.metadata.name.startsWith('x-') && {SLOW.replace('self', 'self.spec')}"}]
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = rules
    assert (await world.ask("PUT", CRDS.path(name=crd["metadata"]["name"]), crd)).status == 200
    body = {**thing(items=SOUND), "metadata": {"generateName": "x-"}}
    task = await begin(world, "POST", THINGS.path("default"), body)
    assert (await task).status == 201
    assert len((await world.ask("GET", THINGS.path("default"))).body["items"]) == 1


async def patch(world: World, spec: dict[str, Any]) -> None:
    body = json.dumps({"spec": spec}).encode()
    answer = await world.ask("PATCH", THINGS.path("default", "t"), body, content_type=MERGE_PATCH)
    assert answer.status == 200


async def test_too_many_long_requests_are_answered_with_429(world: World) -> None:
    await define(world, slow())
    body = thing(items=list(range(20_000)))
    tasks = [asyncio.create_task(world.ask("POST", THINGS.path("default"), body)) for _ in range(12)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert {task.result().status for task in done} == {429}
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


def test_the_process_ends_with_its_input() -> None:
    """However its parent died: no other process holds the other end."""
    command = [sys.executable, "-m", "queue_manager.local.worker_process"]
    done = subprocess.run(command, input=b'["yaml",["a: [1, yes]"]]\n', capture_output=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [{"a": [1, True]}, [], None]


async def test_a_process_that_was_killed_is_started_again(world: World) -> None:
    await define(world, slow())
    task = await begin(world, "POST", THINGS.path("default"), thing(items=SOUND))
    await until(lambda: children("queue_manager.local.worker_process"))
    for pid in children("queue_manager.local.worker_process"):
        os.kill(pid, signal.SIGKILL)
    assert (await task).status == 500
    assert (await world.ask("POST", THINGS.path("default"), thing(items=SOUND))).status == 201


def children(module: str) -> list[int]:
    """Pids of the processes that this one started with a module."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in text.split() if module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
