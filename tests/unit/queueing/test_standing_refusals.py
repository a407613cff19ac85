"""Refusals that stand: of Workloads for which quota was released, until others took it."""

import pytest

from queue_manager.queueing import outcomes
from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.queueing.pending import PendingWorkloads
from queue_manager.queueing.queue_set import Queues
from queue_manager.queueing.refresh_turns import TURNS
from queue_manager.queueing.rehearsal import Rehearsal
from queue_manager.scheduling.cycle import Admit, Refuse, Retry
from queue_manager.scheduling.flavor_assignment import Demand
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.unit.queueing.builders import T0, cluster_queue, drain, flavor, local_queue, pending

CPU = FlavorResource("default", "cpu")
WHY = PendingReason("WaitingForQuota", "full")


def asking(name, cpus=1, **more):
    return pending(name, requests={"cpu": str(cpus)}, **more)


def refused(*infos, preempts_newer=False):
    """A queue in which these Workloads were refused."""
    queue = PendingWorkloads("BestEffortFIFO")
    queue.preempts_newer = preempts_newer
    for info in infos:
        queue.put(info, T0)
    while (head := queue.head()) is not None:
        demand = Demand(CPU, head.pod_sets[0].total["cpu"])
        queue.refused(head.key, Retry.CHANGE, WHY, demands=(demand,))
    return queue


def within(cpus):
    return lambda fr, priority: cpus * 1000


@pytest.mark.parametrize(
    ("left", "is_parked", "expected"),
    [(0, True, []), (1, True, ["small"]), (3, False, ["large", "small"])],
)
def test_a_refusal_stands_once_others_have_taken_what_was_released(left, is_parked, expected):
    queue = refused(asking("large", 3, priority=2), asking("small"))
    queue.requeue_inadmissible(T0, within(3))
    assert queue.inadmissible == 0
    assert queue.park_beyond(within(left)) is is_parked
    assert queue.inadmissible == 2 - len(expected)
    assert queue.refusal(pending("large").key) == (WHY if is_parked else None)
    assert drain(queue) == expected


def test_one_whose_refusal_stands_is_tried_when_quota_is_released_again():
    queue = refused(asking("large", 3))
    for _ in range(3):
        queue.requeue_inadmissible(T0, within(3))
        queue.park_beyond(within(2))
        assert queue.requeue_inadmissible(T0, within(2)) is False
    queue.requeue_inadmissible(T0, within(3))
    assert drain(queue) == ["large"]


def test_a_head_that_lost_to_another_in_the_cycle_keeps_its_earlier_refusal():
    queue = refused(asking("large", 3))
    queue.requeue_inadmissible(T0, within(3))
    queue.refused(pending("large").key, Retry.NEXT_CYCLE, PendingReason("WaitingForQuota", "lost"))
    assert queue.park_beyond(within(2)) is True
    assert queue.refusal(pending("large").key) == WHY


def change(queue):
    queue.requeue_inadmissible(T0)


def refresh(queue):
    for turn in range(TURNS):
        queue.refresh(turn)


def remove_the_refused(queue):
    queue.remove(pending("refused").key)


@pytest.mark.parametrize("then", [change, refresh, remove_the_refused])
@pytest.mark.parametrize("released", [False, True])
def test_a_refusal_stands_no_longer_after_another_change(then, released):
    """Whether or not the Workload waits for its next try because of released quota."""
    queue = refused(asking("refused"), asking("equal", created=1))
    if released:
        queue.requeue_inadmissible(T0, within(1))
    then(queue)
    assert queue.park_beyond(within(0)) is False
    assert queue.inadmissible == 0


@pytest.mark.parametrize("preempts_newer", [False, True])
def test_an_earlier_equal_workload_is_tried_although_the_refusal_of_another_stands(preempts_newer):
    queue = refused(asking("refused", created=9), preempts_newer=preempts_newer)
    queue.requeue_inadmissible(T0, within(1))
    queue.put(asking("earlier"), T0)
    assert queue.park_beyond(within(0)) is not preempts_newer


def test_only_those_are_tried_that_released_quota_can_still_help():
    """Three ClusterQueues of a cohort wait for three cpus each, and for one. When three are released, one head gets
    them, and the two others have lost them. Nobody else is tried.
    """
    state, queues = SchedulerState(), Queues()
    state.flavors["default"] = flavor("default")
    state.namespaces["ns"] = {}
    names = ["a", "b", "c"]
    for name in names:
        queue = cluster_queue(name, quotas={"default": {"cpu": "1"}}, cohortName="all")
        state.set_queue(queue)
        queues.set_cluster_queue(queue, T0)
        queues.set_local_queue(local_queue(name, name), T0)
        queues.put(asking(f"large-{name}", 3, queue=name, priority=1), T0)
        queues.put(asking(f"small-{name}", 1, queue=name), T0)
    runs = pending("runs", queue="a")
    state.hold(Holding(runs.uid, runs.key, "a", runs.queue, {CPU: 3000}, admitted=True))
    rehearsal = Rehearsal(state, queues, T0)
    assert len(rehearsal.settle()) == 6
    state.release(runs.uid)
    outcomes.requeue_within_reach(state, queues, names, T0)
    decided = rehearsal.settle()
    assert {each.info.key.name: type(each) for each in decided.values()} == {
        "large-a": Admit,
        "large-b": Refuse,
        "large-c": Refuse,
    }
    assert [queues.cluster_queues[name].inadmissible for name in names] == [1, 2, 2]
    assert queues.refusal(pending("large-b").key).message.startswith("couldn't assign flavors")
