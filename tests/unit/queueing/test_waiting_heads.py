"""With backfilling: the first Workload of a ClusterQueue that found no quota, and those that it keeps back."""

from fractions import Fraction
from types import MappingProxyType

import pytest

from job_controller.model import Key
from queue_manager.api.messages import KEPT_FOR_HEAD_MESSAGE
from queue_manager.queueing.equal_workloads import PendingReason
from queue_manager.queueing.pending import PendingWorkloads
from queue_manager.queueing.queue_set import Queues
from queue_manager.queueing.rehearsal import Rehearsal
from queue_manager.scheduling.backfill import Backfilling, BackfillRules, HeadOrder
from queue_manager.scheduling.cycle import Admit, Retry
from queue_manager.scheduling.fair_preemption import FINAL_SHARE
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from queue_manager.scheduling.usage_decay import UsageDecay, WeightedUsage
from tests.unit.queueing.builders import T0, at, cluster_queue, cohort, flavor, local_queue, pending

CPU = FlavorResource("default", "cpu")
WHY = PendingReason("WaitingForQuota", "full")
EMPTY = MappingProxyType({})
BY_USAGE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def lasting(name, seconds=None, **fields):
    return pending(name, spec={} if seconds is None else {"maximumExecutionTimeSeconds": seconds}, **fields)


def queue_of(*infos):
    queue = PendingWorkloads("BestEffortFIFO")
    for info in infos:
        queue.put(info, T0)
    return queue


def refuse_all(queue, behind=HeadOrder.RANK):
    """Refuse one head after the other; their names."""
    names = []
    while (head := queue.head()) is not None:
        names.append(head.key.name)
        queue.refused(head.key, Retry.CHANGE, WHY, behind=behind)
    return names


@pytest.mark.parametrize(
    ("order", "names"),
    [(HeadOrder.SHORTEST, ["short", "long", "none", "low"]), (HeadOrder.RANK, ["long", "short", "none", "low"])],
)
def test_behind_an_aged_head_the_shortest_declared_run_is_tried_first(order, names):
    """Within one priority. Those that declare nothing are last; without the setting the order is that of time."""
    runs = {"long": 900, "short": 60, "none": None}
    queue = queue_of(
        pending("head", requests={"cpu": "9"}),
        *(lasting(name, seconds, created=10 + i) for i, (name, seconds) in enumerate(runs.items())),
        lasting("low", 1, created=99, priority=-1),
    )
    queue.refused(queue.head().key, Retry.CHANGE, WHY, behind=order)
    assert queue.waiting_head.key.name == "head"
    assert refuse_all(queue) == names


def test_those_that_a_promised_head_kept_waiting_are_tried_when_it_leaves():
    queue = queue_of(pending("head", requests={"cpu": "9"}), pending("small", created=1))
    refuse_all(queue)
    queue.remove(pending("head").key)
    assert queue.head().key.name == "small"
    assert queue.waiting_head is None


@pytest.mark.parametrize(
    ("next_one", "leads"),
    [({"created": 1}, True), ({"created": -1}, False), ({"created": 1, "priority": 1}, False)],
    ids=["later", "earlier", "of a higher priority"],
)
def test_the_head_leads_those_that_are_ordered_behind_it(next_one, leads):
    queue = queue_of(pending("head", requests={"cpu": "9"}))
    refuse_all(queue)
    queue.put(pending("next", **next_one), T0)
    assert queue.first_without_quota().leads == leads


@pytest.mark.parametrize(("usage", "leads"), [(1, False), (3, True)])
def test_past_usage_decides_whether_the_head_leads(usage, leads):
    queue, usages = PendingWorkloads("BestEffortFIFO"), {"x": 2, "y": usage}
    queue.set_usage(lambda local: WeightedUsage(False, Fraction(usages[local.name])))
    queue.put(pending("head", queue="x", requests={"cpu": "9"}), T0)
    refuse_all(queue)
    queue.put(pending("next", queue="y", created=1, priority=-1), T0)
    assert queue.first_without_quota().leads == leads


def test_only_those_that_were_kept_back_for_a_head_are_tried_again():
    queue = queue_of(*(pending(f"w{cpu}", requests={"cpu": str(cpu)}, created=-cpu) for cpu in (9, 8, 1)))
    for kept_back in (False, False, True):
        queue.refused(queue.head().key, Retry.CHANGE, WHY, behind=HeadOrder.RANK, kept_back=kept_back)
    assert queue.release_kept_back()
    assert refuse_all(queue) == ["w1"]
    assert queue.waiting_head.key.name == "w9"
    assert not queue.release_kept_back()


# --- with the rules of the scheduler ---


