"""Which pods a pod of higher priority preempts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queue_manager.local.placement.node_choice import Usage, plus, refusals
from queue_manager.local.placement.node_usage import NodeUsage
from queue_manager.local.placement.pod_preemption import PlacedPod, PodPreemption, preempt
from tests.unit.local.placement.test_node_choice import TAINT, a_node, a_pod


def held(uid: str, node: str = "node-1", cpu: int = 1000, priority: int = 0, began: float = 0.0) -> PlacedPod:
    return PlacedPod(uid, node, {"cpu": cpu}, priority, began)


def room_of(*pods: PlacedPod) -> NodeUsage:
    room = NodeUsage()
    for one in pods:
        room.take(one)
    return room


def chosen(*pods: PlacedPod, nodes: Any = None, cpu: str = "1", priority: int = 10) -> tuple[str, list[str]] | None:
    room = room_of(*pods)
    found = preempt(
        a_pod(cpu=cpu, memory="0"), nodes or [a_node()], room.usage("p", priority), room.preemptable(priority, ())
    )
    return found and (found.node, [victim.uid for victim in found.victims])


def test_victims_have_the_lowest_priority_and_are_no_more_than_needed() -> None:
    full = [held("a", priority=1), held("b", priority=2), held("c", priority=2, began=5.0), held("d", priority=3)]
    assert chosen(*full) == ("node-1", ["a"])
    assert chosen(*full, cpu="2") == ("node-1", ["c", "a"])
    assert chosen(*full, cpu="4") == ("node-1", ["d", "b", "c", "a"])
    equal = [held("z", began=1.0), held("y", began=2.0), held("x", began=2.0), held("w", began=3.0)]
    assert chosen(*equal) == ("node-1", ["w"])
    assert chosen(*reversed(equal), cpu="2") == ("node-1", ["y", "w"])


def test_small_pods_that_need_not_be_victims_stay() -> None:
    assert chosen(held("big", cpu=3000, priority=5), held("small", cpu=500), cpu="3") == ("node-1", ["big"])


def test_no_pod_is_preempted_if_the_pod_does_not_fit_afterwards() -> None:
    equal = [held(uid, priority=10) for uid in "abcd"]
    assert chosen(*equal) is None
    assert chosen(held("a"), cpu="5") is None
    assert chosen(held("a", cpu=4000), nodes=[a_node(taints=[TAINT])]) is None


def test_the_node_with_the_least_important_victims_is_chosen() -> None:
    two = [a_node("one"), a_node("two")]

    def at(node: str, *priorities: int, began: float = 0.0) -> list[PlacedPod]:
        return [held(f"{node}-{i}", node, 4000 // len(priorities), p, began) for i, p in enumerate(priorities)]

    assert chosen(*at("one", 3), *at("two", 2), nodes=two) == ("two", ["two-0"])
    assert chosen(*at("one", 2, 2), *at("two", 2), nodes=two, cpu="4") == ("two", ["two-0"])
    assert chosen(*at("one", 2, began=1), *at("two", 2, began=9), nodes=two) == ("two", ["two-0"])
    assert chosen(*at("one", 2), *at("two", 2), nodes=two) == ("one", ["one-0"])
    # The highest priority counts before their sum, the number before when they began, even of priorities of 0.
    assert chosen(*at("one", 3), *at("two", 2, 2), nodes=two, cpu="4") == ("two", ["two-0", "two-1"])
    assert chosen(*at("one", 1, 5), *at("two", 4, 4), nodes=two, cpu="4") == ("two", ["two-0", "two-1"])
    assert chosen(*at("one", 0, 0, began=9), *at("two", 0), nodes=two, cpu="4") == ("two", ["two-0"])
    # Of those that began only the ones of the highest priority count.
    long_ago = [held("one-0", "one", 2000, 2, began=5), held("one-1", "one", 2000, 1, began=1)]
    lately = [held("two-0", "two", 2000, 2, began=4), held("two-1", "two", 2000, 1, began=9)]
    assert chosen(*long_ago, *lately, nodes=two, cpu="4") == ("one", ["one-0", "one-1"])


def test_a_nomination_reserves_resources_against_lower_and_equal_priority() -> None:
    room = room_of(held("a", cpu=3000))
    room.nominate(held("urgent", cpu=1000, priority=5))
    assert room.usage("other", 5)["node-1"]["cpu"] == 4000
    assert room.usage("other", 6)["node-1"]["cpu"] == 3000
    assert room.usage("urgent", 5)["node-1"]["cpu"] == 3000
    room.take(held("urgent", cpu=1000, priority=5))
    assert (room.usage("other", 0)["node-1"]["cpu"], room.nominated("urgent")) == (4000, "")


def test_terminating_pods_use_resources_and_are_no_victims() -> None:
    room = room_of(held("a"), held("b"))
    room.leaving.add("a")
    assert (room.usage("p", 9)["node-1"]["cpu"], room.usage_after_deletions("p", 9)["node-1"]["cpu"]) == (2000, 1000)
    assert [one.uid for one in room.preemptable(9, ())["node-1"]] == ["b"]
    room.release("a")
    assert room.usage("p", 9)["node-1"]["cpu"] == room.usage_after_deletions("p", 9)["node-1"]["cpu"] == 1000


def test_usage_below_a_priority_is_tracked() -> None:
    room = room_of(held("a", priority=3), held("b", priority=5))
    assert [room.has_lower_priority(priority) for priority in (3, 4, 6)] == [False, True, True]
    assert (room.release("a"), room.release("a")) == (True, False)
    assert [room.has_lower_priority(priority) for priority in (4, 5, 6)] == [False, False, True]
    room.take(held("b", priority=1))  # again, with another one: it counts once
    assert [room.has_lower_priority(priority) for priority in (1, 2)] == [False, True]
    assert room.usage("p", 9)["node-1"] == {"cpu": 1000, "pods": 1}
    assert room.held("b") == held("b", priority=1)
    assert room.held("a") is None


def test_a_nomination_can_be_withdrawn() -> None:
    room = room_of(held("a"), held("b"))
    room.nominate(held("urgent", cpu=1000, priority=5))
    assert room.nominated("urgent") == "node-1"
    room.withdraw("urgent")
    room.withdraw("urgent")
    assert room.usage("other", 0)["node-1"]["cpu"] == 2000
    assert [one.uid for one in room.preemptable(9, {"a"})["node-1"]] == ["b"]
    assert room.preemptable(0, ()) == {}


pods = st.lists(
    st.tuples(st.sampled_from(["one", "two"]), st.integers(1, 3000), st.integers(0, 6), st.integers(0, 3)), max_size=8
)


@given(pods, st.integers(1, 4), st.integers(0, 7))
def test_victims_are_sufficient_necessary_and_of_lower_priority(
    drawn: list[tuple[str, int, int, int]], cpu: int, priority: int
) -> None:
    placed = [PlacedPod(f"u{i}", node, {"cpu": c}, p, float(b)) for i, (node, c, p, b) in enumerate(drawn)]
    room = room_of(*placed)
    pod, nodes = a_pod(cpu=str(cpu), memory="0"), [a_node("one"), a_node("two")]
    found: PodPreemption | None = preempt(pod, nodes, room.usage("p", priority), room.preemptable(priority, ()))
    if found is None:
        return
    assert found.victims
    assert all(victim.priority < priority and victim.node == found.node for victim in found.victims)
    node = next(node for node in nodes if node.name == found.node)
    usage: Usage = room.usage("p", priority)
    used = dict(usage[found.node])
    for victim in found.victims:
        used = plus(used, victim.requests, -1)
    assert not refusals(pod, node, used)
    for victim in found.victims:
        assert refusals(pod, node, plus(used, victim.requests))
