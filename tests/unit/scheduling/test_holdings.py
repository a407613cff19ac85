"""What a Workload holds: its status says where, its pod sets say how much."""

from typing import Any

import msgspec
import pytest

from queue_manager.api import messages
from queue_manager.api.types import Workload
from queue_manager.scheduling.holdings import Holding, PreemptedFor, holding_of
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.resource_rules import ResourceRules
from queue_manager.scheduling.workload_info import RequestReader, info
from tests.unit.queueing.builders import cluster_queue, condition

CPU = FlavorResource("default", "cpu")
POD = {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}
DEFAULT = {"cpu": "default"}


def held(
    wanted: int,
    assigned: int | None,
    reclaimed: int = 0,
    minimum: int | None = None,
    flavors: dict[str, str] = DEFAULT,
    stated: Any = None,
    rules: ResourceRules = ResourceRules(),  # noqa: B008 - frozen
) -> Holding:
    """What a Workload holds, of `wanted` pods of one cpu each, of which `assigned` were admitted."""
    pod_set = {"name": "main", "count": wanted, "template": POD, "minCount": minimum}
    given = {"name": "main", "flavors": flavors, "resourceUsage": stated or {}, "count": assigned}
    tree = {
        "metadata": {"name": "w", "namespace": "ns", "uid": "u"},
        "spec": {"queueName": "lq", "podSets": [pod_set]},
        "status": {
            "conditions": [condition("QuotaReserved", "True")],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [given]},
            "reclaimablePods": [{"name": "main", "count": reclaimed}],
        },
    }
    workload = msgspec.convert(tree, Workload)
    holding = holding_of(workload, info(workload, reader=RequestReader(rules)), None)
    assert holding is not None
    return holding


def usage(*args: Any, **more: Any) -> Any:
    return held(*args, **more).usage


def test_pods_that_are_done_hold_nothing() -> None:
    assert usage(wanted=4, assigned=4, reclaimed=1) == {CPU: 3000}


def test_pods_that_were_done_before_the_admission_are_not_given_back_twice() -> None:
    """Four pods, two of which had succeeded when it was evicted: two were assigned, and two run."""
    assert usage(wanted=4, assigned=2, reclaimed=2) == {CPU: 2000}
    assert usage(wanted=4, assigned=2, reclaimed=3) == {CPU: 1000}


def test_a_partial_admission_keeps_what_its_pods_still_need() -> None:
    assert usage(wanted=10, assigned=4, reclaimed=5, minimum=1) == {CPU: 4000}
    assert usage(wanted=10, assigned=4, reclaimed=8, minimum=1) == {CPU: 2000}


@pytest.mark.parametrize("stated", [{}, {"cpu": "0"}, {"cpu": "-100"}, {"cpu": -100}, {"cpu": "1e30"}, {"gpu": "9"}])
def test_the_usage_that_the_status_states_is_not_believed(stated: dict[str, str]) -> None:
    assert usage(wanted=4, assigned=4, stated=stated) == {CPU: 4000}


@pytest.mark.parametrize("assigned", [None, 0, 1, 4, 9])
def test_the_count_that_the_status_states_is_not_believed_without_minimum(assigned: int | None) -> None:
    assert usage(wanted=4, assigned=assigned) == {CPU: 4000}


@pytest.mark.parametrize(("assigned", "pods"), [(None, 4), (0, 2), (1, 2), (3, 3), (9, 4)])
def test_the_count_that_the_status_states_lies_between_minimum_and_wanted(assigned: int | None, pods: int) -> None:
    assert usage(wanted=4, assigned=assigned, minimum=2) == {CPU: pods * 1000}


def test_pods_count_where_they_have_a_flavor() -> None:
    pods = FlavorResource("slots", "pods")
    assert usage(wanted=4, assigned=4, flavors={"cpu": "default", "pods": "slots"}) == {CPU: 4000, pods: 4}


def test_only_resources_with_a_flavor_count() -> None:
    assert usage(wanted=4, assigned=4, flavors={}) == {}
    assert usage(wanted=4, assigned=4, rules=ResourceRules(excluded_prefixes=("cpu",))) == {CPU: 0}


def reserved(state: SchedulerState) -> dict[Any, int]:
    return {fr: amount for fr, amount in state.queues["cq"].node.usage.items() if amount}


def test_requests_without_a_flavor_count_in_the_first_flavor_with_quota_for_them() -> None:
    """An assignment that another client wrote without flavors, so that it would hold nothing."""
    state = SchedulerState()
    state.set_queue(cluster_queue(quotas={"default": {"cpu": 4}, "spot": {"cpu": 4}}))
    state.hold(held(wanted=3, assigned=1, flavors={}))
    assert reserved(state) == {CPU: 3000}
    assert state.queues["cq"].holdings["u"].usage == {CPU: 3000}
    state.release("u")
    assert reserved(state) == {}


def test_requests_without_a_flavor_follow_the_quotas() -> None:
    state = SchedulerState()
    state.hold(held(wanted=3, assigned=3, flavors={}))
    state.set_queue(cluster_queue(quotas={"default": {"memory": 4}}))
    assert reserved(state) == {}
    state.set_queue(cluster_queue(quotas={"default": {"memory": 4, "cpu": 4}}))
    assert reserved(state) == {CPU: 3000}
    state.set_queue(cluster_queue(quotas={"default": {"pods": 4}}))
    assert reserved(state) == {FlavorResource("default", "pods"): 3}
    state.release("u")
    assert reserved(state) == {}


def test_an_assigned_flavor_that_lost_its_quota_stays_where_its_pods_run() -> None:
    state = SchedulerState()
    state.set_queue(cluster_queue(quotas={"spot": {"cpu": 4}}))
    state.hold(held(wanted=3, assigned=3))
    assert reserved(state) == {CPU: 3000}


PREEMPTED = condition("Preempted", "True", "InClusterQueue", messages.preempted("p", "j", "InClusterQueue", "/a", "/a"))


@pytest.mark.parametrize(
    ("more", "deleted", "evicted", "preempted_for"),
    [
        ([], None, False, None),
        ([], "2026-01-01T00:00:09Z", True, None),
        ([condition("Evicted", "True", "PodsReadyTimeout")], None, True, None),
        ([condition("Evicted", "True", "Preempted"), PREEMPTED], None, True, PreemptedFor("p", "InClusterQueue")),
        ([condition("Evicted", "False", "QuotaReserved"), PREEMPTED], None, False, None),
    ],
    ids=["runs", "deleted", "evicted", "preempted", "admitted again"],
)
def test_a_workload_is_being_stopped_when_it_is_evicted_or_deleted(
    more: list[dict[str, Any]], deleted: str | None, evicted: bool, preempted_for: PreemptedFor | None
) -> None:
    tree = {
        "metadata": {"name": "w", "namespace": "ns", "uid": "u", "deletionTimestamp": deleted},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": POD}]},
        "status": {
            "conditions": [condition("QuotaReserved", "True"), *more],
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "flavors": DEFAULT}]},
        },
    }
    workload = msgspec.convert(tree, Workload)
    found = holding_of(workload, info(workload), None)
    assert found is not None
    assert (found.evicted, found.preempted_for) == (evicted, preempted_for)
