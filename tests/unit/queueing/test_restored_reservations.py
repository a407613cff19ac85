"""After a restart: quota is kept again for those whose victims are still being stopped, before any other is tried."""

from queue_manager.api.reasons import IN_COHORT_RECLAMATION, WAITING_FOR_PREEMPTED
from queue_manager.queueing.outcomes import restore_reservations
from queue_manager.queueing.queue_set import Queues
from queue_manager.queueing.rehearsal import Rehearsal
from queue_manager.scheduling.cycle import Preempt
from queue_manager.scheduling.holdings import Holding, PreemptedFor
from queue_manager.scheduling.quota_state import SchedulerState
from queue_manager.scheduling.quota_tree import FlavorResource
from tests.unit.queueing.builders import T0, cluster_queue, condition, flavor, local_queue, pending

CPU = FlavorResource("default", "cpu")
NOMINAL = {"a": "4", "b": "4", "lent": "8"}


def preemptor(name, queue, cpus, **more):
    waits = condition("QuotaReserved", "False", WAITING_FOR_PREEMPTED)
    return pending(name, queue=queue, requests={"cpu": str(cpus)}, conditions=[waits], **more)


A, B = preemptor("first", "a", 4), preemptor("second", "b", 4)
HIGHER = preemptor("higher", "a", 5, priority=9)  # must borrow, so it may not preempt; `second` leaves enough for it


class Cluster:
    """Three ClusterQueues share 16 cpus. All were used in `lent`, by two Workloads that are being stopped."""

    def __init__(self, *infos, queue_stop="None"):
        self.state, self.queues = SchedulerState(), Queues()
        self.state.flavors["default"] = flavor("default")
        self.state.namespaces["ns"] = {}
        for name, cpus in NOMINAL.items():
            preemption = {"reclaimWithinCohort": "Any"}
            queue = cluster_queue(name, quotas={"default": {"cpu": cpus}}, cohortName="all", preemption=preemption)
            self.state.set_queue(queue)
            self.queues.set_cluster_queue(queue, T0)
            self.queues.set_local_queue(local_queue(name, name, stopPolicy=queue_stop), T0)
        self.stop("small", 5, A)
        self.stop("large", 11, B)
        for info in infos:
            self.queues.put(info, T0)
        restore_reservations(self.state, self.queues, T0)

    def stop(self, name, cpus, preemptor):
        victim, why = pending(name, queue="lent"), PreemptedFor(preemptor.uid, IN_COHORT_RECLAMATION)
        self.state.hold(
            Holding(
                victim.uid, victim.key, "lent", victim.queue, {CPU: cpus * 1000}, True, evicted=True, preempted_for=why
            )
        )

    @property
    def reserved(self):
        """By name of the preemptor, its victims."""
        return {r.info.key.name: list(r.victims) for r in self.state.reservations.values()}


def test_each_gets_back_the_victims_that_name_it():
    assert Cluster(A, B).reserved == {"first": ["uid-small"], "second": ["uid-large"]}


def test_a_higher_priority_still_waits_for_what_others_leave_over():
    cluster = Cluster(A, B, HIGHER)
    assert cluster.reserved == {"first": ["uid-small"], "second": ["uid-large"], "higher": []}
    outcomes = Rehearsal(cluster.state, cluster.queues, T0).settle()
    assert all(isinstance(outcome, Preempt) and not outcome.is_new for outcome in outcomes.values())
    assert outcomes.keys() == {A.uid, B.uid, HIGHER.uid}


def test_victims_of_one_that_is_gone_are_left_to_the_first_cycle():
    assert Cluster(A).reserved == {"first": ["uid-small"]}
    assert Cluster(preemptor("other", "b", 4)).reserved == {}


def test_quota_is_kept_for_one_whose_victims_have_stopped():
    """It is admitted in the next cycle, unless blockAdmission holds it back."""
    cluster = Cluster()
    cluster.state.release("uid-large")
    cluster.queues.put(B, T0)
    restore_reservations(cluster.state, cluster.queues, T0)
    assert cluster.reserved == {"second": []}


def test_nothing_is_kept_in_a_queue_on_hold():
    assert Cluster(A, B, queue_stop="Hold").reserved == {}


def test_nothing_is_kept_for_one_that_has_not_preempted():
    assert Cluster(pending("new", queue="a", requests={"cpu": "4"})).reserved == {}
