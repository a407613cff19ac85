"""The store: revisions, order, history, identities."""

from __future__ import annotations

import random
import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_manager.local.storage.change_log import ChangeLog, Compacted, Stored, StoredChange
from queue_manager.local.storage.id_generator import ALPHABET, IdGenerator
from queue_manager.local.storage.store import Store, decode
from tests.local.server.world import StillClock


def new_store(history: int = 100) -> Store:
    return Store(StillClock(), random.Random(7), history=history)


def put(store: Store, name: str, namespace: str = "a", **data: str) -> int:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    return store.put("things", {"metadata": meta, **data}).revision


def drop(store: Store, name: str, namespace: str = "a") -> None:
    stored = store.get("things", namespace, name)
    assert stored is not None
    store.remove("things", decode(stored))


def names(store: Store, revision: int | None = None, namespace: str = "", after: str = "") -> list[str]:
    if revision is None:
        return [item.key for item in store.scan("things", namespace, after)]
    return [item.key for item in store.scan_at("things", revision, namespace, after)]


def test_every_write_has_its_own_revision_and_the_object_carries_it() -> None:
    store = new_store()
    assert [put(store, "x"), put(store, "y"), put(store, "x")] == [1, 2, 3]
    stored = store.get("things", "a", "x")
    assert stored is not None
    assert decode(stored)["metadata"]["resourceVersion"] == "3"


def test_an_object_takes_as_much_memory_as_its_json() -> None:
    """Not that of the buffer into which it was written."""
    store = new_store(history=1000)
    tracemalloc.start()
    try:
        for number in range(100):
            put(store, f"x{number}", value="v" * 5000)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    weight = sum(len(stored.data) for stored in store.scan("things"))
    assert taken < 1.5 * weight


def test_objects_are_listed_by_namespace_then_name() -> None:
    store = new_store()
    for namespace, name in [("b", "x"), ("a", "z"), ("a", "y"), ("ab", "q")]:
        put(store, name, namespace)
    assert names(store) == ["a/y", "a/z", "ab/q", "b/x"]
    assert names(store, namespace="a") == ["a/y", "a/z"]
    assert names(store, after="a/y") == ["a/z", "ab/q", "b/x"]


def test_a_past_state_is_rebuilt_from_the_history() -> None:
    store = new_store()
    put(store, "kept")
    put(store, "changed", value="old")
    revision = put(store, "dropped")
    put(store, "changed", value="new")
    drop(store, "dropped")
    put(store, "added")
    assert names(store, revision) == ["a/changed", "a/dropped", "a/kept"]
    (changed,) = [item for item in store.scan_at("things", revision) if item.name == "changed"]
    assert decode(changed)["value"] == "old"


def test_a_state_older_than_the_history_is_refused() -> None:
    store = new_store(history=5)
    for index in range(20):
        put(store, f"x{index}")
    with pytest.raises(Compacted):
        names(store, 2)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=30), st.integers(0, 30))
def test_each_past_state_equals_the_state_at_that_time(steps: list[tuple[str, bool]], when: int) -> None:
    store = new_store()
    seen = {0: names(store)}
    for name, remove in steps:
        if remove and store.get("things", "a", name):
            drop(store, name)
        else:
            put(store, name)
        seen[store.revision] = names(store)
    revision = min(when, store.revision)
    assert names(store, revision) == seen[revision]


def test_subscribers_see_changes_in_order_with_the_state_before() -> None:
    store = new_store()
    seen: list[tuple[str, int, int | None]] = []
    stop = store.subscribe(lambda c: seen.append((c.type, c.revision, c.old.revision if c.old else None)))
    put(store, "x")
    put(store, "x")
    drop(store, "x")
    stop()
    put(store, "x")
    assert seen == [("ADDED", 1, None), ("MODIFIED", 2, 1), ("DELETED", 3, 2)]


def test_a_failing_subscriber_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    store = new_store()
    seen: list[int] = []

    def fail(_: object) -> None:
        raise ValueError("cannot take it")

    store.subscribe(fail)
    store.subscribe(lambda change: seen.append(change.revision))
    assert put(store, "x") == 1
    assert seen == [1]
    assert "a subscriber failed on ADDED things a/x" in caplog.text


def test_uids_sort_in_the_order_of_creation_even_when_the_clock_goes_back() -> None:
    identities = IdGenerator(random.Random(1))
    later, earlier = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    uids = [identities.uid(at) for at in [earlier] * 5000 + [later] * 3 + [earlier] * 3]
    assert uids == sorted(uids)
    assert len(set(uids)) == len(uids)


def test_uids_after_a_restart_sort_after_those_read_from_disk() -> None:
    uid = IdGenerator(random.Random(1)).uid(datetime(2030, 1, 1, tzinfo=UTC))
    fresh = IdGenerator(random.Random(1))
    fresh.seen(uid)
    fresh.seen("not a uuid")
    assert fresh.uid(datetime(2026, 1, 1, tzinfo=UTC)) > uid


def test_the_same_seed_gives_the_same_names_and_uids() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    one, other = IdGenerator(random.Random(3)), IdGenerator(random.Random(3))
    assert [one.uid(at), one.name("x-")] == [other.uid(at), other.name("x-")]


def test_a_generated_name_is_a_cut_prefix_and_five_characters() -> None:
    name = IdGenerator(random.Random(1)).name("p" * 80)
    assert len(name) == 63
    assert set(name[58:]) <= set(ALPHABET)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_the_history_is_bounded_by_the_size_of_its_objects(sizes: list[int]) -> None:
    history = ChangeLog(limit=20, since=0, weight=50)
    for revision, size in enumerate(sizes, 1):
        stored = Stored("a/x", "a", "x", "uid", revision, {}, {}, b"x" * size)
        history.append(StoredChange("MODIFIED", "things", None, stored))
    try:
        kept = list(history.after(0))
    except Compacted as forgotten:
        kept = list(history.after(forgotten.oldest))
    assert [change.revision for change in kept] == list(range(len(sizes) - len(kept) + 1, len(sizes) + 1))
    assert len(kept) == 1 or sum(len(change.new.data) for change in kept) < 100
    assert len(kept) < 40
    assert sum(sizes) >= 100 or len(sizes) >= 40 or len(kept) == len(sizes)
