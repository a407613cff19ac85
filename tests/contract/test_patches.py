"""Patches: merge, JSON and strategic merge with its directives."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, JOBS, PODS
from queue_manager.engine.transport_protocol import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.contract.bodies import config_map, definition, job, pod, thing, things
from tests.contract.session import Session

Json = Any


async def test_a_patch_of_a_missing_object_is_refused(s: Session) -> None:
    await s.patch(CONFIG_MAPS, "a", {"data": {"x": "y"}})


async def test_a_patch_that_changes_nothing_writes_nothing(s: Session) -> None:
    await s.create(config_map())
    for language in (MERGE_PATCH, STRATEGIC_PATCH):
        await s.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, language)
    await s.patch(CONFIG_MAPS, "a", [], JSON_PATCH)


async def test_a_patch_with_a_stale_version_is_refused(s: Session) -> None:
    first = await s.create(config_map())
    await s.patch(CONFIG_MAPS, "a", {"data": {"x": "y"}})
    await s.patch(CONFIG_MAPS, "a", {"metadata": {"resourceVersion": first.version}, "data": {"x": "z"}})


async def test_a_patch_for_an_earlier_object_of_the_name_is_a_conflict(s: Session) -> None:
    """Its resourceVersion is checked before its uid, so the client sees a conflict, which it can handle."""
    first = await s.create(config_map())
    await s.delete(CONFIG_MAPS, "a")
    await s.create(config_map())
    meta = {"uid": first.meta["uid"], "resourceVersion": first.version}
    await s.patch(CONFIG_MAPS, "a", {"metadata": meta, "data": {"x": "y"}})
    await s.patch(CONFIG_MAPS, "a", {"metadata": {"uid": first.meta["uid"]}, "data": {"x": "y"}})


async def test_a_patch_cannot_rename(s: Session) -> None:
    await s.create(config_map())
    await s.patch(CONFIG_MAPS, "a", {"metadata": {"name": "b"}})
    await s.patch(CONFIG_MAPS, "a", {"metadata": {"namespace": "b"}})
    await s.patch(CONFIG_MAPS, "a", {"metadata": {"uid": "11111111-1111-4111-8111-111111111111"}})
    await s.patch(CONFIG_MAPS, "a", {"kind": "Secret"}, differs="other-kind")
    await s.patch(CONFIG_MAPS, "a", {"apiVersion": "v2"})


@pytest.mark.parametrize(
    "patch",
    [
        {"data": {"k": None, "n": "w"}},
        {"data": None},
        {"data": {"k": 1}},
        {"data": "x"},
        {"metadata": {"labels": {"a": "b", "c": None}}},
        {"metadata": {"annotations": None}},
        {"unknown": 1},
        [],
        "text",
        b"{",
        b"",
        None,
    ],
    ids=str,
)
async def test_merge(s: Session, patch: Json) -> None:
    """Merge patches: null removes, values replace, invalid patches are refused."""
    await s.create(config_map("a", {"k": "v", "l": "w"}, annotations={"x": "y"}))
    await s.patch(CONFIG_MAPS, "a", patch)


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "add", "path": "/data/n", "value": "w"}],
        [{"op": "replace", "path": "/data/k", "value": "w"}],
        [{"op": "remove", "path": "/data/k"}],
        [{"op": "move", "from": "/data/k", "path": "/data/m"}],
        [{"op": "copy", "from": "/data/k", "path": "/data/m"}],
        [{"op": "test", "path": "/data/k", "value": "v"}, {"op": "add", "path": "/data/n", "value": "w"}],
        [{"op": "test", "path": "/data/k", "value": "other"}],
        [{"op": "remove", "path": "/data/none"}],
        [{"op": "replace", "path": "/data/none", "value": "x"}],
        [{"op": "add", "path": "/none/deep", "value": "x"}],
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "a/b"}],
        [{"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]}],
        [{"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}],
        [{"op": "jump", "path": "/data/k"}],
        [{"path": "/data/k"}],
        [{"op": "add", "path": "/data/n", "value": 1}],
        [{"op": "add", "path": "/foo", "value": 1}],
        {"op": "add"},
        b"[",
    ],
    ids=str,
)
async def test_json_patch(s: Session, patch: Json) -> None:
    """JSON patches: the six operations, and the refusals of others."""
    await s.create(config_map("a", {"k": "v"}, labels={"x": "y"}))
    await s.patch(CONFIG_MAPS, "a", patch, JSON_PATCH)


TWO = {
    "containers": [
        {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80}]},
        {"name": "b", "image": "b:1"},
    ],
    "tolerations": [{"key": "k", "operator": "Exists"}],
}


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"name": "a", "image": "a:2"}]}},
        {"spec": {"containers": [{"name": "c", "image": "c:1"}]}},
        {"spec": {"containers": [{"name": "b", "$patch": "delete"}]}},
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "z", "image": "z"}]}},
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "a", "image": "n"}],
            }
        },
        {"spec": {"containers": [{"image": "nameless"}]}},
        {"spec": {"activeDeadlineSeconds": 7}},
        {"spec": {"tolerations": [{"key": "more", "operator": "Exists"}]}},
        {"metadata": {"finalizers": ["example.com/b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
        {
            "metadata": {
                "$setElementOrder/finalizers": ["example.com/b", "example.com/a"],
                "finalizers": ["example.com/b"],
            }
        },
        {"metadata": {"labels": {"$patch": "replace", "only": "this"}}},
        {"metadata": {"labels": {"$retainKeys": ["x"], "x": "2"}}},
        {"metadata": {"labels": {"x": None, "n": "m"}}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {"labels": {"$patch": "explode"}}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]}},
        {"spec": {"containers": {"name": "a"}}},
        {"spec": {"unknown": 1}},
        {"spec": None},
        [],
        b"{",
    ],
    ids=str,
)
async def test_strategic(s: Session, patch: Json) -> None:
    """Strategic merge patches: lists are merged by key, and directives are applied."""
    await s.create(pod("p", TWO, labels={"x": "1", "y": "2"}, finalizers=["example.com/a"]), silent=True)
    await s.patch(PODS, "p", patch, STRATEGIC_PATCH)


@pytest.mark.parametrize("directive", ["merge", "replace", "delete", "odd"])
async def test_a_directive_for_an_absent_map_creates_an_empty_one(s: Session, directive: str) -> None:
    """Merging into an absent map is no internal error."""
    await s.create(config_map() | {"data": {}})
    patch = {"data": {"$patch": directive, "x": "1"}, "metadata": {"labels": {"$patch": directive, "x": "1"}}}
    await s.patch(CONFIG_MAPS, "a", patch, STRATEGIC_PATCH)


@pytest.mark.parametrize("head", [{"kind": "Foo"}, {"apiVersion": "v9"}], ids=str)
async def test_a_strategic_patch_with_another_kind_is_refused(s: Session, head: Json) -> None:
    await s.create(config_map())
    await s.patch(CONFIG_MAPS, "a", {**head, "data": {"x": "1"}}, STRATEGIC_PATCH)


async def test_a_patch_of_a_job_is_validated_as_an_update(s: Session) -> None:
    await s.create(job())
    await s.patch(JOBS, "j", {"spec": {"parallelism": 4}})
    await s.patch(JOBS, "j", {"spec": {"completions": 4}})
    await s.patch(JOBS, "j", {"spec": {"parallelism": -1}})
    await s.patch(JOBS, "j", {"spec": {"parallelism": "x"}})
    await s.patch(JOBS, "j", {"spec": {"suspend": True}}, STRATEGIC_PATCH)
    await s.patch(JOBS, "j", {"status": {"active": 4}})


async def test_a_patch_of_the_status_changes_only_the_status(s: Session) -> None:
    await s.create(job())
    await s.patch(JOBS, "j", {"status": {"active": 4}, "spec": {"parallelism": 9}}, subresource="status")
    await s.patch(JOBS, "j", {"status": {"active": -1}}, subresource="status")
    await s.patch(JOBS, "j", {"status": None}, subresource="status")


async def test_conditions_merge_by_type_in_a_strategic_patch(s: Session) -> None:
    await s.create(pod())
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    other = {"status": {"conditions": [{"type": "Other", "status": "False"}], "phase": "Running"}}
    await s.patch(PODS, "p", ready, STRATEGIC_PATCH, "status")
    await s.patch(PODS, "p", other, STRATEGIC_PATCH, "status")
    await s.patch(PODS, "p", other, MERGE_PATCH, "status")


async def test_a_patch_of_an_immutable_field_of_a_pod_is_refused(s: Session) -> None:
    await s.create(pod())
    await s.patch(PODS, "p", {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}, STRATEGIC_PATCH)
    await s.patch(PODS, "p", {"spec": {"nodeName": "n"}}, STRATEGIC_PATCH)
    await s.patch(PODS, "p", {"spec": {"activeDeadlineSeconds": 30}})


async def test_a_strategic_patch_of_a_custom_object_is_refused(s: Session) -> None:
    await s.define(definition(s.group, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    await s.create(thing(s.group, "t", a=1), silent=True)
    await s.patch(things(s.group), "t", {"spec": {"b": 2}}, STRATEGIC_PATCH)
    await s.patch(things(s.group), "t", {"spec": {"b": 2}})
    await s.patch(things(s.group), "t", [{"op": "remove", "path": "/spec/a"}], JSON_PATCH)


async def test_an_unknown_patch_type_is_refused(s: Session) -> None:
    await s.create(config_map())
    for language in ("application/json", "application/x-patch", ""):
        await s.patch(CONFIG_MAPS, "a", {"data": {"x": "y"}}, language)
