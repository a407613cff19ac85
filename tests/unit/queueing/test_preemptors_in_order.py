"""Several preemptors of one ClusterQueue wait, and a higher priority takes a part of what their victims free."""

import pytest

from queue_manager.queueing.preemptors import Preemptors
from queue_manager.queueing.queue_set import MOST_TRIES, Queues
from queue_manager.queueing.rehearsal import Rehearsal
from queue_manager.scheduling.cycle import Admit
from queue_manager.scheduling.holdings import Holding, Reservation
from queue_manager.scheduling.planned_usage import PlannedUsage
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.unit.queueing.builders import T0, at, cluster_queue, flavor, local_queue, pending

CPU = FlavorResource("default", "cpu")
PREEMPTORS = [f"waits{i}" for i in range(4)]
VICTIMS = [f"victim{i}" for i in range(4)]


class Cluster:
    """A ClusterQueue of 4 cpus, all in use by Workloads of lower priority, one cpu each."""

    def __init__(self, policy):
        self.state, self.queues = SchedulerState(), Queues()
        self.state.flavors["default"] = flavor("default")
        self.state.namespaces["ns"] = {}
        queue = cluster_queue("cq", quotas={"default": {"cpu": "4"}}, preemption={"withinClusterQueue": policy})
        self.state.set_queue(queue)
        self.queues.set_cluster_queue(queue, T0)
        self.queues.set_local_queue(local_queue("lq", "cq"), T0)
        for seconds, name in enumerate(VICTIMS):
            one = pending(name)
            self.state.hold(
                Holding(one.uid, one.key, "cq", one.queue, {CPU: 1000}, admitted=True, reserved_at=at(seconds))
            )

    def settle(self, *infos):
        """Run cycles after these Workloads have come; the names of those admitted."""
        for info in infos:
            self.queues.put(info, T0)
        outcomes = Rehearsal(self.state, self.queues, T0).settle().values()
        return [outcome.info.key.name for outcome in outcomes if isinstance(outcome, Admit)]

    def stopped(self, name):
        """The victim has stopped."""
        self.state.release(f"uid-{name}")
        self.queues.requeue_inadmissible(["cq"], T0)
        return self.settle()


@pytest.mark.parametrize("policy", ["LowerPriority", "LowerOrNewerEqualPriority"])
@pytest.mark.parametrize("order", [VICTIMS, VICTIMS[::-1]], ids=["oldest first", "newest first"])
def test_the_last_of_them_wait_longer(policy, order):
    cluster = Cluster(policy)
    for seconds, name in enumerate(PREEMPTORS):
        assert cluster.settle(pending(name, priority=20, created=10 + seconds)) == []
    assert cluster.settle(pending("higher", priority=100, created=99, requests={"cpu": "2"})) == []
    admitted = [name for victim in order for name in cluster.stopped(victim)]
    assert sorted(admitted) == ["higher", *PREEMPTORS[:2]]
    assert cluster.queues.get(pending(PREEMPTORS[2]).key) is not None


def test_each_preemptor_is_tried_once_before_one_is_tried_again():
    """In the order of their rank; whatever has changed after each try. One that is new is tried in the same round."""
    preemptors, tried = Preemptors(), []
    for name in "ace":
        preemptors.add_due(pending(name))
    for _ in range(7):
        first = preemptors.first_due()
        tried.append(first.key.name)
        preemptors.add_tried(first, has_victims=True)
        preemptors.retry()
        if tried == ["a"]:
            preemptors.add_due(pending("b"))
    assert tried == ["a", "b", "c", "e", "a", "b", "c"]


@pytest.mark.parametrize(("used", "behind"), [((1, 1), ["uid-younger"]), ((2, 1), []), ((1, 2), ["uid-younger"])])
def test_past_usage_decides_who_is_before_whom_where_it_orders_the_local_queues(used, behind):
    """Two preemptors of equal priority in different LocalQueues; one is older."""
    state = SchedulerState()
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    state.set_queue(cluster_queue("cq", admissionScope=scope))
    older, younger = pending("older", queue="a"), pending("younger", queue="b", created=9)
    state.usage_order = {older.queue: used[0], younger.queue: used[1]}.__getitem__
    for info in (older, younger):
        state.reserve(Reservation(info, "cq", {}, 0, {}))
    with PlannedUsage(state) as planned:
        assert sorted(planned.kept_behind(older, state.queues["cq"])) == behind
        assert not planned.kept_behind(pending("oldest", queue="a"), state.queues["cq"]), "it is no preemptor"


def test_quota_that_was_kept_in_another_flavor_is_free_for_others():
    """When the preemptor preempted in flavor y, flavor x was full."""
    state, queues = SchedulerState(), Queues()
    state.namespaces["ns"] = {}
    state.flavors |= {name: flavor(name) for name in "xy"}
    for name, quotas in {"a": {"x": {"cpu": "2"}, "y": {"cpu": "2"}}, "b": {"y": {"cpu": "0"}}}.items():
        queue = cluster_queue(name, quotas=quotas, cohortName="all")
        state.set_queue(queue)
        queues.set_cluster_queue(queue, T0)
        queues.set_local_queue(local_queue(name, name), T0)
    preemptor, other = pending("preemptor", queue="a", requests={"cpu": "2"}), pending("other", queue="b")
    state.reserve(Reservation(preemptor, "a", {FlavorResource("y", "cpu"): 2000}, 0, {}))
    queues.put(preemptor, T0)
    queues.put(other, T0)
    outcomes = Rehearsal(state, queues, T0).settle().values()
    assert [(type(each), each.info.key.name) for each in outcomes] == [(Admit, "preemptor"), (Admit, "other")]


def test_what_a_preemptor_leaves_over_goes_by_the_order_of_the_queue():
    """`first` finds no victims: it was refused before `preemptor` had one. What that leaves over is for `later` until
    the victim has stopped.
    """
    cluster = Cluster("LowerPriority")
    large = pending("large")
    for name in VICTIMS[1:]:
        cluster.state.release(f"uid-{name}")
    cluster.state.hold(Holding(large.uid, large.key, "cq", large.queue, {CPU: 3000}, admitted=True, reserved_at=at(9)))
    assert cluster.settle(pending("first", priority=0, created=10, requests={"cpu": "2"})) == []
    assert cluster.settle(pending("preemptor", priority=20, created=20)) == []
    assert cluster.settle(pending("later", priority=0, created=30, requests={"cpu": "1"})) == []
    assert {r.info.key.name for r in cluster.state.reservations.values()} == {"preemptor", "later"}
    assert cluster.stopped("large") == ["preemptor", "first"]


def test_a_preemptor_whose_tries_never_end_waits_for_a_change():
    cluster = Cluster("LowerPriority")
    first = pending(PREEMPTORS[0], priority=20)
    cluster.settle(first)

    def is_tried():
        cluster.queues.requeue_inadmissible(["cq"], T0)
        return bool(Rehearsal(cluster.state, cluster.queues, T0).settle())

    assert [is_tried() for _ in range(MOST_TRIES + 1)] == [True] * MOST_TRIES + [False]
    assert cluster.queues.exhausted() == [first.key]
    cluster.queues.forget_tries()
    [victim] = [holding.key.name for holding in cluster.state.holdings.values() if holding.evicted]
    assert cluster.stopped(victim) == [first.key.name]
