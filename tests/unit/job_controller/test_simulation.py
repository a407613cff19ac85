"""The controller on a cluster with stale caches and failing writes: each pod is counted exactly once.

ledger.Ledger checks the invariants at every write.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.job_controller.ledger import is_active, is_terminating
from tests.unit.job_controller.world import World

FAILED = ("Complete", "Failed")


def specs() -> st.SearchStrategy[dict[str, Any]]:
    size = st.integers(1, 4)
    common = {"parallelism": size, "backoffLimit": st.sampled_from([0, 1, 2, 50])}
    replacement = st.sampled_from(["Failed", "TerminatingOrFailed"])
    policy = st.sampled_from(
        [
            {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]},
            {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]},
        ]
    )
    plain = st.fixed_dictionaries(
        common | {"completions": st.integers(1, 6)}, optional={"podReplacementPolicy": replacement}
    )
    queue = st.fixed_dictionaries(common)
    judged = st.fixed_dictionaries(
        common | {"completions": size, "podFailurePolicy": policy, "podReplacementPolicy": st.just("Failed")}
    )
    indexed = st.fixed_dictionaries(
        common | {"completions": size, "completionMode": st.just("Indexed")},
        optional={
            "podReplacementPolicy": replacement,
            "successPolicy": st.sampled_from(
                [{"rules": [{"succeededCount": 1}]}, {"rules": [{"succeededIndexes": "0"}]}]
            ),
        },
    )
    per_index = st.fixed_dictionaries(
        {
            "parallelism": size,
            "completions": size,
            "completionMode": st.just("Indexed"),
            "backoffLimit": st.just(2**31 - 1),
            "backoffLimitPerIndex": st.integers(0, 2),
        },
        optional={"maxFailedIndexes": st.integers(0, 2), "podReplacementPolicy": replacement},
    )
    return st.one_of(plain, queue, judged, indexed, per_index)


ACTIONS = (
    "run", "run", "succeed", "succeed", "fail", "fail", "fail hard", "delete", "vanish", "wait", "wait long", "hear",
    "hear job", "hear all", "suspend", "resume", "parallelism", "elastic", "restart", "bind", "switch",
)  # fmt: skip


def act(world: World, action: str, number: int) -> None:
    """Apply one action to the cluster; `number` selects its object."""
    living = world.pods("Pending", "Running")
    one = living[number % len(living)] if living else None
    match action:
        case "run" if one:
            one = {**one, "spec": {**one["spec"], "nodeName": "node"}}
            ready = [{"type": "Ready", "status": "True"}] if number % 2 else []
            world.change_pod(one, phase="Running", conditions=ready)
        case "bind" if one:
            world.bind(one)
        case "succeed" if one:
            world.end_pod(one, 0)
        case "fail" if one:
            world.end_pod(one, 1)
        case "fail hard" if one:
            world.end_pod(one, 3)
        case "delete" if one:
            world.mark_deleted(one)
        case "vanish":
            ended = world.pods("Succeeded", "Failed")
            if ended:
                world.mark_deleted(ended[number % len(ended)])
        case "wait":
            world.time += timedelta(seconds=1 + number / 2)
        case "wait long":
            world.time += timedelta(seconds=60 * number)
        case "hear":
            keys = list({**world.seen, **world.store})
            if keys:
                world.deliver_pod(keys[number % len(keys)])
        case "hear job":
            world.deliver_job()
        case "hear all":
            world.deliver_all()
        case "suspend" | "resume":
            world.edit_job(suspend=action == "suspend")
        case "parallelism":
            world.edit_job(parallelism=number % 5)
        case "elastic":
            spec = world.job_tree["spec"] if world.job_tree else {}
            if spec.get("completionMode") == "Indexed" and "successPolicy" not in spec and not finished(world):
                size = max(1, number % 5, spec.get("maxFailedIndexes", 0))
                world.edit_job(parallelism=size, completions=size)
        case "restart":
            world.restart()
        case "switch":
            world.switch(backoff_limit_per_index=bool(number & 1), pod_failure_policy=bool(number & 2))


def finished(world: World) -> bool:
    assert world.job_tree is not None
    conditions = world.job_tree["status"].get("conditions", ())
    return any(c["type"] in FAILED and c["status"] == "True" for c in conditions)


def settle(world: World) -> None:
    """Stop the faults, resume the Job, let every pod succeed: the Job must end, and then nothing changes."""
    world.deaths, world.refusals = [], set()
    if world.ledger.switched:
        world.switch()  # everything on
    world.edit_job(suspend=False, parallelism=max(1, world.job_tree["spec"]["parallelism"]))  # type: ignore[index]
    for _ in range(200):
        world.deliver_all()
        world.work()
        if finished(world) and not world.pods("Pending", "Running"):
            break
        for pod in world.pods("Pending", "Running"):
            world.end_pod(pod, 0)
        world.time += timedelta(seconds=700)
    assert finished(world)
    world.deliver_all()
    world.work()
    assert not [pod for pod in world.store.values() if pod["metadata"].get("finalizers")]
    assert not [pod for pod in world.store.values() if is_active(pod) or is_terminating(pod)]
    check_nothing_was_missed(world)
    before = world.writes
    world.time += timedelta(hours=1)
    world.restart()
    world.work()
    assert world.writes == before, "writes at rest"


def check_nothing_was_missed(world: World) -> None:
    """Every pod that ended with the finalizer was counted by its result.

    Pods that run, as far as the cache shows, when their Job fails count as failed whatever becomes of them.
    """
    assert world.job_tree is not None
    spec, ledger = world.job_tree["spec"], world.ledger
    if spec.get("completionMode") == "Indexed" or "podFailurePolicy" in spec:
        return
    conditions = world.job_tree["status"].get("conditions", ())
    taken_along = {"failed"} if any(c["type"] == "Failed" and c["status"] == "True" for c in conditions) else set()
    for uid, phase in ledger.ended.items():
        assert ledger.recorded.get(uid) in {phase.lower(), *taken_along} or uid in ledger.deleted


@example({"parallelism": 2, "backoffLimit": 0}, [("succeed", 0), ("fail", 0), ("hear", 1)], [], set())
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    specs(),
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), max_size=25),
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from(["before", "after"])), max_size=3, unique_by=lambda d: d[0]),
    st.sets(st.integers(1, 60), max_size=4),
)
def test_pods_are_counted_exactly_once_whatever_happens(
    spec: dict[str, Any], actions: list[tuple[str, int]], deaths: list[tuple[int, Any]], refusals: set[int]
) -> None:
    """Random pod outcomes, edits, stale reads, failing writes, and death at any write."""
    world = World(spec)
    world.deaths, world.refusals = sorted(deaths), refusals
    world.work()
    for action, number in actions:
        act(world, action, number)
        world.work()
    settle(world)


@pytest.mark.thorough
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": 3, "completions": 3, "backoffLimit": 0},
        {"parallelism": 3, "completions": 3, "backoffLimit": 6},
        {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimit": 6},
        {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimit": 0,
         "successPolicy": {"rules": [{"succeededCount": 1}]}},
        {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimit": 99,
         "backoffLimitPerIndex": 1},
    ],
    ids=["failing", "plain", "indexed", "success policy", "per index"],
)  # fmt: skip
def test_death_at_each_single_write_changes_nothing(spec: dict[str, Any], moment: Any) -> None:
    """One success, one failure and a suspension, stopped at every write."""
    ends = []
    for cut in range(60):
        world = World(spec)
        world.deaths = [(cut, moment)] if cut else []
        world.work()
        for action, number in [("run", 0), ("run", 1), ("succeed", 0), ("fail", 0), ("suspend", 0), ("wait long", 1),
                               ("resume", 0), ("wait long", 1)]:  # fmt: skip
            act(world, action, number)
            world.deliver_all()
            world.work()
        settle(world)
        assert world.job_tree is not None
        status = world.job_tree["status"]
        ends.append(([c["type"] for c in status["conditions"]], status.get("succeeded", 0), status.get("failed", 0)))
    assert all(end == ends[0] for end in ends), ends
