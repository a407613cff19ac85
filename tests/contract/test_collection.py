"""Garbage collection and namespace deletion. The collectors run beside both servers."""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS
from tests.contract.bodies import config_map, job, owner, pod
from tests.contract.session import Session

COLLECTED = True
MISSING_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "11111111-1111-4111-8111-111111111111"}


async def family(s: Session, *finalizers: str) -> None:
    """A Job that owns a pod and a ConfigMap."""
    made = await s.create(job(), silent=True)
    reference = owner(made.body, controller=True, blockOwnerDeletion=True)
    await s.create(pod("p", None, ownerReferences=[reference]), silent=True)
    await s.create(config_map("c", None, ownerReferences=[owner(made.body)], finalizers=list(finalizers)), silent=True)


async def collector_is_up_to_date(s: Session) -> None:
    """The collector reads each kind in order: it has read all ConfigMaps and pods before those that it collects here.

    Of a dependent that it has not read when it orphans those of an owner, it finds later that the owner does not exist.
    """
    await s.create(pod("w", None, ownerReferences=[MISSING_OWNER]), silent=True)
    await s.create(config_map("w", None, ownerReferences=[MISSING_OWNER]), silent=True)
    await s.gone(PODS, "w")
    await s.gone(CONFIG_MAPS, "w")


async def test_background_deletion_collects_the_dependents(s: Session) -> None:
    await family(s)
    await s.delete(JOBS, "j", propagationPolicy="Background")
    await s.gone(JOBS, "j")
    await s.gone(PODS, "p")
    await s.gone(CONFIG_MAPS, "c")


async def test_foreground_deletion_removes_dependents_first(s: Session) -> None:
    await family(s)
    made = await s.get(JOBS, "j", silent=True)
    reference = owner(made.body, blockOwnerDeletion=True)
    await s.create(config_map("held", None, ownerReferences=[reference], finalizers=["example.com/x"]), silent=True)
    await s.delete(JOBS, "j", propagationPolicy="Foreground")
    await s.gone(PODS, "p")
    await s.get(JOBS, "j")  # waits for what is held
    await s.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, silent=True)
    await s.gone(JOBS, "j")
    await s.gone(CONFIG_MAPS, "held")


async def test_orphaned_dependents_stay_without_owner_reference(s: Session) -> None:
    await family(s)
    await collector_is_up_to_date(s)
    await s.delete(JOBS, "j", propagationPolicy="Orphan")
    await s.gone(JOBS, "j")
    pod_left = await s.get(PODS, "p", silent=True)
    assert "ownerReferences" not in pod_left.meta
    await s.get(CONFIG_MAPS, "c")


async def test_an_object_whose_owner_does_not_exist_is_collected(s: Session) -> None:
    await s.create(config_map("c", None, ownerReferences=[MISSING_OWNER]), silent=True)
    await s.gone(CONFIG_MAPS, "c")


async def test_a_dependent_with_another_owner_stays(s: Session) -> None:
    first = await s.create(config_map("first"), silent=True)
    second = await s.create(config_map("second"), silent=True)
    owners = [owner(first.body), owner(second.body)]
    await s.create(config_map("c", None, ownerReferences=owners), silent=True)
    await s.delete(CONFIG_MAPS, "first", silent=True)
    await s.until(lambda: _owned_by_one(s))
    await s.delete(CONFIG_MAPS, "second", silent=True)
    await s.gone(CONFIG_MAPS, "c")


async def _owned_by_one(s: Session) -> bool:
    return len((await s.get(CONFIG_MAPS, "c", silent=True)).meta["ownerReferences"]) == 1


@pytest.mark.parametrize("held", [False, True], ids=["at-once", "held"])
async def test_a_deleted_namespace_takes_its_objects_along(s: Session, held: bool) -> None:
    name = f"{s.namespace}-more"
    await s.ask("POST", NAMESPACES.path(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    body = config_map("c", None, finalizers=["example.com/x"] if held else [])
    await s.ask("POST", CONFIG_MAPS.path(name), body, silent=True)
    await s.ask("DELETE", NAMESPACES.path(name=name))
    if held:
        await s.ask("POST", CONFIG_MAPS.path(name), config_map("late"))
        path = CONFIG_MAPS.path(name, "c")
        await s.until(lambda: _marked(s, path))
        patch = {"metadata": {"finalizers": None}}
        await s.ask("PATCH", path, patch, content_type="application/merge-patch+json", silent=True)
    await s.until(lambda: _no_namespace(s, name))


async def _marked(s: Session, path: str) -> bool:
    return "deletionTimestamp" in (await s.ask("GET", path, silent=True)).meta


async def _no_namespace(s: Session, name: str) -> bool:
    return (await s.ask("GET", NAMESPACES.path(name=name), silent=True)).status == 404
