"""WATCH: where a watch begins, what it sends, how it ends."""

from __future__ import annotations

import pytest

from queue_manager.api.api_resources import CONFIG_MAPS, PODS
from queue_manager.engine.transport_protocol import Request
from tests.contract.bodies import config_map, definition, pod, thing, things
from tests.contract.session import Session

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def changes(s: Session) -> None:
    """Create, change and delete one object."""
    await s.create(config_map("b"), silent=True)
    await s.replace(config_map("b", {"k": "w"}), silent=True)
    await s.delete(CONFIG_MAPS, "b", silent=True)


async def test_a_watch_without_a_version_begins_with_the_current_objects(s: Session) -> None:
    await s.create(config_map(), silent=True)
    async with s.watch(CONFIG_MAPS) as watch:
        await watch.take(1)
        await changes(s)
        await watch.take(3)


async def test_a_watch_from_version_zero_begins_with_the_current_objects(s: Session) -> None:
    made = await s.create(config_map(), silent=True)
    await s.list(CONFIG_MAPS, resourceVersion=made.version, silent=True)
    async with s.watch(CONFIG_MAPS, resourceVersion="0") as watch:
        await watch.take(1)


async def test_a_watch_from_a_version_sends_the_changes_after_it(s: Session) -> None:
    made = await s.create(config_map(), silent=True)
    await changes(s)
    async with s.watch(CONFIG_MAPS, resourceVersion=made.version) as watch:
        await watch.take(3)
        await s.delete(CONFIG_MAPS, "a", silent=True)
        await watch.take(1)


async def test_a_watch_with_a_label_selector_adds_and_deletes_as_labels_change(s: Session) -> None:
    made = await s.create(config_map("a", None, labels={"team": "x"}), silent=True)
    async with s.watch(CONFIG_MAPS, resourceVersion=made.version, labelSelector="team=y") as watch:
        await s.replace(config_map("a", None, labels={"team": "y"}), silent=True)
        await s.replace(config_map("a", {"k": "w"}, labels={"team": "y"}), silent=True)
        await s.replace(config_map("a", None, labels={"team": "z"}), silent=True)
        await s.delete(CONFIG_MAPS, "a", silent=True)
        await s.create(config_map("end", None, labels={"team": "y"}), silent=True)
        await watch.take(4)


async def test_a_watch_with_a_field_selector_adds_a_pod_when_it_is_bound(s: Session) -> None:
    made = await s.create(pod(), silent=True)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    async with s.watch(PODS, resourceVersion=made.version, fieldSelector="spec.nodeName=n") as watch:
        await s.ask("POST", s.path(PODS, "p", "binding"), binding, silent=True)
        await watch.take(1)


async def test_a_watch_of_one_object(s: Session) -> None:
    await s.create(config_map(), silent=True)
    await s.create(config_map("c"), silent=True)
    async with s.watch(CONFIG_MAPS, fieldSelector="metadata.name=a") as watch:
        await watch.take(1)
        await s.replace(config_map("c", {"k": "w"}), silent=True)
        await s.replace(config_map("a", {"k": "w"}), silent=True)
        await watch.take(1)


async def test_an_object_with_finalizers_is_modified_before_it_is_deleted(s: Session) -> None:
    made = await s.create(config_map("a", None, finalizers=["example.com/hold"]), silent=True)
    async with s.watch(CONFIG_MAPS, resourceVersion=made.version) as watch:
        await s.delete(CONFIG_MAPS, "a", silent=True)
        await s.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, silent=True)
        await watch.take(2)


async def test_initial_events_end_with_a_bookmark(s: Session) -> None:
    for name in "ab":
        await s.create(config_map(name), silent=True)
    options = {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": True}
    async with s.watch(CONFIG_MAPS, **options) as watch:
        added = await watch.take(2)
        mark = await watch.next(silent=True)
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert {"apiVersion", "kind", "metadata"} <= mark["object"].keys()
        newest = max(int(event["object"]["metadata"]["resourceVersion"]) for event in added)
        assert int(mark["object"]["metadata"]["resourceVersion"]) >= newest
        await s.create(config_map("c"), silent=True)
        await watch.take(1)


async def test_a_watch_without_initial_events(s: Session) -> None:
    await s.create(config_map(), silent=True)
    async with s.watch(CONFIG_MAPS, sendInitialEvents=False, resourceVersionMatch="NotOlderThan") as watch:
        await s.create(config_map("b"), silent=True)
        await watch.take(1)


async def test_a_watch_ends_at_its_timeout_with_a_bookmark_on_request(s: Session) -> None:
    made = await s.create(config_map(), silent=True)
    async with s.watch(CONFIG_MAPS, resourceVersion=made.version, timeoutSeconds=1) as watch:
        await s.create(config_map("b"), silent=True)
        await watch.take(2)


async def test_a_watch_from_a_compacted_version_gets_410(s: Session) -> None:
    """The 410 is the first event, not the status of the response."""
    await s.define(definition(s.group, {"type": "object"}))
    await s.create(thing(s.group, "a"), silent=True)
    await s.server.compact(things(s.group))
    async with s.watch(things(s.group), resourceVersion="1") as watch:
        await watch.take(1)


async def test_a_watch_from_a_future_version_is_refused(s: Session) -> None:
    await s.list(CONFIG_MAPS, watch=True, timeoutSeconds=1, resourceVersion="999999999", differs="future-watch")


@pytest.mark.parametrize("accept", [TABLE, PARTIAL], ids=["table", "partial"])
async def test_a_watch_in_another_representation(s: Session, accept: str) -> None:
    """Only the first table has columns; partial metadata has no spec."""
    first = await s.create(config_map(), silent=True)
    await s.create(config_map("b"), silent=True)
    await s.create(config_map("c"), silent=True)
    query = {"watch": "true", "timeoutSeconds": "1", "resourceVersion": first.version}
    answer = await s.transport.request(Request("GET", s.path(CONFIG_MAPS), query=query, accept=accept))
    for line in answer.body.splitlines():
        s.check_step({"event": s.normal.tree(s.decoded(line))})


async def test_initial_events_end_without_a_bookmark_if_none_is_allowed(s: Session) -> None:
    await s.create(config_map(), silent=True)
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"}
    async with s.watch(CONFIG_MAPS, **asked) as watch:
        await watch.take(1)
        await s.create(config_map("b"), silent=True)
        await watch.take(1)
