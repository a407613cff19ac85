"""Caches of several namespaces, read as one."""

from __future__ import annotations

from job_controller.model import Key, Pod
from queue_manager.api.api_resources import PODS
from queue_manager.engine.cache import Cache
from queue_manager.engine.json_codec import decoder
from queue_manager.engine.namespaced_cache import NamespacedCache


def pod(namespace: str, name: str, revision: int) -> Pod:
    text = '{"metadata":{"namespace":"%s","name":"%s","uid":"%s-%s","resourceVersion":"%d"}}'
    found: Pod = decoder(Pod).decode((text % (namespace, name, namespace, name, revision)).encode())
    return found


def caches() -> tuple[NamespacedCache[Pod], Cache[Pod], Cache[Pod]]:
    parts: dict[str, Cache[Pod]] = {"a": Cache("pods"), "b": Cache("pods")}
    return NamespacedCache(str(PODS), parts), parts["a"], parts["b"]


def test_objects_of_all_namespaces_are_read() -> None:
    both, a, b = caches()
    both.index("by name", lambda each: (each.metadata.name,))
    a.reset([pod("a", "x", 1)], 5)
    b.reset([pod("b", "x", 2), pod("b", "y", 3)], 5)
    assert len(both) == 3
    assert {each.metadata.key for each in both} == {Key("a", "x"), Key("b", "x"), Key("b", "y")}
    assert [each.metadata.namespace for each in both.lookup("by name", "x")] == ["a", "b"]
    assert both.has("by name", "y")
    assert not both.has("by name", "z")
    assert both.get("b", "y") is both.by_uid("b-y")
    assert both.get("c", "y") is both.by_uid("c-y") is None


def test_changes_in_any_namespace_reach_a_subscriber() -> None:
    both, a, b = caches()
    seen: list[tuple[str, str]] = []
    both.subscribe(lambda old, new: seen.append(((old or new).metadata.namespace, "-" if new is None else "+")))  # type: ignore[union-attr]
    a.observe(pod("a", "x", 1))
    b.observe(pod("b", "x", 2))
    a.observe_deleted(pod("a", "x", 3))
    assert seen == [("a", "+"), ("b", "+"), ("a", "-")]


def test_a_response_is_kept_although_the_watch_of_another_namespace_is_ahead() -> None:
    """One progress for all namespaces would take it for an object that has been deleted again."""
    both, _, b = caches()
    b.observe(pod("b", "x", 9))
    both.apply_response(pod("a", "new", 7))
    assert both.get("a", "new") is not None
    both.apply_response(pod("c", "other", 8))
    assert len(both) == 2


def test_a_deleted_object_does_not_come_back_whether_it_had_arrived_or_not() -> None:
    both, a, b = caches()
    a.observe(pod("a", "x", 1))
    both.forget_uid("a-x")
    both.forget_uid("b-y")
    a.observe(pod("a", "x", 2))
    b.observe(pod("b", "y", 3))
    assert len(both) == 0
