"""Watches: where they begin, what they show, how they end."""

from __future__ import annotations

import pytest

from queue_manager.api.resources import CONFIG_MAPS, PODS
from queue_manager.engine.transport import Request
from tests.contract.bodies import config_map, definition, pod, thing, things
from tests.contract.session import Session

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def changes(s: Session) -> None:
    """One creation, one change, one deletion."""
    await s.create(config_map("b"), silent=True)
    await s.replace(config_map("b", {"k": "w"}), silent=True)
    await s.delete(CONFIG_MAPS, "b", silent=True)


async def test_a_watch_without_a_version_begins_with_what_is_there(s: Session) -> None:
    await s.create(config_map(), silent=True)
    async with s.watch(CONFIG_MAPS) as watch:
        await watch.take(1)
        await changes(s)
        await watch.take(3)


async def test_a_watch_from_version_zero_begins_with_what_is_there(s: Session) -> None:
    made = await s.create(config_map(), silent=True)
    await s.list(CONFIG_MAPS, resourceVersion=made.version, silent=True)
    async with s.watch(CONFIG_MAPS, resourceVersion="0") as watch:
        await watch.take(1)


async def test_a_watch_from_a_version_shows_what_came_after(s: Session) -> None:
    made = await s.create(config_map(), silent=True)
    await changes(s)
    async with s.watch(CONFIG_MAPS, resourceVersion=made.version) as watch:
        await watch.take(3)
        await s.delete(CONFIG_MAPS, "a", silent=True)
        await watch.take(1)


async def test_a_watch_through_a_label_selector_shows_arrivals_and_departures(s: Session) -> None:
    made = await s.create(config_map("a", None, labels={"team": "x"}), silent=True)
    async with s.watch(CONFIG_MAPS, resourceVersion=made.version, labelSelector="team=y") as watch:
        await s.replace(config_map("a", None, labels={"team": "y"}), silent=True)
        await s.replace(config_map("a", {"k": "w"}, labels={"team": "y"}), silent=True)
        await s.replace(config_map("a", None, labels={"team": "z"}), silent=True)
        await s.delete(CONFIG_MAPS, "a", silent=True)
        await s.create(config_map("end", None, labels={"team": "y"}), silent=True)
        await watch.take(4)


async def test_a_watch_through_a_field_selector_sees_pods_bound(s: Session) -> None:
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


async def test_a_finalized_object_is_deleted_last(s: Session) -> None:
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


async def test_a_watch_may_ask_for_no_initial_events(s: Session) -> None:
    await s.create(config_map(), silent=True)
    async with s.watch(CONFIG_MAPS, sendInitialEvents=False, resourceVersionMatch="NotOlderThan") as watch:
        await s.create(config_map("b"), silent=True)
        await watch.take(1)


async def test_a_watch_ends_when_its_time_is_up_with_a_bookmark_if_asked(s: Session) -> None:
    made = await s.create(config_map(), silent=True)
    async with s.watch(CONFIG_MAPS, resourceVersion=made.version, timeoutSeconds=1) as watch:
        await s.create(config_map("b"), silent=True)
        await watch.take(2)


async def test_a_watch_from_a_forgotten_version_is_told_so(s: Session) -> None:
    """410 comes as the first event, not as the status of the answer."""
    await s.define(definition(s.group, {"type": "object"}))
    await s.create(thing(s.group, "a"), silent=True)
    await s.server.compact(things(s.group))
    async with s.watch(things(s.group), resourceVersion="1") as watch:
        await watch.take(1)


async def test_a_watch_from_the_future_is_told_so(s: Session) -> None:
    await s.list(CONFIG_MAPS, watch=True, timeoutSeconds=1, resourceVersion="999999999", differs="future-watch")


@pytest.mark.parametrize("accept", [TABLE, PARTIAL], ids=["table", "partial"])
async def test_a_watch_in_another_form(s: Session, accept: str) -> None:
    """Tables name their columns once; metadata comes alone."""
    first = await s.create(config_map(), silent=True)
    await s.create(config_map("b"), silent=True)
    await s.create(config_map("c"), silent=True)
    query = {"watch": "true", "timeoutSeconds": "1", "resourceVersion": first.version}
    answer = await s.transport.request(Request("GET", s.path(CONFIG_MAPS), query=query, accept=accept))
    for line in answer.body.splitlines():
        s.follow({"event": s.normal.tree(s.decoded(line))})


async def test_the_end_of_the_initial_state_is_told_to_who_takes_bookmarks(s: Session) -> None:
    await s.create(config_map(), silent=True)
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "0"}
    async with s.watch(CONFIG_MAPS, **asked) as watch:
        await watch.take(1)
        await s.create(config_map("b"), silent=True)
        await watch.take(1)
