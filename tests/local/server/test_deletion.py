"""DELETE: answers, finalizers, grace, collections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, PODS
from queue_manager.local.server.deletion import KEPT_CHILDREN
from tests.local.server.world import World, config_map, job, path, pod


async def bound(world: World, name: str = "p", **meta: Any) -> dict[str, Any]:
    await world.create(PODS, pod(name, **meta))
    binding = {"kind": "Binding", "apiVersion": "v1", "target": {"kind": "Node", "name": "n1"}}
    await world.ask("POST", path(PODS, name, subresource="binding"), binding)
    found: dict[str, Any] = await world.get(PODS, name)
    return found


async def test_background_answers_with_a_status_that_names_the_object(world: World) -> None:
    obj = await world.create(JOBS, job("j"))
    answer = await world.ask("DELETE", path(JOBS, "j"), {"propagationPolicy": "Background"})
    assert answer.status == 200
    assert answer.body["status"] == "Success"
    details = {"name": "j", "group": "batch", "kind": "jobs", "uid": obj["metadata"]["uid"]}
    assert answer.body["details"] == details


@pytest.mark.parametrize(
    ("options", "finalizer"),
    [
        ({"propagationPolicy": "Foreground"}, "foregroundDeletion"),
        ({"propagationPolicy": "Orphan"}, "orphan"),
        ({"orphanDependents": True}, "orphan"),
        ({}, "orphan"),
    ],
)
async def test_a_policy_becomes_a_finalizer(world: World, options: dict[str, Any], finalizer: str) -> None:
    await world.create(JOBS, job("j"))
    answer = await world.ask("DELETE", path(JOBS, "j"), options or None)
    assert answer.status == 200
    assert answer.body["kind"] == "Job"
    meta = answer.body["metadata"]
    assert meta["finalizers"] == [finalizer]
    assert meta["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert meta["deletionGracePeriodSeconds"] == 0
    assert meta["generation"] == 2


async def test_options_may_come_in_the_query(world: World) -> None:
    await world.create(JOBS, job("j"))
    answer = await world.ask("DELETE", path(JOBS, "j"), propagationPolicy="Foreground")
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_a_later_policy_replaces_the_earlier_one(world: World) -> None:
    await world.create(JOBS, job("j"))
    await world.ask("DELETE", path(JOBS, "j"), propagationPolicy="Foreground")
    answer = await world.ask("DELETE", path(JOBS, "j"), propagationPolicy="Background")
    assert answer.body["status"] == "Success"
    assert (await world.ask("GET", path(JOBS, "j"))).status == 404


@pytest.mark.parametrize(("grace", "finalizers"), [(None, []), (1, ["foregroundDeletion"])])
async def test_while_a_grace_period_runs_only_a_shorter_one_changes_finalizers(world: World, grace, finalizers) -> None:
    await world.create(PODS, pod("p") | {"spec": pod("p")["spec"] | {"nodeName": "n"}})
    await world.ask("DELETE", path(PODS, "p"))
    shorter = {} if grace is None else {"gracePeriodSeconds": grace}
    again = await world.ask("DELETE", path(PODS, "p"), propagationPolicy="Foreground", **shorter)
    assert again.body["metadata"].get("finalizers", []) == finalizers


async def test_deleting_again_changes_nothing(world: World) -> None:
    await world.create(CONFIG_MAPS, config_map("c", finalizers=["x/y"]))
    first = await world.ask("DELETE", path(CONFIG_MAPS, "c"))
    world.clock.pass_seconds(10)
    assert (await world.ask("DELETE", path(CONFIG_MAPS, "c"))).body == first.body


async def test_jobs_warn_when_their_pods_are_kept_by_default(world: World) -> None:
    await world.create(JOBS, job("j"))
    answer = await world.ask("DELETE", path(JOBS, "j"))
    assert answer.headers["Warning"] == f'299 - "{KEPT_CHILDREN}"'


async def test_the_warning_comes_with_a_failed_precondition_too(world: World) -> None:
    await world.create(JOBS, job("j"))
    answer = await world.ask("DELETE", path(JOBS, "j"), {"preconditions": {"uid": "u"}})
    assert answer.status == 409
    assert KEPT_CHILDREN in answer.headers["Warning"]


async def test_a_policy_given_suppresses_the_warning(world: World) -> None:
    await world.create(JOBS, job("j"))
    answer = await world.ask("DELETE", path(JOBS, "j"), propagationPolicy="Orphan")
    assert "Warning" not in answer.headers


async def test_an_unbound_pod_is_deleted_at_once(world: World) -> None:
    await world.create(PODS, pod("p"))
    await world.ask("DELETE", path(PODS, "p"))
    assert (await world.ask("GET", path(PODS, "p"))).status == 404


async def test_a_bound_pod_stays_until_deleted_without_grace(world: World) -> None:
    await bound(world)
    marked = (await world.ask("DELETE", path(PODS, "p"))).body["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    assert marked["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert (await world.ask("DELETE", path(PODS, "p"), gracePeriodSeconds=0)).status == 200
    assert (await world.ask("GET", path(PODS, "p"))).status == 404


async def test_a_grace_period_that_overflows_is_stored(world: World) -> None:
    """The deletion time is that of a real API server: 64 bits of nanoseconds overflow."""
    await bound(world)
    answer = await world.ask("DELETE", path(PODS, "p"), gracePeriodSeconds=2**63 - 1)
    assert answer.status == 200
    meta = answer.body["metadata"]
    assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == ("2025-12-31T23:59:59Z", 2**63 - 1)


async def test_grace_can_be_shortened_but_not_extended(world: World) -> None:
    await bound(world)
    await world.ask("DELETE", path(PODS, "p"), gracePeriodSeconds=10)
    longer = (await world.ask("DELETE", path(PODS, "p"), gracePeriodSeconds=60)).body["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 10
    shorter = (await world.ask("DELETE", path(PODS, "p"), gracePeriodSeconds=2)).body["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 2


async def test_a_finished_pod_is_deleted_at_once(world: World) -> None:
    found = await bound(world)
    await world.ask("PUT", path(PODS, "p", subresource="status"), found | {"status": {"phase": "Succeeded"}})
    await world.ask("DELETE", path(PODS, "p"))
    assert (await world.ask("GET", path(PODS, "p"))).status == 404


async def test_a_finalizer_holds_a_pod_that_has_ended(world: World) -> None:
    await bound(world, finalizers=["x/y"])
    await world.ask("DELETE", path(PODS, "p"))
    await world.ask("DELETE", path(PODS, "p"), gracePeriodSeconds=0)
    held = await world.get(PODS, "p")
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    del held["metadata"]["finalizers"]
    await world.ask("PUT", path(PODS, "p"), held)
    assert (await world.ask("GET", path(PODS, "p"))).status == 404


async def test_removing_the_finalizer_does_not_shorten_the_grace(world: World) -> None:
    await bound(world, finalizers=["x/y"])
    marked = (await world.ask("DELETE", path(PODS, "p"))).body
    del marked["metadata"]["finalizers"]
    await world.ask("PUT", path(PODS, "p"), marked)
    assert (await world.ask("GET", path(PODS, "p"))).status == 200


async def test_a_collection_is_deleted_by_selector(world: World) -> None:
    for name in "abc":
        await world.create(CONFIG_MAPS, config_map(name, labels={"go": str(name != "b").lower()}))
    answer = await world.ask("DELETE", CONFIG_MAPS.path("default"), labelSelector="go=true")
    assert answer.status == 200
    assert answer.body["kind"] == "ConfigMapList"
    left = (await world.ask("GET", CONFIG_MAPS.path("default"))).body["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]


async def test_deleting_a_collection_yields_to_other_requests(world: World) -> None:
    """Objects that change meanwhile are deleted in their new state; new objects stay."""
    for number in range(200):
        await world.create(CONFIG_MAPS, config_map(f"c-{number:03}"))
    deleting = asyncio.ensure_future(world.ask("DELETE", CONFIG_MAPS.path("default")))
    await asyncio.sleep(0)
    assert (await world.ask("GET", path(CONFIG_MAPS, "c-000"))).status == 404
    held = {"metadata": {"finalizers": ["a.b/c"]}}
    patch = "application/merge-patch+json"
    assert (await world.ask("PATCH", path(CONFIG_MAPS, "c-199"), held, content_type=patch)).status == 200
    assert (await world.ask("DELETE", path(CONFIG_MAPS, "c-198"))).status == 200
    await world.create(CONFIG_MAPS, config_map("c-198"))
    assert (await deleting).status == 200
    left = {
        item["metadata"]["name"]: item for item in (await world.ask("GET", CONFIG_MAPS.path("default"))).body["items"]
    }
    assert sorted(left) == ["c-198", "c-199"]
    assert "deletionTimestamp" not in left["c-198"]["metadata"]
    assert left["c-199"]["metadata"]["deletionTimestamp"]
