"""Custom kinds of several versions: each object is served in all of them."""

from __future__ import annotations

from typing import Any

import pytest

from queue_manager.api.api_resources import CRDS, Resource
from queue_manager.engine.transport_protocol import MERGE_PATCH
from tests.contract.bodies import definition, thing, things
from tests.contract.session import Session

Json = Any
OLD: Json = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
NEW: Json = {"type": "object", "properties": {"a": {"type": "string"}, "c": {"type": "integer", "default": 5}}}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def two_versions(group: str, **old: Any) -> Json:
    """A definition whose v1beta1 is deprecated and stored."""
    body = definition(group, OLD, name="v1beta1", deprecated=True, **old)
    body["spec"]["versions"] += definition(group, NEW, storage=False)["spec"]["versions"]
    return body


def beta(group: str, name: str, /, **spec: Any) -> Json:
    return thing(group, name, **spec) | {"apiVersion": f"{group}/v1beta1"}


async def define(s: Session) -> tuple[Resource, Resource]:
    await s.define(two_versions(s.group))
    return Resource(s.group, "v1beta1", "things", "Thing"), things(s.group)


async def test_an_object_is_served_in_the_requested_version(s: Session) -> None:
    """All items of a list have its version, and only the fields of that version."""
    for version in (old := await define(s))[0], old[1]:
        kind = beta if version.version == "v1beta1" else thing
        await s.create(kind(s.group, version.version, a="x", b=1, c=2))
    for version in old:
        await s.get(version, "v1beta1")
        await s.get(version, "v1")
        await s.list(version)
        await s.list(version, accept=TABLE)
        async with s.watch(version) as watch:
            await watch.take(2)


async def test_an_object_is_changed_in_any_version(s: Session) -> None:
    """A patch need not have the version in which the object was written."""
    old, new = await define(s)
    await s.create(beta(s.group, "t", a="x", b=1))
    await s.patch(new, "t", {"spec": {"a": "y"}}, MERGE_PATCH)
    await s.get(old, "t")
    await s.patch(old, "t", {"spec": {"b": 2}}, MERGE_PATCH)
    await s.get(new, "t")
    await s.patch(new, "t", {"status": {"done": True}}, MERGE_PATCH, "status")
    await s.get(old, "t")
    await s.delete(new, "t")
    await s.get(old, "t")


async def test_a_version_in_stored_versions_cannot_be_removed(s: Session) -> None:
    await define(s)
    name = f"things.{s.group}"
    only_new = definition(s.group, NEW)["spec"]["versions"]
    await s.patch(CRDS, name, {"spec": {"versions": only_new}}, MERGE_PATCH)
    await s.patch(CRDS, name, {"status": {"storedVersions": ["v1"]}}, MERGE_PATCH, "status", silent=True)
    changed = await s.patch(CRDS, name, {"spec": {"versions": only_new}}, MERGE_PATCH, silent=True)
    assert changed.body["status"]["storedVersions"] == ["v1"], changed.body


async def test_a_watch_ends_when_the_definition_of_its_kind_changes(s: Session) -> None:
    """The watch decodes with the old definition, so the client has to watch again."""
    old, _ = await define(s)
    async with s.watch(old) as watch:
        changed = two_versions(s.group)["spec"]["versions"]
        changed[0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = NEW
        await s.patch(CRDS, f"things.{s.group}", {"spec": {"versions": changed}}, MERGE_PATCH, silent=True)
        await watch.next()


@pytest.mark.parametrize(
    "warning", ["use another one", "", "x" * 257, "two\nlines"], ids=["short", "empty", "long", "two"]
)
async def test_a_deprecated_version_has_its_own_warning(s: Session, warning: str) -> None:
    body = two_versions(s.group, deprecationWarning=warning)
    if warning.startswith("use"):
        await s.define(body)
        await s.list(Resource(s.group, "v1beta1", "things", "Thing"))
        del body["spec"]["versions"][0]["deprecated"]
        body["metadata"]["name"] = f"things.other.{s.group}"
        body["spec"]["group"] = f"other.{s.group}"
    await s.ask("POST", CRDS.path(), body, dryRun="All")


@pytest.mark.parametrize(
    "conversion",
    [{}, {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}],
    ids=["nothing", "webhook"],
)
async def test_a_conversion_needs_a_strategy(s: Session, conversion: Json) -> None:
    body = two_versions(s.group)
    body["spec"]["conversion"] = conversion
    await s.ask("POST", CRDS.path(), body, dryRun="All")


async def test_an_object_is_served_with_the_defaults_of_a_newer_definition(s: Session) -> None:
    """Also before the object is written again."""
    kind = things(s.group)
    await s.define(definition(s.group, OLD))
    await s.create(thing(s.group, "t", a="x", b=1))
    changed = definition(s.group, NEW)["spec"]["versions"]
    await s.patch(CRDS, f"things.{s.group}", {"spec": {"versions": changed}}, MERGE_PATCH, silent=True)

    async def shown() -> bool:
        return "c" in (await s.get(kind, "t", silent=True)).body.get("spec", {})

    await s.until(shown)
    await s.get(kind, "t")
    await s.list(kind)
    async with s.watch(kind) as watch:
        await watch.take(1)
    await s.create(thing(s.group, "new", a="x"), dryRun="All")
    await s.patch(kind, "t", {"spec": {"a": "y"}}, MERGE_PATCH)
    await s.get(kind, "t")


async def test_a_label_named_resourceversion_does_not_hide_new_defaults(s: Session) -> None:
    """The cache of converted objects is keyed by metadata.resourceVersion, not by the first text of that name."""
    kind = things(s.group)
    await s.define(definition(s.group, OLD))
    body = thing(s.group, "t", a="x", b=1)
    body["metadata"]["labels"] = {"resourceVersion": "99999999"}
    await s.create(body)
    await redefine(s)
    await s.list(kind)
    await s.get(kind, "t")


async def test_the_last_state_of_a_deleted_object_has_new_defaults(s: Session) -> None:
    """So has an object that waits for a finalizer."""
    kind = things(s.group)
    await s.define(definition(s.group, OLD))
    for name in "waits", "goes", "leaves":
        body = thing(s.group, name, a="x", b=1)
        meta = {"labels": {"held": "yes"}, "finalizers": ["example.com/wait"] if name == "waits" else []}
        body["metadata"] |= meta
        await s.create(body)
    await redefine(s)
    version = (await s.list(kind)).body["metadata"]["resourceVersion"]
    for name in "waits", "goes":
        await s.delete(kind, name)
    await s.get(kind, "waits")
    await s.patch(kind, "leaves", {"metadata": {"labels": {"held": None}}}, MERGE_PATCH)
    async with s.watch(kind, resourceVersion=version, labelSelector="held=yes") as watch:
        await watch.take(3)


async def redefine(s: Session) -> None:
    """Change the definition: it gains a default and loses a field; return when objects are served accordingly."""
    changed = definition(s.group, NEW)["spec"]["versions"]
    await s.patch(CRDS, f"things.{s.group}", {"spec": {"versions": changed}}, MERGE_PATCH, silent=True)
    await s.create(thing(s.group, "probe", a="x"), silent=True)

    async def shown() -> bool:
        answer = await s.get(things(s.group), "probe", silent=True)
        return answer.status == 200 and "c" in answer.body["spec"]

    await s.until(shown)
    await s.delete(things(s.group), "probe", silent=True)
