"""LIST: consistent pages, selectors, representations."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, PODS
from tests.local.server.world import World, config_map, path, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


def names(body: Any) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def fill(world: World, count: int) -> None:
    for index in range(count):
        await world.create(PODS, pod(f"p{index}", labels={"parity": "odd" if index % 2 else "even"}))


async def test_a_list_carries_its_kind_and_revision(world: World) -> None:
    await fill(world, 2)
    body = (await world.ask("GET", PODS.path())).body
    assert (body["kind"], body["apiVersion"]) == ("PodList", "v1")
    assert body["metadata"] == {"resourceVersion": str(world.store.revision)}
    assert names(body) == ["p0", "p1"]


async def test_all_pages_show_the_state_at_the_first_page(world: World) -> None:
    await fill(world, 5)
    first = (await world.ask("GET", PODS.path(), limit=2)).body
    assert first["metadata"]["remainingItemCount"] == 3
    await world.ask("DELETE", path(PODS, "p3"))
    await world.create(PODS, pod("p2a"))
    token = first["metadata"]["continue"]
    second = (await world.ask("GET", PODS.path(), limit=2, **{"continue": token})).body
    third = (await world.ask("GET", PODS.path(), limit=2, **{"continue": second["metadata"]["continue"]})).body
    assert names(first) + names(second) + names(third) == ["p0", "p1", "p2", "p3", "p4"]
    assert "continue" not in third["metadata"]
    assert third["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_an_expired_page_is_410_with_an_inconsistent_continue_token() -> None:
    world = World(history=4)
    await fill(world, 4)
    first = (await world.ask("GET", PODS.path(), limit=2)).body
    for index in range(10):
        await world.create(PODS, pod(f"q{index}"))
    answer = await world.ask("GET", PODS.path(), **{"continue": first["metadata"]["continue"]})
    assert (answer.status, answer.reason) == (410, "Expired")
    assert answer.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    token = answer.body["metadata"]["continue"]
    rest = (await world.ask("GET", PODS.path(), **{"continue": token})).body
    assert names(rest)[:3] == ["p2", "p3", "q0"]


async def test_a_past_revision_can_be_listed_exactly(world: World) -> None:
    await fill(world, 2)
    revision = world.store.revision
    await world.create(PODS, pod("p9"))
    body = (await world.ask("GET", PODS.path(), resourceVersion=revision, resourceVersionMatch="Exact")).body
    assert names(body) == ["p0", "p1"]
    body = (await world.ask("GET", PODS.path(), resourceVersion=revision)).body
    assert names(body) == ["p0", "p1", "p9"]


async def test_an_exact_revision_beyond_history_is_410() -> None:
    world = World(history=2)
    await fill(world, 9)
    answer = await world.ask("GET", PODS.path(), resourceVersion=5, resourceVersionMatch="Exact")
    assert (answer.status, answer.reason) == (410, "Expired")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"labelSelector": "parity=odd"}, ["p1", "p3"]),
        ({"labelSelector": "parity notin (odd)"}, ["p0", "p2"]),
        ({"fieldSelector": "metadata.name=p2"}, ["p2"]),
        ({"fieldSelector": "metadata.name!=p2,status.phase=Pending"}, ["p0", "p1", "p3"]),
        ({"fieldSelector": "metadata.namespace=default", "labelSelector": "parity=even"}, ["p0", "p2"]),
        ({"fieldSelector": "spec.nodeName=n1"}, []),
    ],
)
async def test_selectors_select(world: World, options: dict[str, str], expected: list[str]) -> None:
    await fill(world, 4)
    assert names((await world.ask("GET", PODS.path(), **options)).body) == expected
    assert names((await world.ask("GET", PODS.path("default"), **options)).body) == expected


async def test_pages_of_selected_objects_are_full_and_end(world: World) -> None:
    await fill(world, 6)
    first = (await world.ask("GET", PODS.path(), limit=2, labelSelector="parity=odd")).body
    assert names(first) == ["p1", "p3"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    last = (await world.ask("GET", PODS.path(), limit=2, labelSelector="parity=odd", **{"continue": token})).body
    assert names(last) == ["p5"]
    assert "continue" not in last["metadata"]


async def test_a_list_of_a_namespace_has_only_its_objects(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("here"))
    await world.create(CONFIG_MAPS, config_map("there"), "kube-system")
    assert names((await world.ask("GET", CONFIG_MAPS.path("kube-system"))).body) == ["there"]
    assert names((await world.ask("GET", CONFIG_MAPS.path())).body) == ["here", "there"]


async def test_tables_have_columns_and_a_row_per_object(world: World) -> None:
    await fill(world, 2)
    table = (await world.ask("GET", PODS.path(), accept=TABLE)).body
    assert table["kind"] == "Table"
    assert table["metadata"]["resourceVersion"]
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert [row["cells"][0] for row in table["rows"]] == ["p0", "p1"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = (await world.ask("GET", path(PODS, "p1"), accept=TABLE)).body
    assert [row["cells"][0] for row in one["rows"]] == ["p1"]


async def test_partial_object_metadata_on_request(world: World) -> None:
    await fill(world, 1)
    body = (await world.ask("GET", PODS.path(), accept=PARTIAL)).body
    assert body["kind"] == "PartialObjectMetadataList"
    assert set(body["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_an_accept_header_of_anything_gets_json(world: World) -> None:
    assert (await world.ask("GET", PODS.path(), accept="*/*")).body["kind"] == "PodList"
    accept = "application/vnd.kubernetes.protobuf,application/json"
    assert (await world.ask("GET", PODS.path(), accept=accept)).body["kind"] == "PodList"
