"""The first Workload of a StrictFIFO ClusterQueue that waits for quota which others borrow: it is not lent to more."""

import pytest

from job_controller.model import Key
from queue_manager.api.messages import KEPT_FOR_FIRST_MESSAGE
from queue_manager.queueing.queue_set import Queues
from queue_manager.queueing.rehearsal import Rehearsal
from queue_manager.scheduling.cycle import Admit
from queue_manager.scheduling.holdings import Holding
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.unit.queueing.builders import T0, cluster_queue, flavor, local_queue, pending

CPU = FlavorResource("default", "cpu")
NOMINAL = {"strict": "4", "user": "8", "third": "2"}


class Cluster:
    """Three ClusterQueues with 14 cpus in a cohort, of which `user` has 8 and uses 11. `strict` borrows `most` cpus."""

    def __init__(self, *, strategy="StrictFIFO", reclaim="Never", most=None, block_admission=False):
        self.state, self.queues = SchedulerState(), Queues()
        self.state.flavors["default"] = flavor("default")
        self.state.namespaces["ns"] = {}
        for name, cpus in NOMINAL.items():
            more = {"strategy": strategy, "preemption": {"reclaimWithinCohort": reclaim}} if name == "strict" else {}
            quota = {"nominalQuota": cpus, "borrowingLimit": most if name == "strict" else None}
            queue = cluster_queue(name, quotas={"default": {"cpu": quota}}, cohortName="all", **more)
            self.state.set_queue(queue)
            self.queues.set_cluster_queue(queue, T0)
            self.queues.set_local_queue(local_queue(name, name), T0)
        self.use(11)
        self.rehearsal = Rehearsal(self.state, self.queues, T0, block_admission=block_admission)

    def use(self, cpus):
        """Let `user` use this many cpus, and have all that were refused tried again."""
        running = pending("running", queue="user")
        self.state.release(running.uid)
        self.state.hold(Holding(running.uid, running.key, "user", running.queue, {CPU: cpus * 1000}, admitted=True))
        self.queues.requeue_inadmissible(NOMINAL, T0)

    def settle(self, *infos):
        """Run cycles after these Workloads have come; the outcomes by name."""
        for info in infos:
            self.queues.put(info, T0)
        return {outcome.info.key.name: outcome for outcome in self.rehearsal.settle().values()}

    def admitted(self, *infos):
        return [name for name, outcome in self.settle(*infos).items() if isinstance(outcome, Admit)]


def asking(name, queue, cpus, **more):
    return pending(name, queue=queue, requests={"cpu": str(cpus)}, **more)


HEAD, BORROWS = asking("head", "strict", 4), asking("borrows", "user", 1, created=9)


@pytest.mark.parametrize(
    ("settings", "admitted"),
    [
        ({}, []),
        ({"reclaim": "LowerPriority"}, []),
        ({"strategy": "BestEffortFIFO"}, ["borrows"]),
    ],
    ids=["never reclaims", "finds no lower priority to reclaim from", "not StrictFIFO"],
)
def test_no_more_of_the_quota_that_the_first_waits_for_is_lent(settings, admitted):
    cluster = Cluster(**settings)
    assert cluster.admitted(HEAD) == []
    assert cluster.admitted(BORROWS) == admitted


def test_one_that_is_kept_back_is_told_why_and_stays_so_when_some_quota_is_released():
    cluster = Cluster()
    cluster.use(12)
    cluster.settle(HEAD)
    for used in (12, 11):
        cluster.use(used)
        assert cluster.settle(BORROWS)["borrows"].message == KEPT_FOR_FIRST_MESSAGE


def test_the_first_is_admitted_when_enough_is_released_and_then_the_others():
    cluster = Cluster()
    cluster.settle(HEAD, BORROWS)
    cluster.use(9)
    assert cluster.admitted() == ["head", "borrows"]


@pytest.mark.parametrize("leaves", ["deleted", "held"])
def test_those_that_were_kept_back_are_tried_when_the_first_leaves_the_queue(leaves):
    cluster = Cluster()
    cluster.settle(HEAD, BORROWS)
    if leaves == "deleted":
        cluster.queues.remove(HEAD.key)
    else:
        cluster.queues.set_local_queue(local_queue("strict", "strict", stopPolicy="Hold"), T0)
    assert cluster.admitted() == ["borrows"]


def test_those_that_were_kept_back_are_tried_when_another_one_is_the_first():
    """The new one can never start, so it withholds nothing."""
    cluster = Cluster()
    cluster.settle(HEAD, BORROWS)
    assert cluster.admitted(asking("huge", "strict", 99, priority=1)) == ["borrows"]


@pytest.mark.parametrize(("priority", "admitted"), [(1, ["own"]), (-1, [])])
def test_who_need_not_borrow_and_is_ordered_before_the_first_is_not_kept_back(priority, admitted):
    cluster = Cluster()
    cluster.settle(HEAD)
    assert cluster.admitted(asking("own", "third", 2, created=9, priority=priority)) == admitted


def test_cycles_end_while_admissions_are_held_back():
    cluster = Cluster(block_admission=True)
    assert cluster.settle(HEAD, asking("fits", "third", 1)).keys() == {"head", "fits"}
    assert Key("ns", "fits") in cluster.queues


def test_the_first_is_tried_again_only_when_something_has_changed_for_it():
    cluster = Cluster()
    cluster.settle(HEAD)
    assert cluster.settle(BORROWS, asking("fits", "third", 1)).keys() == {"borrows", "fits"}
    cluster.use(11)
    assert "head" in cluster.settle()


def test_beside_the_first_as_many_pods_are_admitted_as_there_is_quota_for():
    """Two of the 14 cpus are withheld, of the four that are free."""
    cluster = Cluster(reclaim="LowerPriority", most=0)
    cluster.use(8)
    running = pending("own", queue="strict")
    cluster.state.hold(Holding(running.uid, running.key, "strict", running.queue, {CPU: 2000}, admitted=True))
    some = pending("some", queue="third", count=3, fewest=1, created=9)
    assert cluster.settle(HEAD, some)["some"].assignment.usage == {CPU: 2000}