class Cluster:
    """The ClusterQueues, with 8 cpus in use until second 100 in that of the `user`. It is second 60."""

    def __init__(self, *queues, user="a", cohorts=(), shortest_first=False):
        self.state, self.queues = SchedulerState(), Queues()
        self.state.flavors["default"] = flavor("default")
        self.state.namespaces["ns"] = {}
        self.queues.set_usage_decay(UsageDecay(60.0, 10.0))
        for each in cohorts:
            self.state.set_cohort(each)
        for queue in queues:
            self.state.set_queue(queue)
            self.queues.set_cluster_queue(queue, T0)
            self.queues.set_local_queue(local_queue(queue.metadata.name, queue.metadata.name), T0)
        one = pending("running")
        self.state.hold(Holding(one.uid, one.key, user, one.queue, {CPU: 8000}, admitted=True, ends_by=at(100)))
        backfilling = Backfilling(BackfillRules(at(60) - T0, shortest_first))
        self.rehearsal = Rehearsal(self.state, self.queues, at(60), backfilling=backfilling)

    def settle(self, *infos):
        """Run cycles after these Workloads have come; the names of those that are admitted."""
        for info in infos:
            self.queues.put(info, at(60))
        outcomes = self.rehearsal.settle().values()
        return [outcome.info.key.name for outcome in outcomes if isinstance(outcome, Admit)]


def two(a=EMPTY, b=EMPTY):
    """`a` (8 cpus) and `b` (4) in a cohort; `a2` is a second LocalQueue of `a`."""
    cluster = Cluster(
        cluster_queue("a", quotas={"default": {"cpu": "8"}}, cohortName="both", **a),
        cluster_queue("b", quotas={"default": {"cpu": "4"}}, cohortName="both", **b),
    )
    cluster.queues.set_local_queue(local_queue("a2", "a"), T0)
    return cluster


def waiting(name, cpu, seconds=None, **fields):
    return lasting(name, seconds, requests={"cpu": str(cpu)}, **fields)


def test_those_that_a_head_of_another_queue_kept_back_are_tried_when_it_is_deleted():
    cluster, head = two(), waiting("head", 12, queue="b")
    assert cluster.settle(head, waiting("small", 2, queue="a", created=30)) == []
    cluster.queues.remove(head.key)
    assert cluster.settle() == ["small"]


def test_they_are_tried_when_a_head_goes_first_that_they_do_not_delay():
    """Beside 12 cpus nothing is left at second 100; beside the 5 of the one of higher priority 7 are."""
    cluster = two()
    assert cluster.settle(waiting("head", 12, queue="b"), waiting("small", 2, queue="a", created=30)) == []
    assert cluster.settle(waiting("urgent", 5, queue="b", created=40, priority=1)) == ["small"]


def test_they_are_tried_when_the_head_has_to_wait_longer_for_a_nominal_quota():
    """`own` uses nominal quota of `b` until second 160, so the head starts later than `short` ends, at 120."""
    cluster = two()
    assert cluster.settle(waiting("head", 12, queue="a"), waiting("short", 2, 60, queue="a", created=30)) == []
    assert cluster.settle(waiting("own", 2, 100, queue="b", created=40)) == ["own", "short"]


@pytest.mark.parametrize(("usage", "admitted"), [(1, []), (9, ["small"])])
def test_they_are_tried_when_their_queue_has_used_less_than_that_of_the_head(usage, admitted):
    cluster = two(a=BY_USAGE)
    cluster.queues.charge(Key("ns", "a2"), "a", {CPU: 5000}, at(60))
    assert cluster.settle(waiting("head", 12, queue="a"), waiting("small", 2, queue="a2", created=30)) == []
    cluster.queues.charge(Key("ns", "a"), "a", {CPU: usage * 1000}, at(60))
    assert cluster.settle() == admitted


@pytest.mark.parametrize(("strategy", "admitted"), [("BestEffortFIFO", []), ("StrictFIFO", ["small"])])
def test_the_first_of_a_strict_queue_that_would_borrow_keeps_back_no_other(strategy, admitted):
    cluster = two(b={"strategy": strategy})
    assert cluster.settle(waiting("head", 12, queue="b"), waiting("small", 2, queue="a", created=30)) == admitted


@pytest.mark.parametrize(("priority", "admitted"), [(0, []), (1, ["small"])])
def test_one_of_a_higher_priority_in_another_queue_is_not_kept_back(priority, admitted):
    cluster = two()
    assert cluster.settle(waiting("head", 12, queue="b")) == []
    assert cluster.settle(waiting("small", 2, queue="a", created=30, priority=priority)) == admitted


def test_a_head_is_not_overtaken_when_it_is_tried_again():
    """`other` borrows within `left`, so it is tried before `head`, which needs quota from outside as well."""
    cluster = Cluster(
        cluster_queue("other", quotas={"default": {"cpu": "0"}}, cohortName="left"),
        cluster_queue("head", quotas={"default": {"cpu": "0"}}, cohortName="left"),
        cluster_queue("lender", quotas={"default": {"cpu": "4"}}, cohortName="left"),
        cluster_queue("outside", quotas={"default": {"cpu": "8"}}, cohortName="top"),
        user="outside",
        cohorts=[cohort("left", "top")],
    )
    one = waiting("small", 2, queue="other", created=30)
    assert cluster.settle(waiting("head", 12, queue="head"), one) == []
    cluster.state.release(pending("running").uid)
    cluster.queues.requeue_inadmissible(cluster.queues.cluster_queues, at(60))
    assert cluster.settle() == ["head"]


@pytest.mark.parametrize(
    ("policy", "admitted"), [("LowerPriority", ["short"]), ("LowerOrNewerEqualPriority", ["long"])]
)
def test_the_shortest_is_not_first_where_an_older_one_would_preempt_it(policy, admitted):
    """Two of ten cpus are free, for which both may pass the head."""
    own = {"quotas": {"default": {"cpu": "10"}}, "preemption": {"withinClusterQueue": policy}}
    cluster = Cluster(cluster_queue("a", **own), shortest_first=True)
    head = waiting("head", 10, queue="a")
    passing = (waiting(name, 2, ends, queue="a", created=at) for name, ends, at in (("long", 40, 20), ("short", 9, 30)))
    assert cluster.settle(head, *passing) == admitted


def test_who_counts_on_the_victims_of_another_may_not_delay_one_of_them():
    """The victim is the head when it has stopped. `small` would have passed it with what the preemptor leaves over."""
    preempts = {"withinClusterQueue": "LowerPriority"}
    cluster = Cluster(cluster_queue("a", quotas={"default": {"cpu": "12"}}, preemption=preempts))
    urgent, small = (
        waiting(name, cpus, queue="a", created=30, priority=by)
        for name, cpus, by in (("urgent", 6, 3), ("small", 5, -1))
    )
    assert cluster.settle(urgent, small) == []
    assert {each.info.key.name for each in cluster.state.reservations.values()} == {"urgent", "small"}
    cluster.state.release(pending("running").uid)
    cluster.queues.requeue_inadmissible(["a"], at(60))
    assert cluster.settle(waiting("running", 8, queue="a")) == ["urgent"]


@pytest.mark.parametrize(("shares", "admitted"), [((), []), ((FINAL_SHARE,), ["small"])])
def test_with_fair_sharing_a_head_keeps_back_no_other_queue(shares, admitted):
    """The shares order the ClusterQueues: what is free is for the one that has borrowed the least."""
    cluster = two()
    cluster.state.fair_sharing = shares
    assert cluster.settle(waiting("head", 12, queue="b"), waiting("small", 2, queue="a", created=30)) == admitted


@pytest.mark.parametrize("free", [1, 0])
def test_one_that_would_delay_the_head_in_a_flavor_gets_another_one(free):
    """The head can start in f0 only, where one cpu is free; in f1 someone runs forever."""
    state, queues = SchedulerState(), Queues()
    state.namespaces["ns"] = {}
    for name in ("f0", "f1"):
        state.flavors[name] = flavor(name)
    made = cluster_queue("cq", quotas={name: {"cpu": "4"} for name in ("f0", "f1")})
    state.set_queue(made)
    queues.set_cluster_queue(made, T0)
    queues.set_local_queue(local_queue("lq", "cq"), T0)
    for name, cpus, ends in (("f0", 3, at(200)), ("f1", 4 - free, None)):
        one = pending(f"runs-in-{name}")
        usage = {FlavorResource(name, "cpu"): cpus * 1000}
        state.hold(Holding(one.uid, one.key, "cq", one.queue, usage, admitted=True, ends_by=ends))
    rehearsal = Rehearsal(state, queues, T0, backfilling=Backfilling(BackfillRules(head_age=T0 - T0)))
    for info in (pending("head", requests={"cpu": "4"}), pending("small", created=1)):
        queues.put(info, T0)
        outcome = rehearsal.settle()[info.uid]
    if free:
        assert outcome.assignment.usage == {FlavorResource("f1", "cpu"): 1000}
    else:
        assert outcome.message == KEPT_FOR_HEAD_MESSAGE


@pytest.mark.parametrize(("fewest", "pods"), [(1, 2), (3, 0)])
def test_one_that_would_delay_the_head_gets_fewer_pods(fewest, pods):
    """Of the 12 cpus four are free now, and two beside the head at second 100."""
    cluster = Cluster(cluster_queue("a", quotas={"default": {"cpu": "12"}}))
    cluster.settle(waiting("head", 10, queue="a"), pending("some", count=4, fewest=fewest, queue="a", created=30))
    holding = cluster.state.holdings.get(pending("some").uid)
    assert (holding.usage[CPU] // 1000 if holding is not None else 0) == pods


@pytest.mark.parametrize(("seconds", "names"), [(40, ["small"]), (41, [])])
def test_a_head_starts_as_soon_as_its_fewest_pods_fit(seconds, names):
    """With 9 of its 10 pods at second 100, since one cpu is in use forever."""
    cluster = Cluster(cluster_queue("a", quotas={"default": {"cpu": "10"}}))
    one = pending("forever")
    cluster.state.hold(Holding(one.uid, one.key, "a", one.queue, {CPU: 1000}, admitted=True))
    head, small = pending("head", count=10, fewest=9, queue="a"), waiting("small", 1, seconds, queue="a", created=30)
    assert cluster.settle(head, small) == names
